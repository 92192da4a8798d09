/* Softmax, its backward and cross-entropy of one row, for the level whose vectors are included before. */
#ifndef TERN_BACKEND_CPU_SOFTMAX_BODY_H
#define TERN_BACKEND_CPU_SOFTMAX_BODY_H

#include "backend/cpu/floats.h"

/* n < TERN_LANES floats, the same value after them. */
INLINE void pad_with(float out[TERN_LANES], const float *x, size_t n, float value)
{
    for (int i = 0; i < TERN_LANES; i++) out[i] = value;
    memcpy(out, x, n * sizeof *out);
}

/* Columns from the multiple of 16 below first to the one above end. */
typedef struct whole_columns {
    uint32_t first, end;
} whole_columns;

INLINE whole_columns whole(uint32_t first, uint32_t end)
{
    return (whole_columns){first / TERN_LANES * TERN_LANES, (end + TERN_LANES - 1) / TERN_LANES * TERN_LANES};
}

void KERNEL_NAME(softmax)(float *s, uint32_t first, uint32_t end, float scale, float *m, float *l)
{
    const whole_columns all = whole(first, end);
    vec most = vec_set(-HUGE_VALF);
    lanes sum = lanes_zero();
    for (uint32_t j = all.first; j < first; j++) s[j] = -HUGE_VALF;
    for (uint32_t j = end; j < all.end; j++) s[j] = -HUGE_VALF;
    for (uint32_t j = all.first; j < all.end; j += VEC) {
        const vec scaled = vec_mul(vec_load(s + j), vec_set(scale));
        vec_store(s + j, scaled);
        most = vec_max(scaled, most);
    }
    const vec largest = vec_set(*m = vec_largest(most) + 0.0f);
    for (uint32_t j = all.first; j < all.end; j += TERN_LANES) {
        UNROLL
        for (int i = 0; i < PARTS; i++) {
            const vec p = vec_exp(vec_sub(vec_load(s + j + i * VEC), largest));
            vec_store(s + j + i * VEC, p);
            sum.v[i] = vec_add(sum.v[i], p);
        }
    }
    *l = lanes_sum(sum.v);
}

void KERNEL_NAME(softmax_backward)(float *s, float *dp, uint32_t first, uint32_t end, const tern_softmax_row *row)
{
    const whole_columns all = whole(first, end);
    const vec scale = vec_set(row->scale), r = vec_set(1 / row->l);
    for (uint32_t j = all.first; j < all.end; j += VEC) {
        const vec p = vec_mul(vec_exp(vec_sub(vec_mul(vec_load(s + j), scale), vec_set(row->m))), r);
        vec_store(s + j, p);
        vec_store(dp + j, vec_mul(vec_mul(p, vec_sub(vec_load(dp + j), vec_set(row->delta))), scale));
    }
}

static float largest_of(const float *z, uint32_t n)
{
    float rest[TERN_LANES];
    vec most = vec_set(-HUGE_VALF);
    uint32_t at = 0;
    for (; n - at >= VEC; at += VEC) most = vec_max(vec_load(z + at), most);
    pad_with(rest, z + at, n - at, -HUGE_VALF);
    return vec_largest(vec_max(vec_load(rest), most));
}

/* z[i] = exp(z[i] - most); their sum in lanes and tree. */
static float exponentials_of(float *z, uint32_t n, float most)
{
    float rest[TERN_LANES];
    lanes sum = lanes_zero();
    uint32_t at = 0;
    for (; n - at >= TERN_LANES; at += TERN_LANES) {
        UNROLL
        for (int i = 0; i < PARTS; i++) {
            const vec p = vec_exp(vec_sub(vec_load(z + at + i * VEC), vec_set(most)));
            vec_store(z + at + i * VEC, p);
            sum.v[i] = vec_add(sum.v[i], p);
        }
    }
    pad_with(rest, z + at, n - at, most);
    for (int i = 0; i < TERN_LANES; i += VEC) vec_store(rest + i, vec_exp(vec_sub(vec_load(rest + i), vec_set(most))));
    memcpy(z + at, rest, (n - at) * sizeof *z);
    pad_with(rest, z + at, n - at, 0);
    for (int i = 0; i < PARTS; i++) sum.v[i] = vec_add(sum.v[i], vec_load(rest + i * VEC));
    return lanes_sum(sum.v);
}

float KERNEL_NAME(cross_entropy)(float *z, uint32_t n_vocab, int32_t label, float weight)
{
    if (label < 0 || (uint32_t)label >= n_vocab) {
        memset(z, 0, n_vocab * sizeof *z);
        return 0;
    }
    const float wanted = z[label], most = largest_of(z, n_vocab), sum = exponentials_of(z, n_vocab, most), r = 1 / sum;
    const float p = z[label];
    uint32_t at = 0;
    for (; n_vocab - at >= VEC; at += VEC)
        vec_store(z + at, vec_mul(vec_set(weight), vec_mul(vec_load(z + at), vec_set(r))));
    for (; at < n_vocab; at++) z[at] = weight * (z[at] * r);
    z[label] = weight * (p * r - 1);
    return (float)(log((double)sum) + (double)most - (double)wanted);
}

#endif
