/* Vectors of floats on AVX2 with FMA and F16C: two registers are the 16 lanes of a sum. floats.h documents each
 * function. */
#ifndef TERN_BACKEND_CPU_FLOATS_AVX2_H
#define TERN_BACKEND_CPU_FLOATS_AVX2_H

#include <float.h>
#include <immintrin.h>
#include <stdint.h>

#define LEVEL avx2

typedef __m256 vec;
typedef __m256i ivec;
typedef __m128i bvec;
enum { VEC = 8, TILE_ROWS = 2, VALUE_VECS = 2 };

static inline vec vec_load(const void *p)
{
    return _mm256_loadu_ps(p);
}

static inline void vec_store(float *p, vec v)
{
    _mm256_storeu_ps(p, v);
}

static inline vec vec_set(float v)
{
    return _mm256_set1_ps(v);
}

static inline vec vec_held(vec v)
{
    __asm__("" : "+x"(v));
    return v;
}

static inline vec vec_add(vec a, vec b)
{
    return _mm256_add_ps(a, b);
}

static inline vec vec_sub(vec a, vec b)
{
    return _mm256_sub_ps(a, b);
}

static inline vec vec_mul(vec a, vec b)
{
    return _mm256_mul_ps(a, b);
}

static inline vec vec_div(vec a, vec b)
{
    return _mm256_div_ps(a, b);
}

static inline vec vec_fma(vec a, vec b, vec c)
{
    return _mm256_fmadd_ps(a, b, c);
}

static inline vec vec_max(vec a, vec b)
{
    return _mm256_max_ps(a, b);
}

static inline vec vec_where_positive(vec g, vec v)
{
    return _mm256_and_ps(_mm256_cmp_ps(g, _mm256_setzero_ps(), _CMP_GT_OQ), v);
}

static inline vec vec_clamp(vec x, vec low, vec high)
{
    return _mm256_min_ps(high, _mm256_max_ps(low, x));
}

static inline vec vec_finite(vec v)
{
    vec number = _mm256_and_ps(_mm256_cmp_ps(v, v, _CMP_ORD_Q), v);
    return _mm256_max_ps(_mm256_min_ps(number, vec_set(FLT_MAX)), vec_set(-FLT_MAX));
}

static inline vec vec_abs(vec v)
{
    return _mm256_andnot_ps(vec_set(-0.0f), v);
}

static inline float vec_largest(vec v)
{
    __m128 four = _mm_max_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)));
}

static inline vec vec_load_f16(const void *p)
{
    return _mm256_cvtph_ps(_mm_loadu_si128(p));
}

static inline void vec_store_f16(void *p, vec v)
{
    _mm_storeu_si128(p, _mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}

static inline vec vec_load_bf16(const void *p)
{
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128(p)), 16));
}

static inline vec vec_load_i8(const void *p)
{
    return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64(p)));
}

static inline bvec bvec_look_up(bvec table, bvec at)
{
    return _mm_shuffle_epi8(table, at);
}

/* All lanes the f16 at p; eight bytes are read. */
static inline vec vec_set_f16(const void *p)
{
    return _mm256_broadcastss_ps(_mm_cvtph_ps(_mm_loadl_epi64(p)));
}

static inline ivec vec_round(vec v)
{
    return _mm256_cvtps_epi32(v);
}

static inline void ivec_store_i8(int8_t *p, ivec v)
{
    __m128i words = _mm_packs_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
    _mm_storel_epi64((__m128i *)p, _mm_packs_epi16(words, words));
}

static inline ivec ivec_zero(void)
{
    return _mm256_setzero_si256();
}

static inline ivec ivec_add(ivec a, ivec b)
{
    return _mm256_add_epi32(a, b);
}

static inline int32_t ivec_sum(ivec v)
{
    __m128i four = _mm_add_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
    __m128i two = _mm_add_epi32(four, _mm_shuffle_epi32(four, 0x4e));
    return _mm_cvtsi128_si32(_mm_add_epi32(two, _mm_shuffle_epi32(two, 0xb1)));
}

static inline vec vec_add_exponent(vec p, vec t)
{
    return _mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(p), _mm256_slli_epi32(_mm256_castps_si256(t), 23)));
}

static inline vec vec_exp_edges(vec x, vec y, float low, float high, float infinity)
{
    y = _mm256_blendv_ps(y, vec_set(0), _mm256_cmp_ps(x, vec_set(low), _CMP_LT_OQ));
    y = _mm256_blendv_ps(y, vec_set(infinity), _mm256_cmp_ps(x, vec_set(high), _CMP_GT_OQ));
    return _mm256_blendv_ps(y, x, _mm256_cmp_ps(x, x, _CMP_UNORD_Q));
}

static inline void vec_load_pairs(const float *p, vec *first, vec *second)
{
    vec a = vec_load(p), b = vec_load(p + VEC);
    vec low = _mm256_permute2f128_ps(a, b, 0x20), high = _mm256_permute2f128_ps(a, b, 0x31);
    *first = _mm256_shuffle_ps(low, high, 0x88);
    *second = _mm256_shuffle_ps(low, high, 0xdd);
}

static inline void vec_store_pairs(float *p, vec first, vec second)
{
    vec low = _mm256_unpacklo_ps(first, second), high = _mm256_unpackhi_ps(first, second);
    vec_store(p, _mm256_permute2f128_ps(low, high, 0x20));
    vec_store(p + VEC, _mm256_permute2f128_ps(low, high, 0x31));
}

static inline float lanes_sum(const vec v[2])
{
    vec eight = vec_add(v[0], v[1]);
    __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two))) + 0.0f;
}

/* Defines the tree over 8 rows of 16 lanes, by add or max: result[i] belongs to row i. */
#define TREE_8(name, op)                                                                                               \
    static inline vec name##_two(const vec *rows)                                                                      \
    {                                                                                                                  \
        vec a = op(rows[0], rows[1]), b = op(rows[2], rows[3]);                                                        \
        return op(_mm256_permute2f128_ps(a, b, 0x20), _mm256_permute2f128_ps(a, b, 0x31));                             \
    }                                                                                                                  \
    static inline vec name##_four(const vec *rows)                                                                     \
    {                                                                                                                  \
        vec a = name##_two(rows), b = name##_two(rows + 4);                                                            \
        return op(_mm256_shuffle_ps(a, b, 0x44), _mm256_shuffle_ps(a, b, 0xee));                                       \
    }                                                                                                                  \
    static inline vec name(const vec *rows)                                                                            \
    {                                                                                                                  \
        const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);                                               \
        vec a = name##_four(rows), b = name##_four(rows + 8);                                                          \
        return _mm256_permutevar8x32_ps(op(_mm256_shuffle_ps(a, b, 0x88), _mm256_shuffle_ps(a, b, 0xdd)), order);      \
    }

TREE_8(sum_tree, vec_add)
TREE_8(max_tree, vec_max)

static inline void lanes_sum_16(const vec *rows, float *sums)
{
    vec_store(sums, vec_add(sum_tree(rows), vec_set(0)));
    vec_store(sums + 8, vec_add(sum_tree(rows + 16), vec_set(0)));
}

static inline void lanes_max_16(const vec *rows, float *largest)
{
    vec_store(largest, max_tree(rows));
    vec_store(largest + 8, max_tree(rows + 16));
}

#endif
