/* The definition of every op, in plain C: what each kernel on each device must compute.
 *
 * Floats are defined to the bit. Every sum over a row is taken in 16 lanes and one tree. So a scalar loop, SSE,
 * AVX2, AVX-512 and NEON give the same bits, one row at a time or many, on any number of threads. Prefill therefore
 * equals decode exactly, and one seed gives one text on every CPU (docs/decisions/0010-same-bits.md). GPU backends,
 * which cannot promise this, are held to a budget.
 *
 *   lanes:  lane[i mod 16] = fmaf(a[i], b[i], lane[i mod 16]) for i = 0, 1, ..., starting from +0
 *   tree:   lane[l] += lane[l + 8] for l < 8; then 4, 2, 1; the sum is lane[0] + (+0)
 *
 * Elements past the end of a row add nothing, and the sign of a zero among the terms never shows: a sum that is zero is
 * +0. "Exact bits" means bits equal to this definition, except that any NaN equals any NaN. */
#ifndef TERN_OPS_REF_H
#define TERN_OPS_REF_H

#include <stddef.h>
#include <stdint.h>

#include "ops/dtype.h"
#include "quant/encoding_id.h"

enum { TERN_LANES = 16, TERN_PAGE_POSITIONS = 32, TERN_ATTENTION_CHUNK = 256 };

/* int8 activations: row t is x + t * stride, `cols` values followed by zeros up to stride (a multiple of 64); x is
 * aligned to 64 bytes. */
typedef struct tern_q8_rows {
    const int8_t *x;
    size_t stride;
    const int32_t *sums; /* [n] the sum of each row, for kernels that multiply codes 0..2 and correct at the end */
    uint32_t n;
} tern_q8_rows;

/* Ternary weights times int8 activations, exact integers (int32 accumulation).
 *
 *   dots[t][r] = sum_c code(w[r][c]) * x[t][c],   code in {-1, 0, +1}
 *
 *   w     in   n_rows rows of `row_bytes` bytes each in the encoding's own layout (i2_s, tq2_0, tq1_0, t160); block
 *              scales in w are ignored (they are applied with the scale of the tensor afterwards)
 *   x     in   [n] rows, see tern_q8_rows; any int8 values, -128 included
 *   dots  out  dots[t * dots_stride + r]
 *
 * n >= 1, n_rows >= 1; cols a multiple of what the encoding's rows need (i2_s 128, tq1_0 and tq2_0 256, t160 any).
 * No int16 or int8 accumulator may wrap or saturate for any input. Thread-safe on distinct dots. No allocation. */
typedef void (*tern_ternary_fn)(const uint8_t *w, size_t row_bytes, uint32_t n_rows, uint32_t cols,
                                const tern_q8_rows *x, int32_t *dots, size_t dots_stride);

/* Dense weights times f32 activations.
 *
 *   y[t][r] = sum_c value(w[r][c]) * x[t][c],   lanes and tree as above, value() decoded to f32 as the encoding defines
 *
 *   w  in   n_rows rows of `row_bytes` bytes each (f32, f16, bf16, or in blocks: TERN_ENCODING_BLOCK_LIST);
 *           the f16 scales of blocks are finite (tern_encoding_check)
 *   x  in   x[t * x_stride + c], f32; aligned to 4 bytes only; nothing past cols is read
 *   y  out  y[t * y_stride + r]
 *
 * Exact bits. Thread-safe on distinct y. No allocation. */
typedef void (*tern_dense_fn)(const uint8_t *w, size_t row_bytes, uint32_t n_rows, uint32_t cols, const float *x,
                              size_t x_stride, uint32_t n, float *y, size_t y_stride);

/* Root-mean-square norm of one row (Zhang and Sennrich, arXiv:1910.07467).
 *
 *   s = lanes-and-tree sum of x[c]^2;  r = 1 / sqrtf(s / cols + eps);  y[c] = (x[c] * r) * g[c]
 *
 *   y  out  [cols] f32; may be the same buffer as x        x, g  in  [cols] f32        Exact bits. */
typedef void (*tern_rms_norm_fn)(const float *x, const float *g, float eps, uint32_t cols, float *y);

/* Per-token absmax quantiser of one row (W1.58A8: docs/architecture.md, 3; arXiv:2402.17764).
 *
 *   m = max(max_c |x[c]|, 1e-5);  s = 127 / m;  q[c] = clamp(round_half_even(x[c] * s), -128, 127)
 *   *inv_scale = 1 / s;  *sum = sum_c q[c]
 *
 *   q  out  [stride] int8: zeros from cols to stride
 *
 * A NaN in x quantises to 0 and is ignored by the maximum; +-inf counts as the largest finite f32. Exact bits. */
typedef void (*tern_quantize_fn)(const float *x, uint32_t cols, int8_t *q, size_t stride, float *inv_scale,
                                 int32_t *sum);

/* Gated activations, elementwise on n values; y may alias gate or up. Exact bits.
 *   relu2:  y = g > 0 ? (g * g) * u : +0                     (BitNet b1.58 2B4T); u of a closed gate is not looked at
 *   silu:   y = (g / (1 + tern_ref_exp(-g))) * u             (LLaMA's gate, with u the up projection)
 *   gelu:   w = (g + ((g * g) * g) * CUBE) * SCALE;  y = (g / (1 + tern_ref_exp(-w))) * u
 *           the tanh form of GELU: (1 + tanh(w / 2)) / 2 = 1 / (1 + e^-w) (Hendrycks and Gimpel, arXiv:1606.08415) */
#define TERN_GELU_CUBE  0.044715f
#define TERN_GELU_SCALE 1.5957691216f /* 2 sqrt(2 / pi) */

typedef void (*tern_gate_fn)(const float *gate, const float *up, size_t n, float *y);

/* An output gate, y = (1 / (1 + tern_ref_exp(-g))) * u. */
void tern_ref_sigmoid(const float *gate, const float *up, size_t n, float *y);

/* As above with a limit: g' = g > limit ? limit : g; u' = u > limit ? limit : u < -limit ? -limit : u
 *   swiglu_oai:      y = (g' / (1 + tern_ref_exp(-(g' * ALPHA)))) * (u' + 1)   (GPT-OSS, transformers modeling_gpt_oss)
 *   swiglu_clamped:  y = (g' / (1 + tern_ref_exp(-g'))) * u'                   (Maple, its modeling_maple) */
#define TERN_SWIGLU_ALPHA 1.702f

typedef void (*tern_limited_gate_fn)(const float *gate, const float *up, float limit, size_t n, float *y);

/* y[i] = a[i] + b[i]; y may alias a or b. */
typedef void (*tern_add_fn)(const float *a, const float *b, size_t n, float *y);

/* Rotary embedding of n_heads heads of one token, in place. cs = [head_dim / 2] pairs (cos, sin) for the position.
 *   split halves (GPT-NeoX): a = x[i], b = x[i + head_dim / 2];  adjacent: a = x[2i], b = x[2i + 1]
 *   a' = a * cos - b * sin;  b' = b * cos + a * sin   (each product rounded, then the sum: no fma) */
typedef void (*tern_rope_fn)(float *x, uint32_t n_heads, uint32_t head_dim, const float *cs);

/* n f32 values to a row of the cache of keys and values (ops/dtype.h): f32 as they are; f16, to nearest even; in blocks
 * of 32, of which n is then a multiple:
 *
 *   q8_0   scale = f16(max |x| / 127);  code = x / scale, -127 to 127
 *   q4_0   scale = f16(e / -8 + 0), e being the x furthest from 0, the positive one of two;  code = x / scale, -8 to 7
 *
 * x / scale is the f32 product of x and 1 / scale, the scale as it is stored, or x * 0 where that is 0; cut to the
 * codes there are, then rounded half to even. The scale of a NaN is one NaN (TERN_CACHE_NAN), of an infinity it is
 * infinite or NaN, so that the whole block is not finite. GGML's blocks of the same names, except for codes that are
 * rounded from a scale before it was stored and for ties. Exact bits. */
typedef void (*tern_kv_store_fn)(const float *x, size_t n, void *out);

enum { TERN_CACHE_BLOCK = 32, TERN_CACHE_NAN = 0x7e00 };

/* The definition of a type of caches. */
tern_kv_store_fn tern_ref_kv_store(tern_dtype type);
/* A row of the cache to its n numbers. */
void tern_ref_kv_load(tern_dtype type, const uint8_t *in, uint32_t n, float *out);

/* Attention of n_queries queries that share one KV head over one chunk of positions, softmax kept online.
 * The KV cache holds pages of 32 positions: K and V of page p start at k + p * k_page_bytes and v + p * v_page_bytes,
 * each 32 rows of head_dim numbers (tern_ref_kv_load). Logical position i lives in page pages[i / 32] at row i % 32.
 *
 * For each query i with its visible positions [lo[i], hi[i]) cut to [first, first + n), page by page in order:
 *   s_j = dot(q_i, k_j) * scale              lanes and tree over head_dim; the product rounded once; where softcap > 0,
 *                                            tern_ref_softcap of it
 *   m' = max(m, max_j s_j) + (+0), a NaN s_j ignored;  c = exp(m - m') (0 while m = -inf)
 *   p_j = exp(s_j - m');  l = l * c + (p_j + p_(j+16) in lane j, 0 for a position not visible, then the tree)
 *   acc[d] = acc[d] * c, then acc[d] = fmaf(p_j, v_j[d], acc[d]) for j in order
 * exp is tern_ref_exp. Pages without a visible position are skipped
 * for that query; K and V of a position that no query sees may hold anything.
 *
 *   q    in      [n_queries] rows of q_stride floats
 *   m    in/out  [n_queries], starts at -inf        l  in/out  [n_queries], starts at 0
 *   acc  in/out  [n_queries][head_dim], starts at 0
 * first is a multiple of TERN_ATTENTION_CHUNK. head_dim <= 512, a multiple of 4, for types with
 * blocks of 32. Exact bits. No allocation. */
typedef struct tern_attention_args {
    const float *q;
    size_t q_stride;
    uint32_t n_queries, head_dim;
    tern_cache_types types;
    const uint8_t *k, *v;
    size_t k_page_bytes, v_page_bytes;
    const uint32_t *pages;
    const uint32_t *lo, *hi;
    uint32_t first, n;
    float scale;
    float softcap; /* 0: none */
    float *m, *l, *acc;
} tern_attention_args;

typedef void (*tern_attention_fn)(const tern_attention_args *args);

/* A soft cap of scores: cap * tanh(x / cap), cap > 0, by the steps
 *   t = tern_ref_exp(x * (2 / cap));  y = cap - (cap + cap) / (t + 1)
 * so that |y| <= cap and a NaN stays one (Gemma 2, arXiv:2408.00118). Exact bits. */
float tern_ref_softcap(float x, float cap);

/* y[i] = tern_ref_softcap(x[i], cap); y may be x. Exact bits. */
typedef void (*tern_softcap_fn)(const float *x, size_t n, float cap, float *y);

/* The sum of a softmax, its maximum m, after a sink has joined it: l + exp(sink - m). A sink is one more score, which
 * no key has and which adds no value (GPT-OSS; arXiv:2309.17453, 3.3). -inf is none. */
float tern_ref_sink(float sink, float m, float l);

/* The screen of an output table (docs/decisions/0011-exact-head.md): codes of 6 bits in three planes, which are read
 * one after the other: the upper 3 bits of each code, the next 2, the last one. The columns of a row are cut into
 * halves of 256; two halves, or one at the end, are a group of eight vectors of 64 or 32 columns, and a plane of b bits
 * has b vectors of as many bytes for it. Column j of vector v is in byte j of them:
 *
 *   3 bits   v < 3: bits 0 to 2 of byte vector v;  v < 6: bits 3 to 5 of v - 3;  v = 6, 7: the lower two bits are bits
 *            6 and 7 of byte vector v - 6, the upper one is bit v of byte vector 2
 *   2 bits   bits 2 (v % 4) and above of byte vector v / 4
 *   1 bit    bit v
 *
 *   dots[r] = sum_c code(w[r][c]) * high[c],   3 bits also: dots[n_rows + r] = sum_c code(w[r][c]) * low[c]
 *
 *   w          in   n_rows rows of halves * 32 * bits bytes   high, low  in  [halves * 256] int8, 0 past the row's end
 *   dots       out  [2][n_rows] exact integers; of 2 bits and 1 bit [n_rows], low is not read. No allocation. */
enum { TERN_SCREEN_HALF = 256, TERN_SCREEN_VECTORS = 8, TERN_SCREEN_PLANES = 3 };

typedef void (*tern_screen_fn)(const uint8_t *w, uint32_t n_rows, uint32_t halves, uint32_t bits, const int8_t *high,
                               const int8_t *low, int32_t *dots);

/* e^x in f32 from a fixed sequence of IEEE operations, so that every level can repeat it to the bit: within 2 ulp of
 * the true value for x in [-87, 88]; x < -87.3 gives 0, x > 88.7 gives inf, NaN gives NaN. */
float tern_ref_exp(float x);

/* The constants of tern_ref_exp, for the levels that repeat it. */
#define TERN_EXP_LOW      -87.3f
#define TERN_EXP_HIGH     88.7f
#define TERN_EXP_LOG2E    0x1.715476p+0f
#define TERN_EXP_ROUND    0x1.8p23f
#define TERN_EXP_LN2_HIGH 0x1.62p-1f
#define TERN_EXP_LN2_LOW  0x1.c85fe0p-10f
#define TERN_EXP_C3       0x1.5554dcp-3f
#define TERN_EXP_C4       0x1.55551ap-5f
#define TERN_EXP_C5       0x1.120b72p-7f
#define TERN_EXP_C6       0x1.6d110ep-10f

/* The plain definitions. */
void tern_ref_i2_s(const uint8_t *w, size_t row_bytes, uint32_t n_rows, uint32_t cols, const tern_q8_rows *x,
                   int32_t *dots, size_t dots_stride);
void tern_ref_tq2_0(const uint8_t *w, size_t row_bytes, uint32_t n_rows, uint32_t cols, const tern_q8_rows *x,
                    int32_t *dots, size_t dots_stride);
void tern_ref_tq1_0(const uint8_t *w, size_t row_bytes, uint32_t n_rows, uint32_t cols, const tern_q8_rows *x,
                    int32_t *dots, size_t dots_stride);
void tern_ref_t160(const uint8_t *w, size_t row_bytes, uint32_t n_rows, uint32_t cols, const tern_q8_rows *x,
                   int32_t *dots, size_t dots_stride);
void tern_ref_f32(const uint8_t *w, size_t row_bytes, uint32_t n_rows, uint32_t cols, const float *x, size_t x_stride,
                  uint32_t n, float *y, size_t y_stride);
void tern_ref_f16(const uint8_t *w, size_t row_bytes, uint32_t n_rows, uint32_t cols, const float *x, size_t x_stride,
                  uint32_t n, float *y, size_t y_stride);
void tern_ref_bf16(const uint8_t *w, size_t row_bytes, uint32_t n_rows, uint32_t cols, const float *x, size_t x_stride,
                   uint32_t n, float *y, size_t y_stride);
#define TERN_REF_DENSE(X, name, NAME, elements, bytes)                                                                 \
    void tern_ref_##name(const uint8_t *w, size_t row_bytes, uint32_t n_rows, uint32_t cols, const float *x,           \
                         size_t x_stride, uint32_t n, float *y, size_t y_stride);
TERN_ENCODING_BLOCK_LIST(TERN_REF_DENSE, )
#undef TERN_REF_DENSE
uint32_t tern_ref_screen_code(const uint8_t *row, uint32_t halves, uint32_t bits, uint32_t c);
void tern_ref_screen(const uint8_t *w, uint32_t n_rows, uint32_t halves, uint32_t bits, const int8_t *high,
                     const int8_t *low, int32_t *dots);
void tern_ref_rms_norm(const float *x, const float *g, float eps, uint32_t cols, float *y);
void tern_ref_quantize(const float *x, uint32_t cols, int8_t *q, size_t stride, float *inv_scale, int32_t *sum);
void tern_ref_relu2(const float *gate, const float *up, size_t n, float *y);
void tern_ref_silu(const float *gate, const float *up, size_t n, float *y);
void tern_ref_gelu(const float *gate, const float *up, size_t n, float *y);
void tern_ref_swiglu_oai(const float *gate, const float *up, float limit, size_t n, float *y);
void tern_ref_swiglu_clamped(const float *gate, const float *up, float limit, size_t n, float *y);
void tern_ref_add(const float *a, const float *b, size_t n, float *y);
void tern_ref_softcap_row(const float *x, size_t n, float cap, float *y);
void tern_ref_rope_halves(float *x, uint32_t n_heads, uint32_t head_dim, const float *cs);
void tern_ref_rope_adjacent(float *x, uint32_t n_heads, uint32_t head_dim, const float *cs);
#define TERN_REF_KV_STORE(X, name, NAME, elements, bytes)                                                              \
    void tern_ref_kv_store_##name(const float *x, size_t n, void *out);
TERN_CACHE_TYPE_LIST(TERN_REF_KV_STORE, )
#undef TERN_REF_KV_STORE
void tern_ref_attention(const tern_attention_args *args);

/* lanes and tree over cols elements. */
float tern_ref_dot(const float *a, const float *b, size_t cols);

#endif
