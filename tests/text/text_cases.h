/* Texts to ids and back, for the tests of tokenizers. */
#ifndef TERN_TESTS_TEXT_TEXT_CASES_H
#define TERN_TESTS_TEXT_TEXT_CASES_H

#include "base/alloc.h"
#include "base/rng.h"
#include "text/goldens.h"
#include "text/utf8.h"

tern_tokens text_ids_of(const tern_tokenizer *t, const void *text, size_t n, bool allow_special);

tern_tokens text_ids_of_z(const tern_tokenizer *t, const char *text, bool allow_special);

void text_assert_ids(tern_tokens tokens, const int32_t *expected, size_t n);

#define ASSERT_IDS(tokens, ...)                                                                                        \
    text_assert_ids(tokens, (const int32_t[]){__VA_ARGS__}, sizeof((const int32_t[]){__VA_ARGS__}) / sizeof(int32_t))

tern_tokenizer *text_of_json(const char *json);

typedef tern_status (*parse_fn)(tern_tokenizer **t, const void *data, size_t size, tern_error *err);

tern_status text_parse_ranks(tern_tokenizer **t, const void *data, size_t size, tern_error *err);

#endif
