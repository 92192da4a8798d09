/* Products with slices and packed rows, cold. */
#include "rsr/products.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/pool.h"
#include "quant/encoding.h"

workspace work;

void choose_kernels(uint32_t features)
{
    tern_cpu_kernels_choose(features, &work.kernels);
    work.rsr_f32 = rsr_f32_best(features);
}

matrix matrix_of(uint32_t rows, uint32_t cols)
{
    return (matrix){rows, cols, cold_codes(rows, cols)};
}

static tern_status read_rows(void *context, uint32_t first, uint32_t n, int8_t *codes, tern_error *err)
{
    const matrix *m = context;
    (void)err;
    memcpy(codes, m->codes + (size_t)first * m->cols, (size_t)n * m->cols);
    return TERN_OK;
}

tern_rsr_source matrix_source(const matrix *m)
{
    return (tern_rsr_source){.read = read_rows, .context = (void *)(uintptr_t)m, .rows = m->rows, .cols = m->cols};
}

void job_task(void *context, uint32_t task, uint32_t thread)
{
    const job *j = context;
    const uint32_t per = (j->units + TASKS - 1) / TASKS, first = task * per;
    if (first < j->units) j->task(j, j->copy, first, j->units - first < per ? j->units - first : per, thread);
}

static void run_job(void *context, size_t copy)
{
    job *j = context;
    j->copy = copy;
    tern_pool_for(j->pool, TASKS, job_task, j);
}

double job_time(job *j, const cold_options *o, int pool)
{
    j->pool = o->pools[pool];
    return cold_time(o->passes, j->n_copies, run_job, j);
}

/* Copies of `packed`, measured. */
static timing time_packed(job *j, const void *packed, const cold_options *o, int n_pools)
{
    timing t = {.bytes = j->bytes};
    j->n_copies = cold_n_copies(j->bytes);
    j->data = cold_copies(packed, j->bytes, j->n_copies);
    for (int p = 0; p < n_pools; p++) t.us[p] = job_time(j, o, p);
    tern_free_aligned(j->data);
    return t;
}

void slices_task(const job *j, size_t copy, uint32_t first, uint32_t n, uint32_t thread)
{
    const tern_rsr_slices *s = j->slices;
    const uint8_t *base = j->data + copy * j->bytes;
#define MOVED(p) (const void *)(base + ((const uint8_t *)(p)-s->bytes))
    for (uint32_t u = first; u < first + n; u++) {
        const tern_rsr_unit unit = {.lengths = MOVED(s->lengths + s->first_slice[u]),
                                    .masks = MOVED(s->masks + (size_t)s->first_slice[u] * 2 * s->k),
                                    .index = MOVED(s->index + (size_t)s->first_vector[u] * 16),
                                    .n_slices = s->first_slice[u + 1] - s->first_slice[u],
                                    .k = s->k};
        int32_t *y = work.y[thread] + u * s->k;
        if (j->f32) work.rsr_f32(&unit, work.x_f32, (float *)(void *)y);
        else work.kernels.rsr_i8(&unit, work.x_i8, y);
    }
#undef MOVED
}

timing time_slices(const matrix *m, uint32_t k, bool floats, const cold_options *o, int n_pools)
{
    tern_rsr_slices s;
    tern_error err = {0};
    const tern_rsr_source source = matrix_source(m);
    cold_check(tern_rsr_slices_build(&s, &source, &(tern_rsr_options){.k = k, .pool = o->pools[1]}, 0, &err), &err);
    job j = {.task = slices_task,
             .units = s.n_blocks,
             .bytes = s.n_bytes,
             .slices = &s,
             .f32 = floats ? rsr_masks_f32 : NULL};
    const timing t = time_packed(&j, s.bytes, o, n_pools);
    tern_rsr_slices_deinit(&s);
    return t;
}

static void dot_task(const job *j, size_t copy, uint32_t first, uint32_t n, uint32_t thread)
{
    const size_t row_bytes = j->bytes / (j->units * 16);
    const tern_q8_rows x = {.x = work.x_i8, .stride = COLD_MAX_COLS, .sums = &work.x_sum, .n = 1};
    j->dot(j->data + copy * j->bytes + first * 16 * row_bytes, row_bytes, n * 16, j->cols, &x, work.y[thread], n * 16);
}

static void decoded_task(const job *j, size_t copy, uint32_t first, uint32_t n, uint32_t thread)
{
    enum { ROWS = 8 };
    static float values[COLD_MAX_THREADS][ROWS * (COLD_MAX_COLS + 512)];
    const size_t row_bytes = j->bytes / (j->units * 16), stride = (j->cols + 255) / 256 * 256;
    for (uint32_t r = first * 16; r < (first + n) * 16; r += ROWS) {
        work.kernels.decode_i2_s(j->data + copy * j->bytes + r * row_bytes, row_bytes, ROWS, j->cols, values[thread],
                                 stride);
        work.kernels.f32((const uint8_t *)values[thread], stride * sizeof(float), ROWS, j->cols, work.x_f32,
                         COLD_MAX_COLS, 1, (float *)(void *)work.y[thread], ROWS);
    }
}

static timing time_rows(const matrix *m, const char *encoding, job *j, const cold_options *o, int n_pools)
{
    const tern_encoding *e = tern_encoding_by_name(encoding);
    tern_error err = {0};
    size_t row_bytes, all;
    if (tern_encoding_row_bytes(e, m->cols, &row_bytes, &err) != TERN_OK) return (timing){0};
    cold_check(tern_encoding_bytes(e, m->rows, m->cols, &all, &err), &err);
    uint8_t *packed = malloc(all);
    if (!packed) cold_check(tern_fail_alloc(&err, all), &err);
    cold_check(tern_encode_codes(e, m->codes, 1.0f, m->rows, m->cols, packed, &err), &err);
    j->units = m->rows / 16;
    j->bytes = row_bytes * m->rows;
    j->cols = m->cols;
    const timing t = time_packed(j, packed, o, n_pools);
    free(packed);
    return t;
}

timing time_dot(const matrix *m, const char *encoding, const cold_options *o, int n_pools)
{
    const tern_cpu_kernels *k = &work.kernels;
    job j = {.task = dot_task};
    j.dot = strcmp(encoding, "i2_s") == 0 ? k->i2_s : strcmp(encoding, "tq2_0") == 0 ? k->tq2_0 : k->t160;
    return time_rows(m, encoding, &j, o, n_pools);
}

timing time_decoded(const matrix *m, const cold_options *o, int n_pools)
{
    job j = {.task = decoded_task};
    return time_rows(m, "i2_s", &j, o, n_pools);
}
