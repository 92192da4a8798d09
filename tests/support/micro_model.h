/* A model of a few kilobytes as GGUF bytes, with one thing wrong with it if so wanted. */
#ifndef TERN_TESTS_SUPPORT_MICRO_MODEL_H
#define TERN_TESTS_SUPPORT_MICRO_MODEL_H

#include <stdint.h>

#include "base/bytes.h"

/* What differs from the sound model: one layer, `width` (0: 16) as embedding and feed-forward length, two heads, one KV
 * head, 8 tokens, no tokenizer, i2_s layers with the codes 0, +1, -1, 0, +1, ... and scale 0.5, F32 table and norms. */
typedef struct micro_change {
    uint32_t width;
    uint64_t seed;            /* not 0: random weights, norms around 1, so that every token has logits of its own */
    const char *architecture; /* NULL: "bitnet-b1.58" */
    const char *drop;         /* the key (without its prefix) that is left out, or the tensors whose names end so */
    const char *key;          /* a key (without its prefix) that gets this value */
    uint32_t value;
    float f32;           /* used instead of value when not 0 */
    const char *string;  /* used instead of both when not NULL */
    const char *tensor;  /* a tensor that gets this type, these dimensions or these bytes */
    uint32_t type;       /* 0: as it was */
    uint64_t rows, cols; /* 0: as it was */
    size_t at, n;        /* the place in the data, and how many bytes */
    uint8_t bytes[8];
    const char *extra; /* an F32 tensor that is added, of extra_cols ones */
    uint32_t extra_cols;
} micro_change;

/* The bytes of the file; the caller's to deinit. */
tern_buf micro_model(const micro_change *change);

#endif
