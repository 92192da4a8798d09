/* State of the screen: a token and a job under way. */
#ifndef TERN_BACKEND_CPU_LINEAR_SCREEN_INTERNAL_H
#define TERN_BACKEND_CPU_LINEAR_SCREEN_INTERNAL_H

#include <math.h>
#include <stdatomic.h>

#include "backend/cpu/linear/screen.h"

enum { TERN_SCREEN_TOGETHER = 8 }; /* tokens that share a pass over the first plane */

/* A row and its estimated (later: full) logit. */
typedef struct screen_estimate {
    float value;
    uint32_t row;
} screen_estimate;

/* One token over the whole table. */
typedef struct screen_token {
    const float *x;
    float *logits; /* between the passes: estimates, or -inf where a row has dropped out */
    int8_t *high, *low;
    screen_estimate
        *best;      /* [tasks][wanted] highest estimates, a heap with the least first; afterwards the first is of all */
    float scale;    /* t: x is about scale * (256 high + low) */
    float sum;      /* of the digits, 256 high + low */
    float high_sum; /* of the high digits alone */
    float norm, missed; /* |x|, |x - d|, rounded up */
    float high_missed;  /* |x - d| with the high digits alone */
    float threshold;
    bool whole; /* every logit is computed: x is not finite */
} screen_token;

typedef struct screen_job {
    const tern_cpu_kernels *kernels;
    const tern_screen *screen;
    const tern_buffer *weight;
    const tern_wanted *more; /* what is wanted beside the `wanted` highest */
    screen_token tokens[TERN_SCREEN_TOGETHER];
    uint32_t n_tokens, wanted, n_tasks, plane;
    atomic_uint_least64_t bytes;
} screen_job;

static inline uint32_t tern_screen__tasks(uint32_t n_rows)
{
    return (n_rows + TERN_SCREEN_TASK_ROWS - 1) / TERN_SCREEN_TASK_ROWS;
}

/* The row after the last one of the task that begins here. */
static inline uint32_t tern_screen__end(const screen_job *j, uint32_t first)
{
    uint32_t left = j->screen->n_rows - first;
    return first + (left < TERN_SCREEN_TASK_ROWS ? left : TERN_SCREEN_TASK_ROWS);
}

/* The factor of a row's error after a plane. */
static inline float tern_screen__reach(const screen_token *k, uint32_t plane)
{
    static const float planes_of_one_digit[TERN_SCREEN_PLANES] = {0, 3 / 0.5f, 3.5f / 0.25f}; /* (screen.h) */
    return k->norm + 64 * k->missed + planes_of_one_digit[plane] * k->high_missed;
}

/* No logit of that estimate is higher. A few roundings change a bound by less than a millionth of it. */
static inline float tern_screen__bound(float estimate, float reach, float error)
{
    const float margin = reach * error;
    return estimate + margin + 1e-6f * (margin + fabsf(estimate));
}

/* Puts e in the place of the least of a heap. */
void tern_screen__replace_least(screen_estimate *heap, uint32_t n, screen_estimate e);
/* Begins a token in this memory. */
void tern_screen__begin(screen_token *k, const tern_screen *s, const float *x, float *logits, uint8_t *memory);
/* The logit of a row as the full product has it. */
float tern_screen__full(const screen_job *j, const screen_token *k, uint32_t r);
/* After a plane: a row that stays below its token's threshold is not wanted. */
void tern_screen__thresholds(tern_cpu *cpu, screen_job *j);
/* Pinned rows of a task take no part; in the end they are computed. */
void tern_screen__take_pinned(const screen_job *j, uint32_t first, uint32_t end);
void tern_screen__put_pinned(tern_cpu *cpu, screen_job *j);

#endif
