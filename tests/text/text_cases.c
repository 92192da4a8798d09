/* Texts to ids and back, for the tests of tokenizers. */
#include "text/text_cases.h"

tern_tokens text_ids_of(const tern_tokenizer *t, const void *text, size_t n, bool allow_special)
{
    tern_error err = {0};
    tern_tokens tokens = {0};
    assert_ok(tern_tokenize(t, text, n, allow_special, &tokens, &err), err);
    return tokens;
}

tern_tokens text_ids_of_z(const tern_tokenizer *t, const char *text, bool allow_special)
{
    return text_ids_of(t, text, strlen(text), allow_special);
}

void text_assert_ids(tern_tokens tokens, const int32_t *expected, size_t n)
{
    assert_int_equal(tokens.n, n);
    if (n) assert_memory_equal(tokens.ids, expected, n * sizeof *expected);
    tern_tokens_deinit(&tokens);
}

tern_tokenizer *text_of_json(const char *json)
{
    tern_error err = {0};
    tern_tokenizer *t = NULL;
    assert_ok(tern_tokenizer_parse_json(&t, json, strlen(json), &err), err);
    return t;
}

tern_status text_parse_ranks(tern_tokenizer **t, const void *data, size_t size, tern_error *err)
{
    return tern_tokenizer_parse_tiktoken(t, data, size, NULL, err);
}
