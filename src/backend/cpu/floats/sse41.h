/* Vectors of floats on SSE4.1: four registers are the 16 lanes of a sum. floats.h documents each function.
 *
 * There is no fused multiply-add, so vec_fma makes one of doubles as simd128.h does: the product is exact, and their
 * sum, rounded twice, is nearly always right. Vectors where it may not be take the way of ops/ref/fma.h. */
#ifndef TERN_BACKEND_CPU_FLOATS_SSE41_H
#define TERN_BACKEND_CPU_FLOATS_SSE41_H

#include <float.h>
#include <smmintrin.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define LEVEL sse41

typedef __m128 vec;
typedef __m128i ivec;
typedef __m128i bvec;
enum { VEC = 4, TILE_ROWS = 2, VALUE_VECS = 2 };

static inline vec vec_load(const void *p)
{
    return _mm_loadu_ps(p);
}

static inline void vec_store(float *p, vec v)
{
    _mm_storeu_ps(p, v);
}

static inline vec vec_set(float v)
{
    return _mm_set1_ps(v);
}

static inline vec vec_held(vec v)
{
    return v;
}

static inline vec vec_add(vec a, vec b)
{
    return _mm_add_ps(a, b);
}

static inline vec vec_sub(vec a, vec b)
{
    return _mm_sub_ps(a, b);
}

static inline vec vec_mul(vec a, vec b)
{
    return _mm_mul_ps(a, b);
}

static inline vec vec_div(vec a, vec b)
{
    return _mm_div_ps(a, b);
}

/* Two doubles to the neighbour of each that is odd, towards product + addend, where their sum is not exact. */
static inline __m128d to_odd(__m128d sum, __m128d product, __m128d addend)
{
    const __m128d zero = _mm_setzero_pd(), sign = _mm_set1_pd(-0.0), part = _mm_sub_pd(sum, product);
    const __m128d error = _mm_add_pd(_mm_sub_pd(product, _mm_sub_pd(sum, part)), _mm_sub_pd(addend, part));
    const __m128d inexact = _mm_cmpgt_pd(_mm_andnot_pd(sign, error), zero); /* not where sum is infinite */
    const __m128i inwards = _mm_castpd_si128(_mm_xor_pd(_mm_cmpgt_pd(error, zero), _mm_cmpgt_pd(sum, zero)));
    const __m128i even = _mm_andnot_si128(_mm_castpd_si128(sum), _mm_set1_epi64x(1));
    const __m128i step = _mm_and_si128(even, _mm_castpd_si128(inexact));
    const __m128i signed_step = _mm_sub_epi64(_mm_xor_si128(step, inwards), inwards);
    return _mm_castsi128_pd(_mm_add_epi64(_mm_castpd_si128(sum), signed_step));
}

/* A mask of doubles: less than any_doubt's bounds in a 32-bit lane where rounding to f32 may come out wrong by the part
 * that the sum has lost. That is halfway between two floats (the low lane), and below 2^-126, where halves lie
 * elsewhere (the high lane; not at 0). Signed, since that is one comparison. */
static inline __m128i doubt_of(__m128d sum)
{
    const __m128i bits = _mm_setr_epi32(0x1fffffff, 0x7fffffff, 0x1fffffff, 0x7fffffff);
    const __m128i least = _mm_setr_epi32(0x10000000 + INT32_MIN, 1 + INT32_MIN, 0x10000000 + INT32_MIN, 1 + INT32_MIN);
    return _mm_sub_epi32(_mm_and_si128(_mm_castpd_si128(sum), bits), least);
}

static inline bool any_doubt(__m128i doubts)
{
    const __m128i below = _mm_setr_epi32(1 + INT32_MIN, 0x380fffff + INT32_MIN, 1 + INT32_MIN, 0x380fffff + INT32_MIN);
    return __builtin_expect(_mm_movemask_epi8(_mm_cmplt_epi32(doubts, below)), 0);
}

static inline __m128d low_doubles(vec v)
{
    return _mm_cvtps_pd(v);
}

static inline __m128d high_doubles(vec v)
{
    return _mm_cvtps_pd(_mm_movehl_ps(v, v));
}

static inline vec to_floats(__m128d low, __m128d high)
{
    return _mm_movelh_ps(_mm_cvtpd_ps(low), _mm_cvtpd_ps(high));
}

/* All anew, so that nothing waits in registers for what seldom comes. In line it would make kernels three times as long
 * and 4 % faster. */
static __attribute__((noinline, cold, unused)) vec fma_to_odd(vec a, vec b, vec c)
{
    const __m128d c_low = low_doubles(c), c_high = high_doubles(c);
    const __m128d p_low = _mm_mul_pd(low_doubles(a), low_doubles(b));
    const __m128d p_high = _mm_mul_pd(high_doubles(a), high_doubles(b));
    return to_floats(to_odd(_mm_add_pd(p_low, c_low), p_low, c_low),
                     to_odd(_mm_add_pd(p_high, c_high), p_high, c_high));
}

static inline vec vec_fma(vec a, vec b, vec c)
{
    const __m128d low = _mm_add_pd(_mm_mul_pd(low_doubles(a), low_doubles(b)), low_doubles(c));
    const __m128d high = _mm_add_pd(_mm_mul_pd(high_doubles(a), high_doubles(b)), high_doubles(c));
    if (any_doubt(_mm_min_epi32(doubt_of(low), doubt_of(high)))) return fma_to_odd(a, b, c);
    return to_floats(low, high);
}

static inline vec vec_max(vec a, vec b)
{
    return _mm_max_ps(a, b);
}

static inline vec vec_where_positive(vec g, vec v)
{
    return _mm_and_ps(_mm_cmpgt_ps(g, _mm_setzero_ps()), v);
}

static inline vec vec_clamp(vec x, vec low, vec high)
{
    return _mm_min_ps(high, _mm_max_ps(low, x));
}

static inline vec vec_finite(vec v)
{
    const vec number = _mm_and_ps(_mm_cmpord_ps(v, v), v);
    return _mm_max_ps(_mm_min_ps(number, vec_set(FLT_MAX)), vec_set(-FLT_MAX));
}

static inline vec vec_abs(vec v)
{
    return _mm_andnot_ps(vec_set(-0.0f), v);
}

static inline float vec_largest(vec v)
{
    const vec two = _mm_max_ps(v, _mm_movehl_ps(v, v));
    return _mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)));
}

/* Four f16 in 32-bit lanes: the exponent, too small by 112, is made up for by a factor; infinities and NaN apart. */
static inline vec halves_to_floats(__m128i h)
{
    const __m128i size = _mm_slli_epi32(_mm_and_si128(h, _mm_set1_epi32(0x7fff)), 13);
    const __m128i sign = _mm_slli_epi32(_mm_and_si128(h, _mm_set1_epi32(0x8000)), 16);
    const __m128i top = _mm_cmpgt_epi32(size, _mm_set1_epi32(0x0f7fffff));
    const __m128i infinite = _mm_and_si128(top, _mm_set1_epi32(0x7f800000));
    const vec scaled = _mm_mul_ps(_mm_castsi128_ps(size), vec_set(0x1p112f));
    return _mm_or_ps(scaled, _mm_castsi128_ps(_mm_or_si128(infinite, sign)));
}

static inline __m128i load_words(const void *p)
{
    return _mm_cvtepu16_epi32(_mm_loadl_epi64(p));
}

static inline vec vec_load_f16(const void *p)
{
    return halves_to_floats(load_words(p));
}

/* As tern_f32_to_f16 does it. */
static inline void vec_store_f16(void *p, vec v)
{
    const __m128i bits = _mm_castps_si128(v), size = _mm_and_si128(bits, _mm_set1_epi32(0x7fffffff));
    const __m128i sign = _mm_and_si128(_mm_srli_epi32(bits, 16), _mm_set1_epi32(0x8000));
    const __m128i even = _mm_and_si128(_mm_srli_epi32(size, 13), _mm_set1_epi32(1));
    const __m128i rounded = _mm_add_epi32(_mm_add_epi32(size, even), _mm_set1_epi32(0xfff - 0x38000000));
    const __m128i small =
        _mm_sub_epi32(_mm_castps_si128(vec_add(_mm_castsi128_ps(size), vec_set(0.5f))), _mm_set1_epi32(0x3f000000));
    __m128i h = _mm_srli_epi32(rounded, 13);
    h = _mm_blendv_epi8(h, small, _mm_cmplt_epi32(size, _mm_set1_epi32(0x38800000)));
    h = _mm_blendv_epi8(h, _mm_set1_epi32(0x7c00), _mm_cmpgt_epi32(size, _mm_set1_epi32(0x477fefff)));
    h = _mm_blendv_epi8(h, _mm_set1_epi32(0x7e00), _mm_cmpgt_epi32(size, _mm_set1_epi32(0x7f800000)));
    h = _mm_or_si128(h, sign);
    _mm_storel_epi64(p, _mm_packus_epi32(h, h));
}

static inline vec vec_load_bf16(const void *p)
{
    return _mm_castsi128_ps(_mm_slli_epi32(load_words(p), 16));
}

static inline vec vec_load_i8(const void *p)
{
    int32_t four;
    memcpy(&four, p, sizeof four);
    return _mm_cvtepi32_ps(_mm_cvtepi8_epi32(_mm_cvtsi32_si128(four)));
}

static inline bvec bvec_look_up(bvec table, bvec at)
{
    return _mm_shuffle_epi8(table, at);
}

/* All lanes the f16 at p; eight bytes are read. */
static inline vec vec_set_f16(const void *p)
{
    const vec v = vec_load_f16(p);
    return _mm_shuffle_ps(v, v, 0);
}

static inline ivec vec_round(vec v)
{
    return _mm_cvtps_epi32(v);
}

static inline void ivec_store_i8(int8_t *p, ivec v)
{
    const __m128i words = _mm_packs_epi32(v, v);
    const int32_t four = _mm_cvtsi128_si32(_mm_packs_epi16(words, words));
    memcpy(p, &four, sizeof four);
}

static inline ivec ivec_zero(void)
{
    return _mm_setzero_si128();
}

static inline ivec ivec_add(ivec a, ivec b)
{
    return _mm_add_epi32(a, b);
}

static inline int32_t ivec_sum(ivec v)
{
    const __m128i two = _mm_add_epi32(v, _mm_shuffle_epi32(v, 0x4e));
    return _mm_cvtsi128_si32(_mm_add_epi32(two, _mm_shuffle_epi32(two, 0xb1)));
}

static inline vec vec_add_exponent(vec p, vec t)
{
    return _mm_castsi128_ps(_mm_add_epi32(_mm_castps_si128(p), _mm_slli_epi32(_mm_castps_si128(t), 23)));
}

static inline vec vec_exp_edges(vec x, vec y, float low, float high, float infinity)
{
    y = _mm_blendv_ps(y, vec_set(0), _mm_cmplt_ps(x, vec_set(low)));
    y = _mm_blendv_ps(y, vec_set(infinity), _mm_cmpgt_ps(x, vec_set(high)));
    return _mm_blendv_ps(y, x, _mm_cmpunord_ps(x, x));
}

static inline void vec_load_pairs(const float *p, vec *first, vec *second)
{
    const vec a = vec_load(p), b = vec_load(p + VEC);
    *first = _mm_shuffle_ps(a, b, 0x88);
    *second = _mm_shuffle_ps(a, b, 0xdd);
}

static inline void vec_store_pairs(float *p, vec first, vec second)
{
    vec_store(p, _mm_unpacklo_ps(first, second));
    vec_store(p + VEC, _mm_unpackhi_ps(first, second));
}

/* 16 lanes to four, two steps of the tree left. */
static inline vec four_lanes(const vec v[4])
{
    return vec_add(vec_add(v[0], v[2]), vec_add(v[1], v[3]));
}

static inline float lanes_sum(const vec v[4])
{
    const vec four = four_lanes(v), two = vec_add(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two))) + 0.0f;
}

/* Defines the last two steps of the tree over four rows of four lanes, by add or max: result[i] belongs to row i. */
#define TREE_4(name, op)                                                                                               \
    static inline vec name(vec a, vec b, vec c, vec d)                                                                 \
    {                                                                                                                  \
        const vec ab = op(_mm_movelh_ps(a, b), _mm_movehl_ps(b, a));                                                   \
        const vec cd = op(_mm_movelh_ps(c, d), _mm_movehl_ps(d, c));                                                   \
        return op(_mm_shuffle_ps(ab, cd, 0x88), _mm_shuffle_ps(ab, cd, 0xdd));                                         \
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
