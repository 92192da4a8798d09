/* Q6_K and Q4_K rows, unpacked alike at all levels: values as bytes first, then scaled. */
#ifndef TERN_BACKEND_CPU_K_QUANTS_PLAIN_H
#define TERN_BACKEND_CPU_K_QUANTS_PLAIN_H

#include "base/half.h"

#include "backend/cpu/dense_body.h"

enum { K_ELEMENTS = 256 };

INLINE float half_at(const uint8_t *p)
{
    float first[VEC];
    uint8_t eight[8] = {p[0], p[1]};
    vec_store(first, vec_set_f16(eight));
    return first[0];
}

/* The 256 values of a Q6_K block, less 32: see ref_dense.c for the layout. */
static void q6_k_values(const uint8_t *block, int8_t *values)
{
    for (int half = 0; half < 2; half++, values += 128) {
        const uint8_t *low = block + 64 * half, *high = block + 128 + 32 * half;
        for (int i = 0; i < 32; i++) {
            values[i] = (int8_t)(((low[i] & 15) | (high[i] & 3) << 4) - 32);
            values[i + 32] = (int8_t)(((low[i + 32] & 15) | (high[i] >> 2 & 3) << 4) - 32);
            values[i + 64] = (int8_t)((low[i] >> 4 | (high[i] >> 4 & 3) << 4) - 32);
            values[i + 96] = (int8_t)((low[i + 32] >> 4 | (high[i] >> 6) << 4) - 32);
        }
    }
}

INLINE void unpack_q6_k(const uint8_t *block, lanes *out)
{
    int8_t values[K_ELEMENTS];
    const float d = half_at(block + 208);
    q6_k_values(block, values);
    for (int group = 0; group < K_ELEMENTS / TERN_LANES; group++) {
        const vec scale = vec_set(d * (float)(int8_t)block[192 + group]);
        UNROLL
        for (int i = 0; i < PARTS; i++)
            out[group].v[i] = vec_mul(scale, vec_load_i8(values + group * TERN_LANES + i * VEC));
    }
}

/* The six-bit scales of the eight parts of a Q4_K block, then its minima. */
INLINE void q4_k_scales(const uint8_t *in, uint8_t out[16])
{
    for (int i = 0; i < 4; i++) {
        out[i] = in[i] & 63;
        out[i + 4] = (uint8_t)((in[i + 8] & 15) | in[i] >> 6 << 4);
        out[i + 8] = in[i + 4] & 63;
        out[i + 12] = (uint8_t)(in[i + 8] >> 4 | in[i + 4] >> 6 << 4);
    }
}

static void q4_k_values(const uint8_t *in, int8_t *values)
{
    for (int pair = 0; pair < 4; pair++, in += 32, values += 64)
        for (int i = 0; i < 32; i++) {
            values[i] = (int8_t)(in[i] & 15);
            values[i + 32] = (int8_t)(in[i] >> 4);
        }
}

INLINE void unpack_q4_k(const uint8_t *block, lanes *out)
{
    int8_t values[K_ELEMENTS];
    uint8_t scales[16];
    const float d = half_at(block), dmin = half_at(block + 2);
    q4_k_values(block + 16, values);
    q4_k_scales(block + 4, scales);
    for (int part = 0; part < 8; part++) {
        const vec scale = vec_set(d * (float)scales[part]), low = vec_set(dmin * (float)scales[part + 8]);
        UNROLL
        for (int i = 0; i < 2 * PARTS; i++)
            out[2 * part + i / PARTS].v[i % PARTS] =
                vec_sub(vec_mul(scale, vec_load_i8(values + part * 32 + i * VEC)), low);
    }
}

DENSE(q6_k, unpack_q6_k, 256, 210, 0)
DENSE(q4_k, unpack_q4_k, 256, 144, 0)

#endif
