/* Vectors of floats on 64-bit ARM: four registers are the 16 lanes of a sum. floats.h documents each function. */
#ifndef TERN_BACKEND_CPU_FLOATS_NEON_H
#define TERN_BACKEND_CPU_FLOATS_NEON_H

#include <arm_neon.h>
#include <float.h>
#include <stdint.h>

#define LEVEL neon

typedef float32x4_t vec;
typedef int32x4_t ivec;
typedef uint8x16_t bvec;
enum { VEC = 4, TILE_ROWS = 4, VALUE_VECS = 4 };

static inline vec vec_load(const void *p)
{
    return vreinterpretq_f32_u8(vld1q_u8(p));
}

static inline void vec_store(float *p, vec v)
{
    vst1q_f32(p, v);
}

static inline vec vec_set(float v)
{
    return vdupq_n_f32(v);
}

static inline vec vec_held(vec v)
{
    return v;
}

static inline vec vec_add(vec a, vec b)
{
    return vaddq_f32(a, b);
}

static inline vec vec_sub(vec a, vec b)
{
    return vsubq_f32(a, b);
}

static inline vec vec_mul(vec a, vec b)
{
    return vmulq_f32(a, b);
}

static inline vec vec_div(vec a, vec b)
{
    return vdivq_f32(a, b);
}

static inline vec vec_fma(vec a, vec b, vec c)
{
    return vfmaq_f32(c, a, b);
}

static inline vec vec_max(vec a, vec b)
{
    return vbslq_f32(vcgtq_f32(a, b), a, b);
}

static inline vec vec_where_positive(vec g, vec v)
{
    return vreinterpretq_f32_u32(vandq_u32(vcgtq_f32(g, vdupq_n_f32(0)), vreinterpretq_u32_f32(v)));
}

static inline vec vec_clamp(vec x, vec low, vec high)
{
    x = vbslq_f32(vcgtq_f32(x, high), high, x);
    return vbslq_f32(vcltq_f32(x, low), low, x);
}

static inline vec vec_finite(vec v)
{
    vec number = vreinterpretq_f32_u32(vandq_u32(vceqq_f32(v, v), vreinterpretq_u32_f32(v)));
    return vmaxq_f32(vminq_f32(number, vec_set(FLT_MAX)), vec_set(-FLT_MAX));
}

static inline vec vec_abs(vec v)
{
    return vabsq_f32(v);
}

static inline float vec_largest(vec v)
{
    return vmaxvq_f32(v);
}

static inline vec vec_load_f16(const void *p)
{
    return vcvt_f32_f16(vreinterpret_f16_u8(vld1_u8(p)));
}

static inline void vec_store_f16(void *p, vec v)
{
    vst1_u8(p, vreinterpret_u8_f16(vcvt_f16_f32(v)));
}

static inline vec vec_load_bf16(const void *p)
{
    return vreinterpretq_f32_u32(vshll_n_u16(vreinterpret_u16_u8(vld1_u8(p)), 16));
}

static inline vec vec_load_i8(const void *p)
{
    const int8_t *q = p;
    const int32_t four[4] = {q[0], q[1], q[2], q[3]};
    return vcvtq_f32_s32(vld1q_s32(four));
}

static inline bvec bvec_look_up(bvec table, bvec at)
{
    return vqtbl1q_u8(table, at);
}

/* All lanes the f16 at p; eight bytes are read. */
static inline vec vec_set_f16(const void *p)
{
    return vdupq_laneq_f32(vec_load_f16(p), 0);
}

static inline ivec vec_round(vec v)
{
    return vcvtnq_s32_f32(v);
}

static inline void ivec_store_i8(int8_t *p, ivec v)
{
    int16x4_t words = vqmovn_s32(v);
    int8x8_t bytes = vqmovn_s16(vcombine_s16(words, words));
    vst1_lane_u32((void *)p, vreinterpret_u32_s8(bytes), 0);
}

static inline ivec ivec_zero(void)
{
    return vdupq_n_s32(0);
}

static inline ivec ivec_add(ivec a, ivec b)
{
    return vaddq_s32(a, b);
}

static inline int32_t ivec_sum(ivec v)
{
    return vaddvq_s32(v);
}

static inline vec vec_add_exponent(vec p, vec t)
{
    return vreinterpretq_f32_u32(vaddq_u32(vreinterpretq_u32_f32(p), vshlq_n_u32(vreinterpretq_u32_f32(t), 23)));
}

static inline vec vec_exp_edges(vec x, vec y, float low, float high, float infinity)
{
    y = vbslq_f32(vcltq_f32(x, vec_set(low)), vec_set(0), y);
    y = vbslq_f32(vcgtq_f32(x, vec_set(high)), vec_set(infinity), y);
    return vbslq_f32(vceqq_f32(x, x), y, x);
}

static inline void vec_load_pairs(const float *p, vec *first, vec *second)
{
    float32x4x2_t v = vld2q_f32(p);
    *first = v.val[0];
    *second = v.val[1];
}

static inline void vec_store_pairs(float *p, vec first, vec second)
{
    const float32x4x2_t both = {{first, second}}; /* clang's vst2q_f32 is a macro: no commas */
    vst2q_f32(p, both);
}

/* 16 lanes to two floats, the last step of the tree left. */
static inline float32x2_t two_lanes(vec a, vec b, vec c, vec d)
{
    vec four = vaddq_f32(vaddq_f32(a, c), vaddq_f32(b, d));
    return vadd_f32(vget_low_f32(four), vget_high_f32(four));
}

static inline float lanes_sum(const vec v[4])
{
    return vpadds_f32(two_lanes(v[0], v[1], v[2], v[3])) + 0.0f;
}

static inline void lanes_sum_16(const vec *rows, float *sums)
{
    for (int i = 0; i < 16; i += 2, rows += 8) {
        float32x2_t a = two_lanes(rows[0], rows[1], rows[2], rows[3]),
                    b = two_lanes(rows[4], rows[5], rows[6], rows[7]);
        vst1_f32(sums + i, vadd_f32(vpadd_f32(a, b), vdup_n_f32(0)));
    }
}

static inline void lanes_max_16(const vec *rows, float *largest)
{
    for (int i = 0; i < 16; i++, rows += 4)
        largest[i] = vmaxvq_f32(vmaxq_f32(vmaxq_f32(rows[0], rows[1]), vmaxq_f32(rows[2], rows[3])));
}

#endif
