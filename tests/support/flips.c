/* Rounding ties of the int8 quantiser, tried the other way. */
#include "support/flips.h"

#include <math.h>

#include "backend/cpu/cpu.h"
#include "backend/cpu/kernels.h"
#include "support/golden.h"
#include "support/logits.h"
#include "support/test.h"

enum { MAX_TIES = 4096 };
static const float tie_width = 4e-5f;

static struct {
    uint32_t n; /* elements near a boundary met so far in this run */
    bool flipped[MAX_TIES];
} ties;

static float round_tie(float v)
{
    float nearest = rintf(v), distance = fabsf(v - nearest);
    if (!(distance > 0.5f - tie_width) || ties.n >= MAX_TIES) return nearest;
    if (!ties.flipped[ties.n++]) return nearest;
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
        q[c] = (int8_t)fmaxf(-128, fminf(127, round_tie(x[c] * scale)));
        *sum += q[c];
    }
    *inv_scale = 1.0f / scale;
}

static double evaluate(const test_run *run)
{
    tern_error err = {0};
    ties.n = 0;
    tern_session_truncate(run->session, 0);
    assert_ok(tern_session_append_all(run->session, run->ids, run->n, &err), err);
    size_t n_vocab = tern_engine_config(tern_session_engine(run->session))->n_vocab;
    return test_rms_error(test_logits(run->session, 0), run->want, run->n * n_vocab);
}

/* Keeps the one flip that helps most; false when none does. */
static bool flip_best(const test_run *run, double *error)
{
    uint32_t n = ties.n, best = n;
    for (uint32_t i = 0; i < n; i++) {
        ties.flipped[i] = !ties.flipped[i];
        double e = evaluate(run);
        ties.flipped[i] = !ties.flipped[i];
        if (!(e < *error)) continue;
        *error = e;
        best = i;
    }
    if (best < n) ties.flipped[best] = !ties.flipped[best];
    evaluate(run);
    return best < n;
}

uint32_t test_flips_nearest(const test_run *run, double max_rms, uint32_t max_flips, double *error)
{
    tern_backend *backend = tern_engine_backend(tern_session_engine(run->session));
    tern_cpu_kernels *kernels = (tern_cpu_kernels *)(uintptr_t)tern_cpu_kernels_of(backend);
    tern_quantize_fn quantize = kernels->quantize;
    uint32_t n = 0;
    double e = evaluate(run);
    memset(&ties, 0, sizeof ties);
    if (!(e <= max_rms)) {
        kernels->quantize = flipping_quantize;
        e = evaluate(run);
    }
    while (n < max_flips && !(e <= max_rms) && flip_best(run, &e)) n++;
    kernels->quantize = quantize;
    if (error) *error = e;
    return n;
}
