/* Q4_K and Q5_K: 256 values of four or five bits in 8 groups of 32, with a six-bit scale and minimum for each group. */
#include <string.h>

#include "base/bytes.h"
#include "base/half.h"
#include "quant/block.h"
#include "quant/line_fit.h"

enum { ELEMENTS = 256, GROUP = 32, N_GROUPS = 8, SCALES_AT = 4, LEVELS_AT = 16 };
enum { Q4_K_BYTES = LEVELS_AT + ELEMENTS / 2, Q5_K_BYTES = Q4_K_BYTES + ELEMENTS / 8 };

static const tern_line_fit four_bits = {
    .n = GROUP, .top = 15, .first = 14, .step = 0.4f, .candidates = 8, .positive = true, .most_multiple = 63};
static const tern_line_fit five_bits = {
    .n = GROUP, .top = 31, .first = 30, .step = 0.4f, .candidates = 8, .positive = true, .most_multiple = 63};

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
static void fit_block(const float *x, const float *w, bool five, uint8_t *out, float *q)
{
    uint8_t scales[N_GROUPS], mins[N_GROUPS];
    uint16_t halves[2];
    tern_line_fit__block(five ? &five_bits : &four_bits, x, w, halves, scales, mins, q);
    tern_store_u16(out, halves[0]);
    tern_store_u16(out + 2, halves[1]);
    for (unsigned g = 0; g < N_GROUPS; g++) put_multiples(out + SCALES_AT, g, scales[g], mins[g]);
}

/* The low four bits: groups 2k and 2k + 1 share 32 bytes, of which the even one has the low nibbles. The fifth bits of
 * Q5_K lie before them: bit g of byte i is of element i of group g. */
static void pack_block(const float *x, const float *w, uint8_t *out, bool five)
{
    float q[ELEMENTS];
    memset(out, 0, five ? Q5_K_BYTES : Q4_K_BYTES);
    fit_block(x, w, five, out, q);
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

#define PACK_4(x, w, out) pack_block(x, w, out, false)
#define UNPACK_4(in, x)   unpack_block(in, x, false)
#define PACK_5(x, w, out) pack_block(x, w, out, true)
#define UNPACK_5(in, x)   unpack_block(in, x, true)

TERN_BLOCK_ENCODING(q4_k, Q4_K, ELEMENTS, Q4_K_BYTES, 0, 2, PACK_4, UNPACK_4)
TERN_BLOCK_ENCODING(q5_k, Q5_K, ELEMENTS, Q5_K_BYTES, 0, 2, PACK_5, UNPACK_5)
