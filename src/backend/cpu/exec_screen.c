/* Running the screened output head: bounds for every row, a threshold, and the rows that can reach it. */
#include <math.h>
#include <stdatomic.h>
#include <string.h>

#include "backend/cpu/screen.h"

/* One step over the whole table. */
typedef struct screen_job {
    const tern_cpu_kernels *kernels;
    const tern_screen *screen;
    const tern_buffer *weight;
    const float *x;
    float *logits; /* between the passes: each row's upper bound */
    int8_t *high, *low;
    float *best; /* [tasks][wanted] lower bounds, a heap with the least first */
    uint32_t wanted, n_tasks;
    double digit_scale;   /* t */
    double x_norm, x_error;
    int64_t high_sum, low_sum;
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

static void sift_down(float *heap, uint32_t n, float v)
{
    uint32_t at = 0;
    for (uint32_t child; (child = 2 * at + 1) < n; at = child) {
        if (child + 1 < n && heap[child + 1] < heap[child]) child++;
        if (heap[child] >= v) break;
        heap[at] = heap[child];
    }
    heap[at] = v;
}

/* Replaces the least of the best when v is better. */
static void offer(float *heap, uint32_t n, float v)
{
    if (v > heap[0]) sift_down(heap, n, v);
}

static void bound_task(void *context, uint32_t task, uint32_t thread)
{
    (void)thread;
    screen_job *j = context;
    const tern_screen *s = j->screen;
    uint32_t first = task * TERN_SCREEN_TASK_ROWS;
    uint32_t n = s->n_rows - first < TERN_SCREEN_TASK_ROWS ? s->n_rows - first : TERN_SCREEN_TASK_ROWS;
    int32_t dots[2 * TERN_SCREEN_TASK_ROWS];
    j->kernels->screen(s->codes + (size_t)first * s->groups * TERN_SCREEN_BYTES, n, s->groups, j->high, j->low, dots);
    float *heap = j->best + (size_t)task * j->wanted;
    for (uint32_t i = 0; i < j->wanted; i++) heap[i] = -INFINITY;
    for (uint32_t i = 0; i < n; i++) {
        const tern_screen_row *row = &s->rows[first + i];
        int64_t dot = ((int64_t)dots[i] - TERN_SCREEN_ZERO * j->high_sum) * 256 + dots[n + i] - TERN_SCREEN_ZERO * j->low_sum;
        double middle = (double)dot * j->digit_scale * (double)row->scale;
        double margin = (j->x_norm * (double)row->error + j->x_error * (double)row->norm) * (1 + 1e-9) + 1e-12 * fabs(middle);
        j->logits[first + i] = nextafterf((float)(middle + margin), INFINITY);
        offer(heap, j->wanted, nextafterf((float)(middle - margin), -INFINITY));
    }
}

/* The wanted-th highest lower bound: a row whose upper bound is below it cannot be among the wanted. */
static float find_threshold(screen_job *j)
{
    float *heap = j->best;
    for (size_t i = j->wanted; i < (size_t)j->n_tasks * j->wanted; i++) offer(heap, j->wanted, j->best[i]);
    return heap[0];
}

static void full_task(void *context, uint32_t task, uint32_t thread)
{
    (void)thread;
    screen_job *j = context;
    uint32_t first = task * TERN_SCREEN_TASK_ROWS, n_full = 0;
    uint32_t end = j->screen->n_rows - first < TERN_SCREEN_TASK_ROWS ? j->screen->n_rows : first + TERN_SCREEN_TASK_ROWS;
    for (uint32_t r = first; r < end; r++) {
        if (j->logits[r] < j->threshold) {
            j->logits[r] = -INFINITY;
            continue;
        }
        j->weight->dense(j->weight->data + r * j->weight->row_bytes, j->weight->row_bytes, 1, j->screen->cols, j->x, j->screen->cols,
                         1, &j->logits[r], 1);
        n_full++;
    }
    atomic_fetch_add_explicit(&j->n_full, n_full, memory_order_relaxed);
}

static uint32_t n_tasks(uint32_t n_rows)
{
    return (n_rows + TERN_SCREEN_TASK_ROWS - 1) / TERN_SCREEN_TASK_ROWS;
}

size_t tern_screen__scratch(uint32_t n_rows, uint32_t groups)
{
    return (size_t)groups * TERN_SCREEN_GROUP * 2 + (size_t)n_tasks(n_rows) * TERN_SCREEN_MAX_WANTED * sizeof(float);
}

static bool all_finite(const float *x, uint32_t n)
{
    float sum = 0;
    for (uint32_t i = 0; i < n; i++) sum += x[i] * 0.0f;
    return sum == 0;
}

uint32_t tern_screen__run(tern_cpu *cpu, const tern_screen *screen, const tern_buffer *weight, const float *x, uint32_t wanted,
                          float *logits, uint8_t *memory)
{
    size_t digits = (size_t)screen->groups * TERN_SCREEN_GROUP;
    screen_job j = {.kernels = &cpu->kernels, .screen = screen, .weight = weight, .x = x, .logits = logits, .wanted = wanted,
                    .high = (int8_t *)memory, .low = (int8_t *)memory + digits, .best = (float *)(void *)(memory + 2 * digits),
                    .n_tasks = n_tasks(screen->n_rows), .threshold = -INFINITY};
    if (all_finite(x, screen->cols)) {
        split(&j);
        tern_pool_for(cpu->pool, j.n_tasks, bound_task, &j);
        j.threshold = find_threshold(&j);
    }
    tern_pool_for(cpu->pool, j.n_tasks, full_task, &j);
    return atomic_load(&j.n_full);
}

bool tern_cpu__screened(tern_cpu_step *step, const tern_cpu_op *op)
{
    const tern_buffer *weight = op->weight[1];
    const tern_screen *screen = weight->screen;
    if (step->n_wanted == 0 || step->n_wanted > TERN_SCREEN_MAX_WANTED || step->n_wanted > screen->n_rows) return false;
    for (uint32_t t = 0; t < step->n_outputs; t++) {
        uint32_t n_full = tern_screen__run(step->cpu, screen, weight, op->in[0].data + t * op->in[0].stride, step->n_wanted,
                                           op->out.data + t * op->out.stride, step->prepared->screen_memory);
        step->weight_bytes += (uint64_t)screen->n_rows * (screen->groups * TERN_SCREEN_BYTES + sizeof(tern_screen_row)) +
                              (uint64_t)n_full * weight->row_bytes;
    }
    return true;
}
