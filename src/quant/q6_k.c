/* Q6_K: 256 six-bit values in 16 groups of 16, an int8 scale for each group and one f16 for all. */
#include <math.h>
#include <string.h>

#include "base/bytes.h"
#include "base/half.h"
#include "quant/fit.h"
#include "quant/table.h"

enum { ELEMENTS = 256, BYTES = 210, GROUP = 16, N_GROUPS = 16, QH_AT = 128, SCALES_AT = 192, D_AT = 208 };

/* Below this a group's scale vanishes in the f16 of the block. */
static const float TINY = 0x1p-40f;

/* x in steps of 1 / inverse, clamped to the six bits. */
static void levels_of(const float *x, float inverse, float *q)
{
    tern_fit__levels(x, GROUP, 0, inverse, -32, 31, q);
}

static float largest(const float *x)
{
    float most = 0;
    for (int i = 0; i < GROUP; i++)
        if (fabsf(x[i]) > fabsf(most)) most = x[i];
    return most;
}

/* The scale s that leaves the least sum (x - s q)^2, searched around the one that puts the largest value on -32: for
 * fixed levels q the best is s = sum(x q) / sum(q q), and the error then falls with sum(x q)^2 / sum(q q). */
static float group_scale(const float *x)
{
    float most = largest(x), best_scale = 0, best = 0, q[GROUP];
    if (fabsf(most) < TINY) return 0;
    for (int c = -4; c <= 4; c++) {
        float inverse = -(32 + 0.5f * (float)c) / most;
        levels_of(x, inverse, q);
        float xq = tern_fit__dot(x, q, GROUP), qq = tern_fit__dot(q, q, GROUP), scale = xq / qq;
        if (scale * xq > best) best = scale * xq, best_scale = scale;
    }
    return best_scale;
}

static float group_error(const float *x, float scale)
{
    float q[GROUP];
    levels_of(x, scale != 0 ? 1 / scale : 0, q);
    return tern_fit__error(x, q, GROUP, scale, 0);
}

/* The int8 multiple of d that serves the group best: the nearest to its scale, or a neighbour. */
static int group_multiple(const float *x, float d, float scale)
{
    float nearest = rintf(scale / d), best = INFINITY;
    int multiple = 0;
    for (int step = -1; step <= 1; step++) {
        float m = nearest + (float)step;
        if (!(m >= -128 && m <= 127)) continue;
        float error = group_error(x, d * m);
        if (error < best) best = error, multiple = (int)m;
    }
    return multiple;
}

/* Where element i's six bits lie: low four in a nibble of ql, high two in a field of qh. Each half of the block has 64
 * bytes of ql and 32 of qh; elements l, l + 32, l + 64, l + 96 of a half (l < 32) share qh[l]. */
static void put_level(uint8_t *out, unsigned i, unsigned q)
{
    unsigned half = i / 128, part = i % 128 / 32, l = i % 32;
    out[half * 64 + part % 2 * 32 + l] |= (uint8_t)((q & 15) << (part / 2 * 4));
    out[QH_AT + half * 32 + l] |= (uint8_t)((q >> 4) << (part * 2));
}

static int get_level(const uint8_t *in, unsigned i)
{
    unsigned half = i / 128, part = i % 128 / 32, l = i % 32;
    unsigned low = in[half * 64 + part % 2 * 32 + l] >> (part / 2 * 4) & 15;
    unsigned high = in[QH_AT + half * 32 + l] >> (part * 2) & 3;
    return (int)(low | high << 4) - 32;
}

static void pack_group(const float *x, unsigned group, float d, float scale, uint8_t *out)
{
    int multiple = d != 0 ? group_multiple(x, d, scale) : 0;
    float step = d * (float)multiple, q[GROUP];
    levels_of(x, step != 0 ? 1 / step : 0, q);
    out[SCALES_AT + group] = (uint8_t)(int8_t)multiple;
    for (unsigned i = 0; i < GROUP; i++) put_level(out, group * GROUP + i, (unsigned)((int)q[i] + 32));
}

static void pack_block(const float *x, uint8_t *out)
{
    float scales[N_GROUPS], most = 0;
    for (unsigned g = 0; g < N_GROUPS; g++) {
        scales[g] = group_scale(x + g * GROUP);
        if (fabsf(scales[g]) > fabsf(most)) most = scales[g];
    }
    uint16_t d = tern_f32_to_f16(most / -128);
    memset(out, 0, BYTES);
    tern_store_u16(out + D_AT, d);
    for (unsigned g = 0; g < N_GROUPS; g++) pack_group(x + g * GROUP, g, tern_f16_to_f32(d), scales[g], out);
}

static void unpack_block(const uint8_t *in, float *x)
{
    float d = tern_f16_to_f32(tern_load_u16(in + D_AT));
    for (unsigned i = 0; i < ELEMENTS; i++)
        x[i] = d * (float)(int8_t)in[SCALES_AT + i / GROUP] * (float)get_level(in, i);
}

static void pack(const float *x, size_t n_blocks, void *out)
{
    for (size_t b = 0; b < n_blocks; b++) pack_block(x + b * ELEMENTS, (uint8_t *)out + b * BYTES);
}

static void unpack(const void *in, size_t n_blocks, float *x)
{
    for (size_t b = 0; b < n_blocks; b++) unpack_block((const uint8_t *)in + b * BYTES, x + b * ELEMENTS);
}

static size_t find_nonfinite(const void *in, size_t n_blocks)
{
    return tern_f16__find_nonfinite((const uint8_t *)in + D_AT, BYTES, n_blocks);
}

const tern_encoding tern_encoding__q6_k = {
    .name = "q6_k",
    .id = TERN_ENC_Q6_K,
    .block_elements = ELEMENTS,
    .block_bytes = BYTES,
    .pack = pack,
    .unpack = unpack,
    .find_nonfinite = find_nonfinite,
};
