/* Q8_0, Q6_K and Q4_K rows, unpacked alike at all levels: values as bytes first, then scaled. */
#ifndef TERN_BACKEND_CPU_QUANTS_PLAIN_H
#define TERN_BACKEND_CPU_QUANTS_PLAIN_H

#include "backend/cpu/dense_body.h"

INLINE float half_at(const uint8_t *p)
{
    float first[VEC];
    const uint8_t eight[8] = {p[0], p[1]};
    vec_store(first, vec_set_f16(eight));
    return first[0];
}

INLINE void prepare_q8_0(const uint8_t *block, block_state *state)
{
    state->scales[0] = half_at(block);
}

INLINE void unpack_q8_0(const uint8_t *block, const block_state *state, uint32_t part, lanes *out)
{
    (void)part;
    UNROLL
    for (int i = 0; i < 2 * PARTS; i++)
        out[i / PARTS].v[i % PARTS] = vec_mul(vec_set(state->scales[0]), vec_load_i8(block + 2 + i * VEC));
}

/* The 256 values of a Q6_K block, less 32: see ref_dense.c for the layout. */
INLINE void prepare_q6_k(const uint8_t *block, block_state *state)
{
    const float d = half_at(block + 208);
    int8_t *values = state->values;
    for (int group = 0; group < 16; group++) state->scales[group] = d * (float)(int8_t)block[192 + group];
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

INLINE void unpack_q6_k(const uint8_t *block, const block_state *state, uint32_t part, lanes *out)
{
    (void)block;
    UNROLL
    for (uint32_t i = 0; i < 4 * PARTS; i++) {
        const vec scale = vec_set(state->scales[4 * part + i / PARTS]);
        out[i / PARTS].v[i % PARTS] = vec_mul(scale, vec_load_i8(state->values + 64 * part + i * VEC));
    }
}

/* The factors d * sc of the eight parts of 32, then their minima dmin * m; the nibbles as bytes. */
INLINE void prepare_q4_k(const uint8_t *block, block_state *state)
{
    const float d = half_at(block), dmin = half_at(block + 2);
    const uint8_t *in = block + 4, *q = block + 16;
    for (int i = 0; i < 4; i++) {
        state->scales[i] = d * (float)(in[i] & 63);
        state->scales[i + 4] = d * (float)((in[i + 8] & 15) | in[i] >> 6 << 4);
        state->scales[i + 8] = dmin * (float)(in[i + 4] & 63);
        state->scales[i + 12] = dmin * (float)(in[i + 8] >> 4 | in[i + 4] >> 6 << 4);
    }
    for (int pair = 0; pair < 4; pair++)
        for (int i = 0; i < 32; i++) {
            state->values[64 * pair + i] = (int8_t)(q[32 * pair + i] & 15);
            state->values[64 * pair + 32 + i] = (int8_t)(q[32 * pair + i] >> 4);
        }
}

INLINE void unpack_q4_k(const uint8_t *block, const block_state *state, uint32_t part, lanes *out)
{
    (void)block;
    UNROLL
    for (uint32_t i = 0; i < 4 * PARTS; i++) {
        const uint32_t which = 2 * part + i / (2 * PARTS);
        const vec scale = vec_set(state->scales[which]), low = vec_set(state->scales[which + 8]);
        out[i / PARTS].v[i % PARTS] = vec_sub(vec_mul(scale, vec_load_i8(state->values + 64 * part + i * VEC)), low);
    }
}

DENSE_DECODE(q8_0, 32, 34, 1, 32, 34)
DENSE_DECODE(q6_k, 256, 210, 4, 256, 210)
DENSE_DECODE(q4_k, 256, 144, 4, 256, 144)

#endif
