/* Any bytes as what a model writes: the first says the form and whether calls are announced, the second the size of the
 * pieces. The calls and the text are the same in one piece and in many, what was announced stays, and nothing is left
 * behind. */
#include "fuzz/fuzz.h"

#include <string.h>

#include "base/alloc.h"
#include "base/bytes.h"
#include "tern/text.h"

typedef struct outcome {
    tern_buf content, reasoning;
    tern_tool_parser *parser;
} outcome;

/* What was shown of a call is what it begins with. */
static void follow(tern_buf *shown, size_t *n_calls, const tern_tool_parser *parser)
{
    tern_tool_partial part;
    size_t n;
    const tern_tool_call *calls = tern_tool_parser_calls(parser, &n);
    if (*n_calls < n && shown->size) FUZZ_CHECK(strncmp(calls[*n_calls].arguments, shown->data, shown->size) == 0);
    if (*n_calls < n) shown->size = 0;
    *n_calls = n;
    if (!tern_tool_parser_partial(parser, &part)) return;
    FUZZ_CHECK(part.n_arguments >= shown->size &&
               (!shown->size || memcmp(part.arguments, shown->data, shown->size) == 0));
    shown->size = 0;
    FUZZ_CHECK(tern_buf_add(shown, part.arguments, part.n_arguments, NULL) == TERN_OK);
}

static void read_all(outcome *o, uint8_t kind, const char *text, size_t n, size_t step)
{
    const tern_tool_form form = (tern_tool_form)(kind % 6);
    tern_buf shown = {0};
    size_t n_calls = 0;
    FUZZ_CHECK(tern_tool_parser_open(&o->parser, form, NULL) == TERN_OK);
    if (kind / 6 % 2) tern_tool_parser_announce(o->parser, "x");
    if (kind / 12 % 3) tern_tool_parser_think(o->parser, tern_thought_marks_of("</think>", NULL), kind / 12 % 3 == 2);
    for (size_t i = 0; i < n; i += step) {
        FUZZ_CHECK(tern_tool_parser_add(o->parser, text + i, n - i < step ? n - i : step, &o->content, &o->reasoning,
                                        NULL) != TERN_INTERNAL);
        follow(&shown, &n_calls, o->parser);
    }
    FUZZ_CHECK(tern_tool_parser_finish(o->parser, &o->content, &o->reasoning, NULL) != TERN_INTERNAL);
    follow(&shown, &n_calls, o->parser);
    tern_buf_deinit(&shown);
}

static void same(const tern_buf *a, const tern_buf *b)
{
    FUZZ_CHECK(a->size == b->size && (a->size == 0 || memcmp(a->data, b->data, a->size) == 0));
}

static void free_all(outcome *o)
{
    tern_tool_parser_close(o->parser);
    tern_buf_deinit(&o->content);
    tern_buf_deinit(&o->reasoning);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const int64_t live = tern_alloc_live();
    outcome whole = {{0}, {0}, NULL}, pieces = {{0}, {0}, NULL};
    size_t n[2];
    if (size < 2 || size > 4096) return 0;
    read_all(&whole, data[0], (const char *)data + 2, size - 2, size);
    read_all(&pieces, data[0], (const char *)data + 2, size - 2, 1 + data[1] % 16);
    const tern_tool_call *a = tern_tool_parser_calls(whole.parser, &n[0]);
    const tern_tool_call *b = tern_tool_parser_calls(pieces.parser, &n[1]);
    FUZZ_CHECK(n[0] == n[1]);
    for (size_t i = 0; i < n[0]; i++)
        FUZZ_CHECK(strcmp(a[i].id, b[i].id) == 0 && strcmp(a[i].name, b[i].name) == 0 &&
                   strcmp(a[i].arguments, b[i].arguments) == 0);
    same(&whole.content, &pieces.content);
    same(&whole.reasoning, &pieces.reasoning);
    free_all(&whole);
    free_all(&pieces);
    FUZZ_CHECK(tern_alloc_live() == live);
    return 0;
}
