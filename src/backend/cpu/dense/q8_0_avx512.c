/* Q8_0 rows on AVX-512. */
#include "backend/cpu/floats/avx512.h"

#include "backend/cpu/dense/dense.inc"
#include "backend/cpu/dense/halves_f16c.h"

INLINE void prepare_q8_0(const uint8_t *blocks, block_state *state)
{
    four_halves(blocks, 34, state->scales);
    IN_MEMORY(state->scales);
}

INLINE void unpack_q8_0(const uint8_t *blocks, const block_state *state, uint32_t part, lanes *out)
{
    const vec d = vec_set(state->scales[part]);
    out[0].v[0] = vec_mul(d, vec_load_i8(blocks + 34 * part + 2));
    out[1].v[0] = vec_mul(d, vec_load_i8(blocks + 34 * part + 18));
}

DENSE_DECODE(q8_0, 128, 136, 4, 32, 34)
