/* Dense kernels whose blocks are unpacked alike at all levels: f32, f16, bf16 and q8_0. */
#ifndef TERN_BACKEND_CPU_DENSE_PLAIN_H
#define TERN_BACKEND_CPU_DENSE_PLAIN_H

#include "backend/cpu/dense_body.h"

#define UNPACK_FLOATS(name, load, bytes)                                                                               \
    INLINE void unpack_##name(const uint8_t *block, lanes *out)                                                        \
    {                                                                                                                  \
        UNROLL                                                                                                         \
        for (int i = 0; i < 2 * PARTS; i++)                                                                            \
            out[i / PARTS].v[i % PARTS] = load(block + i * VEC * (bytes));                                             \
    }

UNPACK_FLOATS(f32, vec_load, 4)
UNPACK_FLOATS(f16, vec_load_f16, 2)
UNPACK_FLOATS(bf16, vec_load_bf16, 2)

/* Behind an f16 scale, 32 int8. */
INLINE void unpack_q8_0(const uint8_t *block, lanes *out)
{
    const vec d = vec_set_f16(block);
    UNROLL
    for (int i = 0; i < 2 * PARTS; i++)
        out[i / PARTS].v[i % PARTS] = vec_mul(d, vec_load_i8(block + 2 + i * VEC));
}

DENSE(f32, unpack_f32, 32, 128, 4)
DENSE(f16, unpack_f16, 32, 64, 2)
DENSE(bf16, unpack_bf16, 32, 64, 2)
DENSE(q8_0, unpack_q8_0, 32, 34, 0)

#endif
