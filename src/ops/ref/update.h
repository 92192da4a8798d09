/* Optimisers and what surrounds them, in plain C, on one tensor: what each update kernel must compute. No function
 * allocates; all are thread-safe on distinct tensors, and elementwise unless they say otherwise, so a tensor may be
 * cut anywhere (those with 8-bit states between blocks).
 *
 * Formulas and the order of operations are PyTorch's (torch.optim, single tensor, foreach=False), so losses can be
 * compared step by step. The few factors of a step are made in f64 on the host; the elementwise part is f32, each
 * operation rounded (plain), without fma, and its result flushed (base/flush.h), as is every number that is read. So
 * all devices have the same bits (docs/decisions/0018-exact-updates.md), whatever the numbers are: a gradient
 * that is NaN counts as 0, one that is infinite as the largest float. Whoever calls sees to it that they are finite
 * (tern_ref_sum_squares). */
#ifndef TERN_OPS_REF_UPDATE_H
#define TERN_OPS_REF_UPDATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ops/dtype.h"
#include "ops/params.h"

/* Stochastic gradient descent, with momentum when buffer is not NULL (it starts at zero; dampening 0, no Nesterov).
 *
 *   d = g + decay * w;   buffer = momentum * buffer + d, d = buffer;   w = w - lr * d */
typedef struct tern_sgd {
    float lr, momentum, decay;
} tern_sgd;

void tern_ref_sgd(const tern_sgd *sgd, const float *g, size_t n, float *w, float *buffer);

/* AdamW (Loshchilov and Hutter, arXiv:1711.05101): decay apart from the gradient, both moments bias-corrected. */
typedef struct tern_adamw {
    double lr, beta1, beta2, eps, decay;
} tern_adamw;

/* The factors of step `step`, which counts from 1. */
typedef struct tern_adamw_factors {
    float keep;          /* 1 - lr * decay */
    float blend1;        /* 1 - beta1 */
    float beta2, blend2; /* beta2, 1 - beta2 */
    float root;          /* sqrt(1 - beta2^step) */
    float eps;
    float pace; /* lr / (1 - beta1^step) */
} tern_adamw_factors;

tern_adamw_factors tern_ref_adamw_factors(const tern_adamw *adamw, uint64_t step);

/*   w = w * keep;  m = m + blend1 * (g - m);  v = v * beta2 + (blend2 * g) * g
 *   w = w - pace * (m / (sqrtf(v) / root + eps))
 *
 *   g  in  [n]       w, m, v  in/out  [n]; m and v start at zero. A v below 0 counts as 0. */
void tern_ref_adamw(const tern_adamw_factors *f, const float *g, size_t n, float *w, float *m, float *v);

/* Sum of squares of n gradients. Runs of 4096 are added in 128 lanes (element i in lane i mod 128, ascending, from +0)
 * and a tree (lane[l] += lane[l + 64] for l < 64, then 32, ... 1); the sums of the runs in the same way, until one is
 * left. Squares are flushed, sums rounded. Anything that is not finite, among the gradients or the sums, gives
 * +infinity. The norm of a model is the root of the sum over its tensors. */
enum { TERN_NORM_CHUNK = 4096, TERN_NORM_LANES = 128 };

float tern_ref_sum_squares(const float *g, size_t n);
/* The factor that clips gradients of this norm (torch.nn.utils.clip_grad_norm_): min(1, max_norm / (norm + 1e-6)); 1
 * when max_norm is 0 (no clipping). A NaN norm gives NaN, so that the step is seen to have failed. */
float tern_ref_clip_factor(double norm, double max_norm);
/* g[i] *= factor */
void tern_ref_scale(float factor, size_t n, float *g);

/* The factor of the learning rate at `step`, from 0 (transformers' get_*_schedule_with_warmup, half a cosine). With w =
 * n_warmup:
 *   step < w: step / w;   constant: 1;   linear: (n - step) / (n - w);
 *   cosine: (1 + cos(pi * (step - w) / (n - w))) / 2
 * and 0 from step n on, except constant. n and w: steps in all, steps of warm-up. */
typedef enum tern_schedule { TERN_SCHEDULE_CONSTANT, TERN_SCHEDULE_LINEAR, TERN_SCHEDULE_COSINE } tern_schedule;

double tern_ref_schedule(tern_schedule schedule, uint64_t step, uint64_t n_warmup, uint64_t n_steps);

/* 32 bits that look random, for element `index` of a tensor: the same on every device, from 32-bit operations alone.
 * `seed` should differ from tensor to tensor and from step to step.
 *
 *   bits = mix(mix(index + 0x9e3779b9) ^ mix(seed + 0x7f4a7c15))   modulo 2^32, a permutation of the index
 *   mix(h): h ^= h >> 16;  h *= 0x85ebca6b;  h ^= h >> 13;  h *= 0xc2b2ae35;  h ^= h >> 16
 * (the finaliser of MurmurHash3, A. Appleby) */
uint32_t tern_ref_random_bits(uint32_t seed, uint32_t index);

/* f32 to bf16 rounded up or down at random, so that the mean is the value: the upper 16 bits of (bits(v) + (random &
 * 0xffff)). Infinities are kept, NaN stays NaN, and a finite value never becomes infinite: it stops at the largest
 * finite bf16. */
uint16_t tern_ref_bf16_stochastic(float v, uint32_t random);

/* Optimiser states in 8 bits: blocks of 256, each with the f32 scale s = max |x| of the block (0: all are 0).
 *   signed (m):    value = sign(q) * (|q| / 127)^2 * s,  q = sign(x) * rint(127 * sqrtf(|x| / s))  int8
 *   unsigned (v):  value = (q / 255)^4 * s               uint8
 * Powers instead of a straight map, as small moments matter. AdamW divides by sqrt(v), so a v that is not 0 never
 * reads as 0. Both q / 127 and q / 255 are products with the rounded 1 / 127 and 1 / 255.
 *
 * A first moment moves by a good part of each gradient and is rounded to the nearest code. A second moment moves by a
 * thousandth, which would be lost each time: it is rounded at random, so that the mean of its values is x. With
 * r = random >> 16, y = x / s, q = (uint8)(255 * sqrtf(sqrtf(y))) and a, b the values of q and q + 1 for s = 1:
 *   q += (r * 2^-16) * (b - a) < y - a;   at least 1 where x > 0, at most 255
 * Every operation flushed. The last block may be shorter. x of the unsigned map is at least 0.
 *   random  in  [n], what tern_ref_random_bits gave */
enum { TERN_STATE_BLOCK = 256 };
#define TERN_STATE_STEP  0x1.020408p-7f /* 1 / 127 */
#define TERN_SQUARE_STEP 0x1.010102p-8f /* 1 / 255 */

void tern_ref_state_pack(const float *x, size_t n, int8_t *q, float *scales);
void tern_ref_state_unpack(const int8_t *q, const float *scales, size_t n, float *x);
void tern_ref_square_pack(const float *x, size_t n, const uint32_t *random, uint8_t *q, float *scales);
void tern_ref_square_unpack(const uint8_t *q, const float *scales, size_t n, float *x);

/* UPDATE: one step of a run of a tensor, in the types that it is stored in.
 *
 *   g = g * clip;  the optimiser's step;  g = 0
 *
 * Element i of the tensor draws r = tern_ref_random_bits(seed, i) and, for v, r' = tern_ref_random_bits(~seed, i).
 * BF16: w by tern_ref_bf16_stochastic(w, r), v by tern_ref_bf16_stochastic(v, r' >> 16), m to the nearest even.
 * M8 as above; V8 with r'. */
typedef struct tern_update_args {
    const tern_train_params *params;
    tern_optimizer optimizer;
    bool decays;       /* else keep counts as 1, decay as 0 */
    uint32_t seed;     /* params->seed + stream * 0x9e3779b9 */
    uint32_t first, n; /* elements; first is a multiple of TERN_STATE_BLOCK */
    tern_dtype w_dtype, m_dtype, v_dtype;
    void *w, *m, *v;                /* of element `first`; m NULL: SGD without momentum; v NULL: SGD */
    float *g, *m_scales, *v_scales; /* [n]; of the block of element `first` */
} tern_update_args;

typedef void (*tern_update_fn)(const tern_update_args *args);

void tern_ref_update(const tern_update_args *args);

/* SUM_SQUARES in parts: the sum of one run of at most TERN_NORM_CHUNK gradients, or of such sums. */
typedef float (*tern_sum_run_fn)(const float *x, size_t n, bool squares);

float tern_ref_sum_run(const float *x, size_t n, bool squares);

/* Requantisation of a shadow tensor to ternary, exactly tern_ternarise (quant/encoding.h), in passes, because every
 * code needs the whole tensor's scale: the largest exponent, the sum of all magnitudes (quant/absmean.h), the codes.
 * Masters of n elements are F32 or BF16. */
float tern_ref_absmean(const float *w, size_t n);

/* `most` > 0: the masters are cut to +- most first (BF16 to the nearest), where most = clamp * the scale that
 * the codes have so far, flushed. */
typedef uint32_t (*tern_requantize_exponent_fn)(tern_dtype dtype, void *w, size_t n, float most);
typedef uint64_t (*tern_requantize_units_fn)(tern_dtype dtype, const void *w, size_t n, uint32_t exponent);

uint32_t tern_ref_requantize_exponent(tern_dtype dtype, void *w, size_t n, float most);
uint64_t tern_ref_requantize_units(tern_dtype dtype, const void *w, size_t n, uint32_t exponent);

/* Which codes: +-1 where |w * factor| > bound, with the sign of w. */
typedef struct tern_ternary_rule {
    float scale, factor, bound;
} tern_ternary_rule;

/* threshold 0: round(w / scale), that is factor 1 / scale and bound 1/2; else |w| > threshold * scale. */
tern_ternary_rule tern_ref_ternary_rule(float scale, float threshold);

/* The codes of n masters to i2_s groups, the last one filled up with zero codes: packed [ceil(n / 128) * 32] bytes. */
typedef void (*tern_requantize_codes_fn)(tern_dtype dtype, const void *w, size_t n, tern_ternary_rule rule,
                                         uint8_t *packed);
/* out = w + blend * (scale * code - w), flushed; with blend 1, scale * code. */
typedef void (*tern_requantize_blend_fn)(tern_dtype dtype, const void *w, size_t n, tern_ternary_rule rule, float blend,
                                         float *out);

void tern_ref_requantize_codes(tern_dtype dtype, const void *w, size_t n, tern_ternary_rule rule, uint8_t *packed);
void tern_ref_requantize_blend(tern_dtype dtype, const void *w, size_t n, tern_ternary_rule rule, float blend,
                               float *out);

#endif
