/* Numbers as one scale times whole levels: searches for the least squared error. */
#ifndef TERN_QUANT_SIGNED_FIT_H
#define TERN_QUANT_SIGNED_FIT_H

#include <stdint.h>

enum { TERN_SIGNED_GROUP = 16, TERN_SIGNED_GROUPS = 16 };

/* n numbers (a multiple of 4, at most 256) are read as x = scale * q, q a whole number from low to high. Scales are
 * tried that put the number of largest magnitude on levels first, first + step, ... */
typedef struct tern_signed_fit {
    int n;
    float low, high;
    float first, step;
    int candidates;
} tern_signed_fit;

/* q[i] = x[i] / scale, rounded half to even and clamped; 0 where scale is 0. */
void tern_signed_fit__levels(const tern_signed_fit *f, const float *x, float scale, float *q);
/* The best scale found, of either sign; 0 for numbers below 2^-40, which no f16 scale holds. Here
 * and below, w: what each number's squared error counts for, or NULL: 1. */
float tern_signed_fit__scale(const tern_signed_fit *f, const float *x, const float *w);
/* As above rounded to f16, and the levels of that: the contents of a block with one scale. Returns the f16. */
uint16_t tern_signed_fit__half(const tern_signed_fit *f, const float *x, const float *w, float *q);
/* 16 groups of 16 numbers as x = d * multiple * q, multiples from `least` (below 0) to -least - 1: the f16 d, the
 * multiples and the levels q. f->n is 16. */
uint16_t tern_signed_fit__groups(const tern_signed_fit *f, int least, const float *x, const float *w, int8_t *multiples,
                                 float *q);

#endif
