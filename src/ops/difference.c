/* How far two results of one value are apart. */
#include "ops/difference.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/half.h"
#include "ops/op.h"

/* e^-80 is off by the rounding of its exponent, and subnormals may be 0: what is that small may be nothing. */
static const double nothing = 1e-30;

tern_tolerance tern_op_tolerance(const tern_op *op)
{
    double share = 1e-4;
    switch (op->kind) {
    case TERN_OP_EMBED:
    case TERN_OP_ADD:
    case TERN_OP_EMBED_BACKWARD:
    case TERN_OP_GATHER:
    case TERN_OP_SPLIT:
    case TERN_OP_SPLIT_BACKWARD:
    case TERN_OP_KV_WRITE:
    case TERN_OP_SAMPLE:
    case TERN_OP_SUM_SQUARES:
    case TERN_OP_UPDATE:
    case TERN_OP_REQUANTIZE: return (tern_tolerance){0};
    case TERN_OP_QUANTIZE:
    case TERN_OP_NORM_QUANT: share = 1e-5; break;
    case TERN_OP_LINEAR: share = op->norm_weight.value == TERN_NO_VALUE || op->norm_f32 ? 1e-4 : 2e-2; break;
    case TERN_OP_GATED_DELTA:
    case TERN_OP_VARLEN_GATED_DELTA:
    case TERN_OP_VARLEN_GATED_DELTA_BACKWARD:
    case TERN_OP_ATTENTION:
    case TERN_OP_ROPE_KV:
    case TERN_OP_ROPE_ATTENTION: share = 2e-3; break;
    default: break;
    }
    return (tern_tolerance){.of_row = share, .of_terms = share, .of_int8 = 1, .few_int8 = true};
}

static bool is_exact(const tern_tolerance *t)
{
    return t->absolute == 0 && t->of_value == 0 && t->of_row == 0 && t->of_terms == 0;
}

static bool same_bits(float a, float b)
{
    return tern_f32_bits(a) == tern_f32_bits(b);
}

bool tern_is_near(float got, float want, double row_most, double terms, const tern_tolerance *t)
{
    if (same_bits(got, want)) return true;
    if (isnan(want) || isnan(got)) return isnan(want) && isnan(got);
    if (isinf(want) || isinf(got)) return got == want;
    const double allowed = t->absolute + t->of_value * fabs((double)want) + t->of_row * row_most;
    return !is_exact(t) && fabs((double)got - (double)want) <= fmax(allowed, t->of_terms * terms) + nothing;
}

/* A comparison under way. */
typedef struct finder {
    const tern_compared *c;
    const tern_tolerance *t;
    tern_difference *out;
    float *got, *want; /* [cols] of a row */
    double *terms;     /* [cols] */
} finder;

/* Notes the first element that is wrong. */
static void note(const finder *f, const char *part, uint64_t row, uint32_t col, double got, double want)
{
    tern_difference *d = f->out;
    if (!d->ok) return;
    d->ok = false;
    d->part = part;
    d->row = row;
    d->col = col;
    d->cols = f->c->cols;
    d->got = got;
    d->want = want;
}

static void grow(double *worst, double share)
{
    if (!isnan(*worst) && !(share <= *worst)) *worst = share;
}

/* The measure of a difference: a share of the large numbers of the row. */
static double share_of(float got, float want, double size)
{
    if (same_bits(got, want) || (isnan(got) && isnan(want))) return 0;
    if (!isfinite(got) || !isfinite(want)) return NAN;
    return fabs((double)got - (double)want) / (size > nothing ? size : nothing);
}

static double most_of(const float *row, uint32_t cols)
{
    double most = 0;
    for (uint32_t c = 0; c < cols; c++)
        if (isfinite(row[c])) most = fmax(most, fabs((double)row[c]));
    return most;
}

/* The row's terms are only added up where nothing else explains it. */
static bool needs_terms(const finder *f, const float *got, const float *want, uint32_t cols, double most)
{
    if (!f->c->terms || f->t->of_terms == 0) return false;
    for (uint32_t c = 0; c < cols; c++)
        if (!tern_is_near(got[c], want[c], most, 0, f->t)) return true;
    return false;
}

static void compare_floats(const finder *f, uint64_t row, const float *got, const float *want, uint32_t cols)
{
    const double most = most_of(want, cols);
    const bool asked = needs_terms(f, got, want, cols, most) && f->c->terms(f->c->context, row, cols, f->terms);
    for (uint32_t c = 0; c < cols; c++) {
        const double terms = asked ? f->terms[c] : 0;
        f->out->identical &= same_bits(got[c], want[c]);
        grow(&f->out->worst, share_of(got[c], want[c], fmax(most, terms)));
        if (tern_is_near(got[c], want[c], most, terms, f->t)) continue;
        if (f->out->ok) f->out->row_most = most;
        note(f, "", row, c, (double)got[c], (double)want[c]);
    }
}

static float element(const uint8_t *bytes, tern_dtype dtype, uint64_t i)
{
    uint16_t half;
    float value;
    if (dtype == TERN_DTYPE_F16) memcpy(&half, bytes + 2 * i, 2);
    else memcpy(&value, bytes + 4 * i, 4);
    return dtype == TERN_DTYPE_F16 ? tern_f16_to_f32(half) : value;
}

static void compare_rows(const finder *f)
{
    const uint32_t cols = f->c->cols;
    for (uint64_t r = 0; r < f->c->n_rows; r++) {
        for (uint32_t c = 0; c < cols; c++) {
            f->got[c] = element(f->c->got, f->c->value->dtype, r * cols + c);
            f->want[c] = element(f->c->want, f->c->value->dtype, r * cols + c);
        }
        compare_floats(f, r, f->got, f->want, cols);
    }
}

static float scale_of(const finder *f, const uint8_t *bytes, uint64_t row)
{
    return element(bytes + tern_q8_scales_offset(f->c->cols, f->c->max_rows), TERN_DTYPE_F32, row);
}

static int32_t sum_of(const finder *f, const uint8_t *bytes, uint64_t row)
{
    int32_t sum;
    memcpy(&sum, bytes + tern_q8_sums_offset(f->c->cols, f->c->max_rows) + 4 * row, 4);
    return sum;
}

/* int8, with nothing behind them, their scale, and the sum, which must be theirs. */
static void compare_q8_row(const finder *f, uint64_t row)
{
    const uint64_t stride = tern_q8_stride(f->c->cols);
    int32_t sum = 0;
    for (uint32_t c = 0; c < stride; c++) {
        const int got = (int8_t)f->c->got[row * stride + c], want = (int8_t)f->c->want[row * stride + c];
        const int off = abs(got - want);
        f->out->identical &= off == 0;
        f->out->n_flips += off == 1 && c < f->c->cols;
        if ((uint32_t)off > (c < f->c->cols ? f->t->of_int8 : 0)) note(f, "int8 ", row, c, got, want);
        sum += got;
    }
    if (sum_of(f, f->c->got, row) != sum) note(f, "sum ", row, 0, sum_of(f, f->c->got, row), sum);
    const float got = scale_of(f, f->c->got, row), want = scale_of(f, f->c->want, row);
    const bool was_ok = f->out->ok;
    tern_compared scales = *f->c;
    scales.terms = NULL;
    compare_floats(&(finder){.c = &scales, .t = f->t, .out = f->out}, row, &got, &want, 1);
    if (was_ok && !f->out->ok) f->out->cols = 1;
}

static void check_few(const finder *f)
{
    const uint64_t few = 2 + f->c->n_rows * f->c->cols / 500;
    if (f->t->few_int8 && f->out->n_flips > few)
        note(f, "int8 that differ by one: ", 0, 0, (double)f->out->n_flips, (double)few);
    if (f->out->n_flips > few && f->t->few_int8) f->out->worst = INFINITY;
}

static void compare_q8(const finder *f)
{
    for (uint64_t r = 0; r < f->c->n_rows; r++) compare_q8_row(f, r);
    check_few(f);
}

static bool has_blocks(tern_dtype dtype)
{
    const tern_cache_type *type = tern_cache_type_of(dtype);
    return type && type->elements > 1;
}

/* A row of a cache in blocks: scales of blocks as floats, codes as int8. */
static void compare_cache_row(const finder *f, uint64_t row, uint64_t row_bytes)
{
    const tern_cache_type *type = tern_cache_type_of(f->c->value->dtype);
    const uint32_t n_blocks = f->c->cols / type->elements;
    const uint8_t *got = f->c->got + row * row_bytes, *want = f->c->want + row * row_bytes;
    const bool halves = type->dtype == TERN_DTYPE_Q4_0;
    for (uint32_t b = 0; b < n_blocks; b++) {
        const float got_scale = element(got, TERN_DTYPE_F16, b), want_scale = element(want, TERN_DTYPE_F16, b);
        compare_floats(f, row, &got_scale, &want_scale, 1);
    }
    for (uint32_t c = 0; c < f->c->cols; c++) {
        const size_t at = 2 * (size_t)n_blocks + (halves ? c / 32 * 16 + c % 16 : c);
        const uint32_t shift = c % 32 < 16 ? 0 : 4;
        const int a = halves ? got[at] >> shift & 15 : (int8_t)got[at],
                  b = halves ? want[at] >> shift & 15 : (int8_t)want[at];
        f->out->identical &= a == b;
        f->out->n_flips += abs(a - b) == 1;
        if ((uint32_t)abs(a - b) > f->t->of_int8) note(f, "code ", row, c, a, b);
    }
}

static void compare_cache(const finder *f)
{
    const uint64_t row_bytes = tern_row_bytes(f->c->value->dtype, f->c->cols, 1);
    tern_compared c = *f->c;
    c.terms = NULL;
    for (uint64_t r = 0; r < c.n_rows; r++)
        compare_cache_row(&(finder){.c = &c, .t = f->t, .out = f->out}, r, row_bytes);
    check_few(f);
}

/* Experts, which must be the same, and weights. */
static void compare_routes(const finder *f)
{
    for (uint64_t r = 0; r < f->c->n_rows; r++) {
        uint32_t got[2], want[2];
        float got_weight, want_weight;
        memcpy(got, f->c->got + r * sizeof got, sizeof got);
        memcpy(want, f->c->want + r * sizeof want, sizeof want);
        memcpy(&got_weight, &got[1], sizeof got_weight);
        memcpy(&want_weight, &want[1], sizeof want_weight);
        f->out->identical &= got[0] == want[0];
        if (got[0] != want[0]) {
            f->out->worst = INFINITY;
            note(f, "expert ", r, 0, got[0], want[0]);
        }
        compare_floats(f, r, &got_weight, &want_weight, 1);
    }
}

/* To the bit: codes with the scales of their blocks, numbers of 2 or 4 bytes. */
static void compare_bytes(const finder *f)
{
    const tern_value *v = f->c->value;
    const bool blocks = v->dtype == TERN_DTYPE_M8 || v->dtype == TERN_DTYPE_V8;
    const uint64_t number = blocks ? 0 : tern_row_bytes(v->dtype, 1, 1), size = number ? number : 1;
    const uint64_t bytes = tern_row_bytes(v->dtype, f->c->cols, f->c->n_rows);
    for (uint64_t i = 0; i < bytes; i++) {
        if (f->c->got[i] == f->c->want[i]) continue;
        f->out->identical = false;
        f->out->worst = INFINITY;
        note(f, blocks ? "code " : "byte ", i / size / f->c->cols, (uint32_t)(i / size % f->c->cols), f->c->got[i],
             f->c->want[i]);
    }
}

tern_status tern_difference_find(const tern_compared *c, const tern_tolerance *tolerance, tern_difference *out,
                                 tern_error *err)
{
    finder f = {.c = c, .t = tolerance, .out = out};
    *out = (tern_difference){.ok = true, .identical = true, .part = ""};
    if (c->value->dtype == TERN_DTYPE_Q8) {
        compare_q8(&f);
        return TERN_OK;
    }
    if (tern_value_is_routes(c->value)) {
        f.c = &(tern_compared){.value = c->value, .got = c->got, .want = c->want, .n_rows = c->n_rows, .cols = 2};
        compare_routes(&f);
        return TERN_OK;
    }
    if (has_blocks(c->value->dtype) && !is_exact(tolerance)) {
        compare_cache(&f);
        return TERN_OK;
    }
    if (c->value->dtype != TERN_DTYPE_F32 && c->value->dtype != TERN_DTYPE_F16) {
        compare_bytes(&f);
        return TERN_OK;
    }
    const size_t bytes = c->cols * (2 * sizeof(float) + sizeof(double));
    f.terms = tern_alloc(bytes + 1);
    if (!f.terms) return tern_fail_alloc(err, bytes);
    f.got = (float *)(f.terms + c->cols);
    f.want = f.got + c->cols;
    compare_rows(&f);
    tern_free(f.terms);
    return TERN_OK;
}

void tern_difference_words(const tern_difference *d, const char *name, char *out, size_t n)
{
    if (strcmp(d->part, "sum ") == 0)
        snprintf(out, n, "%s: row %llu: sum %.9g, %.9g expected", name, (unsigned long long)d->row, d->got, d->want);
    else if (d->part[0])
        snprintf(out, n, "%s: row %llu, column %u of %u: %s%.9g, %.9g expected", name, (unsigned long long)d->row,
                 d->col, d->cols, d->part, d->got, d->want);
    else
        snprintf(out, n, "%s: row %llu, column %u of %u: %.9g, %.9g expected (off by %.3g; the row's largest is %.3g)",
                 name, (unsigned long long)d->row, d->col, d->cols, d->got, d->want, fabs(d->got - d->want),
                 d->row_most);
}
