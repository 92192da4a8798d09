/* Declarations that the files of the sampler share: the candidates, and the cuts that thin them out. */
#ifndef TERN_INFER_SAMPLE_INTERNAL_H
#define TERN_INFER_SAMPLE_INTERNAL_H

#include "infer/sample/sampler.h"

enum { TERN_SELECT_BUCKETS = 2048 };

/* The tokens that can still be drawn, ids ascending. Every sum over them runs in that order in f64, so that it has the
 * same bits everywhere. All arrays hold n_vocab elements. */
typedef struct tern_candidates {
    int32_t *ids;
    float *x;       /* (logit - highest logit) / temperature; the logit itself until the candidates are weighed */
    float *weights; /* e^x, never 0 once weighed */
    uint32_t *keys; /* scratch: what a cut orders by, least first */
    double *mass;   /* scratch [TERN_SELECT_BUCKETS] */
    uint32_t n;
    uint32_t n_vocab;
} tern_candidates;

/* Where a sequence ordered by (key, place) is cut. */
typedef struct tern_cut {
    uint32_t key;  /* all below stay, all above go */
    double before; /* the mass of those below: of the equal ones, those stay before which there is at most `target` */
} tern_cut;

/* The cut after the first element at which the running sum of weights exceeds target. `weights` [n], or NULL for 1
 * each. Linear in n: no sorting. */
tern_cut tern_select__cut(const uint32_t *keys, const float *weights, uint32_t n, double target, double *mass);

/* Shared with the chain: a value outside a range is an error; what penalties make of a logit; how often the tokens of
 * the last penalty_last_n of the history are there, into counts [n_vocab], and back to zero. */
tern_status tern_sampler__check_range(const char *name, float value, float low, float high, tern_error *err);
float tern_sampler__penalised(float logit, const tern_sampler_params *params, uint32_t count);
void tern_sampler__count(uint32_t *counts, uint32_t n_vocab, const tern_sampler_params *params, const int32_t *history,
                         uint32_t n);
void tern_sampler__forget(uint32_t *counts, uint32_t n_vocab, const tern_sampler_params *params, const int32_t *history,
                          uint32_t n);

/* e^x for x <= 0, 0 below TERN_EXP_LOW; the same bits on any CPU. */
float tern_weight__of(float x);

/* The largest value that is not NaN, -INFINITY when there is none; and its lowest index (+INFINITY counts as
 * the largest finite f32 there), 0 when there is none. */
float tern_logits__max(const float *logits, uint32_t n);
uint32_t tern_logits__argmax(const float *logits, uint32_t n);

/* The top_k highest logits (0: all), ties by the lower id, NaN and -INFINITY left out; +INFINITY counts as the largest
 * finite f32. */
void tern_candidates__gather(tern_candidates *c, const float *logits, uint32_t n_vocab, uint32_t top_k);
/* Keeps the top_k highest (0: all), ties by the lower id. */
void tern_candidates__top_k(tern_candidates *c, uint32_t top_k);
/* Fills x and weights, and drops those whose weight is 0. */
void tern_candidates__weigh(tern_candidates *c, float temperature);
/* Locally typical: in order of |log p + entropy|, up to the first at which the running sum of p exceeds typical_p
 * (Meister, Pimentel, Wiher, Cotterell, "Locally typical sampling", 2022). */
void tern_candidates__typical(tern_candidates *c, float typical_p);
/* Nucleus: in order of p, up to the first at which the running sum exceeds top_p (Holtzman et al., arXiv:1904.09751).
 */
void tern_candidates__top_p(tern_candidates *c, float top_p);
/* Those with p >= min_p times the highest p. */
void tern_candidates__min_p(tern_candidates *c, float min_p);
/* The first candidate at which the running sum of p exceeds u, 0 <= u < 1. */
int32_t tern_candidates__draw(const tern_candidates *c, double u);
/* The token that top-p, min-p and the draw choose where candidates are missing that weigh at most `missing` together,
 * or TERN_SAMPLER_UNDECIDED where they may change it. typical_p and top_k are off. */
int32_t tern_candidates__decide(tern_candidates *c, const tern_sampler_params *params, double u, double missing);

#endif
