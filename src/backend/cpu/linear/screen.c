/* Running the screened output head, plane by plane: each sharpens the estimates of the rows that are left, the best of
 * them are computed in full, and rows whose bound stays below the least of those drop out. */
#include "backend/cpu/linear/screen.h"

#include <math.h>
#include <stdatomic.h>
#include <string.h>

#include "backend/cpu/rows/rows.h"

enum {
    TOGETHER = 8,    /* tokens that share a pass over the first plane */
    BLOCK_ROWS = 64, /* rows that stay in a cache for them */
    AHEAD = 8,       /* rows from what is read to what is fetched ahead */
    LINE = 64
};

/* A row and its estimated (later: full) logit. */
typedef struct estimate {
    float value;
    uint32_t row;
} estimate;

/* One token over the whole table. */
typedef struct token {
    const float *x;
    float *logits; /* between the passes: estimates, or -inf where a row has dropped out */
    int8_t *high, *low;
    estimate *best; /* [tasks][wanted] highest estimates, a heap with the least first; afterwards the first is of all */
    float scale;    /* t: x is about scale * (256 high + low) */
    float sum;      /* of the digits, 256 high + low */
    float high_sum; /* of the high digits alone */
    float norm, missed; /* |x|, |x - d|, rounded up */
    float high_missed;  /* |x - d| with the high digits alone */
    float threshold;
    bool whole; /* every logit is computed: x is not finite */
} token;

typedef struct screen_job {
    const tern_cpu_kernels *kernels;
    const tern_screen *screen;
    const tern_buffer *weight;
    token tokens[TOGETHER];
    uint32_t n_tokens, wanted, n_tasks, plane;
    atomic_uint_least64_t bytes;
} screen_job;

static uint32_t n_tasks(uint32_t n_rows)
{
    return (n_rows + TERN_SCREEN_TASK_ROWS - 1) / TERN_SCREEN_TASK_ROWS;
}

static uint32_t end_of_task(const screen_job *j, uint32_t first)
{
    uint32_t left = j->screen->n_rows - first;
    return first + (left < TERN_SCREEN_TASK_ROWS ? left : TERN_SCREEN_TASK_ROWS);
}

/* ---- the digits of a token */

static float root_up(double squares)
{
    return nextafterf((float)(sqrt(squares) * (1 + 1e-9)), INFINITY);
}

/* x as two int8 digits of one scale; the error of that is kept. */
static void split(token *k, uint32_t cols)
{
    float most = 0;
    for (uint32_t c = 0; c < cols; c++) most = fmaxf(most, fabsf(k->x[c]));
    double inverse = most > 0 ? 32512.0 / (double)most : 0, norm = 0, error = 0, high_error = 0;
    int64_t sum = 0, high_sum = 0;
    k->scale = most / 32512.0f;
    for (uint32_t c = 0; c < cols; c++) {
        int32_t v = (int32_t)rint((double)k->x[c] * inverse);
        int32_t high = (v + 128) >> 8;
        k->high[c] = (int8_t)high;
        k->low[c] = (int8_t)(v - high * 256);
        sum += v;
        high_sum += high;
        const double e = (double)k->x[c] - (double)v * (double)k->scale,
                     h = (double)k->x[c] - (double)high * 256 * (double)k->scale;
        norm += (double)k->x[c] * (double)k->x[c];
        error += e * e;
        high_error += h * h;
    }
    k->sum = (float)sum;
    k->high_sum = (float)high_sum * 256;
    k->norm = root_up(norm);
    k->missed = root_up(error);
    k->high_missed = root_up(high_error);
}

/* ---- estimates */

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

/* Adds what a plane's bits say: the middle of the codes moves by them, less half of what was open. */
static void sharpen(const screen_job *j, const token *k, uint32_t first, uint32_t n, const int32_t *dots)
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
static uint64_t estimate_rows(const screen_job *j, const token *k, uint32_t first, uint32_t n)
{
    const tern_screen *s = j->screen;
    const size_t row_bytes = tern_screen__row_bytes(s->halves, j->plane);
    int32_t dots[2 * TERN_SCREEN_TASK_ROWS];
    j->kernels->screen(s->planes[j->plane] + first * row_bytes, n, s->halves, tern_screen__bits(j->plane), k->high,
                       k->low, dots);
    sharpen(j, k, first, n, dots);
    return n * (row_bytes + (j->plane ? 0 : TERN_SCREEN_ROW_BYTES));
}

/* Rows that stay below the threshold by what is known of them after a plane. What a few roundings do to a bound is less
 * than a millionth of it. */
static void drop_rows(const screen_job *j, const token *k, uint32_t first, uint32_t end, uint32_t plane)
{
    static const float planes_of_one_digit[TERN_SCREEN_PLANES] = {0, 3 / 0.5f, 3.5f / 0.25f}; /* (screen.h) */
    const float *errors = j->screen->errors[plane];
    const float reach = k->norm + 64 * k->missed + planes_of_one_digit[plane] * k->high_missed;
    float *logits = k->logits;
    for (uint32_t r = first; r < end; r++) {
        const float margin = reach * errors[r];
        const float bound = logits[r] + margin + 1e-6f * (margin + fabsf(logits[r]));
        logits[r] = bound < k->threshold ? -INFINITY : logits[r];
    }
}

/* Drops rows of a task by what the plane before said, and lists those that are left. */
static uint32_t list_left(const screen_job *j, const token *k, uint32_t first, uint32_t end, uint32_t *left)
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
static uint64_t estimate_left(const screen_job *j, const token *k, uint32_t first, uint32_t end)
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

static void list_best(const screen_job *j, const token *k, uint32_t task, uint32_t first, uint32_t end)
{
    estimate *heap = k->best + (size_t)task * j->wanted;
    for (uint32_t i = 0; i < j->wanted; i++) heap[i] = (estimate){-INFINITY, first};
    for (uint32_t r = first; r < end; r++)
        if (k->logits[r] > heap[0].value) replace_least(heap, j->wanted, (estimate){k->logits[r], r});
}

static void estimate_task(void *context, uint32_t task, uint32_t thread)
{
    (void)thread;
    screen_job *j = context;
    const uint32_t first = task * TERN_SCREEN_TASK_ROWS, end = end_of_task(j, first);
    uint64_t bytes = j->plane == 0 ? estimate_all(j, first, end) : 0;
    for (uint32_t t = 0; t < j->n_tokens; t++) {
        if (j->tokens[t].whole) continue;
        if (j->plane) bytes += estimate_left(j, &j->tokens[t], first, end);
        list_best(j, &j->tokens[t], task, first, end);
    }
    atomic_fetch_add_explicit(&j->bytes, bytes, memory_order_relaxed);
}

/* ---- thresholds and bounds */

static float full_logit(const screen_job *j, const token *k, uint32_t r)
{
    float y;
    j->weight->dense(j->weight->data + r * j->weight->row_bytes, j->weight->row_bytes, 1, j->screen->cols, k->x,
                     j->screen->cols, 1, &y, 1);
    return y;
}

static void merge_task(void *context, uint32_t task, uint32_t thread)
{
    (void)thread;
    const screen_job *j = context;
    estimate *heap = j->tokens[task].best;
    if (j->tokens[task].whole) return;
    for (size_t i = j->wanted; i < (size_t)j->n_tasks * j->wanted; i++)
        if (heap[i].value > heap[0].value) replace_least(heap, j->wanted, heap[i]);
}

static void best_task(void *context, uint32_t task, uint32_t thread)
{
    (void)thread;
    const screen_job *j = context;
    const token *k = &j->tokens[task / j->wanted];
    if (k->whole) return;
    estimate *e = &k->best[task % j->wanted];
    e->value = full_logit(j, k, e->row);
}

/* The least full logit of the `wanted` rows with the highest estimates: a row that stays below it cannot be among the
 * wanted. */
static void find_thresholds(tern_cpu *cpu, screen_job *j)
{
    tern_pool_for(cpu->pool, j->n_tokens, merge_task, j);
    tern_pool_for(cpu->pool, j->n_tokens * j->wanted, best_task, j);
    for (uint32_t t = 0; t < j->n_tokens; t++) {
        token *k = &j->tokens[t];
        float least = INFINITY;
        for (uint32_t i = 0; i < j->wanted && !k->whole; i++) least = fminf(least, k->best[i].value);
        if (!k->whole) k->threshold = fmaxf(k->threshold, least);
    }
}

static uint64_t compute_left(const screen_job *j, const token *k, uint32_t first, uint32_t end)
{
    const tern_buffer *w = j->weight;
    uint32_t left[TERN_SCREEN_TASK_ROWS] = {0};
    const uint32_t n = list_left(j, k, first, end, left);
    for (uint32_t i = 0; i < n; i++) {
        if (i + 1 < n) prefetch(w->data + left[i + 1] * w->row_bytes, w->row_bytes);
        k->logits[left[i]] = full_logit(j, k, left[i]);
    }
    return n * w->row_bytes;
}

static void full_task(void *context, uint32_t task, uint32_t thread)
{
    (void)thread;
    screen_job *j = context;
    const uint32_t first = task * TERN_SCREEN_TASK_ROWS, end = end_of_task(j, first);
    uint64_t bytes = 0;
    for (uint32_t t = 0; t < j->n_tokens; t++) bytes += compute_left(j, &j->tokens[t], first, end);
    atomic_fetch_add_explicit(&j->bytes, bytes, memory_order_relaxed);
}

/* ---- a step */

/* Of one token: its digits and its lists. */
static size_t token_bytes(uint32_t n_rows, uint32_t cols)
{
    return (size_t)tern_screen__halves(cols) * TERN_SCREEN_HALF * 2 +
           (size_t)n_tasks(n_rows) * TERN_SCREEN_MAX_WANTED * sizeof(estimate);
}

size_t tern_screen__bytes(uint32_t n_rows, uint32_t cols, uint32_t n_tokens)
{
    return token_bytes(n_rows, cols) * (n_tokens < TOGETHER ? n_tokens : TOGETHER);
}

static bool all_finite(const float *x, uint32_t n)
{
    float sum = 0;
    for (uint32_t i = 0; i < n; i++) sum += x[i] * 0.0f;
    return sum == 0;
}

static void begin(token *k, const tern_screen *s, const float *x, float *logits, uint8_t *memory)
{
    const size_t digits = (size_t)s->halves * TERN_SCREEN_HALF;
    *k = (token){.x = x,
                 .logits = logits,
                 .high = (int8_t *)memory,
                 .low = (int8_t *)memory + digits,
                 .best = (estimate *)(void *)(memory + 2 * digits),
                 .threshold = -INFINITY,
                 .whole = !all_finite(x, s->cols)};
    memset(k->high, 0, 2 * digits);
    if (!k->whole) split(k, s->cols);
}

static void run(tern_cpu *cpu, screen_job *j)
{
    for (j->plane = 0; j->plane < TERN_SCREEN_PLANES; j->plane++) {
        tern_pool_for(cpu->pool, j->n_tasks, estimate_task, j);
        find_thresholds(cpu, j);
    }
    tern_pool_for(cpu->pool, j->n_tasks, full_task, j);
}

bool tern_screen__linear(tern_cpu_step *step, const tern_cpu_op *op)
{
    const tern_buffer *weight = op->weight[TERN_LINEAR_W];
    const tern_screen *screen = weight->screen;
    const uint32_t wanted = step->n_top;
    if (wanted == 0 || wanted > TERN_SCREEN_MAX_WANTED || wanted > screen->n_rows) return false;
    for (uint32_t first = 0; first < step->n_outputs; first += TOGETHER) {
        screen_job j = {.kernels = &step->cpu->kernels,
                        .screen = screen,
                        .weight = weight,
                        .wanted = wanted,
                        .n_tasks = n_tasks(screen->n_rows),
                        .n_tokens = step->n_outputs - first < TOGETHER ? step->n_outputs - first : TOGETHER};
        uint8_t *memory = (uint8_t *)step->prepared->shared;
        for (uint32_t t = 0; t < j.n_tokens; t++, memory += token_bytes(screen->n_rows, screen->cols))
            begin(&j.tokens[t], screen, tern_rows__at(&op->in[TERN_LINEAR_X], first + t),
                  tern_rows__at(&op->out, first + t), memory);
        run(step->cpu, &j);
        step->weight_bytes += atomic_load(&j.bytes);
    }
    return true;
}
