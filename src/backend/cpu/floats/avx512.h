/* Vectors of floats on AVX-512: one register is the 16 lanes of a sum. floats.h documents each function. */
#ifndef TERN_BACKEND_CPU_FLOATS_AVX512_H
#define TERN_BACKEND_CPU_FLOATS_AVX512_H

#include <float.h>
#include <immintrin.h>
#include <stdint.h>

#define LEVEL avx512

typedef __m512 vec;
typedef __m512i ivec;
typedef __m128i bvec;
enum { VEC = 16, TILE_ROWS = 4, VALUE_VECS = 4 };

static inline vec vec_load(const void *p)
{
    return _mm512_loadu_ps(p);
}

static inline void vec_store(float *p, vec v)
{
    _mm512_storeu_ps(p, v);
}

static inline vec vec_set(float v)
{
    return _mm512_set1_ps(v);
}

static inline vec vec_held(vec v)
{
    return v;
}

static inline vec vec_add(vec a, vec b)
{
    return _mm512_add_ps(a, b);
}

static inline vec vec_sub(vec a, vec b)
{
    return _mm512_sub_ps(a, b);
}

static inline vec vec_mul(vec a, vec b)
{
    return _mm512_mul_ps(a, b);
}

static inline vec vec_div(vec a, vec b)
{
    return _mm512_div_ps(a, b);
}

static inline vec vec_fma(vec a, vec b, vec c)
{
    return _mm512_fmadd_ps(a, b, c);
}

static inline vec vec_max(vec a, vec b)
{
    return _mm512_max_ps(a, b);
}

static inline vec vec_where_positive(vec g, vec v)
{
    return _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(g, _mm512_setzero_ps(), _CMP_GT_OQ), v);
}

static inline vec vec_clamp(vec x, vec low, vec high)
{
    return _mm512_min_ps(high, _mm512_max_ps(low, x));
}

static inline vec vec_finite(vec v)
{
    vec number = _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(v, v, _CMP_ORD_Q), v);
    return _mm512_max_ps(_mm512_min_ps(number, vec_set(FLT_MAX)), vec_set(-FLT_MAX));
}

static inline vec vec_abs(vec v)
{
    return _mm512_abs_ps(v);
}

static inline float vec_largest(vec v)
{
    return _mm512_reduce_max_ps(v);
}

static inline vec vec_load_f16(const void *p)
{
    return _mm512_cvtph_ps(_mm256_loadu_si256(p));
}

static inline void vec_store_f16(void *p, vec v)
{
    _mm256_storeu_si256(p, _mm512_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}

static inline vec vec_load_bf16(const void *p)
{
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_loadu_si256(p)), 16));
}

static inline vec vec_load_i8(const void *p)
{
    return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128(p)));
}

static inline bvec bvec_look_up(bvec table, bvec at)
{
    return _mm_shuffle_epi8(table, at);
}

/* All lanes the f16 at p; eight bytes are read. */
static inline vec vec_set_f16(const void *p)
{
    return _mm512_broadcastss_ps(_mm_cvtph_ps(_mm_loadl_epi64(p)));
}

static inline ivec vec_round(vec v)
{
    return _mm512_cvtps_epi32(v);
}

static inline void ivec_store_i8(int8_t *p, ivec v)
{
    _mm_storeu_si128((__m128i *)p, _mm512_cvtsepi32_epi8(v));
}

static inline ivec ivec_zero(void)
{
    return _mm512_setzero_si512();
}

static inline ivec ivec_add(ivec a, ivec b)
{
    return _mm512_add_epi32(a, b);
}

static inline int32_t ivec_sum(ivec v)
{
    return _mm512_reduce_add_epi32(v);
}

static inline vec vec_add_exponent(vec p, vec t)
{
    return _mm512_castsi512_ps(_mm512_add_epi32(_mm512_castps_si512(p), _mm512_slli_epi32(_mm512_castps_si512(t), 23)));
}

static inline vec vec_exp_edges(vec x, vec y, float low, float high, float infinity)
{
    y = _mm512_mask_mov_ps(y, _mm512_cmp_ps_mask(x, vec_set(low), _CMP_LT_OQ), vec_set(0));
    y = _mm512_mask_mov_ps(y, _mm512_cmp_ps_mask(x, vec_set(high), _CMP_GT_OQ), vec_set(infinity));
    return _mm512_mask_mov_ps(y, _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q), x);
}

static inline void vec_load_pairs(const float *p, vec *first, vec *second)
{
    const __m512i even = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
    const __m512i odd = _mm512_setr_epi32(1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31);
    vec a = vec_load(p), b = vec_load(p + VEC);
    *first = _mm512_permutex2var_ps(a, even, b);
    *second = _mm512_permutex2var_ps(a, odd, b);
}

static inline void vec_store_pairs(float *p, vec first, vec second)
{
    const __m512i low = _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
    const __m512i high = _mm512_setr_epi32(8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
    vec_store(p, _mm512_permutex2var_ps(first, low, second));
    vec_store(p + VEC, _mm512_permutex2var_ps(first, high, second));
}

static inline float lanes_sum(const vec v[1])
{
    __m256 eight = _mm256_add_ps(_mm512_castps512_ps256(v[0]), _mm512_extractf32x8_ps(v[0], 1));
    __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two))) + 0.0f;
}

/* One step of the tree for two rows at a time, by add or max: halves of 16 lanes, of 8, of 4, of 2. After the step of 8
 * the 128-bit parts are a's, a's, b's, b's. */
#define FOLD_16(op, a, b) op(_mm512_shuffle_f32x4(a, b, 0x44), _mm512_shuffle_f32x4(a, b, 0xee))
#define FOLD_8(op, a, b)  op(_mm512_shuffle_f32x4(a, b, 0x88), _mm512_shuffle_f32x4(a, b, 0xdd))
#define FOLD_4(op, a, b)  op(_mm512_shuffle_ps(a, b, 0x44), _mm512_shuffle_ps(a, b, 0xee))
#define FOLD_2(op, a, b)  op(_mm512_shuffle_ps(a, b, 0x88), _mm512_shuffle_ps(a, b, 0xdd))

/* Defines the tree over 16 rows of 16 lanes: result[i] belongs to row i. */
#define TREE_16(name, op)                                                                                              \
    static inline __attribute__((always_inline)) vec name##_four(const vec *rows)                                      \
    {                                                                                                                  \
        vec low = FOLD_16(op, rows[0], rows[1]), high = FOLD_16(op, rows[2], rows[3]);                                 \
        return FOLD_8(op, low, high);                                                                                  \
    }                                                                                                                  \
    static inline __attribute__((always_inline)) vec name(const vec *rows)                                             \
    {                                                                                                                  \
        const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);                 \
        vec low = FOLD_4(op, name##_four(rows), name##_four(rows + 4));                                                \
        vec high = FOLD_4(op, name##_four(rows + 8), name##_four(rows + 12));                                          \
        return _mm512_permutexvar_ps(order, FOLD_2(op, low, high));                                                    \
    }

TREE_16(sum_tree, vec_add)
TREE_16(max_tree, vec_max)

static inline __attribute__((always_inline)) void lanes_sum_16(const vec *rows, float *sums)
{
    vec_store(sums, vec_add(sum_tree(rows), vec_set(0)));
}

static inline __attribute__((always_inline)) void lanes_max_16(const vec *rows, float *largest)
{
    vec_store(largest, max_tree(rows));
}

#endif
