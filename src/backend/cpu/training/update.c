/* The optimiser: tensors in pieces of fixed size, so that any number of threads gives the same bits. */
#include <stdatomic.h>
#include <string.h>

#include "backend/cpu/ops.h"
#include "base/flush.h"
#include "ops/op.h"
#include "ops/update_shape.h"
#include "quant/absmean.h"
#include "quant/weight.h"

enum { PIECE = 8 * TERN_NORM_CHUNK }; /* elements; whole runs, blocks and groups */

typedef struct job {
    const tern_cpu_kernels *kernels;
    const tern_cpu_op *op;
    tern_update_shape shape;
    float *gradient;
    float *sums; /* SUM_SQUARES: of the runs */
    tern_update_args update;
    uint8_t *master;
    float most; /* REQUANTIZE */
    uint32_t rows_of_task;
    tern_ternary_rule rule;
    float blend;
    _Atomic uint32_t exponent;
    _Atomic uint64_t units;
} job;

tern_status tern_cpu__update_supports(const tern_graph *graph, const tern_op *op, tern_error *err)
{
    tern_update_shape ignored;
    return tern_update_shape_of(&ignored, graph, op, err);
}

static tern_status describe(const tern_cpu_step *step, const tern_cpu_op *op, job *j)
{
    *j = (job){.kernels = &step->cpu->kernels, .op = op};
    return tern_update_shape_of(&j->shape, step->prepared->graph, op->op, NULL); /* checked when it was prepared */
}

static uint32_t pieces(const job *j)
{
    return (uint32_t)((j->shape.n + PIECE - 1) / PIECE);
}

static size_t piece_length(const job *j, uint32_t task)
{
    const uint64_t left = j->shape.n - (uint64_t)task * PIECE;
    return (size_t)(left < PIECE ? left : PIECE);
}

static uint8_t *element(tern_dtype dtype, void *base, size_t i)
{
    return (uint8_t *)base + i * (dtype == TERN_DTYPE_F32 ? 4 : dtype == TERN_DTYPE_BF16 ? 2 : 1);
}

static void sum_piece(void *context, uint32_t task, uint32_t thread)
{
    (void)thread;
    const job *j = context;
    const size_t first = (size_t)task * PIECE, n = piece_length(j, task);
    for (size_t at = 0; at < n; at += TERN_NORM_CHUNK) {
        const size_t length = n - at < TERN_NORM_CHUNK ? n - at : TERN_NORM_CHUNK;
        j->sums[(first + at) / TERN_NORM_CHUNK] = j->kernels->sum_run(j->gradient + first + at, length, true);
    }
    if (j->op->op->clears) memset(j->gradient + first, 0, n * sizeof *j->gradient);
}

static size_t n_sums(const tern_update_shape *shape)
{
    return (size_t)((shape->n + TERN_NORM_CHUNK - 1) / TERN_NORM_CHUNK);
}

size_t tern_cpu__sum_squares_shared(const tern_graph *graph, const tern_op *op)
{
    tern_update_shape shape;
    return tern_update_shape_of(&shape, graph, op, NULL) == TERN_OK ? n_sums(&shape) * sizeof(float) : 0;
}

void tern_cpu__sum_squares(tern_cpu_step *step, const tern_cpu_op *op)
{
    job j;
    if (describe(step, op, &j) != TERN_OK) return;
    j.gradient = (float *)(void *)op->base[TERN_SUM_SQUARES_GRADIENT];
    j.sums = step->prepared->shared;
    tern_pool_for(step->cpu->pool, pieces(&j), sum_piece, &j);
    size_t n = n_sums(&j.shape);
    while (n > 1) { /* each sum takes a place that has been added already */
        const size_t n_runs = (n + TERN_NORM_CHUNK - 1) / TERN_NORM_CHUNK;
        for (size_t r = 0; r < n_runs; r++) {
            const size_t left = n - r * TERN_NORM_CHUNK;
            j.sums[r] = j.kernels->sum_run(j.sums + r * TERN_NORM_CHUNK,
                                           left < TERN_NORM_CHUNK ? left : TERN_NORM_CHUNK, false);
        }
        n = n_runs;
    }
    op->out.data[0] = j.sums[0];
}

static void update_piece(void *context, uint32_t task, uint32_t thread)
{
    (void)thread;
    const job *j = context;
    const size_t first = (size_t)task * PIECE;
    tern_update_args a = j->update;
    a.first = (uint32_t)first;
    a.n = (uint32_t)piece_length(j, task);
    a.w = element(a.w_dtype, a.w, first);
    a.g += first;
    if (a.m) a.m = element(a.m_dtype, a.m, first);
    if (a.v) a.v = element(a.v_dtype, a.v, first);
    if (a.m_scales) a.m_scales += first / TERN_STATE_BLOCK;
    if (a.v_scales) a.v_scales += first / TERN_STATE_BLOCK;
    j->kernels->update(&a);
}

/* Behind the elements of a state in 8 bits. */
static float *scales_of(tern_dtype dtype, void *state, uint64_t n)
{
    if (dtype != TERN_DTYPE_M8 && dtype != TERN_DTYPE_V8) return NULL;
    const uint64_t padded = (n + TERN_STATE_BLOCK - 1) / TERN_STATE_BLOCK * TERN_STATE_BLOCK;
    return (float *)(void *)((uint8_t *)state + padded);
}

void tern_cpu__update(tern_cpu_step *step, const tern_cpu_op *op)
{
    job j;
    if (describe(step, op, &j) != TERN_OK) return;
    tern_train_params p;
    memcpy(&p, op->base[op->op->n_in - 1], sizeof p);
    j.update = (tern_update_args){.params = &p,
                                  .optimizer = op->op->optimizer,
                                  .decays = op->op->decays,
                                  .seed = p.seed + op->op->stream * 0x9e3779b9u,
                                  .w_dtype = j.shape.w,
                                  .m_dtype = j.shape.m,
                                  .v_dtype = j.shape.v,
                                  .w = op->base[TERN_UPDATE_WEIGHT],
                                  .g = (float *)(void *)op->base[TERN_UPDATE_GRADIENT],
                                  .m = j.shape.has_m ? op->base[TERN_UPDATE_M] : NULL,
                                  .v = j.shape.has_v ? op->base[TERN_UPDATE_V] : NULL};
    j.update.m_scales = j.update.m ? scales_of(j.shape.m, j.update.m, j.shape.n) : NULL;
    j.update.v_scales = j.update.v ? scales_of(j.shape.v, j.update.v, j.shape.n) : NULL;
    tern_pool_for(step->cpu->pool, pieces(&j), update_piece, &j);
}

static void exponent_piece(void *context, uint32_t task, uint32_t thread)
{
    (void)thread;
    job *j = context;
    uint8_t *w = element(j->shape.w, j->master, (size_t)task * PIECE);
    const uint32_t e = j->kernels->requantize_exponent(j->shape.w, w, piece_length(j, task), j->most);
    uint32_t most = atomic_load(&j->exponent);
    while (e > most && !atomic_compare_exchange_weak(&j->exponent, &most, e)) continue;
}

static void units_piece(void *context, uint32_t task, uint32_t thread)
{
    (void)thread;
    job *j = context;
    const uint8_t *w = element(j->shape.w, j->master, (size_t)task * PIECE);
    const uint32_t exponent = atomic_load(&j->exponent);
    atomic_fetch_add(&j->units, j->kernels->requantize_units(j->shape.w, w, piece_length(j, task), exponent));
}

static void blend_piece(void *context, uint32_t task, uint32_t thread)
{
    (void)thread;
    const job *j = context;
    const size_t first = (size_t)task * PIECE;
    j->kernels->requantize_blend(j->shape.w, element(j->shape.w, j->master, first), piece_length(j, task), j->rule,
                                 j->blend, (float *)(void *)j->op->out_base + first);
}

/* A trained weight's memory may be written. */
static uint8_t *file_codes(const job *j)
{
    return (uint8_t *)(uintptr_t)j->shape.out->data;
}

/* As in a file, where groups run on across row ends. */
static void code_piece(void *context, uint32_t task, uint32_t thread)
{
    (void)thread;
    const job *j = context;
    const size_t first = (size_t)task * PIECE;
    j->kernels->requantize_codes(j->shape.w, element(j->shape.w, j->master, first), piece_length(j, task), j->rule,
                                 file_codes(j) + first / 4);
}

/* Rows of whole groups. */
static void code_rows(void *context, uint32_t task, uint32_t thread)
{
    (void)thread;
    const job *j = context;
    const uint32_t first = task * j->rows_of_task, left = j->shape.rows - first,
                   n = left < j->rows_of_task ? left : j->rows_of_task;
    for (uint32_t r = first; r < first + n; r++) {
        const uint8_t *w = element(j->shape.w, j->master, (size_t)r * j->shape.cols);
        j->kernels->requantize_codes(j->shape.w, w, j->shape.cols, j->rule,
                                     j->op->out_base + r * j->op->out_weight->row_bytes);
    }
}

/* The weight in memory stays a whole one, whatever this backend has made of it. */
static void write_codes(tern_pool *pool, job *j)
{
    float *scales = (float *)(uintptr_t)j->shape.out->row_scales;
    tern_pool_for(pool, pieces(j), code_piece, j);
    memcpy(file_codes(j) + j->shape.n / 4, &j->rule.scale, sizeof j->rule.scale);
    for (uint32_t r = 0; r < j->shape.rows; r++) scales[r] = j->rule.scale;
    if (!j->op->out_weight->owned) return;
    j->rows_of_task = PIECE / j->shape.cols ? PIECE / j->shape.cols : 1;
    tern_pool_for(pool, (j->shape.rows + j->rows_of_task - 1) / j->rows_of_task, code_rows, j);
}

void tern_cpu__requantize(tern_cpu_step *step, const tern_cpu_op *op)
{
    job j;
    tern_pool *pool = step->cpu->pool;
    if (describe(step, op, &j) != TERN_OK) return;
    j.master = op->base[TERN_REQUANTIZE_MASTER];
    tern_train_params p;
    memcpy(&p, op->base[TERN_REQUANTIZE_TRAINING], sizeof p);
    j.blend = p.next_blend;
    if (op->op->clamp > 0) j.most = tern_flush_mul(op->op->clamp, tern_flush(j.shape.out->row_scales[0]));
    tern_pool_for(pool, pieces(&j), exponent_piece, &j);
    tern_pool_for(pool, pieces(&j), units_piece, &j);
    const float scale = tern_absmean_scale(atomic_load(&j.units), (uint32_t)j.shape.n, atomic_load(&j.exponent));
    j.rule = tern_ref_ternary_rule(scale, op->op->threshold);
    if (j.shape.ternary) write_codes(pool, &j);
    else tern_pool_for(pool, pieces(&j), blend_piece, &j);
}
