/* Running the screened output head: an estimate of every logit, a threshold from the best of them, and the rows that
 * can reach it. */
#include <math.h>
#include <stdatomic.h>
#include <string.h>

#include "backend/cpu/linear/screen.h"
#include "backend/cpu/rows/rows.h"

/* A row and its estimated (later: full) logit. */
typedef struct estimate {
    float value;
    uint32_t row;
} estimate;

/* One step over the whole table. */
typedef struct screen_job {
    const tern_cpu_kernels *kernels;
    const tern_screen *screen;
    const tern_buffer *weight;
    const float *x;
    float *logits; /* between the passes: estimates */
    int8_t *high, *low;
    estimate *best; /* [tasks][wanted] highest estimates, a heap with the least first */
    uint32_t wanted, n_tasks;
    double digit_scale; /* t */
    double x_norm, x_error;
    double high_sum, low_sum;
    float threshold;
    atomic_uint n_full;
} screen_job;

/* x as two int8 digits of one scale; the error of that is kept. */
static void split(screen_job *j)
{
    uint32_t cols = j->screen->cols, padded = j->screen->groups * TERN_SCREEN_GROUP;
    float most = 0;
    for (uint32_t c = 0; c < cols; c++) most = fmaxf(most, fabsf(j->x[c]));
    double inverse = most > 0 ? 32512.0 / (double)most : 0, norm = 0, error = 0;
    j->digit_scale = (double)most / 32512.0;
    memset(j->high + cols, 0, padded - cols);
    memset(j->low + cols, 0, padded - cols);
    for (uint32_t c = 0; c < cols; c++) {
        int32_t v = (int32_t)rint((double)j->x[c] * inverse);
        int32_t high = (v + 128) >> 8;
        j->high[c] = (int8_t)high;
        j->low[c] = (int8_t)(v - high * 256);
        j->high_sum += high;
        j->low_sum += v - high * 256;
        double e = (double)j->x[c] - (double)v * j->digit_scale;
        norm += (double)j->x[c] * (double)j->x[c];
        error += e * e;
    }
    j->x_norm = sqrt(norm) * (1 + 1e-9);
    j->x_error = sqrt(error) * (1 + 1e-9);
}

/* Puts e in the place of the least of a heap. */
static void replace_least(estimate *heap, uint32_t n, estimate e)
{
    uint32_t at = 0;
    for (uint32_t child; (child = 2 * at + 1) < n; at = child) {
        if (child + 1 < n && heap[child + 1].value < heap[child].value) child++;
        if (heap[child].value >= e.value) break;
        heap[at] = heap[child];
    }
    heap[at] = e;
}

static uint32_t end_of_task(const screen_job *j, uint32_t first)
{
    uint32_t left = j->screen->n_rows - first;
    return first + (left < TERN_SCREEN_TASK_ROWS ? left : TERN_SCREEN_TASK_ROWS);
}

static void estimate_task(void *context, uint32_t task, uint32_t thread)
{
    (void)thread;
    screen_job *j = context;
    const tern_screen *s = j->screen;
    uint32_t first = task * TERN_SCREEN_TASK_ROWS, n = end_of_task(j, first) - first;
    int32_t dots[2 * TERN_SCREEN_TASK_ROWS];
    j->kernels->screen(s->codes + (size_t)first * s->groups * TERN_SCREEN_BYTES, n, s->groups, j->high, j->low, dots);
    for (uint32_t i = 0; i < n; i++) {
        double dot = (dots[i] - TERN_SCREEN_ZERO * j->high_sum) * 256 + (dots[n + i] - TERN_SCREEN_ZERO * j->low_sum);
        j->logits[first + i] = (float)(dot * j->digit_scale * (double)s->rows[first + i].scale);
    }
    estimate *heap = j->best + (size_t)task * j->wanted;
    for (uint32_t i = 0; i < j->wanted; i++) heap[i] = (estimate){-INFINITY, first};
    for (uint32_t r = first; r < first + n; r++)
        if (j->logits[r] > heap[0].value) replace_least(heap, j->wanted, (estimate){j->logits[r], r});
}

static float full_logit(const screen_job *j, uint32_t r)
{
    float y;
    j->weight->dense(j->weight->data + r * j->weight->row_bytes, j->weight->row_bytes, 1, j->screen->cols, j->x,
                     j->screen->cols, 1, &y, 1);
    return y;
}

/* The least full logit of the `wanted` rows with the highest estimates: a row that stays below it cannot be among the
 * wanted. */
static float find_threshold(screen_job *j)
{
    estimate *heap = j->best;
    for (size_t i = j->wanted; i < (size_t)j->n_tasks * j->wanted; i++)
        if (j->best[i].value > heap[0].value) replace_least(heap, j->wanted, j->best[i]);
    float least = INFINITY;
    for (uint32_t i = 0; i < j->wanted; i++) least = fminf(least, full_logit(j, heap[i].row));
    return least;
}

/* Nothing that rounding does to the estimate (f64, then once to f32) comes near a millionth of it. */
static float upper_bound(const screen_job *j, uint32_t r)
{
    const tern_screen_row *row = &j->screen->rows[r];
    double margin = j->x_norm * (double)row->error + j->x_error * (double)row->norm, middle = (double)j->logits[r];
    return (float)(middle + margin + 1e-6 * (margin + fabs(middle)));
}

static void full_task(void *context, uint32_t task, uint32_t thread)
{
    (void)thread;
    screen_job *j = context;
    uint32_t first = task * TERN_SCREEN_TASK_ROWS, end = end_of_task(j, first), n_full = 0;
    for (uint32_t r = first; r < end; r++) {
        bool out = upper_bound(j, r) < j->threshold;
        j->logits[r] = out ? -INFINITY : full_logit(j, r);
        n_full += !out;
    }
    atomic_fetch_add_explicit(&j->n_full, n_full, memory_order_relaxed);
}

static uint32_t n_tasks(uint32_t n_rows)
{
    return (n_rows + TERN_SCREEN_TASK_ROWS - 1) / TERN_SCREEN_TASK_ROWS;
}

size_t tern_screen__bytes(uint32_t n_rows, uint32_t cols)
{
    return (size_t)tern_screen__groups(cols) * TERN_SCREEN_GROUP * 2 +
           (size_t)n_tasks(n_rows) * TERN_SCREEN_MAX_WANTED * sizeof(estimate);
}

static bool all_finite(const float *x, uint32_t n)
{
    float sum = 0;
    for (uint32_t i = 0; i < n; i++) sum += x[i] * 0.0f;
    return sum == 0;
}

uint32_t tern_screen__run(tern_cpu *cpu, const tern_screen *screen, const tern_buffer *weight, const float *x,
                          uint32_t wanted, float *logits, uint8_t *memory)
{
    size_t digits = (size_t)screen->groups * TERN_SCREEN_GROUP;
    screen_job j = {.kernels = &cpu->kernels,
                    .screen = screen,
                    .weight = weight,
                    .x = x,
                    .logits = logits,
                    .wanted = wanted,
                    .high = (int8_t *)memory,
                    .low = (int8_t *)memory + digits,
                    .best = (estimate *)(void *)(memory + 2 * digits),
                    .n_tasks = n_tasks(screen->n_rows),
                    .threshold = -INFINITY};
    if (all_finite(x, screen->cols)) {
        split(&j);
        tern_pool_for(cpu->pool, j.n_tasks, estimate_task, &j);
        j.threshold = find_threshold(&j);
    }
    tern_pool_for(cpu->pool, j.n_tasks, full_task, &j);
    return atomic_load(&j.n_full);
}

bool tern_screen__linear(tern_cpu_step *step, const tern_cpu_op *op)
{
    const tern_buffer *weight = op->weight[TERN_LINEAR_W];
    const tern_screen *screen = weight->screen;
    const uint32_t wanted = step->n_top;
    if (wanted == 0 || wanted > TERN_SCREEN_MAX_WANTED || wanted > screen->n_rows) return false;
    for (uint32_t t = 0; t < step->n_outputs; t++) {
        uint32_t n_full = tern_screen__run(step->cpu, screen, weight, tern_rows__at(&op->in[TERN_LINEAR_X], t), wanted,
                                           tern_rows__at(&op->out, t), (uint8_t *)step->prepared->shared);
        step->weight_bytes +=
            (uint64_t)screen->n_rows * (screen->groups * TERN_SCREEN_BYTES + sizeof(tern_screen_row)) +
            (uint64_t)n_full * weight->row_bytes;
    }
    return true;
}
