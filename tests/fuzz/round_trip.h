/* What the tokenizer fuzzers do with whatever opened: text to ids and back. */
#ifndef TERN_TESTS_FUZZ_ROUND_TRIP_H
#define TERN_TESTS_FUZZ_ROUND_TRIP_H

#include "base/bytes.h"
#include "fuzz/fuzz.h"
#include "text/tokenizer/tokenizer.h"

/* Tokenises up to 300 bytes of the input, both ways, and shows the ids. Closes t. */
static inline void round_trip(tern_tokenizer *t, const uint8_t *data, size_t size)
{
    const size_t most = 300;
    tern_error err = {0};
    for (int special = 0; special < 2; special++) {
        tern_tokens tokens = {0};
        tern_buf text = {0};
        const uint8_t *from = special && size > most ? data + size - most : data;
        if (tern_tokenize(t, from, size < most ? size : most, special, &tokens, &err) == TERN_OK) {
            tern_text_stream stream = {0};
            for (size_t i = 0; i < tokens.n; i++) {
                FUZZ_CHECK(tokens.ids[i] >= 0 && (uint32_t)tokens.ids[i] < tern_tokenizer_size(t));
                FUZZ_CHECK(special || !tern_token_is_special(t, tokens.ids[i]) ||
                           tern_token_bytes(t, tokens.ids[i], false).size == 0);
                tern_text_stream_add(&stream, t, tokens.ids[i], special, &text, NULL);
            }
            tern_text_stream_finish(&stream, &text, NULL);
            tern_detokenize(t, tokens.ids, tokens.n, special, &text, NULL);
        }
        tern_tokens_deinit(&tokens);
        tern_buf_deinit(&text);
    }
    tern_tokenizer_close(t);
}

#endif
