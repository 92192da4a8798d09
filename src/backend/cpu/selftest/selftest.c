/* Every chosen kernel is tried once when the backend opens: an instruction that the CPU only claims to have, or a wrong
 * result, becomes an error message. */
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "backend/cpu/selftest/selftest_internal.h"
#include "base/rng.h"

static sigjmp_buf escape;

static void on_signal(int signal)
{
    siglongjmp(escape, signal);
}

static void fill(tern_selftest__trial *t)
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

#define DENSE_TRIAL(X, name, NAME, elements, bytes) X(name, tern_selftest__dense(t, k->name, TERN_ENC_##NAME, out))
#define INT8_TRIAL(X, name, NAME, elements, bytes)                                                                     \
    X(int8_##name, tern_selftest__blocks(t, k->int8_##name, TERN_ENC_##NAME, out))
#define STORE_TRIAL(X, name, NAME, elements, bytes) X(kv_store_##name, k->kv_store_##name(t->x[0], COLS - 32, out))
#define DECODE_TRIAL(X, name, NAME, elements, bytes)                                                                   \
    X(decode_##name, tern_selftest__decode(t, k->decode_##name, TERN_ENC_##NAME, out))

/* One line for each slot: what to run with the chosen kernel, and with the definition. */
#define TERN_TRIALS(X)                                                                                                 \
    X(i2_s, tern_selftest__ternary(t, k->i2_s, TERN_ENC_I2_S, out))                                                    \
    X(tq2_0, tern_selftest__ternary(t, k->tq2_0, TERN_ENC_TQ2_0, out))                                                 \
    X(tq1_0, tern_selftest__ternary(t, k->tq1_0, TERN_ENC_TQ1_0, out))                                                 \
    X(t160, tern_selftest__ternary(t, k->t160, TERN_ENC_T160, out))                                                    \
    X(columns, tern_selftest__columns(t, k->columns, out))                                                             \
    X(rsr_i8, tern_selftest__rsr(t, 1, k->rsr_i8, out))                                                                \
    X(rsr_i8x4, tern_selftest__rsr(t, 4, k->rsr_i8x4, out))                                                            \
    X(lut2, tern_selftest__lut(t, 2, k->lut2, tern_ref_lut2_tables, out))                                              \
    X(lut3, tern_selftest__lut(t, 3, k->lut3, tern_ref_lut3_tables, out))                                              \
    X(lut5, tern_selftest__lut(t, 5, k->lut5, tern_ref_lut5_tables, out))                                              \
    X(lut2_tables, k->lut2_tables(t->q[1], LUT_COLS / 2 + 3, out))                                                     \
    X(lut3_tables, k->lut3_tables(t->q[1], LUT_COLS / 2 + 3, out))                                                     \
    X(lut5_tables, k->lut5_tables(t->q[1], LUT_COLS / 2 + 3, out))                                                     \
    X(f32, tern_selftest__dense(t, k->f32, TERN_ENC_F32, out))                                                         \
    X(f16, tern_selftest__dense(t, k->f16, TERN_ENC_F16, out))                                                         \
    X(bf16, tern_selftest__dense(t, k->bf16, TERN_ENC_BF16, out))                                                      \
    TERN_ENCODING_INT8_LIST(INT8_TRIAL, X)                                                                             \
    X(quantize_blocks, tern_selftest__quantize_blocks(t, k->quantize_blocks, out))                                     \
    TERN_ENCODING_BLOCK_LIST(DENSE_TRIAL, X)                                                                           \
    X(screen, tern_selftest__screen(t, k->screen, out))                                                                \
    X(rms_norm, k->rms_norm(t->x[0], t->x[1], 1e-5f, COLS - 3, out))                                                   \
    X(quantize, tern_selftest__quantize(t, k->quantize, out))                                                          \
    X(relu2, k->relu2(t->x[0], t->x[1], COLS - 3, out))                                                                \
    X(silu, k->silu(t->x[0], t->x[1], COLS - 3, out))                                                                  \
    X(gelu, k->gelu(t->x[0], t->x[1], COLS - 3, out))                                                                  \
    X(swiglu_oai, k->swiglu_oai(t->x[0], t->x[1], 0.7f, COLS - 3, out))                                                \
    X(swiglu_clamped, k->swiglu_clamped(t->x[0], t->x[1], 0.7f, COLS - 3, out))                                        \
    X(add, k->add(t->x[0], t->x[1], COLS - 3, out))                                                                    \
    X(softcap_row, k->softcap_row(t->x[0], COLS - 3, 0.7f, out))                                                       \
    X(sigmoid, k->sigmoid(t->x[0], t->x[1], COLS - 3, out))                                                            \
    X(hadamard, k->hadamard(t->x[0], t->x[1], COLS, 128, out))                                                         \
    X(hadamard_inverse, k->hadamard_inverse(t->x[0], t->x[1], COLS, 128, out))                                         \
    X(conv, tern_selftest__conv(t, k->conv, out))                                                                      \
    X(delta, tern_selftest__delta(t, k->delta, out))                                                                   \
    X(conv_backward, tern_selftest__conv_backward(t, k->conv_backward, out))                                           \
    X(delta_backward, tern_selftest__delta_backward(t, k->delta_backward, out))                                        \
    X(rope_halves, tern_selftest__rope(t, k->rope_halves, out))                                                        \
    X(rope_adjacent, tern_selftest__rope(t, k->rope_adjacent, out))                                                    \
    TERN_CACHE_TYPE_LIST(STORE_TRIAL, X)                                                                               \
    X(attention, tern_selftest__attention(t, k, out))                                                                  \
    X(product, tern_selftest__product(t, k->product, out))                                                             \
    X(softmax, tern_selftest__softmax(t, k, out))                                                                      \
    X(softmax_backward, tern_selftest__softmax(t, k, out))                                                             \
    X(cross_entropy, tern_selftest__cross_entropy(t, k->cross_entropy, out))                                           \
    X(rms_norm_backward, tern_selftest__norm_backward(t, k, out))                                                      \
    X(norm_weight_backward, tern_selftest__norm_backward(t, k, out))                                                   \
    X(relu2_backward, k->relu2_backward(t->x[0], t->x[1], t->x[2], COLS - 3, out, (float *)out + COLS))                \
    X(silu_backward, k->silu_backward(t->x[0], t->x[1], t->x[2], COLS - 3, out, (float *)out + COLS))                  \
    X(gelu_backward, k->gelu_backward(t->x[0], t->x[1], t->x[2], COLS - 3, out, (float *)out + COLS))                  \
    X(sigmoid_backward, k->sigmoid_backward(t->x[0], t->x[1], t->x[2], COLS - 3, out, (float *)out + COLS))            \
    X(rope_halves_backward, tern_selftest__rope(t, k->rope_halves_backward, out))                                      \
    X(rope_adjacent_backward, tern_selftest__rope(t, k->rope_adjacent_backward, out))                                  \
    X(dropout, k->dropout(t->x[0], COLS - 3, 0.25f, 7, 9, out))                                                        \
    X(fake_quantize, k->fake_quantize(t->x[0], COLS - 3, 0.5f, out))                                                   \
    X(gemm, tern_selftest__gemm(t, k->gemm, out))                                                                      \
    X(decode_i8, k->decode_i8((const uint8_t *)t->q, COLS, TOKENS, COLS - 3, out, COLS))                               \
    X(decode_f16, tern_selftest__decode(t, k->decode_f16, TERN_ENC_F16, out))                                          \
    X(decode_bf16, tern_selftest__decode(t, k->decode_bf16, TERN_ENC_BF16, out))                                       \
    TERN_ENCODING_BLOCK_LIST(DECODE_TRIAL, X)                                                                          \
    X(decode_i2_s, tern_selftest__decode(t, k->decode_i2_s, TERN_ENC_I2_S, out))                                       \
    X(decode_tq2_0, tern_selftest__decode(t, k->decode_tq2_0, TERN_ENC_TQ2_0, out))                                    \
    X(decode_tq1_0, tern_selftest__decode(t, k->decode_tq1_0, TERN_ENC_TQ1_0, out))                                    \
    X(decode_t160, tern_selftest__decode(t, k->decode_t160, TERN_ENC_T160, out))                                       \
    X(update, tern_selftest__update(t, k->update, out))                                                                \
    X(sum_run, *(float *)out = k->sum_run(t->x[0], COLS - 3, true))                                                    \
    X(requantize_exponent, tern_selftest__exponent(t, k->requantize_exponent, out))                                    \
    X(requantize_units, *(uint64_t *)out = k->requantize_units(TERN_DTYPE_F32, t->x[0], COLS - 3, 128))                \
    X(requantize_codes, k->requantize_codes(TERN_DTYPE_F32, t->x[0], COLS - 3, tern_ref_ternary_rule(0.9f, 0), out))   \
    X(requantize_blend,                                                                                                \
      k->requantize_blend(TERN_DTYPE_F32, t->x[0], COLS - 3, tern_ref_ternary_rule(0.9f, 0), 0.3f, out))

#define TERN_TRIAL(slot, call)                                                                                         \
    static void trial_##slot(tern_selftest__trial *t, const tern_cpu_kernels *k, void *out)                            \
    {                                                                                                                  \
        call;                                                                                                          \
    }
TERN_TRIALS(TERN_TRIAL)
#undef TERN_TRIAL

typedef struct trial_row {
    const char *slot;
    void (*run)(tern_selftest__trial *t, const tern_cpu_kernels *k, void *out);
    size_t level; /* offset of the level's name in the table */
} trial_row;

static const trial_row rows[] = {
#define TERN_TRIAL(slot, call) {#slot, trial_##slot, offsetof(tern_cpu_kernels, slot##_level)},
    TERN_TRIALS(TERN_TRIAL)
#undef TERN_TRIAL
};

static tern_status tern_selftest__row(tern_selftest__trial *t, const trial_row *row, const tern_cpu_kernels *definition,
                                      tern_error *err)
{
    const char *level;
    memcpy(&level, (const char *)t->kernels + row->level, sizeof level);
    if (strcmp(level, "scalar") == 0) return TERN_OK;
    memset(t->answer, 0, sizeof t->answer);
    row->run(t, definition, t->answer[0]);
    TERN_TRY(t->status);
    if (sigsetjmp(escape, 1))
        return tern_fail(
            err, TERN_UNSUPPORTED,
            "kernel %s (%s): illegal instruction, although the CPU reports to support it; choose a lower level "
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
    static tern_selftest__trial t;
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
        status = tern_selftest__row(&t, &rows[i], &definition, err);
    sigaction(SIGILL, &before, NULL);
    pthread_mutex_unlock(&one_at_a_time);
    return status;
}
