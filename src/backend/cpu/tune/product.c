/* One product of a kernel: what it is given, how it is computed, and that its integers are right. */
#include <string.h>

#include "backend/cpu/tune/tune_internal.h"
#include "base/alloc.h"
#include "base/bytes.h"
#include "base/pool.h"
#include "base/rng.h"
#include "ops/op.h"
#include "quant/weight.h"

/* Every thread makes its own tables, once for each product, as the engine does. */
static void *tables_of_thread(tern_tune__job *t, uint32_t thread)
{
    const tern_cpu__tables *tables = t->buffer->layout->tables;
    uint8_t *own = t->tables + thread * t->tables_bytes;
    if (t->made[thread] != t->n_products)
        tables->make(&tern_tune__cpu(t, 0)->kernels, (const int8_t *)t->input, t->w->cols, own);
    t->made[thread] = t->n_products;
    return own;
}

static void multiply_task(void *context, uint32_t task, uint32_t thread)
{
    tern_tune__job *t = context;
    const tern_buffer *b = t->buffer;
    const uint32_t first = task * t->task_rows, left = t->w->rows - first,
                   n = left < t->task_rows ? left : t->task_rows;
    const tern_q8_rows x = {.x = (const int8_t *)t->input,
                            .stride = (size_t)tern_q8_stride(t->w->cols),
                            .n = 1,
                            .sums = (const int32_t *)(const void *)(t->input + tern_q8_sums_offset(t->w->cols, 1))};
    int32_t *dots = (int32_t *)(void *)(t->scratch + thread * t->scratch_bytes);
    void *scratch = b->layout && b->layout->tables ? tables_of_thread(t, thread) : dots + TERN_KERNEL_MAX_TASK_ROWS;
    if (b->layout) b->layout->multiply(b->layout, first, n, &x, scratch, dots, n);
    else b->ternary(b->data + first * b->row_bytes, b->row_bytes, n, b->cols, &x, dots, n);
    memcpy(t->dots + first, dots, n * sizeof *dots);
}

void tern_tune__multiply(tern_tune__job *t, tern_cpu *cpu, tern_tune__kernel *kernel, uint32_t task_rows)
{
    t->buffer = kernel->copies[kernel->next];
    t->task_rows = task_rows ? task_rows : tern_cpu__task_rows(t->buffer, tern_pool_threads(cpu->pool));
    t->n_products++;
    tern_pool_for(cpu->pool, (t->w->rows + t->task_rows - 1) / t->task_rows, multiply_task, t);
    kernel->next = (kernel->next + 1) % kernel->n_copies;
}

tern_status tern_tune__check(const tern_tune__job *t, const tern_tune__kernel *kernel, tern_error *err)
{
    for (uint32_t r = 0; r < t->w->rows; r++)
        if (t->dots[r] != t->expected[r])
            return tern_fail(err, TERN_INTERNAL, "%s: kernel %s: row %u gives %d, %d expected", t->w->name,
                             kernel->name, r, t->dots[r], t->expected[r]);
    return TERN_OK;
}

tern_status tern_tune__tables_alloc(tern_tune__job *t, const tern_tune__kernel *kernel, tern_error *err)
{
    const tern_cpu__layout *l = kernel->copies[0]->layout;
    const size_t bytes = l && l->tables ? tern_cpu__tables_bytes(l->tables, t->w->cols) : 0;
    if (bytes <= t->tables_bytes) return TERN_OK;
    tern_free_aligned(t->tables);
    t->tables_bytes = (bytes + 4095) / 4096 * 4096;
    t->tables = tern_alloc_aligned(t->tables_bytes * t->n_threads, 4096);
    if (t->tables) return TERN_OK;
    t->tables_bytes = 0;
    return tern_fail_alloc(err, bytes * t->n_threads);
}

/* The integers that all others have to give. */
static tern_status expect(tern_tune__job *t, tern_error *err)
{
    tern_tune__kernel kernel;
    tern_status status =
        tern_tune__kernel_open(&kernel, tern_tune__cpu(t, 0), t->w, tern_cpu__candidate_at(0), 0, 0, err);
    if (status == TERN_OK) {
        pthread_mutex_lock(&tern_tune__cpu(t, 0)->running);
        tern_tune__multiply(t, tern_tune__cpu(t, 0), &kernel, 0);
        pthread_mutex_unlock(&tern_tune__cpu(t, 0)->running);
        memcpy(t->expected, t->dots, t->w->rows * sizeof *t->dots);
    }
    tern_tune__kernel_close(&kernel, tern_tune__cpu(t, 0));
    return status;
}

static tern_status allocate(tern_tune__job *t, tern_error *err)
{
    const size_t input = tern_size_of(tern_row_bytes(TERN_DTYPE_Q8, t->w->cols, 1));
    for (uint32_t b = 0; b < t->o->n_backends; b++)
        if (tern_pool_threads(tern_tune__cpu(t, b)->pool) > t->n_threads)
            t->n_threads = tern_pool_threads(tern_tune__cpu(t, b)->pool);
    t->scratch_bytes = TERN_KERNEL_MAX_TASK_ROWS * sizeof(int32_t) + (size_t)t->w->cols * 4 + TERN_CPU__LAYOUT_SCRATCH;
    t->scratch_bytes = tern_size_of(tern_round_up(t->scratch_bytes, 4096));
    t->input = tern_alloc_aligned(input, 64);
    t->dots = tern_calloc(t->w->rows, sizeof *t->dots);
    t->expected = tern_calloc(t->w->rows, sizeof *t->expected);
    t->scratch = tern_alloc_aligned(t->scratch_bytes * t->n_threads, 4096);
    t->times = tern_calloc(TERN_TUNE__MAX_TIMES, sizeof *t->times);
    t->made = tern_calloc(t->n_threads, sizeof *t->made);
    if (!t->made || !t->input || !t->dots || !t->expected || !t->scratch || !t->times)
        return tern_fail_alloc(err, t->scratch_bytes * t->n_threads);
    memset(t->input, 0, input);
    return TERN_OK;
}

static void make_input(tern_tune__job *t)
{
    tern_rng rng = {.state = 1};
    int32_t sum = 0;
    for (uint32_t c = 0; c < t->w->cols; c++) {
        const int v = (int)tern_rng_below(&rng, 255) - 127;
        ((int8_t *)t->input)[c] = (int8_t)v;
        sum += v;
    }
    memcpy(t->input + tern_q8_sums_offset(t->w->cols, 1), &sum, sizeof sum);
}

tern_status tern_tune__open(tern_tune__job *t, tern_error *err)
{
    TERN_TRY(allocate(t, err));
    make_input(t);
    return expect(t, err);
}

void tern_tune__close(tern_tune__job *t)
{
    tern_free_aligned(t->input);
    tern_free_aligned(t->scratch);
    tern_free_aligned(t->tables);
    tern_free(t->dots);
    tern_free(t->expected);
    tern_free(t->times);
    tern_free(t->made);
}
