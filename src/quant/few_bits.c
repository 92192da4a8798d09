/* Q1_0, Q2_0 and PQ2_0: signs or two-bit values with one f16 scale for 64 or 128 of them. */
#include <math.h>
#include <string.h>

#include "base/bytes.h"
#include "base/half.h"
#include "quant/block.h"
#include "quant/fit.h"
#include "quant/signed_fit.h"

enum { Q1_0_ELEMENTS = 128, Q2_0_ELEMENTS = 64, PQ2_0_ELEMENTS = 128, HALF_BYTES = 2 };
enum {
    Q1_0_BYTES = HALF_BYTES + Q1_0_ELEMENTS / 8,
    Q2_0_BYTES = HALF_BYTES + Q2_0_ELEMENTS / 4,
    PQ2_0_BYTES = HALF_BYTES + PQ2_0_ELEMENTS / 4
};

/* For given signs the scale of least squared error is the mean magnitude. Bit i % 8 of byte i / 8 is set for +d. */
static void pack_1_0(const float *x, uint8_t *out)
{
    float magnitudes[Q1_0_ELEMENTS];
    memset(out, 0, Q1_0_BYTES);
    for (unsigned i = 0; i < Q1_0_ELEMENTS; i++) {
        magnitudes[i] = fabsf(x[i]);
        if (x[i] >= 0) out[HALF_BYTES + i / 8] |= (uint8_t)(1u << (i % 8));
    }
    tern_store_u16(out, tern_f32_to_f16(tern_fit__sum(magnitudes, Q1_0_ELEMENTS) / Q1_0_ELEMENTS));
}

static void unpack_1_0(const uint8_t *in, float *x)
{
    float d = tern_f16_to_f32(tern_load_u16(in));
    for (unsigned i = 0; i < Q1_0_ELEMENTS; i++) x[i] = in[HALF_BYTES + i / 8] >> (i % 8) & 1 ? d : -d;
}

#define PACK_1(x, w, out) ((void)(w), pack_1_0(x, out))

TERN_BLOCK_ENCODING(q1_0, Q1_0, Q1_0_ELEMENTS, Q1_0_BYTES, 0, 0, PACK_1, unpack_1_0)

/* x = d * (field - 1): levels -1 to 2. Scales of both signs are tried, those first that leave the largest number on
 * level 1 or -1: a ternary tensor comes back as it was. Field i % 4, from the lowest bits, of byte i / 4 is element i.
 */
static void pack_2_0(const float *x, const float *w, int n, uint8_t *out)
{
    const tern_signed_fit levels = {.n = n, .low = -1, .high = 2, .first = -1.5f, .step = 0.1f, .candidates = 40};
    float q[PQ2_0_ELEMENTS];
    memset(out + HALF_BYTES, 0, (size_t)n / 4);
    tern_store_u16(out, tern_signed_fit__half(&levels, x, w, q));
    for (int i = 0; i < n; i++) out[HALF_BYTES + i / 4] |= (uint8_t)((unsigned)((int)q[i] + 1) << (i % 4 * 2));
}

static void unpack_2_0(const uint8_t *in, int n, float *x)
{
    float d = tern_f16_to_f32(tern_load_u16(in));
    for (int i = 0; i < n; i++) x[i] = d * (float)((in[HALF_BYTES + i / 4] >> (i % 4 * 2) & 3) - 1);
}

#define PACK_64(x, w, out)  pack_2_0(x, w, Q2_0_ELEMENTS, out)
#define UNPACK_64(in, x)    unpack_2_0(in, Q2_0_ELEMENTS, x)
#define PACK_128(x, w, out) pack_2_0(x, w, PQ2_0_ELEMENTS, out)
#define UNPACK_128(in, x)   unpack_2_0(in, PQ2_0_ELEMENTS, x)

TERN_BLOCK_ENCODING(q2_0, Q2_0, Q2_0_ELEMENTS, Q2_0_BYTES, 0, 0, PACK_64, UNPACK_64)
TERN_BLOCK_ENCODING(pq2_0, PQ2_0, PQ2_0_ELEMENTS, PQ2_0_BYTES, 0, 0, PACK_128, UNPACK_128)
