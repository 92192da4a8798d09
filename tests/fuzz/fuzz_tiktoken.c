/* Untrusted tiktoken rank files: opening, then text to ids and back. */
#include "fuzz/round_trip.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    tern_tokenizer *t = NULL;
    if (tern_tokenizer_parse_tiktoken(&t, data, size, NULL, NULL) == TERN_OK) round_trip(t, data, size);
    return 0;
}
