/* A number of stages (0: the name of a known pre-tokenizer follows, and a NUL), for each a behaviour and a pattern with
 * a NUL, and text: what compiles cuts any text into pieces of it, in their order, or says that it takes too long. */
#include <string.h>

#include "base/alloc.h"
#include "fuzz/fuzz.h"
#include "text/tokenizer/pretokenize.h"

enum { MOST_STAGES = 4, N_BEHAVIORS = TERN_SPLIT_PREFIX_SPACE + 1 };

typedef struct pieces {
    const uint8_t *at, *end; /* NULL: they are not of the text itself, which got a space */
    size_t n, bytes;
} pieces;

static tern_status take(void *user, tern_span piece, tern_error *err)
{
    pieces *p = user;
    (void)err;
    FUZZ_CHECK(piece.size > 0);
    if (p->at) {
        FUZZ_CHECK(piece.data >= p->at && piece.data + piece.size <= p->end);
        p->at = piece.data + piece.size;
    }
    p->bytes += piece.size;
    p->n++;
    return TERN_OK;
}

/* What ends in a NUL; the rest when none does. */
static tern_span next(tern_cursor *c)
{
    const size_t left = tern_cursor_left(c);
    const uint8_t *at = c->data + c->at, *nul = left ? memchr(at, 0, left) : NULL;
    const size_t n = nul ? (size_t)(nul - at) : left;
    tern_cursor_take(c, nul ? n + 1 : n);
    return (tern_span){at, n};
}

static tern_status add_stages(tern_pretokenizer *p, tern_cursor *c, bool *spaced, bool *drops, tern_error *err)
{
    const unsigned n = tern_cursor_u8(c) % (MOST_STAGES + 1);
    if (n == 0) {
        const tern_span name = next(c);
        const tern_pretokenizer_row *row = tern_pretokenizer__find(name.data, name.size);
        return row ? tern_pretokenizer__add_row(p, row, err) : tern_fail(err, TERN_NOT_FOUND, "no such row");
    }
    for (unsigned i = 0; i < n; i++) {
        const tern_split_behavior behavior = (tern_split_behavior)(tern_cursor_u8(c) % N_BEHAVIORS);
        *spaced = *spaced || behavior == TERN_SPLIT_PREFIX_SPACE;
        *drops = *drops || behavior == TERN_SPLIT_REMOVED || behavior == TERN_SPLIT_MATCHES;
        TERN_TRY(tern_pretokenizer__add(p, next(c), behavior, err));
    }
    return TERN_OK;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const int64_t live = tern_alloc_live();
    tern_pretokenizer p = {0};
    tern_cursor c = tern_cursor_open(data, size);
    tern_error err = {0};
    bool spaced = false, drops = false;
    tern_status status = add_stages(&p, &c, &spaced, &drops, &err);
    if (status == TERN_OK) {
        const size_t n = tern_cursor_left(&c);
        const uint8_t *text = c.data + c.at;
        pieces out = {.at = spaced ? NULL : text, .end = text + n};
        status = tern_pretokenizer__run(&p, text, n, take, &out, &err);
        if (status == TERN_OK && !spaced && !drops) FUZZ_CHECK(out.bytes == n);
    }
    FUZZ_CHECK(status == TERN_OK || (err.code == status && err.message[0]));
    tern_pretokenizer__deinit(&p);
    FUZZ_CHECK(tern_alloc_live() == live);
    return 0;
}
