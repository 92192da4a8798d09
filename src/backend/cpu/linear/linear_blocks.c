/* The rows of a linear layer as int8 by blocks, once for all of its weights. */
#include "backend/cpu/linear/linear_internal.h"
#include "backend/cpu/rows/rows.h"
#include "ops/op.h"

static const uint32_t block_of_form[TERN_LINEAR__FORMS] = {32, 64, 128, TERN_BLOCKS_MAX};

/* Bytes from row to row: whole lines of the cache, and no power of two, so that many rows do not share few places of
 * it.
 */
static size_t row_stride(uint32_t cols)
{
    return ((size_t)cols + 127) / 64 * 64;
}

/* Bytes of a form of n rows: int8, then scales, then sums. cols is a multiple of 32. */
static size_t form_bytes(uint32_t form, size_t n, uint32_t cols)
{
    const size_t numbers = cols / block_of_form[form] + cols / TERN_BLOCKS_RUN;
    return (n * (row_stride(cols) + numbers * 4) + 63) / 64 * 64;
}

static tern_q8_blocks place(uint32_t form, uint8_t *at, uint32_t n, uint32_t cols)
{
    float *scales = (float *)(void *)(at + n * row_stride(cols));
    return (tern_q8_blocks){.x = (const int8_t *)at,
                            .scales = scales,
                            .sums = (const int32_t *)(const void *)(scales + (size_t)n * (cols / block_of_form[form])),
                            .stride = row_stride(cols),
                            .n = n};
}

size_t tern_linear__blocks_bytes(const tern_graph *graph, const tern_op *op, uint32_t n_rows)
{
    const uint32_t cols = op->in[TERN_LINEAR_X].cols;
    size_t bytes[TERN_LINEAR__FORMS] = {0};
    for (uint32_t p = 0; op->int8_blocks && p < op->n_parts; p++) {
        const uint32_t form = tern_linear__form(graph->values[op->in[TERN_LINEAR_W + p].value].weight->encoding);
        bytes[form] = form_bytes(form, n_rows, cols);
    }
    size_t total = 0;
    for (uint32_t form = 0; form < TERN_LINEAR__FORMS; form++) total += bytes[form];
    return total;
}

typedef struct blocks_job {
    const tern_linear__job *job;
    const tern_linear__places *places;
} blocks_job;

/* A row of a form, to be written: memory that is const to those who multiply with it. */
typedef struct blocks_row {
    int8_t *x;
    float *scales;
    int32_t *sums;
} blocks_row;

static blocks_row row_of(const tern_q8_blocks *b, uint32_t form, uint32_t cols, uint32_t place)
{
    return (blocks_row){.x = (int8_t *)(uintptr_t)b->x + place * b->stride,
                        .scales = (float *)(uintptr_t)b->scales + (size_t)place * (cols / block_of_form[form]),
                        .sums = (int32_t *)(uintptr_t)b->sums + (size_t)place * (cols / TERN_BLOCKS_RUN)};
}

/* Rounded once for all of its places. */
static void quantize_row(void *context, uint32_t t, uint32_t thread)
{
    (void)thread;
    const blocks_job *b = context;
    const tern_linear__job *j = b->job;
    const tern_linear__places *p = b->places;
    const uint32_t cols = j->op->in_cols;
    for (uint32_t form = 0; form < TERN_LINEAR__FORMS; form++) {
        const uint32_t block = block_of_form[form];
        if (!j->blocks[form].x) continue;
        const blocks_row to = row_of(&j->blocks[form], form, cols, p->of ? p->of[t * p->each] : t);
        j->step->cpu->kernels.quantize_blocks(j->x.data + t * j->x.stride, cols, block, to.x, to.scales, to.sums);
        for (uint32_t i = 1; p->of && i < p->each; i++) {
            const blocks_row copy = row_of(&j->blocks[form], form, cols, p->of[t * p->each + i]);
            memcpy(copy.x, to.x, cols);
            memcpy(copy.scales, to.scales, cols / block * sizeof *to.scales);
            memcpy(copy.sums, to.sums, cols / TERN_BLOCKS_RUN * sizeof *to.sums);
        }
    }
}

void tern_linear__make_blocks(tern_linear__job *job, uint8_t *at, uint32_t n, const tern_linear__places *places)
{
    blocks_job b = {.job = job, .places = places};
    for (uint32_t p = 0; p < job->op->op->n_parts; p++) {
        const uint32_t form = tern_linear__form(job->op->weight[TERN_LINEAR_W + p]->weight->encoding);
        if (job->blocks[form].x) continue;
        job->blocks[form] = place(form, at, places->n, job->op->in_cols);
        at += form_bytes(form, places->n, job->op->in_cols);
    }
    tern_rows__for(job->step, n, quantize_row, &b);
}

void tern_linear__skip_blocks(tern_linear__job *job, uint32_t first)
{
    for (uint32_t form = 0; form < TERN_LINEAR__FORMS; form++) {
        tern_q8_blocks *b = &job->blocks[form];
        if (!b->x) continue;
        b->x += first * b->stride;
        b->scales += (size_t)first * (job->op->in_cols / block_of_form[form]);
        b->sums += (size_t)first * (job->op->in_cols / TERN_BLOCKS_RUN);
        b->n = job->n;
    }
}
