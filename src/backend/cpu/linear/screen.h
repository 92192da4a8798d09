/* `--head exact`: codes of 3, 5 and 6 bits a weight bound every logit, and only rows that may be among the wanted ones
 * are read in full (docs/decisions/0011-exact-head.md). */
#ifndef TERN_BACKEND_CPU_LINEAR_SCREEN_H
#define TERN_BACKEND_CPU_LINEAR_SCREEN_H

#include "backend/cpu/cpu_internal.h"

typedef struct tern_cpu_op tern_cpu_op; /* backend/cpu/prepared.h, like the next */
typedef struct tern_cpu_step tern_cpu_step;

/* The most logits that can be asked for by number; above it every row is computed. */
enum { TERN_SCREEN_MAX_WANTED = 256, TERN_SCREEN_TASK_ROWS = 256 };

/* u_k is s * (the middle of the codes that agree in the planes 0 to k) of a row w. A step's x has the digits
 * d = t * (256 high + low); planes 1 and 2 take d' = t * 256 high alone. The estimate misses at most:
 *
 *   |full logit - estimate|  <=  |x| * (|w - u_k| + g * |w|) + |u_k| * |x - d| + |u_k - u_0| * |x - d'|
 *
 * by Cauchy and Schwarz. The term g * |x| * |w| bounds the rounding in f32. In the full product (lanes and tree) a term
 * is rounded at most cols / 16 + 5 times. In the estimate a few terms are rounded, each at most 6 |x| |w|, since
 * codes reach at most 3 root mean squares of the row. `errors` are |w - u_k| + g * |w|, at least |u_k| / 64
 * and at least s * sqrt(cols) / 2 (k = 1) or / 4 (k = 2). Weights of models exceed these anyway: one number for a row
 * is enough, and |u_k - u_0| is at most 3 or 3.5 times s * sqrt(cols). */
typedef struct tern_screen {
    uint8_t *planes[TERN_SCREEN_PLANES]; /* [rows][tern_screen__row_bytes] */
    float *scales;                       /* [rows] s */
    float *errors[TERN_SCREEN_PLANES];   /* [rows], rounded up */
    uint32_t n_rows, cols, halves;
    uint32_t n_whole, n_lost; /* steps with a tail that will read the table, after the last n_lost that read more */
} tern_screen;

/* Bytes of a row beside its planes. */
enum { TERN_SCREEN_ROW_BYTES = (1 + TERN_SCREEN_PLANES) * sizeof(float) };

/* Bits that plane k adds to a code. */
static inline uint32_t tern_screen__bits(uint32_t plane)
{
    return TERN_SCREEN_PLANES - plane;
}

static inline uint32_t tern_screen__halves(uint32_t cols)
{
    return (cols + TERN_SCREEN_HALF - 1) / TERN_SCREEN_HALF;
}

static inline size_t tern_screen__row_bytes(uint32_t halves, uint32_t plane)
{
    return (size_t)halves * 32 * tern_screen__bits(plane);
}

/* Builds the screen of a dense weight on the backend's threads. */
tern_status tern_screen__build(tern_cpu *cpu, const tern_buffer *weight, tern_screen **out, tern_error *err);
void tern_screen__free(tern_screen *screen);

/* Bytes of memory for one run over the screen of a table of n_rows rows, with n_tokens at most at once. */
size_t tern_screen__bytes(uint32_t n_rows, uint32_t cols, uint32_t n_tokens);

/* Runs a screened LINEAR for a limited number of logits. out[t][r] has the bits of the full product where r may be
 * among the n_top highest of token t; else it is -inf. false: the op must run in full. */
bool tern_screen__linear(tern_cpu_step *step, const tern_cpu_op *op);

#endif
