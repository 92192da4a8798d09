/* Any bytes as a grammar: the first says which kind, and whether a little text follows a NUL. Compiling ends with a
 * grammar or a clean error; a text is accepted as a whole or byte by byte alike; nothing is left behind. */
#include "fuzz/fuzz.h"

#include <string.h>

#include "base/alloc.h"
#include "text/tokenizer/tokenizer.h"

enum { MOST_TEXT = 256 }; /* a byte of it may take millions of steps */

/* How many bytes of the text are accepted, one at a time; -1: a limit was met. */
static long by_bytes(tern_grammar *g, const char *text, size_t n)
{
    tern_grammar_state *s, *copy = NULL;
    long accepted = -1;
    if (tern_grammar_state_open(&s, g, NULL) != TERN_OK) return -1;
    for (accepted = 0; accepted < (long)n; accepted++) {
        const tern_status status = tern_grammar_state_accept_text(s, text + accepted, 1, NULL);
        if (status == TERN_OK) continue;
        if (status != TERN_INVALID_ARGUMENT) accepted = -1;
        break;
    }
    if (tern_grammar_state_clone(&copy, s, NULL) == TERN_OK)
        FUZZ_CHECK(tern_grammar_state_may_end(copy) == tern_grammar_state_may_end(s));
    tern_grammar_state_close(copy);
    tern_grammar_state_close(s);
    return accepted;
}

static void try_text(tern_grammar *g, const char *text, size_t n)
{
    tern_grammar_state *s;
    const long accepted = by_bytes(g, text, n);
    if (accepted < 0 || tern_grammar_state_open(&s, g, NULL) != TERN_OK) return;
    const tern_status status = tern_grammar_state_accept_text(s, text, n, NULL);
    FUZZ_CHECK(status == TERN_LIMIT || (status == TERN_OK) == (accepted == (long)n)); /* all at once is more work */
    tern_grammar_state_close(s);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const int64_t live = tern_alloc_live();
    tern_grammar *g;
    tern_error err = {0};
    if (size == 0) return 0;
    const char *source = (const char *)data + 1;
    const char *end = memchr(source, 0, size - 1);
    const size_t n = end ? (size_t)(end - source) : size - 1;
    const tern_status status = tern_grammar_open(&g, NULL, (tern_grammar_kind)(data[0] & 3), source, n, &err);
    FUZZ_CHECK((status == TERN_OK) == (g != NULL));
    FUZZ_CHECK(status == TERN_OK || (err.message[0] && status != TERN_INTERNAL));
    if (g && end && size - n - 2 <= MOST_TEXT) try_text(g, end + 1, size - n - 2);
    tern_grammar_close(g);
    FUZZ_CHECK(tern_alloc_live() == live);
    return 0;
}
