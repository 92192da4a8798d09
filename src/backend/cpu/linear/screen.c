/* The screened output head runs plane by plane. Each plane sharpens the estimates of the rows that are left. The best
 * rows are computed in full, and rows whose bound is below the least of those drop out. */
#include "backend/cpu/linear/screen_internal.h"

#include <math.h>

#include "backend/cpu/rows/rows.h"
#include "ops/operands.h"

enum {
    BLOCK_ROWS = 64, /* rows that stay in a cache for several tokens */
    AHEAD = 8,       /* rows from what is read to what is fetched ahead */
    LINE = 64
};

/* ---- estimates */

/* Adds what a plane's bits say: the middle of the codes moves by them, less half of what was open. */
static void sharpen(const screen_job *j, const screen_token *k, uint32_t first, uint32_t n, const int32_t *dots)
{
    const float *scales = j->screen->scales + first;
    float *logits = k->logits + first;
    if (j->plane == 0) {
        for (uint32_t i = 0; i < n; i++)
            logits[i] =
                (2048.0f * (float)dots[i] + 8.0f * (float)dots[n + i] - 28.0f * k->sum) * (k->scale * scales[i]);
        return;
    }
    const float weight = j->plane == 1 ? 512.0f : 256.0f, half = j->plane == 1 ? 3.0f : 0.5f;
    for (uint32_t i = 0; i < n; i++)
        logits[i] += (weight * (float)dots[i] - half * k->high_sum) * (k->scale * scales[i]);
}

/* Returns the bytes that were read. */
static uint64_t estimate_rows(const screen_job *j, const screen_token *k, uint32_t first, uint32_t n)
{
    const tern_screen *s = j->screen;
    const size_t row_bytes = tern_screen__row_bytes(s->halves, j->plane);
    int32_t dots[2 * TERN_SCREEN_TASK_ROWS];
    j->kernels->screen(s->planes[j->plane] + first * row_bytes, n, s->halves, tern_screen__bits(j->plane), k->high,
                       k->low, dots);
    sharpen(j, k, first, n, dots);
    return n * (row_bytes + (j->plane ? 0 : TERN_SCREEN_ROW_BYTES));
}

/* Rows that stay below the threshold by what is known of them after a plane. */
static void drop_rows(const screen_job *j, const screen_token *k, uint32_t first, uint32_t end, uint32_t plane)
{
    const float *errors = j->screen->errors[plane], reach = tern_screen__reach(k, plane);
    float *logits = k->logits;
    for (uint32_t r = first; r < end; r++)
        logits[r] = tern_screen__bound(logits[r], reach, errors[r]) < k->threshold ? -INFINITY : logits[r];
}

/* Drops rows of a task by what the plane before said, and lists those that are left. */
static uint32_t list_left(const screen_job *j, const screen_token *k, uint32_t first, uint32_t end, uint32_t *left)
{
    uint32_t n = 0;
    if (!k->whole) drop_rows(j, k, first, end, j->plane - 1);
    for (uint32_t r = first; r < end; r++) {
        left[n] = r;
        n += k->whole || k->logits[r] != -INFINITY;
    }
    return n;
}

static void prefetch(const uint8_t *row, size_t bytes)
{
    for (size_t at = 0; at < bytes; at += LINE) __builtin_prefetch(row + at, 0, 3);
}

/* The rows of a task that are left, run by run. */
static uint64_t estimate_left(const screen_job *j, const screen_token *k, uint32_t first, uint32_t end)
{
    const uint8_t *plane = j->screen->planes[j->plane];
    const size_t row_bytes = tern_screen__row_bytes(j->screen->halves, j->plane);
    uint32_t left[TERN_SCREEN_TASK_ROWS] = {0};
    uint64_t bytes = 0;
    const uint32_t n_left = list_left(j, k, first, end, left), ahead = n_left < (end - first) / 2 ? AHEAD : 0;
    for (uint32_t i = 0; i < ahead && i < n_left; i++) prefetch(plane + left[i] * row_bytes, row_bytes);
    for (uint32_t i = 0, n; i < n_left; i += n) {
        for (n = 1; i + n < n_left && left[i + n] == left[i] + n; n++) {}
        for (uint32_t p = i; p < i + n && ahead && p + ahead < n_left; p++)
            prefetch(plane + left[p + ahead] * row_bytes, row_bytes);
        bytes += estimate_rows(j, k, left[i], n);
    }
    return bytes;
}

/* All rows of a task, a block for all tokens at a time. */
static uint64_t estimate_all(const screen_job *j, uint32_t first, uint32_t end)
{
    uint64_t bytes = 0;
    const uint32_t block = j->n_tokens == 1 ? end - first : BLOCK_ROWS;
    for (uint32_t r = first; r < end; r += block)
        for (uint32_t t = 0; t < j->n_tokens; t++)
            if (!j->tokens[t].whole) bytes += estimate_rows(j, &j->tokens[t], r, end - r < block ? end - r : block);
    return bytes;
}

static void list_best(const screen_job *j, const screen_token *k, uint32_t task, uint32_t first, uint32_t end)
{
    screen_estimate *heap = k->best + (size_t)task * j->wanted;
    for (uint32_t i = 0; i < j->wanted; i++) heap[i] = (screen_estimate){-INFINITY, first};
    for (uint32_t r = first; r < end; r++)
        if (k->logits[r] > heap[0].value)
            tern_screen__replace_least(heap, j->wanted, (screen_estimate){k->logits[r], r});
}

static void estimate_task(void *context, uint32_t task, uint32_t thread)
{
    (void)thread;
    screen_job *j = context;
    const uint32_t first = task * TERN_SCREEN_TASK_ROWS, end = tern_screen__end(j, first);
    uint64_t bytes = j->plane == 0 ? estimate_all(j, first, end) : 0;
    if (j->plane == 0) tern_screen__take_pinned(j, first, end);
    for (uint32_t t = 0; t < j->n_tokens; t++) {
        if (j->tokens[t].whole) continue;
        if (j->plane) bytes += estimate_left(j, &j->tokens[t], first, end);
        list_best(j, &j->tokens[t], task, first, end);
    }
    atomic_fetch_add_explicit(&j->bytes, bytes, memory_order_relaxed);
}

/* ---- what is left */

static uint64_t compute_left(const screen_job *j, const screen_token *k, uint32_t first, uint32_t end)
{
    const tern_buffer *w = j->weight;
    uint32_t left[TERN_SCREEN_TASK_ROWS] = {0};
    const uint32_t n = list_left(j, k, first, end, left);
    for (uint32_t i = 0; i < n; i++) {
        if (i + 1 < n) prefetch(w->data + left[i + 1] * w->row_bytes, w->row_bytes);
        k->logits[left[i]] = tern_screen__full(j, k, left[i]);
    }
    return n * w->row_bytes;
}

static void full_task(void *context, uint32_t task, uint32_t thread)
{
    (void)thread;
    screen_job *j = context;
    const uint32_t first = task * TERN_SCREEN_TASK_ROWS, end = tern_screen__end(j, first);
    uint64_t bytes = 0;
    for (uint32_t t = 0; t < j->n_tokens; t++) bytes += compute_left(j, &j->tokens[t], first, end);
    atomic_fetch_add_explicit(&j->bytes, bytes, memory_order_relaxed);
}

/* ---- a step */

enum { MOST_LOST = 5 };

/* Where a distribution is flat, the terms of a sum may be most of the table: this is known only after reading it. After
 * a loss one step reads all, after a second one 3, then 7, 15, 31. */
static void look_back(tern_screen *screen, const screen_job *j)
{
    const uint64_t table = (uint64_t)screen->n_rows * j->weight->row_bytes;
    if (!(j->more->tail > 0)) return;
    const bool lost = atomic_load(&j->bytes) > table;
    screen->n_lost = !lost ? 0 : screen->n_lost < MOST_LOST ? screen->n_lost + 1 : MOST_LOST;
    screen->n_whole = (1u << screen->n_lost) - 1;
}

/* The digits and lists of one token. */
static size_t token_bytes(uint32_t n_rows, uint32_t cols)
{
    return (size_t)tern_screen__halves(cols) * TERN_SCREEN_HALF * 2 +
           (size_t)tern_screen__tasks(n_rows) * TERN_SCREEN_MAX_WANTED * sizeof(screen_estimate);
}

size_t tern_screen__bytes(uint32_t n_rows, uint32_t cols, uint32_t n_tokens)
{
    return token_bytes(n_rows, cols) * (n_tokens < TERN_SCREEN_TOGETHER ? n_tokens : TERN_SCREEN_TOGETHER);
}

static void run(tern_cpu *cpu, screen_job *j)
{
    for (j->plane = 0; j->plane < TERN_SCREEN_PLANES; j->plane++) {
        tern_pool_for(cpu->pool, j->n_tasks, estimate_task, j);
        tern_screen__thresholds(cpu, j);
    }
    tern_pool_for(cpu->pool, j->n_tasks, full_task, j);
    tern_screen__put_pinned(cpu, j);
}

bool tern_screen__linear(tern_cpu_step *step, const tern_cpu_op *op)
{
    const tern_buffer *weight = op->weight[TERN_LINEAR_W];
    tern_screen *screen = weight->screen;
    static const tern_wanted none = {0};
    const uint8_t *param = step->prepared->params[TERN_PARAM_WANTED];
    const tern_wanted *more = param ? (const tern_wanted *)(const void *)param : &none;
    const uint32_t wanted = step->n_top;
    if (wanted == 0 || wanted > TERN_SCREEN_MAX_WANTED || wanted + more->n_pinned > screen->n_rows) return false;
    if (more->tail > 0 && screen->n_whole > 0) {
        screen->n_whole--;
        return false;
    }
    for (uint32_t first = 0; first < step->n_outputs; first += TERN_SCREEN_TOGETHER) {
        screen_job j = {.kernels = &step->cpu->kernels,
                        .screen = screen,
                        .weight = weight,
                        .wanted = wanted,
                        .more = more,
                        .n_tasks = tern_screen__tasks(screen->n_rows),
                        .n_tokens = step->n_outputs - first < TERN_SCREEN_TOGETHER ? step->n_outputs - first
                                                                                   : TERN_SCREEN_TOGETHER};
        uint8_t *memory = (uint8_t *)step->prepared->shared;
        for (uint32_t t = 0; t < j.n_tokens; t++, memory += token_bytes(screen->n_rows, screen->cols))
            tern_screen__begin(&j.tokens[t], screen, tern_rows__at(&op->in[TERN_LINEAR_X], first + t),
                               tern_rows__at(&op->out, first + t), memory);
        run(step->cpu, &j);
        step->weight_bytes += atomic_load(&j.bytes);
        look_back(screen, &j);
    }
    return true;
}
