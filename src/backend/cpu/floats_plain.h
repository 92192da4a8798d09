/* Dense kernels whose weights are floats, unpacked alike at all levels: f32, f16 and bf16. */
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
    }                                                                                                                  \
    DENSE(name, 32, 32 * (size), 1, 1, size)

FLOATS(f32, vec_load, 4)
FLOATS(f16, vec_load_f16, 2)
FLOATS(bf16, vec_load_bf16, 2)

#endif
