/* Dense kernels whose weights are floats, unpacked alike at all levels: f32, f16 and bf16; and rows of int8. */
#ifndef TERN_BACKEND_CPU_FLOATS_PLAIN_H
#define TERN_BACKEND_CPU_FLOATS_PLAIN_H

#include "backend/cpu/dense_body.h"

#define FLOATS(name, load, size)                                                                                       \
    INLINE void prepare_##name(const uint8_t *block, block_state *state)                                               \
    {                                                                                                                  \
        (void)block;                                                                                                   \
        (void)state;                                                                                                   \
    }                                                                                                                  \
    INLINE void unpack_##name(const uint8_t *block, const block_state *state, uint32_t part, lanes *out)               \
    {                                                                                                                  \
        (void)state;                                                                                                   \
        (void)part;                                                                                                    \
        UNROLL                                                                                                         \
        for (int i = 0; i < 2 * PARTS; i++) out[i / PARTS].v[i % PARTS] = load(block + i * VEC * (size));              \
    }

FLOATS(f32, vec_load, 4)
FLOATS(f16, vec_load_f16, 2)
FLOATS(bf16, vec_load_bf16, 2)
FLOATS(i8, vec_load_i8, 1)

DENSE(f32, 32, 128, 1, 1, 4)
DENSE_DECODE(f16, 32, 64, 1, 1, 2)
DENSE_DECODE(bf16, 32, 64, 1, 1, 2)
DECODE(i8, 32, 32, 1, 1, 1)

#endif
