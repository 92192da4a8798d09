/* The formats of optimiser states in few bits: BF16 rounded at random, and moments in blocks of 8-bit codes. */
#include <math.h>

#include "base/flush.h"
#include "ops/ref/update.h"

static uint32_t mixed(uint32_t h)
{
    h ^= h >> 16;
    h *= 0x85ebca6bu;
    h ^= h >> 13;
    h *= 0xc2b2ae35u;
    return h ^ h >> 16;
}

uint32_t tern_ref_random_bits(uint32_t seed, uint32_t index)
{
    return mixed(mixed(index + 0x9e3779b9u) ^ mixed(seed + 0x7f4a7c15u));
}

uint16_t tern_ref_bf16_stochastic(float v, uint32_t random)
{
    uint32_t bits = tern_f32_bits(v);
    if ((bits & 0x7f800000u) == 0x7f800000u) return tern_f32_to_bf16(v);
    uint32_t up = bits + (random & 0xffffu);
    if ((up & 0x7f800000u) == 0x7f800000u) up = (bits & 0x80000000u) | 0x7f7f0000u;
    return (uint16_t)(up >> 16);
}

static size_t block_length(size_t n, size_t at)
{
    return n - at < TERN_STATE_BLOCK ? n - at : TERN_STATE_BLOCK;
}

static float absmax(const float *x, size_t n)
{
    float most = 0;
    for (size_t i = 0; i < n; i++) most = fmaxf(most, fabsf(tern_flush(x[i])));
    return most;
}

static int8_t state_code(float x, float s)
{
    if (s == 0) return 0;
    const float code = rintf(127 * sqrtf(tern_flush_div(fabsf(x), s)));
    return (int8_t)(x < 0 ? -code : code);
}

void tern_ref_state_pack(const float *x, size_t n, int8_t *q, float *scales)
{
    for (size_t at = 0; at < n; at += TERN_STATE_BLOCK) {
        size_t length = block_length(n, at);
        float s = scales[at / TERN_STATE_BLOCK] = absmax(x + at, length);
        for (size_t i = at; i < at + length; i++) q[i] = state_code(tern_flush(x[i]), s);
    }
}

void tern_ref_state_unpack(const int8_t *q, const float *scales, size_t n, float *x)
{
    for (size_t i = 0; i < n; i++) {
        float root = (float)q[i] * TERN_STATE_STEP;
        x[i] = tern_flush_mul(fabsf(root) * root, tern_flush(scales[i / TERN_STATE_BLOCK]));
    }
}

/* The value of a code where s = 1. */
static float square_of(uint32_t q)
{
    const float root = (float)q * TERN_SQUARE_STEP, square = root * root;
    return square * square;
}

static uint8_t square_code(float x, float s, uint32_t random)
{
    if (!(x > 0)) return 0;
    const float y = tern_flush_div(x, s);
    uint32_t q = (uint32_t)(255 * sqrtf(sqrtf(y)));
    const float a = square_of(q), gap = tern_flush_sub(square_of(q + 1), a);
    q += tern_flush_mul((float)(random >> 16) * 0x1p-16f, gap) < tern_flush_sub(y, a);
    return (uint8_t)(q < 1 ? 1 : q > 255 ? 255 : q);
}

void tern_ref_square_pack(const float *x, size_t n, const uint32_t *random, uint8_t *q, float *scales)
{
    for (size_t at = 0; at < n; at += TERN_STATE_BLOCK) {
        size_t length = block_length(n, at);
        float s = scales[at / TERN_STATE_BLOCK] = absmax(x + at, length);
        for (size_t i = at; i < at + length; i++) q[i] = square_code(tern_flush(x[i]), s, random[i]);
    }
}

void tern_ref_square_unpack(const uint8_t *q, const float *scales, size_t n, float *x)
{
    for (size_t i = 0; i < n; i++) x[i] = tern_flush_mul(square_of(q[i]), tern_flush(scales[i / TERN_STATE_BLOCK]));
}
