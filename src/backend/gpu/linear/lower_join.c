/* Lowering linear layers of dense weights with their norm, for one token: what has one encoding is one dispatch. */
#include "backend/gpu/linear/linear_internal.h"

/* Parts [first, first + n) of the op, or a slice of one; of a gated op both, or one after the other. */
typedef struct job {
    tern_gpu_program *p;
    const tern_op *op;
    uint32_t first, n;
    bool gated; /* both parts in one dispatch */
    uint32_t slice;
    tern_gpu_layout layout[TERN_LINEAR_MAX_PARTS];
    uint32_t rows[TERN_LINEAR_MAX_PARTS]; /* of the slice */
} job;

/* Epilogues of the kernel from here on multiply with what an activation makes of the gate. */
enum { ACTIVATED = 3 };

static uint32_t value_of(const job *j, uint32_t i)
{
    return j->op->in[TERN_LINEAR_W + j->first + i].value;
}

static uint32_t epilogue_of(const job *j, const tern_gpu_addend *addend)
{
    const bool activates = j->op->gated && (j->gated || j->first == 1);
    return activates ? ACTIVATED + (uint32_t)j->op->activation : (uint32_t)addend->epilogue;
}

static tern_gpu_pipeline pipeline_of(const job *j)
{
    tern_gpu_dense_shape shape = {.format = j->layout[0].format,
                                  .cols = j->op->in[TERN_LINEAR_X].cols,
                                  .tokens = tern_gpu__kernel_rows(j->p, j->op->rows)};
    for (uint32_t i = 0; i < j->n; i++) shape.rows += j->rows[i];
    return tern_gpu_select_dense_join(j->p->caps, &shape, j->gated);
}

/* The first group of each part, and behind the last one. */
static void count_groups(const job *j, tern_gpu_pipeline pipeline, uint32_t first[TERN_LINEAR_MAX_PARTS + 1])
{
    const tern_gpu_linear_dense_join_overrides *kernel = tern_gpu_linear_dense_join_overrides_of(pipeline);
    const uint32_t rows = kernel->workgroup / kernel->lanes * kernel->rows;
    first[0] = 0;
    for (uint32_t i = 0; i < TERN_LINEAR_MAX_PARTS; i++) {
        const bool more = i < j->n && !(j->gated && i > 0);
        first[i + 1] = first[i] + (more ? tern_gpu__ceil_div(j->rows[i], rows) : 0);
    }
}

static void bind(const job *j, tern_gpu_dispatch *d, const tern_gpu_layout *norm, const tern_gpu_rows *x,
                 const tern_gpu_addend *addend)
{
    tern_gpu__bind_params(j->p, d, false);
    tern_gpu__bind(d, x->range);
    tern_gpu__bind_slice(d, j->op->norm_weight.value, norm, 0);
    for (uint32_t i = 0; i < TERN_LINEAR_MAX_PARTS; i++) { /* parts that are not there are the first once more */
        const uint32_t k = i < j->n ? i : 0;
        tern_gpu__bind_slice(d, value_of(j, k), &j->layout[k], j->slice);
        if (i < j->n) d->weight_bytes += (uint64_t)j->rows[i] * j->layout[i].row_bytes;
    }
    if (epilogue_of(j, addend) == TERN_GPU_ADD_RESIDUAL) tern_gpu__bind_view(j->p, d, addend->view, false);
    else tern_gpu__bind_nothing(d);
    tern_gpu__bind_view(j->p, d, j->op->out, true);
}

static tern_status add_job(const job *j, tern_error *err)
{
    const tern_op *op = j->op;
    tern_gpu_layout norm;
    tern_gpu_rows x;
    TERN_TRY(tern_gpu_layout_of(&norm, tern_gpu__value(j->p, op->norm_weight)->weight, j->p->caps, err));
    TERN_TRY(tern_gpu__float_rows(j->p, op, TERN_LINEAR_X, 0, true, &x, err));
    const tern_gpu_pipeline pipeline = pipeline_of(j);
    if (pipeline == TERN_GPU_PIPELINE_COUNT || x.scratch_bytes)
        return tern_gpu__unsupported(j->p->graph, op, "a norm of its own before such weights expected", err);
    uint32_t first[TERN_LINEAR_MAX_PARTS + 1];
    count_groups(j, pipeline, first);
    const uint32_t groups = first[TERN_LINEAR_MAX_PARTS], z = tern_gpu__ceil_div(groups, j->p->caps->max_groups);
    tern_gpu_dispatch *d = tern_gpu__add(j->p, op, pipeline, tern_gpu__ceil_div(groups, z), 1, z, err);
    if (!d) return TERN_UNSUPPORTED;
    const uint32_t slice_first = j->slice * j->layout[0].slice_rows,
                   column = tern_gpu__column_of_part(j->p, op, j->first) + slice_first;
    const tern_gpu_addend addend = tern_gpu__addend_of(j->p, op, j->first);
    const tern_gpu_linear_dense_join_uniform u = {.rows0 = j->rows[0],
                                                  .rows1 = j->n > 1 ? j->rows[1] : 0,
                                                  .rows2 = j->n > 2 ? j->rows[2] : 0,
                                                  .group1 = first[1],
                                                  .group2 = first[2],
                                                  .cols = op->in[TERN_LINEAR_X].cols,
                                                  .row_vectors = j->layout[0].row_bytes / 16,
                                                  .count_word = tern_gpu__count_word(j->p, op->rows),
                                                  .x_first = x.first,
                                                  .result_first = op->out.first_col + column,
                                                  .residual_first = addend.first + slice_first,
                                                  .epilogue = epilogue_of(j, &addend),
                                                  .eps = op->eps};
    tern_gpu_linear_dense_join_set(d, &u);
    d->beside = !op->gated && j->first + j->slice > 0; /* other columns of the result */
    bind(j, d, &norm, &x, &addend);
    return TERN_OK;
}

/* How many parts from j->first on are one dispatch: of one encoding, each in one slice, with no bias of its own. */
static uint32_t count_joined(const job *j)
{
    const tern_op *op = j->op;
    uint32_t n = 1;
    while (j->first + n < op->n_parts && j->layout[n].format == j->layout[0].format && j->layout[0].n_slices == 1 &&
           j->layout[n].n_slices == 1 && !op->bias[j->first].cols && !op->bias[j->first + n].cols)
        n++;
    return n;
}

/* The parts from j->first on that go together, each slice of one that does not; how many there were in *n. */
static tern_status lower_joined(job *j, uint32_t *n, tern_error *err)
{
    for (uint32_t i = 0; j->first + i < j->op->n_parts; i++)
        TERN_TRY(
            tern_gpu_layout_of(&j->layout[i], tern_gpu__weight_of_part(j->p, j->op, j->first + i), j->p->caps, err));
    *n = count_joined(j);
    j->gated = j->op->gated && *n == 2;
    j->n = *n;
    for (j->slice = 0; j->slice < j->layout[0].n_slices; j->slice++) {
        for (uint32_t i = 0; i < j->n; i++) {
            const uint32_t left = j->layout[i].rows - j->slice * j->layout[i].slice_rows;
            j->rows[i] = left < j->layout[i].slice_rows ? left : j->layout[i].slice_rows;
        }
        TERN_TRY(add_job(j, err));
    }
    return TERN_OK;
}

tern_status tern_gpu__lower_linear_join(tern_gpu_program *p, const tern_op *op, tern_error *err)
{
    for (uint32_t first = 0, n; first < op->n_parts; first += n) {
        job j = {.p = p, .op = op, .first = first};
        TERN_TRY(lower_joined(&j, &n, err));
    }
    return TERN_OK;
}
