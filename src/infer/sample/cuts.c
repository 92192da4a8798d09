/* The cuts: which tokens stay candidates. */
#include <float.h>
#include <math.h>
#include <string.h>

#include "base/half.h"
#include "infer/sample/internal.h"
#include "ops/ref/ref.h"

enum { TOP_BITS = 11, N_DIGITS = 3 };

/* Adds up the mass of every value of a digit, among the keys that begin with `prefix`. */
static void sum_digit(const uint32_t *keys, const float *weights, uint32_t n, uint32_t mask, uint32_t prefix,
                      uint32_t shift, double *mass)
{
    memset(mass, 0, TERN_SELECT_BUCKETS * sizeof *mass);
    for (uint32_t i = 0; i < n; i++)
        if ((keys[i] & mask) == prefix) mass[(keys[i] & ~mask) >> shift] += weights ? (double)weights[i] : 1;
}

/* The first value at which the sum exceeds target, or the last that has any mass; *before gets what lies below. */
static uint32_t find_digit(const double *mass, double target, double *before)
{
    uint32_t last = 0;
    double sum = *before;
    for (uint32_t b = 0; b < TERN_SELECT_BUCKETS; b++) {
        if (!(mass[b] > 0)) continue;
        last = b;
        *before = sum;
        sum += mass[b];
        if (sum > target) break;
    }
    return last;
}

tern_cut tern_select__cut(const uint32_t *keys, const float *weights, uint32_t n, double target, double *mass)
{
    static const uint32_t shifts[N_DIGITS] = {32 - TOP_BITS, 10, 0};
    tern_cut cut = {0};
    uint32_t mask = 0;
    for (int digit = 0; digit < N_DIGITS; digit++) {
        sum_digit(keys, weights, n, mask, cut.key, shifts[digit], mass);
        cut.key |= find_digit(mass, target, &cut.before) << shifts[digit];
        mask = ~(uint32_t)0 << shifts[digit];
    }
    return cut;
}

enum { BLOCK = 64, LANES = 16 };

float tern_logits__max(const float *logits, uint32_t n)
{
    float lanes[LANES], max = -INFINITY;
    uint32_t i = 0;
    for (uint32_t l = 0; l < LANES; l++) lanes[l] = -INFINITY;
    for (; i + LANES <= n; i += LANES)
        for (uint32_t l = 0; l < LANES; l++) lanes[l] = logits[i + l] > lanes[l] ? logits[i + l] : lanes[l];
    for (; i < n; i++) max = logits[i] > max ? logits[i] : max;
    for (uint32_t l = 0; l < LANES; l++) max = lanes[l] > max ? lanes[l] : max;
    return max;
}

uint32_t tern_logits__argmax(const float *logits, uint32_t n)
{
    float max = fminf(tern_logits__max(logits, n), FLT_MAX);
    for (uint32_t i = 0; i < n && max > -INFINITY; i++)
        if (logits[i] >= max) return i;
    return 0;
}

/* Higher values get lower keys; both zeros get the same. */
static uint32_t key_of(float x)
{
    uint32_t bits = tern_f32_bits(x + 0.0f);
    return bits & 0x80000000u ? bits : ~(bits | 0x80000000u);
}

static float value_of(uint32_t key)
{
    return tern_f32_from_bits(key & 0x80000000u ? key : ~key & 0x7fffffffu);
}

/* Moves the candidates that `cut` keeps to the front: cut by their weights, or by their number. */
static void keep_above(tern_candidates *c, bool by_weight, tern_cut cut, double target)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < c->n; i++) {
        if (c->keys[i] > cut.key || (c->keys[i] == cut.key && cut.before > target)) continue;
        if (c->keys[i] == cut.key) cut.before += by_weight ? (double)c->weights[i] : 1;
        c->ids[kept] = c->ids[i];
        c->x[kept] = c->x[i];
        c->weights[kept++] = c->weights[i];
    }
    c->n = kept;
}

/* A value that at least top_k logits reach: top_k blocks of logits have a highest one that does. */
static float lower_bound(tern_candidates *c, const float *logits, uint32_t n_vocab, uint32_t top_k)
{
    uint32_t n_blocks = n_vocab / BLOCK;
    if (top_k == 0 || top_k > n_blocks) return -INFINITY;
    for (uint32_t b = 0; b < n_blocks; b++) c->keys[b] = key_of(tern_logits__max(logits + (size_t)b * BLOCK, BLOCK));
    return value_of(tern_select__cut(c->keys, NULL, n_blocks, top_k - 1, c->mass).key);
}

void tern_candidates__gather(tern_candidates *c, const float *logits, uint32_t n_vocab, uint32_t top_k)
{
    float bound = fmaxf(lower_bound(c, logits, n_vocab, top_k), -FLT_MAX);
    c->n = 0;
    c->n_vocab = n_vocab;
    for (uint32_t i = 0; i < n_vocab; i++) {
        if (!(logits[i] >= bound)) continue;
        c->ids[c->n] = (int32_t)i;
        c->x[c->n++] = logits[i] > FLT_MAX ? FLT_MAX : logits[i];
    }
    tern_candidates__top_k(c, top_k);
}

void tern_candidates__top_k(tern_candidates *c, uint32_t top_k)
{
    if (top_k == 0 || c->n <= top_k) return;
    for (uint32_t i = 0; i < c->n; i++) c->keys[i] = key_of(c->x[i]);
    keep_above(c, false, tern_select__cut(c->keys, NULL, c->n, top_k - 1, c->mass), top_k - 1);
}

/* tern_ref_exp for x <= 0 with products and sums in place of fma: compilers turn it into vectors on any CPU. */
static float exponential(float x)
{
    float t = x * TERN_EXP_LOG2E + TERN_EXP_ROUND;
    float n = t - TERN_EXP_ROUND;
    float r = (x - n * TERN_EXP_LN2_HIGH) - n * TERN_EXP_LN2_LOW;
    float p = ((TERN_EXP_C6 * r + TERN_EXP_C5) * r + TERN_EXP_C4) * r + TERN_EXP_C3;
    p = ((p * r + 0.5f) * r + 1) * r + 1;
    return tern_f32_from_bits(tern_f32_bits(p) + (tern_f32_bits(t) << 23));
}

float tern_weight__of(float x)
{
    return x < TERN_EXP_LOW ? 0 : exponential(x);
}

static void drop_below(tern_candidates *c, double least)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < c->n; i++) {
        bool stays = (double)c->weights[i] >= least;
        c->ids[kept] = c->ids[i];
        c->x[kept] = c->x[i];
        c->weights[kept] = c->weights[i];
        kept += stays;
    }
    c->n = kept;
}

void tern_candidates__weigh(tern_candidates *c, float temperature)
{
    float max = tern_logits__max(c->x, c->n);
    for (uint32_t i = 0; i < c->n; i++) {
        float x = (c->x[i] - max) / temperature, weight = exponential(x < TERN_EXP_LOW ? TERN_EXP_LOW : x);
        c->x[i] = x;
        c->weights[i] = x < TERN_EXP_LOW ? 0 : weight;
    }
    drop_below(c, FLT_TRUE_MIN);
}

static double sum_weights(const tern_candidates *c)
{
    double sum = 0;
    for (uint32_t i = 0; i < c->n; i++) sum += (double)c->weights[i];
    return sum;
}

/* log p = x - log sum e^x and entropy = log sum e^x - mean x, so that |log p + entropy| = |x - mean x|: no logarithm is
 * needed. */
void tern_candidates__typical(tern_candidates *c, float typical_p)
{
    if (typical_p >= 1) return;
    double sum = sum_weights(c), mean = 0;
    for (uint32_t i = 0; i < c->n; i++) mean += (double)c->weights[i] * (double)c->x[i];
    mean /= sum;
    for (uint32_t i = 0; i < c->n; i++) c->keys[i] = tern_f32_bits((float)fabs((double)c->x[i] - mean));
    double target = (double)typical_p * sum;
    keep_above(c, true, tern_select__cut(c->keys, c->weights, c->n, target, c->mass), target);
}

void tern_candidates__top_p(tern_candidates *c, float top_p)
{
    if (top_p >= 1) return;
    double sum = sum_weights(c), target = (double)top_p * sum;
    drop_below(c, (sum - target) / (2.0 * c->n)); /* all of them together: half of what goes */
    for (uint32_t i = 0; i < c->n; i++) c->keys[i] = key_of(c->x[i]);
    keep_above(c, true, tern_select__cut(c->keys, c->weights, c->n, target, c->mass), target);
}

void tern_candidates__min_p(tern_candidates *c, float min_p)
{
    drop_below(c, (double)min_p * (double)tern_logits__max(c->weights, c->n));
}

int32_t tern_candidates__draw(const tern_candidates *c, double u)
{
    double target = u * sum_weights(c), sum = 0;
    for (uint32_t i = 0; i < c->n; i++) {
        sum += (double)c->weights[i];
        if (sum > target) return c->ids[i];
    }
    return c->ids[c->n - 1];
}

/* ---- with candidates missing */

static const double ROUNDING = 1e-9; /* of a sum: more than roundings come to, whatever its order */

static uint32_t count_kept(const tern_candidates *c, tern_cut cut, double target)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < c->n; i++) {
        if (c->keys[i] > cut.key || (c->keys[i] == cut.key && cut.before > target)) continue;
        if (c->keys[i] == cut.key) cut.before += (double)c->weights[i];
        n++;
    }
    return n;
}

/* The nucleus, where it is the same with all that is missing and with nothing of it, and every one that is missing
 * weighs less than its last. */
static bool decide_top_p(tern_candidates *c, float top_p, double missing)
{
    const double sum = sum_weights(c), low = (double)top_p * sum * (1 - ROUNDING),
                 high = (double)top_p * (sum + missing) * (1 + ROUNDING);
    if (high >= sum * (1 - ROUNDING)) return false;
    for (uint32_t i = 0; i < c->n; i++) c->keys[i] = key_of(c->x[i]);
    const tern_cut least = tern_select__cut(c->keys, c->weights, c->n, low, c->mass),
                   most = tern_select__cut(c->keys, c->weights, c->n, high, c->mass);
    if (least.key != most.key || count_kept(c, least, low) != count_kept(c, most, high)) return false;
    keep_above(c, true, least, low);
    for (uint32_t i = 0; i < c->n; i++)
        if (!((double)c->weights[i] > missing)) return false;
    return true;
}

/* The candidate at which the sum exceeds the target whatever is missing before and after it. */
static int32_t decide_draw(const tern_candidates *c, double u, double missing)
{
    const double all = sum_weights(c), low = u * all * (1 - ROUNDING), high = u * (all + missing) * (1 + ROUNDING);
    double sum = 0;
    for (uint32_t i = 0; i < c->n; i++) {
        const double before = sum;
        sum += (double)c->weights[i];
        if (sum * (1 - ROUNDING) <= high) continue;
        return (before + missing) * (1 + ROUNDING) <= low ? c->ids[i] : TERN_SAMPLER_UNDECIDED;
    }
    return TERN_SAMPLER_UNDECIDED;
}

int32_t tern_candidates__decide(tern_candidates *c, const tern_sampler_params *p, double u, double missing)
{
    if (p->top_p < 1 && !decide_top_p(c, p->top_p, missing)) return TERN_SAMPLER_UNDECIDED;
    if (p->top_p >= 1 && !((double)p->min_p > missing)) return decide_draw(c, u, missing);
    tern_candidates__min_p(c, p->min_p);
    return tern_candidates__draw(c, u);
}
