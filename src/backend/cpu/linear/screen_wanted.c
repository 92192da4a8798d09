/* Which rows of a screened head are wanted: the highest ones, those near the highest, those that make up a sum, and
 * pinned ones. */
#include "backend/cpu/linear/screen_internal.h"
#include "base/pool.h"

/* Puts e in the place of the least of a heap. */
void tern_screen__replace_least(screen_estimate *heap, uint32_t n, screen_estimate e)
{
    uint32_t at = 0;
    for (uint32_t child; (child = 2 * at + 1) < n; at = child) {
        if (child + 1 < n && heap[child + 1].value < heap[child].value) child++;
        if (heap[child].value >= e.value) break;
        heap[at] = heap[child];
    }
    heap[at] = e;
}

float tern_screen__full(const screen_job *j, const screen_token *k, uint32_t r)
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
    screen_estimate *heap = j->tokens[task].best;
    if (j->tokens[task].whole) return;
    for (size_t i = j->wanted; i < (size_t)j->n_tasks * j->wanted; i++)
        if (heap[i].value > heap[0].value) tern_screen__replace_least(heap, j->wanted, heap[i]);
}

static void best_task(void *context, uint32_t task, uint32_t thread)
{
    (void)thread;
    const screen_job *j = context;
    const screen_token *k = &j->tokens[task / j->wanted];
    if (k->whole) return;
    screen_estimate *e = &k->best[task % j->wanted];
    e->value = tern_screen__full(j, k, e->row);
}

/* ---- a sum of weights that may be left out */

enum { BINS = 256, BINS_FOR_1 = 4 }; /* of (highest - bound) * sharpness, in quarters */

/* Rows of one token, by what they can weigh at most. */
typedef struct tail_count {
    const screen_job *job;
    const screen_token *token;
    float highest;
    atomic_uint_least32_t bins[BINS];
} tail_count;

static void count_task(void *context, uint32_t task, uint32_t thread)
{
    (void)thread;
    tail_count *c = context;
    const screen_job *j = c->job;
    const uint32_t first = task * TERN_SCREEN_TASK_ROWS, end = tern_screen__end(j, first);
    const float *errors = j->screen->errors[j->plane], reach = tern_screen__reach(c->token, j->plane);
    const float scale = j->more->sharpness * BINS_FOR_1;
    uint32_t bins[BINS] = {0};
    for (uint32_t r = first; r < end; r++) {
        const float estimate = c->token->logits[r];
        if (estimate == -INFINITY) continue;
        const float at = (c->highest - tern_screen__bound(estimate, reach, errors[r])) * scale;
        bins[!(at >= 1) ? 0 : at >= BINS ? BINS - 1 : (uint32_t)at]++; /* NaN: never left out */
    }
    for (uint32_t i = 0; i < BINS; i++)
        if (bins[i]) atomic_fetch_add_explicit(&c->bins[i], bins[i], memory_order_relaxed);
}

/* The lowest bins that together weigh at most `tail` can go: a row in bin i weighs at most e^(-i / 4). The first bin
 * stays. */
static uint32_t first_bin_left_out(tail_count *c, double tail)
{
    double sum = 0;
    uint32_t bin = BINS;
    while (bin > 1) {
        sum += (double)atomic_load(&c->bins[bin - 1]) * exp(-(double)(bin - 1) / BINS_FOR_1);
        if (sum > tail) break;
        bin--;
    }
    return bin;
}

/* The planes share the tail; after the last one it spares most. 0.99: roundings. */
static float tail_threshold(tern_cpu *cpu, screen_job *j, const screen_token *k, float highest)
{
    static const double shares[TERN_SCREEN_PLANES] = {0.99 / 8, 0.99 / 8, 0.99 * 6 / 8};
    tail_count c = {.job = j, .token = k, .highest = highest};
    tern_pool_for(cpu->pool, j->n_tasks, count_task, &c);
    const uint32_t bin = first_bin_left_out(&c, shares[j->plane] * (double)j->more->tail);
    if (bin == BINS) return -INFINITY;
    /* a little lower, so that what is dropped was counted in these bins */
    const double below = (bin + 1e-3) / ((double)j->more->sharpness * BINS_FOR_1);
    return nextafterf((float)((double)highest - below - 1e-6 * fabs((double)highest)), -INFINITY);
}

/* ---- thresholds */

/* The lowest of the `wanted` rows with the highest estimates, which were computed in full. */
static void find_range(const screen_job *j, const screen_token *k, float *least, float *highest)
{
    *least = INFINITY;
    *highest = -INFINITY;
    for (uint32_t i = 0; i < j->wanted; i++) {
        *least = fminf(*least, k->best[i].value);
        *highest = fmaxf(*highest, k->best[i].value);
    }
}

/* A row that stays below the least full logit of those rows cannot be among the wanted ones. */
void tern_screen__thresholds(tern_cpu *cpu, screen_job *j)
{
    tern_pool_for(cpu->pool, j->n_tokens, merge_task, j);
    tern_pool_for(cpu->pool, j->n_tokens * j->wanted, best_task, j);
    for (uint32_t t = 0; t < j->n_tokens; t++) {
        screen_token *k = &j->tokens[t];
        float threshold, highest;
        if (k->whole) continue;
        find_range(j, k, &threshold, &highest);
        if (j->more->reach > 0)
            threshold = fminf(threshold, nextafterf((float)((double)highest - (double)j->more->reach), -INFINITY));
        if (j->more->tail > 0) threshold = fminf(threshold, tail_threshold(cpu, j, k, highest));
        /* the sum has room for the rows that were counted after this plane, not for others below an earlier threshold
         */
        k->threshold = j->more->tail > 0 ? threshold : fmaxf(k->threshold, threshold);
    }
}

/* ---- pinned rows */

void tern_screen__take_pinned(const screen_job *j, uint32_t first, uint32_t end)
{
    const tern_wanted *more = j->more;
    for (uint32_t i = 0; i < more->n_pinned; i++)
        for (uint32_t t = 0; t < j->n_tokens && more->pinned[i] >= first && more->pinned[i] < end; t++)
            if (!j->tokens[t].whole) j->tokens[t].logits[more->pinned[i]] = -INFINITY;
}

static void pinned_task(void *context, uint32_t task, uint32_t thread)
{
    (void)thread;
    screen_job *j = context;
    const uint32_t row = j->more->pinned[task];
    if (row >= j->screen->n_rows) return;
    for (uint32_t t = 0; t < j->n_tokens; t++) j->tokens[t].logits[row] = tern_screen__full(j, &j->tokens[t], row);
    atomic_fetch_add_explicit(&j->bytes, j->weight->row_bytes, memory_order_relaxed);
}

void tern_screen__put_pinned(tern_cpu *cpu, screen_job *j)
{
    tern_pool_for(cpu->pool, j->more->n_pinned, pinned_task, j);
}
