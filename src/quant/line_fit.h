/* Numbers as a scale times levels from 0 up, less a minimum: searches for the least squared error. */
#ifndef TERN_QUANT_LINE_FIT_H
#define TERN_QUANT_LINE_FIT_H

#include <stdbool.h>
#include <stdint.h>

/* x = scale * q - min, scale not negative. */
typedef struct tern_line {
    float scale, min;
} tern_line;

/* Groups of n numbers (a multiple of 4, at most 32), q a whole number from 0 to top. Scales are tried that divide the
 * range of the numbers into first, first + step, ... parts. With `positive`, min is not negative. */
typedef struct tern_line_fit {
    int n;
    float top;
    float first, step;
    int candidates;
    bool positive;
    int most_multiple; /* of blocks: the largest multiple of the block's scale and minimum */
} tern_line_fit;

/* The best line found for one group. Here and below, w: what each number's squared error counts for, or NULL: 1. */
tern_line tern_line_fit__group(const tern_line_fit *f, const float *x, const float *w);
/* The line with f16 numbers that serves the group best, as f16 scale and f16 -min, and its levels. */
void tern_line_fit__halves(const tern_line_fit *f, const float *x, const float *w, uint16_t *scale, uint16_t *least,
                           float *q);
/* 256 numbers as x = d * scales[g] * q - d_min * mins[g]: the f16 d and d_min at `halves`, the multiples of the 256 / n
 * groups, and the levels of all numbers. */
void tern_line_fit__block(const tern_line_fit *f, const float *x, const float *w, uint16_t *halves, uint8_t *scales,
                          uint8_t *mins, float *q);

#endif
