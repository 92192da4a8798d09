/* The elements of dense weights as f32: one decoder for each encoding. */
#ifndef TERN_OPS_REF_DECODE_H
#define TERN_OPS_REF_DECODE_H

#include <stddef.h>
#include <stdint.h>

#include "quant/encoding.h"

enum { TERN_REF_CHUNK = 256 }; /* elements decoded at once: a multiple of every block and of the lanes */

/* n elements, at most TERN_REF_CHUNK and a multiple of the block, from a block's first byte on. */
typedef void (*tern_ref__decode_fn)(const uint8_t *in, size_t n, float *out);

void tern_ref__decode_f32(const uint8_t *in, size_t n, float *out);
void tern_ref__decode_f16(const uint8_t *in, size_t n, float *out);
void tern_ref__decode_bf16(const uint8_t *in, size_t n, float *out);
#define TERN_REF_DECODE(X, name, NAME, elements, bytes)                                                                \
    void tern_ref__decode_##name(const uint8_t *in, size_t n, float *out);
TERN_ENCODING_BLOCK_LIST(TERN_REF_DECODE, )
#undef TERN_REF_DECODE

#endif
