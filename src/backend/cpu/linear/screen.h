/* `--head exact`: a screen of 6 bits a weight bounds every logit, and only rows that may be among the wanted ones are
 * read in full. */
#ifndef TERN_BACKEND_CPU_LINEAR_SCREEN_H
#define TERN_BACKEND_CPU_LINEAR_SCREEN_H

#include "backend/cpu/cpu_internal.h"

/* The most logits that can be asked for by number; above it every row is computed. */
enum { TERN_SCREEN_MAX_WANTED = 256, TERN_SCREEN_TASK_ROWS = 256 };

/* For a row w with screen u = s * (code - 31) and a step's x with digits d = t * (256 high + low):
 *
 *   |full logit - u . d|  <=  |x| * (|w - u| + g * |w|) + |u| * |x - d|
 *
 * by Cauchy and Schwarz, with g * |x| * |w| bounding what f32 rounding can add to the full product (lanes and tree: at
 * most cols / 16 + 5 roundings for each term). Norms are computed in f64 and rounded up. */
typedef struct tern_screen_row {
    float scale; /* s */
    float error; /* |w - u| + g * |w| */
    float norm;  /* |u| */
} tern_screen_row;

static inline uint32_t tern_screen__groups(uint32_t cols)
{
    return (cols + TERN_SCREEN_GROUP - 1) / TERN_SCREEN_GROUP;
}

typedef struct tern_screen {
    uint8_t *codes; /* [rows][groups * 192] */
    tern_screen_row *rows;
    uint32_t n_rows, cols, groups;
} tern_screen;

/* Builds the screen of a dense weight on the backend's threads. */
tern_status tern_screen__build(tern_cpu *cpu, const tern_buffer *weight, tern_screen **out, tern_error *err);
void tern_screen__free(tern_screen *screen);

/* Bytes of memory for one run over the screen of a table of n_rows rows. */
size_t tern_screen__bytes(uint32_t n_rows, uint32_t cols);
/* logits[r] for every row: the full product's bits where r may be among the `wanted` highest, else -inf. Returns how
 * many rows were read in full. `memory`: tern_screen__bytes bytes, aligned to 64. */
uint32_t tern_screen__run(tern_cpu *cpu, const tern_screen *screen, const tern_buffer *weight, const float *x,
                          uint32_t wanted, float *logits, uint8_t *memory);

/* Runs a screened LINEAR when a number of logits is asked for; false: it has to be run in full. */
bool tern_screen__linear(tern_cpu_step *step, const tern_cpu_op *op);

#endif
