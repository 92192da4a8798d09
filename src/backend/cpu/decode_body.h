/* Rows of i2_s codes as floats, for the level whose name is LEVEL: plain C that compilers turn into vectors. */
#ifndef TERN_BACKEND_CPU_DECODE_BODY_H
#define TERN_BACKEND_CPU_DECODE_BODY_H

#include "backend/cpu/floats.h"

/* 32 bytes to 128 floats: byte b holds the codes of elements b, b + 32, b + 64 and b + 96, the first in the top bits.
 */
INLINE void decode_group(const uint8_t *in, float *out)
{
    for (int part = 0; part < 4; part++) {
        int8_t codes[32];
        for (int b = 0; b < 32; b++) {
            const uint8_t raw = in[b] >> (6 - 2 * part) & 3;
            codes[b] = (int8_t)(raw == 3 ? 0 : raw - 1);
        }
        for (int b = 0; b < 32; b += VEC) vec_store(out + 32 * part + b, vec_load_i8(codes + b));
    }
}

void KERNEL_NAME(decode_i2_s)(const uint8_t *w, size_t row_bytes, uint32_t n_rows, uint32_t cols, float *out,
                              size_t out_stride)
{
    for (size_t r = 0; r < n_rows; r++)
        for (size_t at = 0; at < cols; at += 128) decode_group(w + r * row_bytes + at / 4, out + r * out_stride + at);
}

#endif
