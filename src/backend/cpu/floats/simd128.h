/* Vectors of floats on WebAssembly SIMD128: four registers are the 16 lanes of a sum. floats.h documents each function.
 *
 * There is no fused multiply-add, so vec_fma makes one of doubles: the product is exact, and their sum, rounded twice,
 * is nearly always right. Vectors where it may not be take the way of ops/ref/fma.h. */
#ifndef TERN_BACKEND_CPU_FLOATS_SIMD128_H
#define TERN_BACKEND_CPU_FLOATS_SIMD128_H

#include <float.h>
#include <stdbool.h>
#include <stdint.h>
#include <wasm_simd128.h>

#define LEVEL simd128

typedef v128_t vec;
typedef v128_t ivec;
typedef v128_t bvec;
enum { VEC = 4, TILE_ROWS = 2, VALUE_VECS = 2 };

static inline vec vec_load(const void *p)
{
    return wasm_v128_load(p);
}

static inline void vec_store(float *p, vec v)
{
    wasm_v128_store(p, v);
}

static inline vec vec_set(float v)
{
    return wasm_f32x4_splat(v);
}

static inline vec vec_held(vec v)
{
    return v;
}

static inline vec vec_add(vec a, vec b)
{
    return wasm_f32x4_add(a, b);
}

static inline vec vec_sub(vec a, vec b)
{
    return wasm_f32x4_sub(a, b);
}

static inline vec vec_mul(vec a, vec b)
{
    return wasm_f32x4_mul(a, b);
}

static inline vec vec_div(vec a, vec b)
{
    return wasm_f32x4_div(a, b);
}

/* Two doubles to the neighbour of each that is odd, towards product + addend, where their sum is not exact. */
static inline v128_t to_odd(v128_t sum, v128_t product, v128_t addend)
{
    const v128_t one = wasm_i64x2_splat(1), zero = wasm_f64x2_splat(0), part = wasm_f64x2_sub(sum, product);
    const v128_t error =
        wasm_f64x2_add(wasm_f64x2_sub(product, wasm_f64x2_sub(sum, part)), wasm_f64x2_sub(addend, part));
    const v128_t inexact = wasm_f64x2_gt(wasm_f64x2_abs(error), zero); /* not where sum is infinite */
    const v128_t inwards = wasm_v128_xor(wasm_f64x2_gt(error, zero), wasm_f64x2_gt(sum, zero));
    const v128_t step = wasm_v128_and(wasm_v128_andnot(one, sum), inexact);
    return wasm_i64x2_add(sum, wasm_i64x2_sub(wasm_v128_xor(step, inwards), inwards));
}

/* A mask of doubles: less than doubt_below in a 32-bit lane where rounding to f32 may come out wrong by the part that
 * the sum has lost. That is halfway between two floats (the low lane), and below 2^-126, where halves lie elsewhere
 * (the high lane; not at 0). Signed, since that is one comparison. */
static inline v128_t doubt_of(v128_t sum)
{
    const v128_t bits = wasm_i32x4_const(0x1fffffff, 0x7fffffff, 0x1fffffff, 0x7fffffff);
    const v128_t least = wasm_i32x4_const(0x10000000 + INT32_MIN, 1 + INT32_MIN, 0x10000000 + INT32_MIN, 1 + INT32_MIN);
    return wasm_i32x4_sub(wasm_v128_and(sum, bits), least);
}

static inline bool any_doubt(v128_t doubts)
{
    const v128_t below = wasm_i32x4_const(1 + INT32_MIN, 0x380fffff + INT32_MIN, 1 + INT32_MIN, 0x380fffff + INT32_MIN);
    return __builtin_expect(wasm_v128_any_true(wasm_i32x4_lt(doubts, below)), 0);
}

/* The upper two floats as doubles. */
static inline v128_t high_doubles(vec v)
{
    return wasm_f64x2_promote_low_f32x4(wasm_i32x4_shuffle(v, v, 2, 3, 2, 3));
}

static inline vec to_floats(v128_t low, v128_t high)
{
    return wasm_i32x4_shuffle(wasm_f32x4_demote_f64x2_zero(low), wasm_f32x4_demote_f64x2_zero(high), 0, 1, 4, 5);
}

static inline vec fma_to_odd(vec a, vec b, vec c)
{
    __asm__("" : "+r"(a)); /* all anew, so that nothing waits in registers for what seldom comes */
    const v128_t c_low = wasm_f64x2_promote_low_f32x4(c), c_high = high_doubles(c);
    const v128_t p_low = wasm_f64x2_mul(wasm_f64x2_promote_low_f32x4(a), wasm_f64x2_promote_low_f32x4(b));
    const v128_t p_high = wasm_f64x2_mul(high_doubles(a), high_doubles(b));
    return to_floats(to_odd(wasm_f64x2_add(p_low, c_low), p_low, c_low),
                     to_odd(wasm_f64x2_add(p_high, c_high), p_high, c_high));
}

static inline vec vec_fma(vec a, vec b, vec c)
{
    const v128_t p_low = wasm_f64x2_mul(wasm_f64x2_promote_low_f32x4(a), wasm_f64x2_promote_low_f32x4(b));
    const v128_t p_high = wasm_f64x2_mul(high_doubles(a), high_doubles(b));
    const v128_t low = wasm_f64x2_add(p_low, wasm_f64x2_promote_low_f32x4(c));
    const v128_t high = wasm_f64x2_add(p_high, high_doubles(c));
    if (any_doubt(wasm_i32x4_min(doubt_of(low), doubt_of(high)))) return fma_to_odd(a, b, c);
    return to_floats(low, high);
}

static inline vec vec_max(vec a, vec b)
{
    return wasm_f32x4_pmax(b, a);
}

static inline vec vec_where_positive(vec g, vec v)
{
    return wasm_v128_and(wasm_f32x4_gt(g, wasm_f32x4_splat(0)), v);
}

static inline vec vec_clamp(vec x, vec low, vec high)
{
    return wasm_f32x4_pmin(wasm_f32x4_pmax(x, low), high);
}

static inline vec vec_finite(vec v)
{
    const vec number = wasm_v128_and(wasm_f32x4_eq(v, v), v);
    return wasm_f32x4_pmax(wasm_f32x4_pmin(number, vec_set(FLT_MAX)), vec_set(-FLT_MAX));
}

static inline vec vec_abs(vec v)
{
    return wasm_f32x4_abs(v);
}

static inline float vec_largest(vec v)
{
    const vec two = vec_max(v, wasm_i32x4_shuffle(v, v, 2, 3, 2, 3));
    return wasm_f32x4_extract_lane(vec_max(two, wasm_i32x4_shuffle(two, two, 1, 1, 1, 1)), 0);
}

/* Four f16 in 32-bit lanes: the exponent, too small by 112, is made up for by a factor; infinities and NaN apart. */
static inline vec halves_to_floats(v128_t h)
{
    const v128_t size = wasm_i32x4_shl(wasm_v128_and(h, wasm_i32x4_splat(0x7fff)), 13);
    const v128_t sign = wasm_i32x4_shl(wasm_v128_and(h, wasm_i32x4_splat(0x8000)), 16);
    const v128_t top = wasm_i32x4_gt(size, wasm_i32x4_splat(0x0f7fffff));
    const v128_t infinite = wasm_v128_and(top, wasm_i32x4_splat(0x7f800000));
    const vec scaled = wasm_f32x4_mul(size, vec_set(0x1p112f));
    return wasm_v128_or(wasm_v128_or(scaled, infinite), sign);
}

static inline vec vec_load_f16(const void *p)
{
    return halves_to_floats(wasm_u32x4_load16x4(p));
}

/* As tern_f32_to_f16 does it. */
static inline void vec_store_f16(void *p, vec v)
{
    const v128_t size = wasm_v128_and(v, wasm_i32x4_splat(0x7fffffff));
    const v128_t sign = wasm_v128_and(wasm_u32x4_shr(v, 16), wasm_i32x4_splat(0x8000));
    const v128_t even = wasm_v128_and(wasm_u32x4_shr(size, 13), wasm_i32x4_splat(1));
    const v128_t rounded = wasm_i32x4_add(wasm_i32x4_add(size, even), wasm_i32x4_splat(0xfff - 0x38000000));
    const v128_t small = wasm_i32x4_sub(vec_add(size, vec_set(0.5f)), wasm_i32x4_splat(0x3f000000));
    v128_t h = wasm_u32x4_shr(rounded, 13);
    h = wasm_v128_bitselect(small, h, wasm_i32x4_lt(size, wasm_i32x4_splat(0x38800000)));
    h = wasm_v128_bitselect(wasm_i32x4_splat(0x7c00), h, wasm_i32x4_gt(size, wasm_i32x4_splat(0x477fefff)));
    h = wasm_v128_bitselect(wasm_i32x4_splat(0x7e00), h, wasm_i32x4_gt(size, wasm_i32x4_splat(0x7f800000)));
    h = wasm_v128_or(h, sign);
    wasm_v128_store64_lane(p, wasm_u16x8_narrow_i32x4(h, h), 0);
}

static inline vec vec_load_bf16(const void *p)
{
    return wasm_i32x4_shl(wasm_u32x4_load16x4(p), 16);
}

static inline vec vec_load_i8(const void *p)
{
    return wasm_f32x4_convert_i32x4(wasm_i32x4_extend_low_i16x8(wasm_i16x8_extend_low_i8x16(wasm_v128_load32_zero(p))));
}

static inline bvec bvec_look_up(bvec table, bvec at)
{
    return wasm_i8x16_swizzle(table, at);
}

/* All lanes the f16 at p; eight bytes are read. */
static inline vec vec_set_f16(const void *p)
{
    const vec v = vec_load_f16(p);
    return wasm_i32x4_shuffle(v, v, 0, 0, 0, 0);
}

static inline ivec vec_round(vec v)
{
    return wasm_i32x4_trunc_sat_f32x4(wasm_f32x4_nearest(v));
}

static inline void ivec_store_i8(int8_t *p, ivec v)
{
    const v128_t words = wasm_i16x8_narrow_i32x4(v, v);
    wasm_v128_store32_lane(p, wasm_i8x16_narrow_i16x8(words, words), 0);
}

static inline ivec ivec_zero(void)
{
    return wasm_i32x4_splat(0);
}

static inline ivec ivec_add(ivec a, ivec b)
{
    return wasm_i32x4_add(a, b);
}

static inline int32_t ivec_sum(ivec v)
{
    const v128_t two = wasm_i32x4_add(v, wasm_i32x4_shuffle(v, v, 2, 3, 2, 3));
    return wasm_i32x4_extract_lane(two, 0) + wasm_i32x4_extract_lane(two, 1);
}

static inline vec vec_add_exponent(vec p, vec t)
{
    return wasm_i32x4_add(p, wasm_i32x4_shl(t, 23));
}

static inline vec vec_exp_edges(vec x, vec y, float low, float high, float infinity)
{
    y = wasm_v128_bitselect(vec_set(0), y, wasm_f32x4_lt(x, vec_set(low)));
    y = wasm_v128_bitselect(vec_set(infinity), y, wasm_f32x4_gt(x, vec_set(high)));
    return wasm_v128_bitselect(y, x, wasm_f32x4_eq(x, x));
}

static inline void vec_load_pairs(const float *p, vec *first, vec *second)
{
    const vec a = vec_load(p), b = vec_load(p + VEC);
    *first = wasm_i32x4_shuffle(a, b, 0, 2, 4, 6);
    *second = wasm_i32x4_shuffle(a, b, 1, 3, 5, 7);
}

static inline void vec_store_pairs(float *p, vec first, vec second)
{
    vec_store(p, wasm_i32x4_shuffle(first, second, 0, 4, 1, 5));
    vec_store(p + VEC, wasm_i32x4_shuffle(first, second, 2, 6, 3, 7));
}

/* 16 lanes to four, two steps of the tree left. */
static inline vec four_lanes(const vec v[4])
{
    return vec_add(vec_add(v[0], v[2]), vec_add(v[1], v[3]));
}

static inline float lanes_sum(const vec v[4])
{
    const vec four = four_lanes(v), two = vec_add(four, wasm_i32x4_shuffle(four, four, 2, 3, 2, 3));
    return wasm_f32x4_extract_lane(two, 0) + wasm_f32x4_extract_lane(two, 1) + 0.0f;
}

/* Defines the last two steps of the tree over four rows of four lanes, by add or max: result[i] belongs to row i. */
#define TREE_4(name, op)                                                                                               \
    static inline vec name(vec a, vec b, vec c, vec d)                                                                 \
    {                                                                                                                  \
        const vec ab = op(wasm_i32x4_shuffle(a, b, 0, 1, 4, 5), wasm_i32x4_shuffle(a, b, 2, 3, 6, 7));                 \
        const vec cd = op(wasm_i32x4_shuffle(c, d, 0, 1, 4, 5), wasm_i32x4_shuffle(c, d, 2, 3, 6, 7));                 \
        return op(wasm_i32x4_shuffle(ab, cd, 0, 2, 4, 6), wasm_i32x4_shuffle(ab, cd, 1, 3, 5, 7));                     \
    }

TREE_4(sum_tree, vec_add)
TREE_4(max_tree, vec_max)

static inline vec four_maxima(const vec v[4])
{
    return vec_max(vec_max(v[0], v[1]), vec_max(v[2], v[3]));
}

static inline void lanes_sum_16(const vec *rows, float *sums)
{
    for (int i = 0; i < 16; i += 4, rows += 16) {
        const vec four = sum_tree(four_lanes(rows), four_lanes(rows + 4), four_lanes(rows + 8), four_lanes(rows + 12));
        vec_store(sums + i, vec_add(four, vec_set(0)));
    }
}

static inline void lanes_max_16(const vec *rows, float *largest)
{
    for (int i = 0; i < 16; i += 4, rows += 16)
        vec_store(largest + i,
                  max_tree(four_maxima(rows), four_maxima(rows + 4), four_maxima(rows + 8), four_maxima(rows + 12)));
}

#endif
