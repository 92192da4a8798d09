/* How far two values are apart. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/half.h"
#include "infer/compare.h"

/* Sums of squares. */
typedef struct distance {
    double error, size;
} distance;

static void add(distance *d, float want, float got)
{
    if (tern_f32_bits(want) == tern_f32_bits(got)) {
        if (isfinite(want)) d->size += (double)want * (double)want;
        else if (isnan(want)) d->error = NAN;
        return;
    }
    double e = (double)got - (double)want; /* NaN for infinities of one sign, infinite for other ones */
    d->error += isfinite(e) ? e * e : NAN;
    d->size += (double)want * (double)want;
}

static double relative(const distance *d)
{
    if (d->error == 0) return 0;
    return sqrt(d->error / (d->size > 0 ? d->size : 1));
}

static double floats(const uint8_t *want, const uint8_t *got, uint64_t n)
{
    distance d = {0};
    for (uint64_t i = 0; i < n; i++) {
        float a, b;
        memcpy(&a, want + 4 * i, 4);
        memcpy(&b, got + 4 * i, 4);
        add(&d, a, b);
    }
    return relative(&d);
}

static double halves(const tern_compare_bytes *b)
{
    distance d = {0};
    for (uint64_t i = 0; i < b->bytes / 2; i++) {
        uint16_t x, y;
        memcpy(&x, b->want + 2 * i, 2);
        memcpy(&y, b->got + 2 * i, 2);
        add(&d, tern_f16_to_f32(x), tern_f16_to_f32(y));
    }
    return relative(&d);
}

/* int8 elements, scales, and the sums, which must be those of the elements. A row may round a few elements the other
 * way: those near a boundary, of which there are few. */
static double quantized(const tern_compare_bytes *b, tern_compare_op *op)
{
    const uint64_t stride = tern_q8_stride(b->cols), scales = tern_q8_scales_offset(b->cols, b->n_rows),
                   sums = tern_q8_sums_offset(b->cols, b->n_rows);
    uint64_t n_flips = 0, n_wrong = 0;
    for (uint32_t r = 0; r < b->n_rows; r++) {
        int32_t sum = 0, got_sum;
        for (uint32_t c = 0; c < b->cols; c++) {
            const int want = (int8_t)b->want[r * stride + c], got = (int8_t)b->got[r * stride + c];
            sum += got;
            n_flips += abs(want - got) == 1;
            n_wrong += abs(want - got) > 1;
        }
        memcpy(&got_sum, b->got + sums + 4 * (uint64_t)r, 4);
        n_wrong += sum != got_sum;
    }
    op->n_flips += n_flips;
    const uint64_t few = 2 + (uint64_t)b->n_rows * b->cols / 500;
    if (n_wrong || n_flips > few) return INFINITY;
    return floats(b->want + scales, b->got + scales, b->n_rows);
}

double tern_compare__error(const tern_compare_bytes *b, tern_compare_op *op)
{
    switch (b->dtype) {
    case TERN_DTYPE_F32: return floats(b->want, b->got, b->bytes / 4);
    case TERN_DTYPE_F16: return halves(b);
    case TERN_DTYPE_Q8: return quantized(b, op);
    case TERN_DTYPE_U32:
    case TERN_DTYPE_BF16:
    case TERN_DTYPE_M8:
    case TERN_DTYPE_V8: break;
    }
    return memcmp(b->want, b->got, (size_t)b->bytes) == 0 ? 0 : INFINITY;
}

static uint32_t top(const float *x, uint32_t n)
{
    uint32_t best = 0;
    for (uint32_t i = 1; i < n; i++)
        if (x[i] > x[best]) best = i;
    return best;
}

tern_compare_logits tern_compare__logits(const float *want, const float *got, uint32_t n)
{
    double dot = 0, a = 0, b = 0, error = 0;
    for (uint32_t i = 0; i < n; i++) {
        double x = (double)want[i], y = (double)got[i];
        dot += x * y;
        a += x * x;
        b += y * y;
        error += (x - y) * (x - y);
    }
    tern_compare_logits out = {.error = sqrt(error / a), .cosine = dot / sqrt(a * b)};
    uint32_t best = top(want, n), other = top(got, n);
    out.same_top = best == other;
    out.tied_top = best != other && (double)want[best] - (double)want[other] <= 4 * sqrt(error / n);
    return out;
}
