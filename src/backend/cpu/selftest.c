/* Every chosen kernel is tried once when the backend opens: an instruction that the CPU only claims to have, or a wrong
 * result, becomes an error message. */
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "backend/cpu/cpu_internal.h"
#include "base/rng.h"
#include "quant/rsr.h"

enum { ROWS = 5, COLS = 512, TOKENS = 3, LUT_COLS = 320, BYTES = ROWS * COLS * 4 + 64 };

/* One small problem, and memory for two answers. */
typedef struct trial {
    _Alignas(64) float x[TOKENS][COLS];
    _Alignas(64) int8_t q[TOKENS][COLS];
    _Alignas(64) uint8_t w[BYTES];
    _Alignas(64) uint8_t answer[2][BYTES];
    int32_t sums[TOKENS];
    size_t row_bytes;
    const tern_cpu_kernels *kernels;
    tern_status status; /* of making the problem */
    tern_error *err;
} trial;

static sigjmp_buf escape;

static void on_signal(int signal)
{
    siglongjmp(escape, signal);
}

static void fill(trial *t)
{
    tern_rng rng = {.state = 1};
    for (uint32_t r = 0; r < TOKENS; r++) {
        t->sums[r] = 0;
        for (uint32_t c = 0; c < COLS; c++) {
            t->x[r][c] = tern_rng_f32(&rng) * 4.0f - 2.0f;
            t->q[r][c] = (int8_t)(tern_rng_u64(&rng) & 0xff);
            t->sums[r] += t->q[r][c];
        }
    }
}

static void encode(trial *t, tern_encoding_id id)
{
    const tern_encoding *e = tern_encoding_find(id);
    static float values[ROWS * COLS];
    tern_rng rng = {.state = id + 2u};
    for (size_t i = 0; i < ROWS * COLS; i++) values[i] = tern_rng_f32(&rng) - 0.5f;
    memset(t->w, 0, sizeof t->w);
    t->status = tern_encode(e, values, ROWS, COLS, t->w, t->err);
    if (t->status == TERN_OK) t->status = tern_encoding_row_bytes(e, COLS, &t->row_bytes, t->err);
}

static void try_ternary(trial *t, tern_ternary_fn fn, tern_encoding_id id, void *out)
{
    encode(t, id);
    if (t->status != TERN_OK) return;
    tern_q8_rows x = {.x = t->q[0], .stride = COLS, .sums = t->sums, .n = TOKENS};
    fn(t->w, t->row_bytes, ROWS, COLS, &x, out, ROWS);
    x.n = 1;
    fn(t->w, t->row_bytes, ROWS, COLS, &x, (int32_t *)out + TOKENS * ROWS, ROWS);
}

static tern_status trial_codes(void *context, uint32_t first, uint32_t n, int8_t *codes, tern_error *err)
{
    (void)err;
    const trial *t = context;
    for (size_t i = 0; i < (size_t)n * COLS; i++) {
        const size_t at = (first * COLS + i * 7) % (TOKENS * COLS);
        codes[i] = (int8_t)((uint8_t)t->q[at / COLS][at % COLS] % 3 - 1);
    }
    return TERN_OK;
}

/* One unit, with q as its inputs. */
static void try_rsr(trial *t, uint32_t n_tokens, tern_rsr_i8_fn fn, void *out)
{
    enum { K = 5 };
    const tern_rsr_source source = {.read = trial_codes, .context = t, .rows = K, .cols = COLS};
    tern_rsr_slices s;
    t->status = tern_rsr_slices_build(&s, &source, &(tern_rsr_options){.k = K}, 0, t->err);
    if (t->status != TERN_OK) return;
    const tern_rsr_unit u = {s.steps, s.masks, s.index, s.first_slice[1], K};
    int8_t x[4 * (COLS + 1)] = {0};
    for (uint32_t c = 0; c < n_tokens * COLS; c++) x[c] = t->q[c % TOKENS][c / n_tokens];
    fn(&u, x, out);
    tern_rsr_slices_deinit(&s);
}

/* Any bytes are codes (but bit 0 of signs, which is 1): those that no matrix has find zeros. */
static void try_lut(trial *t, uint32_t width, tern_lut_fn fn, tern_lut_tables_fn tables, void *out)
{
    _Alignas(64) static int8_t sums[LUT_COLS / 4 * TERN_LUT5_TABLE];
    const uint32_t n = LUT_COLS / tern_lut_group_cols(width), bytes = tern_lut_group_bytes(width);
    tern_rng rng = {.state = 9};
    for (uint32_t i = 0; i < n * bytes * TERN_LUT_ROWS; i++)
        t->w[i] = (uint8_t)(tern_rng_u64(&rng) | (width == 3 && i / TERN_LUT3_ROWS % bytes < TERN_LUT3_SIGNS));
    tables(t->q[2], n * tern_lut_group_cols(width), sums);
    fn(t->w, sums, n, out);
}

static void try_dense(trial *t, tern_dense_fn fn, tern_encoding_id id, void *out)
{
    encode(t, id);
    if (t->status != TERN_OK) return;
    fn(t->w, t->row_bytes, ROWS, COLS, t->x[0], COLS, TOKENS, out, ROWS);
    fn(t->w, t->row_bytes, ROWS, COLS, t->x[0], COLS, 1, (float *)out + TOKENS * ROWS, ROWS);
}

static void try_attention(trial *t, tern_attention_fn fn, tern_kv_store_fn store, size_t element, void *out)
{
    static uint8_t cache[2][TERN_PAGE_SIZE * 16 * 4];
    for (uint32_t i = 0; i < TERN_PAGE_SIZE; i++) {
        store(t->x[0] + i, 16, cache[0] + i * 16 * element);
        store(t->x[1] + i, 16, cache[1] + i * 16 * element);
    }
    float *m = out, *l = m + 2, *acc = l + 2;
    uint32_t page = 0, lo[2] = {0, 3}, hi[2] = {20, 32};
    m[0] = m[1] = -INFINITY;
    tern_attention_args args = {.q = t->x[2],
                                .q_stride = 16,
                                .n_queries = 2,
                                .head_dim = 16,
                                .k = cache[0],
                                .v = cache[1],
                                .page_bytes = sizeof cache[0],
                                .pages = &page,
                                .lo = lo,
                                .hi = hi,
                                .n = TERN_PAGE_SIZE,
                                .scale = 0.25f,
                                .m = m,
                                .l = l,
                                .acc = acc};
    fn(&args);
}

static void try_quantize(trial *t, tern_quantize_fn fn, uint8_t *out)
{
    fn(t->x[0], COLS - 3, (int8_t *)out, COLS, (float *)(void *)(out + COLS), (int32_t *)(void *)(out + COLS + 4));
}

static void try_rope(trial *t, tern_rope_fn fn, void *out)
{
    memcpy(out, t->x[0], sizeof t->x[0]);
    fn(out, COLS / 64, 64, t->x[1]);
}

/* Both ways to read a; every tile has an edge. */
static void try_gemm(trial *t, tern_gemm_fn fn, float *out)
{
    static float workspace[TERN_GEMM_WORKSPACE];
    tern_gemm_args g = {.m = 19,
                        .n = 61,
                        .k = 23,
                        .a = t->x[0],
                        .a_stride = 23,
                        .b = t->x[1],
                        .b_stride = 16,
                        .c = out,
                        .c_stride = 61,
                        .workspace = workspace};
    fn(&g);
    g.a_columns = true;
    g.a_scales = t->x[2];
    g.a_stride = 19;
    fn(&g);
}

static void try_decode(trial *t, tern_decode_fn fn, tern_encoding_id id, float *out)
{
    encode(t, id);
    if (t->status != TERN_OK) return;
    fn(t->w, t->row_bytes, ROWS, COLS, out, COLS);
    for (int i = 0; i < ROWS * COLS; i++) out[i] += 0.0f; /* zeros may have either sign */
}

static void try_product(trial *t, tern_product_fn fn, void *out)
{
    const tern_product_args args = {.a = t->x[0],
                                    .a_row = 21,
                                    .a_step = 1,
                                    .b = t->x[1],
                                    .b_step = 19,
                                    .c = out,
                                    .c_row = 77,
                                    .m = 7,
                                    .n = 77,
                                    .steps = 20};
    fn(&args);
}

static void try_softmax(trial *t, const tern_cpu_kernels *k, float *out)
{
    tern_softmax_row row = {.scale = 0.5f, .delta = 0.25f};
    memcpy(out, t->x, sizeof t->x);
    k->softmax(out, 0, COLS, 0.5f, &out[3 * COLS], &out[3 * COLS + 1]);
    row.m = out[3 * COLS];
    row.l = out[3 * COLS + 1];
    k->softmax_backward(out + COLS, out + 2 * COLS, 0, COLS, &row);
}

static void try_cross_entropy(trial *t, tern_cross_entropy_fn fn, float *out)
{
    memcpy(out, t->x[0], sizeof t->x[0]);
    out[COLS] = fn(out, COLS - 3, 5, 0.5f);
}

static void try_norm_backward(trial *t, const tern_cpu_kernels *k, float *out)
{
    const tern_norm_weight_args args = {
        .x = t->x[0], .dy = t->x[1], .r = t->x[2], .x_stride = COLS, .dy_stride = COLS, .n = 2, .cols = COLS - 3};
    out[0] = k->rms_norm_backward(t->x[0], t->x[1], 1e-5f, COLS - 3, t->x[2], out + 1, NULL);
    k->norm_weight_backward(&args, out + COLS);
}

/* Few bits everywhere; any two bytes are a bf16. */
static void try_update(trial *t, tern_update_fn fn, uint8_t *out)
{
    const tern_train_params p = {.clip = 0.5f,
                                 .keep = 0.99f,
                                 .blend1 = 0.1f,
                                 .beta2 = 0.99f,
                                 .blend2 = 0.01f,
                                 .root = 0.2f,
                                 .eps = 1e-8f,
                                 .pace = 0.01f};
    float *g = (float *)(void *)out, *scales = g + COLS;
    uint8_t *w = (uint8_t *)(scales + 4), *m = w + COLS * 2, *v = m + COLS;
    memcpy(g, t->x[0], sizeof t->x[0]);
    memcpy(scales, t->x[1], 4 * sizeof *scales);
    memcpy(w, t->q, COLS * 2);
    memcpy(m, t->q[1], COLS);
    memcpy(v, t->q[2], COLS);
    fn(&(tern_update_args){.params = &p,
                           .optimizer = TERN_OPTIMIZER_ADAMW,
                           .decays = true,
                           .seed = 7,
                           .n = COLS - 3,
                           .w_dtype = TERN_DTYPE_BF16,
                           .m_dtype = TERN_DTYPE_M8,
                           .v_dtype = TERN_DTYPE_V8,
                           .w = w,
                           .m = m,
                           .v = v,
                           .g = g,
                           .m_scales = scales,
                           .v_scales = scales + 2});
}

static void try_exponent(trial *t, tern_requantize_exponent_fn fn, uint32_t *out)
{
    memcpy(out + 1, t->x[0], sizeof t->x[0]);
    out[0] = fn(TERN_DTYPE_F32, out + 1, COLS - 3, 0.75f);
}

/* One line for each slot: what to run with the chosen kernel, and with the definition. */
#define TERN_TRIALS(X)                                                                                                 \
    X(i2_s, try_ternary(t, k->i2_s, TERN_ENC_I2_S, out))                                                               \
    X(tq2_0, try_ternary(t, k->tq2_0, TERN_ENC_TQ2_0, out))                                                            \
    X(tq1_0, try_ternary(t, k->tq1_0, TERN_ENC_TQ1_0, out))                                                            \
    X(t160, try_ternary(t, k->t160, TERN_ENC_T160, out))                                                               \
    X(rsr_i8, try_rsr(t, 1, k->rsr_i8, out))                                                                           \
    X(rsr_i8x4, try_rsr(t, 4, k->rsr_i8x4, out))                                                                       \
    X(lut2, try_lut(t, 2, k->lut2, tern_ref_lut2_tables, out))                                                         \
    X(lut3, try_lut(t, 3, k->lut3, tern_ref_lut3_tables, out))                                                         \
    X(lut5, try_lut(t, 5, k->lut5, tern_ref_lut5_tables, out))                                                         \
    X(lut2_tables, k->lut2_tables(t->q[1], LUT_COLS / 2 + 3, out))                                                     \
    X(lut3_tables, k->lut3_tables(t->q[1], LUT_COLS / 2 + 3, out))                                                     \
    X(lut5_tables, k->lut5_tables(t->q[1], LUT_COLS / 2 + 3, out))                                                     \
    X(f32, try_dense(t, k->f32, TERN_ENC_F32, out))                                                                    \
    X(f16, try_dense(t, k->f16, TERN_ENC_F16, out))                                                                    \
    X(bf16, try_dense(t, k->bf16, TERN_ENC_BF16, out))                                                                 \
    X(q8_0, try_dense(t, k->q8_0, TERN_ENC_Q8_0, out))                                                                 \
    X(q6_k, try_dense(t, k->q6_k, TERN_ENC_Q6_K, out))                                                                 \
    X(q4_k, try_dense(t, k->q4_k, TERN_ENC_Q4_K, out))                                                                 \
    X(q5_k, try_dense(t, k->q5_k, TERN_ENC_Q5_K, out))                                                                 \
    X(screen, k->screen(t->w, ROWS, 1, t->q[0], t->q[1], out))                                                         \
    X(rms_norm, k->rms_norm(t->x[0], t->x[1], 1e-5f, COLS - 3, out))                                                   \
    X(quantize, try_quantize(t, k->quantize, out))                                                                     \
    X(relu2, k->relu2(t->x[0], t->x[1], COLS - 3, out))                                                                \
    X(silu, k->silu(t->x[0], t->x[1], COLS - 3, out))                                                                  \
    X(gelu, k->gelu(t->x[0], t->x[1], COLS - 3, out))                                                                  \
    X(add, k->add(t->x[0], t->x[1], COLS - 3, out))                                                                    \
    X(rope_halves, try_rope(t, k->rope_halves, out))                                                                   \
    X(rope_adjacent, try_rope(t, k->rope_adjacent, out))                                                               \
    X(kv_store_f16, k->kv_store_f16(t->x[0], COLS - 3, out))                                                           \
    X(kv_store_f32, k->kv_store_f32(t->x[0], COLS - 3, out))                                                           \
    X(attention_f16, try_attention(t, k->attention_f16, k->kv_store_f16, 2, out))                                      \
    X(attention_f32, try_attention(t, k->attention_f32, k->kv_store_f32, 4, out))                                      \
    X(product, try_product(t, k->product, out))                                                                        \
    X(softmax, try_softmax(t, k, out))                                                                                 \
    X(softmax_backward, try_softmax(t, k, out))                                                                        \
    X(cross_entropy, try_cross_entropy(t, k->cross_entropy, out))                                                      \
    X(rms_norm_backward, try_norm_backward(t, k, out))                                                                 \
    X(norm_weight_backward, try_norm_backward(t, k, out))                                                              \
    X(relu2_backward, k->relu2_backward(t->x[0], t->x[1], t->x[2], COLS - 3, out, (float *)out + COLS))                \
    X(silu_backward, k->silu_backward(t->x[0], t->x[1], t->x[2], COLS - 3, out, (float *)out + COLS))                  \
    X(gelu_backward, k->gelu_backward(t->x[0], t->x[1], t->x[2], COLS - 3, out, (float *)out + COLS))                  \
    X(rope_halves_backward, try_rope(t, k->rope_halves_backward, out))                                                 \
    X(rope_adjacent_backward, try_rope(t, k->rope_adjacent_backward, out))                                             \
    X(dropout, k->dropout(t->x[0], COLS - 3, 0.25f, 7, 9, out))                                                        \
    X(fake_quantize, k->fake_quantize(t->x[0], COLS - 3, 0.5f, out))                                                   \
    X(gemm, try_gemm(t, k->gemm, out))                                                                                 \
    X(decode_i8, k->decode_i8((const uint8_t *)t->q, COLS, TOKENS, COLS - 3, out, COLS))                               \
    X(decode_f16, try_decode(t, k->decode_f16, TERN_ENC_F16, out))                                                     \
    X(decode_bf16, try_decode(t, k->decode_bf16, TERN_ENC_BF16, out))                                                  \
    X(decode_q8_0, try_decode(t, k->decode_q8_0, TERN_ENC_Q8_0, out))                                                  \
    X(decode_q6_k, try_decode(t, k->decode_q6_k, TERN_ENC_Q6_K, out))                                                  \
    X(decode_q4_k, try_decode(t, k->decode_q4_k, TERN_ENC_Q4_K, out))                                                  \
    X(decode_q5_k, try_decode(t, k->decode_q5_k, TERN_ENC_Q5_K, out))                                                  \
    X(decode_i2_s, try_decode(t, k->decode_i2_s, TERN_ENC_I2_S, out))                                                  \
    X(decode_tq2_0, try_decode(t, k->decode_tq2_0, TERN_ENC_TQ2_0, out))                                               \
    X(decode_tq1_0, try_decode(t, k->decode_tq1_0, TERN_ENC_TQ1_0, out))                                               \
    X(decode_t160, try_decode(t, k->decode_t160, TERN_ENC_T160, out))                                                  \
    X(update, try_update(t, k->update, out))                                                                           \
    X(sum_run, *(float *)out = k->sum_run(t->x[0], COLS - 3, true))                                                    \
    X(requantize_exponent, try_exponent(t, k->requantize_exponent, out))                                               \
    X(requantize_units, *(uint64_t *)out = k->requantize_units(TERN_DTYPE_F32, t->x[0], COLS - 3, 128))                \
    X(requantize_codes, k->requantize_codes(TERN_DTYPE_F32, t->x[0], COLS - 3, tern_ref_ternary_rule(0.9f, 0), out))   \
    X(requantize_blend,                                                                                                \
      k->requantize_blend(TERN_DTYPE_F32, t->x[0], COLS - 3, tern_ref_ternary_rule(0.9f, 0), 0.3f, out))

#define TERN_TRIAL(slot, call)                                                                                         \
    static void trial_##slot(trial *t, const tern_cpu_kernels *k, void *out)                                           \
    {                                                                                                                  \
        call;                                                                                                          \
    }
TERN_TRIALS(TERN_TRIAL)
#undef TERN_TRIAL

typedef struct trial_row {
    const char *slot;
    void (*run)(trial *t, const tern_cpu_kernels *k, void *out);
    size_t level; /* offset of the level's name in the table */
} trial_row;

static const trial_row rows[] = {
#define TERN_TRIAL(slot, call) {#slot, trial_##slot, offsetof(tern_cpu_kernels, slot##_level)},
    TERN_TRIALS(TERN_TRIAL)
#undef TERN_TRIAL
};

static tern_status try_row(trial *t, const trial_row *row, const tern_cpu_kernels *definition, tern_error *err)
{
    const char *level;
    memcpy(&level, (const char *)t->kernels + row->level, sizeof level);
    if (strcmp(level, "scalar") == 0) return TERN_OK;
    memset(t->answer, 0, sizeof t->answer);
    row->run(t, definition, t->answer[0]);
    TERN_TRY(t->status);
    if (sigsetjmp(escape, 1))
        return tern_fail(err, TERN_UNSUPPORTED,
                         "kernel %s (%s): illegal instruction, though the CPU claims to have it; choose a lower level "
                         "with --cpu-features",
                         row->slot, level);
    row->run(t, t->kernels, t->answer[1]);
    TERN_TRY(t->status);
    if (memcmp(t->answer[0], t->answer[1], sizeof t->answer[0]) == 0) return TERN_OK;
    return tern_fail(err, TERN_UNSUPPORTED,
                     "kernel %s (%s): wrong result on this CPU; choose a lower level with --cpu-features", row->slot,
                     level);
}

tern_status tern_cpu__self_test(const tern_cpu_kernels *kernels, tern_error *err)
{
    static pthread_mutex_t one_at_a_time =
        PTHREAD_MUTEX_INITIALIZER; /* the handler of a signal is one for the process */
    static trial t;
    tern_cpu_kernels definition;
    tern_cpu_kernels_choose(0, &definition);
    pthread_mutex_lock(&one_at_a_time);
    t.kernels = kernels;
    t.status = TERN_OK;
    t.err = err;
    fill(&t);
    struct sigaction action = {.sa_handler = on_signal}, before;
    sigaction(SIGILL, &action, &before);
    tern_status status = TERN_OK;
    for (size_t i = 0; i < sizeof rows / sizeof *rows && status == TERN_OK; i++)
        status = try_row(&t, &rows[i], &definition, err);
    sigaction(SIGILL, &before, NULL);
    pthread_mutex_unlock(&one_at_a_time);
    return status;
}
