/* Optimisers and what surrounds them, in plain C, on one tensor: what each update kernel must compute. No function
 * allocates; all are thread-safe on distinct tensors, and elementwise unless they say otherwise, so a tensor may be
 * cut anywhere.
 *
 * Formulas and the order of operations are PyTorch's (torch.optim, single tensor, foreach=False), so losses can be
 * compared step by step. The few factors of a step are made in f64 on the host; the elementwise part is f32, each
 * operation rounded (plain), without fma. */
#ifndef TERN_OPS_REF_UPDATE_H
#define TERN_OPS_REF_UPDATE_H

#include <stddef.h>
#include <stdint.h>

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
 *   g  in  [n]       w, m, v  in/out  [n]; m and v start at zero */
void tern_ref_adamw(const tern_adamw_factors *f, const float *g, size_t n, float *w, float *m, float *v);

/* Sum of squares of n gradients: in chunks of 4096 the 16 lanes and tree of ref.h in f32, the chunks added in f64 in
 * order. The norm of a model is the root of the sum over its tensors. */
enum { TERN_NORM_CHUNK = 4096 };

double tern_ref_sum_squares(const float *g, size_t n);
/* The factor that clips gradients of this norm (torch.nn.utils.clip_grad_norm_): min(1, max_norm / (norm + 1e-6)); 1
 * when max_norm is 0 (no clipping). A NaN norm gives NaN, so that the step is seen to have failed. */
float tern_ref_clip_factor(double norm, double max_norm);
/* g[i] *= factor */
void tern_ref_scale(float factor, size_t n, float *g);

/* What the learning rate is multiplied by at `step`, from 0 (transformers' get_*_schedule_with_warmup, half a
 * cosine). With w = n_warmup:
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
 *   unsigned (v):  value = (q / 255)^4 * s,  q = max(1, rint(255 * sqrtf(sqrtf(x / s))))  uint8
 * Powers instead of a straight map, as small moments matter: AdamW divides by sqrt(v), so a v that is not 0 never
 * reads as 0. The last block may be shorter. x of the unsigned map is at least 0. Both are finite. */
enum { TERN_STATE_BLOCK = 256 };

void tern_ref_state_pack(const float *x, size_t n, int8_t *q, float *scales);
void tern_ref_state_unpack(const int8_t *q, const float *scales, size_t n, float *x);
void tern_ref_square_pack(const float *x, size_t n, uint8_t *q, float *scales);
void tern_ref_square_unpack(const uint8_t *q, const float *scales, size_t n, float *x);

/* Requantisation of a shadow tensor to ternary; exactly tern_ternarise (quant/encoding.h) in two passes, because
 * every code needs the whole tensor's scale. absmean: max(mean |w|, 1e-5), added in f64 by chunks of 4096. */
float tern_ref_absmean(const float *w, size_t n);
/* code = clamp(rint(w * (1 / scale)), -1, 1) to i2_s groups; n a multiple of 128, packed [n / 4] bytes. */
void tern_ref_requantize_i2_s(const float *w, size_t n, float scale, uint8_t *packed);

#endif
