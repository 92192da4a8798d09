/* Rounding ties of the int8 quantiser, tried the other way. */
#include "support/flips.h"

#include <math.h>

#include "backend/cpu/cpu.h"
#include "backend/cpu/kernels.h"
#include "support/golden.h"
#include "support/logits.h"
#include "support/test.h"

enum { MAX_TIES = 4096, MOST_FLIPS = 16 };
static const float tie_width = 4e-5f;

/* An element of a row that was quantised, the rows counted over the run: a flip elsewhere leaves it what it is. */
typedef struct element {
    uint32_t row, column;
} element;

static struct {
    uint32_t n_rows, n_met, n_flipped;
    element met[MAX_TIES]; /* near a boundary, in this run */
    element flipped[MOST_FLIPS];
} ties;

static uint32_t find_flipped(element e)
{
    uint32_t i = 0;
    while (i < ties.n_flipped && (ties.flipped[i].row != e.row || ties.flipped[i].column != e.column)) i++;
    return i;
}

static void flip(element e)
{
    const uint32_t i = find_flipped(e);
    if (i < ties.n_flipped) ties.flipped[i] = ties.flipped[--ties.n_flipped];
    else ties.flipped[ties.n_flipped++] = e;
}

static float round_tie(float v, uint32_t column)
{
    const element e = {ties.n_rows, column};
    float nearest = rintf(v), distance = fabsf(v - nearest);
    if (!(distance > 0.5f - tie_width) || ties.n_met >= MAX_TIES) return nearest;
    ties.met[ties.n_met++] = e;
    if (find_flipped(e) == ties.n_flipped) return nearest;
    return nearest > v ? nearest - 1 : nearest + 1;
}

static void flipping_quantize(const float *x, uint32_t cols, int8_t *q, size_t stride, float *inv_scale, int32_t *sum)
{
    float most = 1e-5f;
    for (uint32_t c = 0; c < cols; c++) most = fmaxf(most, fabsf(x[c]));
    float scale = 127.0f / most;
    memset(q + cols, 0, stride - cols);
    *sum = 0;
    for (uint32_t c = 0; c < cols; c++) {
        q[c] = (int8_t)fmaxf(-128, fminf(127, round_tie(x[c] * scale, c)));
        *sum += q[c];
    }
    *inv_scale = 1.0f / scale;
    ties.n_rows++;
}

static double evaluate(const test_run *run)
{
    tern_error err = {0};
    ties.n_rows = ties.n_met = 0;
    tern_session_truncate(run->session, 0);
    assert_ok(tern_session_append_all(run->session, run->ids, run->n, &err), err);
    size_t n_vocab = tern_engine_config(tern_session_engine(run->session))->n_vocab;
    return test_rms_error(test_logits(run->session, 0), run->want, run->n * n_vocab);
}

/* Keeps the one flip that helps most; false when none does. */
static bool flip_best(const test_run *run, double *error)
{
    static element met[MAX_TIES];
    const uint32_t n = ties.n_met;
    uint32_t best = n;
    memcpy(met, ties.met, n * sizeof *met);
    for (uint32_t i = 0; i < n; i++) {
        flip(met[i]);
        double e = evaluate(run);
        flip(met[i]);
        if (!(e < *error)) continue;
        *error = e;
        best = i;
    }
    if (best < n) flip(met[best]);
    evaluate(run);
    return best < n;
}

uint32_t test_flips_nearest(const test_run *run, double max_rms, uint32_t max_flips, double *error)
{
    tern_backend *backend = tern_engine_backend(tern_session_engine(run->session));
    tern_cpu_kernels *kernels = (tern_cpu_kernels *)(uintptr_t)tern_cpu_kernels_of(backend);
    tern_quantize_fn quantize = kernels->quantize;
    uint32_t n = 0;
    assert_true(max_flips < MOST_FLIPS); /* and one that is tried */
    ties.n_flipped = 0;
    double e = evaluate(run);
    if (!(e <= max_rms)) {
        kernels->quantize = flipping_quantize;
        e = evaluate(run);
    }
    while (n < max_flips && !(e <= max_rms) && flip_best(run, &e)) n++;
    kernels->quantize = quantize;
    if (error) *error = e;
    return n;
}
