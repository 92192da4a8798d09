/* What optimisers keep in few bits: BF16 rounded at random, and moments in blocks of 8-bit codes. */
#include <math.h>

#include "base/half.h"
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
    for (size_t i = 0; i < n; i++) most = fmaxf(most, fabsf(x[i]));
    return most;
}

void tern_ref_state_pack(const float *x, size_t n, int8_t *q, float *scales)
{
    for (size_t at = 0; at < n; at += TERN_STATE_BLOCK) {
        size_t length = block_length(n, at);
        float s = absmax(x + at, length);
        scales[at / TERN_STATE_BLOCK] = s;
        for (size_t i = at; i < at + length; i++) {
            float code = s > 0 ? rintf(127 * sqrtf(fabsf(x[i]) / s)) : 0;
            q[i] = (int8_t)(x[i] < 0 ? -code : code);
        }
    }
}

void tern_ref_state_unpack(const int8_t *q, const float *scales, size_t n, float *x)
{
    for (size_t i = 0; i < n; i++) {
        float root = (float)q[i] / 127;
        x[i] = fabsf(root) * root * scales[i / TERN_STATE_BLOCK];
    }
}

void tern_ref_square_pack(const float *x, size_t n, uint8_t *q, float *scales)
{
    for (size_t at = 0; at < n; at += TERN_STATE_BLOCK) {
        size_t length = block_length(n, at);
        float s = absmax(x + at, length);
        scales[at / TERN_STATE_BLOCK] = s;
        for (size_t i = at; i < at + length; i++)
            q[i] = x[i] > 0 ? (uint8_t)fmaxf(1, rintf(255 * sqrtf(sqrtf(x[i] / s)))) : 0;
    }
}

void tern_ref_square_unpack(const uint8_t *q, const float *scales, size_t n, float *x)
{
    for (size_t i = 0; i < n; i++) {
        float square = ((float)q[i] / 255) * ((float)q[i] / 255);
        x[i] = square * square * scales[i / TERN_STATE_BLOCK];
    }
}
