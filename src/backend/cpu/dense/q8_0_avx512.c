/* Q8_0 rows on AVX-512. */
#include "backend/cpu/floats/avx512.h"

#include "backend/cpu/dense/dense.inc"

/* The f16 scales of four blocks at once: converting one alone costs as much as four. */
INLINE void prepare_q8_0(const uint8_t *blocks, block_state *state)
{
    uint16_t d[4];
    for (int i = 0; i < 4; i++) memcpy(&d[i], blocks + 34 * i, 2);
    const uint64_t all = d[0] | (uint64_t)d[1] << 16 | (uint64_t)d[2] << 32 | (uint64_t)d[3] << 48;
    _mm_store_ps(state->scales, _mm_cvtph_ps(_mm_cvtsi64_si128((long long)all)));
    IN_MEMORY(state->scales);
}

INLINE void unpack_q8_0(const uint8_t *blocks, const block_state *state, uint32_t part, lanes *out)
{
    const vec d = vec_set(state->scales[part]);
    out[0].v[0] = vec_mul(d, vec_load_i8(blocks + 34 * part + 2));
    out[1].v[0] = vec_mul(d, vec_load_i8(blocks + 34 * part + 18));
}

DENSE_DECODE(q8_0, 128, 136, 4, 32, 34)
