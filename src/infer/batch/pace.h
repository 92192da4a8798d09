/* How many tokens of prompts a step takes beside those that decode, by the time that steps took. */
#ifndef TERN_INFER_BATCH_PACE_H
#define TERN_INFER_BATCH_PACE_H

#include <stdint.h>

#include "base/error.h"

/* The times of steps of so many rows: the lower of the last two counts, as one slow step says little. */
typedef struct tern_pace_cost {
    double ms[2]; /* 0: not known */
    uint64_t step;
} tern_pace_cost;

typedef struct tern_pace {
    uint32_t n_batch;
    double most_ms; /* of a step; 0: by what decoding alone takes */
    uint64_t n_steps;
    double *decode_ms;     /* [n_batch + 1] of steps of so many rows that only decode; 0: not known */
    tern_pace_cost *mixed; /* [n_batch + 1] of steps that decode and take tokens of prompts */
} tern_pace;

tern_status tern_pace_init(tern_pace *pace, uint32_t n_batch, double most_ms, tern_error *err);
void tern_pace_deinit(tern_pace *pace);
/* Tokens of prompts, at least 1, for a step with so many rows that decode, 1 to n_batch - 1: as many as let it take at
 * most most_ms, or about twice what decoding alone takes. A number of rows that was never timed is approached
 * from below, as far as the time of fewer rows predicts that it fits. Where the kernel changes, one row more can take
 * twice as long. */
uint32_t tern_pace_chunk(const tern_pace *pace, uint32_t n_decoding);
/* A step of n_decoding and n_prompt rows took `ms`. */
void tern_pace_learn(tern_pace *pace, uint32_t n_decoding, uint32_t n_prompt, double ms);

#endif
