/* Declarations that the files of foreign layouts share. */
#ifndef TERN_QUANT_FOREIGN_INTERNAL_H
#define TERN_QUANT_FOREIGN_INTERNAL_H

#include "quant/foreign.h"

/* GGUF type ids: ik_llama.cpp's ggml.h, and bitnet.cpp's llama.cpp (gguf-py/gguf/constants.py). */
enum { TERN_TL1 = 38, TERN_TL2 = TERN_FOREIGN_TL2, TERN_IQ1_BN = 134, TERN_IQ2_BN = 135, TERN_IQ2_BN_R4 = 335 };

/* A checked shape; `in` is the whole tensor. *bad: the first byte that stands for no codes, unchanged when all do.
 */
void tern_foreign__iq1_bn(const uint8_t *in, size_t rows, size_t cols, int8_t *codes, float *scales, size_t *bad);
void tern_foreign__iq2_bn(const uint8_t *in, size_t rows, size_t cols, int8_t *codes, float *scales, size_t *bad);
void tern_foreign__iq2_bn_r4(const uint8_t *in, size_t rows, size_t cols, int8_t *codes, float *scales, size_t *bad);

/* The tile of a shape for one of the two types: what was given, else a preset; NULL when there is none. */
const tern_tl_tile *tern_tl__tile(const tern_tl_tiles *tiles, uint32_t type, uint64_t rows, uint64_t cols);
/* Whether it divides the shape as the type's kernels need it. */
bool tern_tl__fits(const tern_tl_tile *tile, uint32_t type);
/* Only codes: the scale lies behind. */
void tern_foreign__tl1(const uint8_t *in, const tern_tl_tile *tile, int8_t *codes, size_t *bad);
void tern_foreign__tl2(const uint8_t *in, const tern_tl_tile *tile, int8_t *codes, size_t *bad);

#endif
