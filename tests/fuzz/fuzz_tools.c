/* Any bytes as what a model writes: the first says the form, the second the size of the pieces. The calls and the text
 * are the same in one piece and in many, and nothing is left behind. */
#include "fuzz/fuzz.h"

#include <string.h>

#include "base/alloc.h"
#include "tern/text.h"

typedef struct outcome {
    tern_buf content, reasoning;
    tern_tool_parser *parser;
} outcome;

static void read_all(outcome *o, tern_tool_form form, const char *text, size_t n, size_t step)
{
    FUZZ_CHECK(tern_tool_parser_open(&o->parser, form, NULL) == TERN_OK);
    for (size_t i = 0; i < n; i += step)
        FUZZ_CHECK(tern_tool_parser_add(o->parser, text + i, n - i < step ? n - i : step, &o->content, &o->reasoning,
                                        NULL) != TERN_INTERNAL);
    FUZZ_CHECK(tern_tool_parser_finish(o->parser, &o->content, &o->reasoning, NULL) != TERN_INTERNAL);
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
    const tern_tool_form form = (tern_tool_form)(data[0] % 6);
    read_all(&whole, form, (const char *)data + 2, size - 2, size);
    read_all(&pieces, form, (const char *)data + 2, size - 2, 1 + data[1] % 16);
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
