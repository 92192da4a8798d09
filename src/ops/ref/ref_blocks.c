/* Dense weights times activations that are int8 by blocks: the definition, one reader of a block for each encoding. */
#include "ops/ref/blocks.h"

#include <float.h>
#include <math.h>
#include <stdbool.h>

#include "base/bytes.h"
#include "base/half.h"

/* One block: the value of column c is d * scale[c / run] * q[c] - dmin * minimum[c / run]. */
typedef struct row_block {
    float d, dmin;
    int q[TERN_BLOCKS_MAX];
    int scale[TERN_BLOCKS_MAX / TERN_BLOCKS_RUN], minimum[TERN_BLOCKS_MAX / TERN_BLOCKS_RUN];
} row_block;

typedef void (*read_fn)(const uint8_t *in, row_block *out);

/* How an encoding lies in a row. */
typedef struct layout {
    read_fn read;
    uint32_t elements, bytes;
    int minima;
} layout;

static float made_finite(float v)
{
    if (v != v) return 0;
    return v > FLT_MAX ? FLT_MAX : v < -FLT_MAX ? -FLT_MAX : v;
}

static void quantize_block(const float *x, uint32_t n, int8_t *q, float *scale, int32_t *sums)
{
    float most = 1e-30f;
    int finite = 1;
    for (uint32_t c = 0; c < n; c++) {
        most = fmaxf(most, fabsf(made_finite(x[c])));
        finite &= x[c] - x[c] == 0;
    }
    for (uint32_t c = 0; c < n; c++) {
        q[c] = (int8_t)rintf(made_finite(x[c]) * (127.0f / most));
        sums[c / TERN_BLOCKS_RUN] = (c % TERN_BLOCKS_RUN ? sums[c / TERN_BLOCKS_RUN] : 0) + q[c];
    }
    *scale = finite ? most / 127.0f : NAN;
}

void tern_ref_quantize_blocks(const float *x, uint32_t cols, uint32_t block, int8_t *q, float *scales, int32_t *sums)
{
    for (uint32_t c = 0; c < cols; c += block)
        quantize_block(x + c, block, q + c, &scales[c / block], sums + c / TERN_BLOCKS_RUN);
}

/* f16 d, then int8 q. */
static void read_q8_0(const uint8_t *in, row_block *out)
{
    out->d = tern_f16_to_f32(tern_load_u16(in));
    for (unsigned c = 0; c < 32; c++) out->q[c] = (int8_t)in[2 + c];
    out->scale[0] = out->scale[1] = 1;
}

/* e, then nibbles: twice the numbers, which are whole, and half the scale. */
static void read_mxfp4(const uint8_t *in, row_block *out)
{
    static const int doubled[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};
    out->d = 0.5f * tern_e8m0_to_f32(in[0]);
    for (unsigned c = 0; c < 32; c++) out->q[c] = doubled[in[1 + c % 16] >> (c / 16 * 4) & 15];
    out->scale[0] = out->scale[1] = 1;
}

/* See ref_decode.c for these layouts and the next ones: f16 d, for some f16 m and fifth bits, then codes. */
static void read_nibbles(const uint8_t *in, const uint8_t *fifths, int offset, row_block *out)
{
    for (unsigned c = 0; c < 32; c++) {
        const int fifth = fifths ? fifths[c / 8] >> (c % 8) & 1 : 0;
        out->q[c] = ((in[c % 16] >> (c / 16 * 4) & 15) | fifth << 4) - offset;
    }
}

static void read_ones(const uint8_t *in, uint32_t elements, bool has_m, row_block *out)
{
    out->d = tern_f16_to_f32(tern_load_u16(in));
    out->dmin = has_m ? -tern_f16_to_f32(tern_load_u16(in + 2)) : 0;
    for (uint32_t i = 0; i < elements / TERN_BLOCKS_RUN; i++) out->scale[i] = out->minimum[i] = 1;
}

static void read_q4_0(const uint8_t *in, row_block *out)
{
    read_ones(in, 32, false, out);
    read_nibbles(in + 2, NULL, 8, out);
}

static void read_q4_1(const uint8_t *in, row_block *out)
{
    read_ones(in, 32, true, out);
    read_nibbles(in + 4, NULL, 0, out);
}

static void read_q5_0(const uint8_t *in, row_block *out)
{
    read_ones(in, 32, false, out);
    read_nibbles(in + 6, in + 2, 16, out);
}

static void read_q5_1(const uint8_t *in, row_block *out)
{
    read_ones(in, 32, true, out);
    read_nibbles(in + 8, in + 4, 0, out);
}

static void read_iq4_nl(const uint8_t *in, row_block *out)
{
    static const int values[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
    read_ones(in, 32, false, out);
    read_nibbles(in + 2, NULL, 0, out);
    for (unsigned c = 0; c < 32; c++) out->q[c] = values[out->q[c]];
}

static void read_q2_0(const uint8_t *in, row_block *out)
{
    read_ones(in, 64, false, out);
    for (unsigned c = 0; c < 64; c++) out->q[c] = (in[2 + c / 4] >> (2 * (c % 4)) & 3) - 1;
}

static void read_pq2_0(const uint8_t *in, row_block *out)
{
    read_ones(in, 128, false, out);
    for (unsigned c = 0; c < 128; c++) out->q[c] = (in[2 + c / 4] >> (2 * (c % 4)) & 3) - 1;
}

static void read_digits(const uint8_t *in, unsigned bytes, unsigned digits, int *q)
{
    for (unsigned b = 0; b < bytes; b++)
        for (unsigned k = 0, rest = in[b]; k < digits; k++, rest = rest * 3 & 255)
            q[k * bytes + b] = (int)(rest * 3 >> 8) - 1;
}

static void read_ptq1_0(const uint8_t *in, row_block *out)
{
    read_ones(in, 128, false, out);
    out->d = tern_f16_to_f32(tern_load_u16(in + 26));
    read_digits(in, 16, 5, out->q);
    read_digits(in + 16, 8, 5, out->q + 80);
    read_digits(in + 24, 2, 4, out->q + 120);
}

static void read_q1_0(const uint8_t *in, row_block *out)
{
    read_ones(in, 128, false, out);
    for (unsigned c = 0; c < 128; c++) out->q[c] = in[2 + c / 8] >> (c % 8) & 1 ? 1 : -1;
}

static void read_q6_k(const uint8_t *in, row_block *out)
{
    out->d = tern_f16_to_f32(tern_load_u16(in + 208));
    for (unsigned c = 0; c < 256; c++) {
        const unsigned half = c / 128, quarter = c % 128 / 32, i = c % 32;
        const int low = in[half * 64 + quarter % 2 * 32 + i] >> (quarter / 2 * 4) & 15;
        const int pair = in[128 + half * 32 + i] >> (2 * quarter) & 3;
        out->q[c] = (low | pair << 4) - 32;
    }
    for (unsigned i = 0; i < 16; i++) out->scale[i] = (int8_t)in[192 + i];
}

/* d, dmin, and the 6-bit scales and minima of 8 parts, each two runs. */
static void read_k_scales(const uint8_t *in, row_block *out)
{
    const uint8_t *s = in + 4;
    out->d = tern_f16_to_f32(tern_load_u16(in));
    out->dmin = tern_f16_to_f32(tern_load_u16(in + 2));
    for (unsigned run = 0; run < 16; run++) {
        const unsigned j = run / 2;
        out->scale[run] = j < 4 ? s[j] & 63 : (s[j + 4] & 15) | s[j - 4] >> 6 << 4;
        out->minimum[run] = j < 4 ? s[j + 4] & 63 : s[j + 4] >> 4 | s[j] >> 6 << 4;
    }
}

static void read_q4_k(const uint8_t *in, row_block *out)
{
    read_k_scales(in, out);
    for (unsigned c = 0; c < 256; c++) out->q[c] = in[16 + c / 64 * 32 + c % 32] >> (c / 32 % 2 * 4) & 15;
}

static void read_q5_k(const uint8_t *in, row_block *out)
{
    read_k_scales(in, out);
    for (unsigned c = 0; c < 256; c++)
        out->q[c] = (in[48 + c / 64 * 32 + c % 32] >> (c / 32 % 2 * 4) & 15) | (in[16 + c % 32] >> (c / 32) & 1) << 4;
}

static float add_block(const layout *l, const row_block *w, const int8_t *x, const int32_t *sums, float dx, float y)
{
    int32_t a = 0, m = 0;
    for (uint32_t c = 0; c < l->elements; c++) a += w->scale[c / TERN_BLOCKS_RUN] * w->q[c] * x[c];
    y = y + (w->d * dx) * (float)a;
    if (!l->minima) return y;
    for (uint32_t i = 0; i < l->elements / TERN_BLOCKS_RUN; i++) m += w->minimum[i] * sums[i];
    return y - (w->dmin * dx) * (float)m;
}

static void multiply(const layout *l, const uint8_t *w, size_t row_bytes, uint32_t n_rows, uint32_t cols,
                     const tern_q8_blocks *x, float *y, size_t y_stride)
{
    const uint32_t n_blocks = cols / l->elements;
    for (size_t r = 0; r < n_rows; r++) {
        for (size_t t = 0; t < x->n; t++) y[t * y_stride + r] = 0;
        for (size_t b = 0; b < n_blocks; b++) {
            row_block read;
            l->read(w + r * row_bytes + b * l->bytes, &read);
            for (size_t t = 0; t < x->n; t++) {
                const size_t at = b * l->elements;
                float *to = &y[t * y_stride + r];
                *to = add_block(l, &read, x->x + t * x->stride + at, x->sums + (t * cols + at) / TERN_BLOCKS_RUN,
                                x->scales[t * n_blocks + b], *to);
            }
        }
    }
}

#define INT8(name, ...)                                                                                                \
    void tern_ref_int8_##name(const uint8_t *w, size_t row_bytes, uint32_t n_rows, uint32_t cols,                      \
                              const tern_q8_blocks *x, float *y, size_t y_stride)                                      \
    {                                                                                                                  \
        static const layout l = {read_##name, __VA_ARGS__};                                                            \
        multiply(&l, w, row_bytes, n_rows, cols, x, y, y_stride);                                                      \
    }

INT8(q8_0, 32, 34, 0)
INT8(q6_k, 256, 210, 0)
INT8(q4_k, 256, 144, 1)
INT8(q5_k, 256, 176, 1)
INT8(q5_1, 32, 24, 1)
INT8(q5_0, 32, 22, 0)
INT8(q4_1, 32, 20, 1)
INT8(q4_0, 32, 18, 0)
INT8(iq4_nl, 32, 18, 0)
INT8(mxfp4, 32, 17, 0)
INT8(q2_0, 64, 18, 0)
INT8(pq2_0, 128, 34, 0)
INT8(ptq1_0, 128, 28, 0)
INT8(q1_0, 128, 18, 0)
