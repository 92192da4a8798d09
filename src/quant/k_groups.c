/* Q4_K and Q5_K: 256 values of four or five bits in 8 groups of 32, with a six-bit scale and minimum for each group. */
#include <math.h>
#include <string.h>

#include "base/bytes.h"
#include "base/half.h"
#include "quant/fit.h"
#include "quant/table.h"

enum { ELEMENTS = 256, GROUP = 32, N_GROUPS = 8, SCALES_AT = 4, LEVELS_AT = 16, CANDIDATES = 8 };
enum { Q4_K_BYTES = LEVELS_AT + ELEMENTS / 2, Q5_K_BYTES = Q4_K_BYTES + ELEMENTS / 8 };

/* A group is read as x = scale * q - min with q in 0 .. top (15 or 31); neither number is negative. */
typedef struct fit {
    float scale, min;
} fit;

/* Below this a group's scale vanishes in the f16 of the block. */
static const float TINY = 0x1p-40f;

static void levels_of(const float *x, fit f, float top, float *q)
{
    tern_fit__levels(x, GROUP, f.min, f.scale > TINY ? 1 / f.scale : 0, 0, top, q);
}

static float error_of(const float *x, fit f, const float *q)
{
    return tern_fit__error(x, q, GROUP, f.scale, f.min);
}

/* The least-squares line through (q, x), with its offset held at 0 where it would be above. */
static fit fit_line(const float *x, const float *q)
{
    float n = GROUP, sq = tern_fit__sum(q, GROUP), sx = tern_fit__sum(x, GROUP);
    float sqq = tern_fit__dot(q, q, GROUP), sxq = tern_fit__dot(x, q, GROUP);
    float det = n * sqq - sq * sq;
    if (det > 0) {
        fit f = {(n * sxq - sq * sx) / det, (sq * sxq - sqq * sx) / det};
        if (f.scale > 0 && f.min >= 0) return f;
    }
    return (fit){sqq > 0 && sxq > 0 ? sxq / sqq : 0, 0};
}

static void range_of(const float *x, float *low, float *high)
{
    *low = fminf(x[0], 0);
    *high = x[0];
    for (int i = 1; i < GROUP; i++) {
        *low = fminf(*low, x[i]);
        *high = fmaxf(*high, x[i]);
    }
}

/* Tries ranges a little narrower and wider than the values', each refined by a line fit; the least squared error wins.
 */
static fit group_fit(const float *x, float top)
{
    float low, high, q[GROUP];
    range_of(x, &low, &high);
    fit best = {0, -low};
    if (!(high - low > TINY)) return best;
    levels_of(x, best, top, q);
    float least = error_of(x, best, q);
    for (int c = 0; c < CANDIDATES; c++) {
        fit f = {(high - low) / (top - 1 + 0.4f * (float)c), -low};
        levels_of(x, f, top, q);
        f = fit_line(x, q);
        float error = error_of(x, f, q);
        if (error < least) least = error, best = f;
    }
    return best;
}

static int six_bits(float v, float unit)
{
    float m = unit > 0 ? rintf(v / unit) : 0;
    return !(m > 0) ? 0 : m > 63 ? 63 : (int)m;
}

/* The six-bit scale and minimum that serve the group best: those nearest to its fit, or neighbours; with their levels.
 */
static void group_multiples(const float *x, fit f, fit unit, float top, int *scale, int *min, float *q)
{
    int near_scale = six_bits(f.scale, unit.scale), near_min = six_bits(f.min, unit.min);
    float least = INFINITY, trial[GROUP];
    *scale = near_scale;
    *min = near_min;
    memset(q, 0, GROUP * sizeof *q);
    for (int s = near_scale - 1; s <= near_scale + 1; s++)
        for (int m = near_min - 1; m <= near_min + 1; m++) {
            if (s < 0 || s > 63 || m < 0 || m > 63) continue;
            fit stored = {unit.scale * (float)s, unit.min * (float)m};
            levels_of(x, stored, top, trial);
            float error = error_of(x, stored, trial);
            if (!(error < least)) continue;
            least = error, *scale = s, *min = m;
            memcpy(q, trial, sizeof trial);
        }
}

/* Twelve bytes: groups 0 .. 3 have scale and min in the low six bits of bytes g and g + 4; groups 4 .. 7 have the low
 * four bits of scale and min in the two nibbles of byte g + 4, and the high two in the top bits of bytes g - 4 and g.
 */
static void put_multiples(uint8_t *out, unsigned g, unsigned scale, unsigned min)
{
    if (g < 4) {
        out[g] |= (uint8_t)scale;
        out[g + 4] |= (uint8_t)min;
    } else {
        out[g + 4] |= (uint8_t)((scale & 15) | (min & 15) << 4);
        out[g - 4] |= (uint8_t)(scale >> 4 << 6);
        out[g] |= (uint8_t)(min >> 4 << 6);
    }
}

static void get_multiples(const uint8_t *in, unsigned g, unsigned *scale, unsigned *min)
{
    if (g < 4) {
        *scale = in[g] & 63u;
        *min = in[g + 4] & 63u;
    } else {
        *scale = (in[g + 4] & 15u) | (unsigned)(in[g - 4] >> 6) << 4;
        *min = (unsigned)(in[g + 4] >> 4) | (unsigned)(in[g] >> 6) << 4;
    }
}

/* d, d_min and the groups' multiples at `out`, the levels of all elements in q. */
static void fit_block(const float *x, float top, uint8_t *out, float *q)
{
    fit fits[N_GROUPS], most = {0, 0};
    for (unsigned g = 0; g < N_GROUPS; g++) {
        fits[g] = group_fit(x + g * GROUP, top);
        most.scale = fmaxf(most.scale, fits[g].scale);
        most.min = fmaxf(most.min, fits[g].min);
    }
    uint16_t d = tern_f32_to_f16(most.scale / 63), d_min = tern_f32_to_f16(most.min / 63);
    fit unit = {tern_f16_to_f32(d), tern_f16_to_f32(d_min)};
    tern_store_u16(out, d);
    tern_store_u16(out + 2, d_min);
    for (unsigned g = 0; g < N_GROUPS; g++) {
        int scale, min;
        group_multiples(x + g * GROUP, fits[g], unit, top, &scale, &min, q + g * GROUP);
        put_multiples(out + SCALES_AT, g, (unsigned)scale, (unsigned)min);
    }
}

/* The low four bits: groups 2k and 2k + 1 share 32 bytes, of which the even one has the low nibbles. The fifth bits of
 * Q5_K lie before them: bit g of byte i is of element i of group g. */
static void pack_block(const float *x, uint8_t *out, bool five)
{
    float q[ELEMENTS];
    memset(out, 0, five ? Q5_K_BYTES : Q4_K_BYTES);
    fit_block(x, five ? 31 : 15, out, q);
    uint8_t *high = out + LEVELS_AT, *low = five ? high + GROUP : high;
    for (unsigned e = 0; e < ELEMENTS; e++) {
        unsigned level = (unsigned)q[e], g = e / GROUP, i = e % GROUP;
        low[g / 2 * GROUP + i] |= (uint8_t)((level & 15) << (g % 2 * 4));
        if (five) high[i] |= (uint8_t)(level >> 4 << g);
    }
}

static void unpack_block(const uint8_t *in, float *x, bool five)
{
    float d = tern_f16_to_f32(tern_load_u16(in)), d_min = tern_f16_to_f32(tern_load_u16(in + 2));
    const uint8_t *high = in + LEVELS_AT, *low = five ? high + GROUP : high;
    for (unsigned g = 0; g < N_GROUPS; g++) {
        unsigned scale, min;
        get_multiples(in + SCALES_AT, g, &scale, &min);
        float step = d * (float)scale, least = d_min * (float)min;
        for (unsigned i = 0; i < GROUP; i++) {
            unsigned level = low[g / 2 * GROUP + i] >> (g % 2 * 4) & 15;
            if (five) level |= (unsigned)(high[i] >> g & 1) << 4;
            x[g * GROUP + i] = step * (float)level - least;
        }
    }
}

static size_t find_nonfinite(const void *in, size_t block_bytes, size_t n_blocks)
{
    size_t d = tern_f16__find_nonfinite(in, block_bytes, n_blocks);
    return tern_f16__find_nonfinite((const uint8_t *)in + 2, block_bytes, d);
}

#define ENCODING(word, WORD, is_five)                                                                                  \
    static void pack_##word(const float *x, size_t n_blocks, void *out)                                                \
    {                                                                                                                  \
        for (size_t b = 0; b < n_blocks; b++)                                                                          \
            pack_block(x + b * ELEMENTS, (uint8_t *)out + b * WORD##_BYTES, is_five);                                  \
    }                                                                                                                  \
    static void unpack_##word(const void *in, size_t n_blocks, float *x)                                               \
    {                                                                                                                  \
        for (size_t b = 0; b < n_blocks; b++)                                                                          \
            unpack_block((const uint8_t *)in + b * WORD##_BYTES, x + b * ELEMENTS, is_five);                           \
    }                                                                                                                  \
    static size_t find_nonfinite_##word(const void *in, size_t n_blocks)                                               \
    {                                                                                                                  \
        return find_nonfinite(in, WORD##_BYTES, n_blocks);                                                             \
    }                                                                                                                  \
    const tern_encoding tern_encoding__##word = {                                                                      \
        .name = #word,                                                                                                 \
        .id = TERN_ENC_##WORD,                                                                                         \
        .block_elements = ELEMENTS,                                                                                    \
        .block_bytes = WORD##_BYTES,                                                                                   \
        .pack = pack_##word,                                                                                           \
        .unpack = unpack_##word,                                                                                       \
        .find_nonfinite = find_nonfinite_##word,                                                                       \
    };

ENCODING(q4_k, Q4_K, false)
ENCODING(q5_k, Q5_K, true)
