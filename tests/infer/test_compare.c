/* Comparing two backends: agreement to the bit, and that each kind of fault is found where it is. */
#include "infer/support.h"

#include <math.h>

#include "backend/cpu/cpu.h"
#include "backend/cpu/kernels.h"
#include "infer/compare/compare.h"
#include "support/adapters.h"
#include "support/places.h"

enum { N_IDS = 9 };
static const int32_t ids[N_IDS] = {1, 31, 608, 1185, 7, 339, 916, 1493, 70};

static tern_engine *reference, *tested;
static tern_cpu_kernels *kernels; /* of the tested one */
static tern_cpu_kernels sound;
static tern_compare_result result;

static tern_engine *open_level(const char *features)
{
    tern_error err = {0};
    tern_model *model;
    tern_engine *engine;
    const tern_engine_params params = {.backend = {.n_threads = 1, .cpu_features = features}};
    assert_ok(tern_model_open(&model, test_model("tiny-stories-bitnet"), &(tern_model_options){0}, &err), err);
    assert_ok(tern_engine_open(&engine, model, &params, &err), err);
    return engine;
}

static int setup(void **state)
{
    (void)state;
    reference = open_level("scalar");
    tested = open_level(NULL);
    kernels = (tern_cpu_kernels *)(uintptr_t)tern_cpu_kernels_of(tern_engine_backend(tested));
    sound = *kernels;
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    tern_engine_close(reference);
    tern_engine_close(tested);
    return 0;
}

static int forget_result(void **state)
{
    (void)state;
    *kernels = sound;
    tern_compare_result_deinit(&result);
    return 0;
}

static void compare(tern_kv_type kv, bool unfused)
{
    tern_error err = {0};
    const tern_compare_params params = {.ids = ids, .n_ids = N_IDS, .kv = {kv, kv}, .unfused = unfused};
    tern_compare_result_deinit(&result);
    assert_ok(tern_compare(reference, tested, &params, &result, &err), err);
}

static const tern_compare_op *first_bad(void)
{
    assert_true(result.first_bad < result.n_ops);
    assert_false(result.ok);
    return &result.ops[result.first_bad];
}

static void the_same_bits(void **state)
{
    (void)state;
    for (int i = 0; i < 4; i++) {
        compare(i & 1 ? TERN_KV_F16 : TERN_KV_F32, i & 2);
        assert_true(result.ok);
        assert_true(result.identical);
        assert_int_equal(result.first_bad, result.n_ops);
        assert_true(result.run.error == 0 && result.cached.error == 0);
        for (size_t k = 0; k < result.n_ops; k++)
            assert_true(result.ops[k].ok && result.ops[k].error == 0 && result.ops[k].run_error <= 0);
    }
}

/* Beside the same adapters too; with other ones on either side the first op that they change is found. */
static void with_adapters(void **state)
{
    (void)state;
    tern_error err = {0};
    tern_lora *a = test_lora(reference, 4, 1, false), *b = test_lora(tested, 4, 1, false),
              *other = test_lora(tested, 4, 2, false);
    const tern_lora_use wanted[] = {{a, 1}, {a, 0.5f}}, same[] = {{b, 1}, {b, 0.5f}}, wrong[] = {{b, 1}, {other, 0.5f}};
    for (int i = 0; i < 3; i++) {
        const tern_compare_params params = {.ids = ids,
                                            .n_ids = N_IDS,
                                            .unfused = i == 1,
                                            .reference_loras = wanted,
                                            .tested_loras = i < 2 ? same : wrong,
                                            .n_loras = 2};
        tern_compare_result_deinit(&result);
        assert_ok(tern_compare(reference, tested, &params, &result, &err), err);
        if (i < 2) assert_true(result.ok && result.identical);
        else assert_string_equal(first_bad()->name, "q_lora1_a-0");
    }
    tern_lora_close(a);
    tern_lora_close(b);
    tern_lora_close(other);
}

static uint32_t calls; /* of a broken kernel */

/* Off by a thousandth from its eighth call on. */
static void norm_drifts(const float *x, const float *g, float eps, uint32_t n, float *y)
{
    sound.rms_norm(x, g, eps, n, y);
    if (++calls < 8) return;
    for (uint32_t i = 0; i < n; i++) y[i] *= 1.001f;
}

/* The fault is named where it is, and nowhere else: what follows gets sound inputs. */
static void first_fault(void **state)
{
    (void)state;
    calls = 0;
    kernels->rms_norm = norm_drifts;
    compare(TERN_KV_F32, true);
    const tern_compare_op *bad = first_bad();
    assert_string_equal(bad->name, "attn_norm-0");
    assert_int_equal(bad->kind, TERN_OP_RMS_NORM);
    assert_false(bad->decode);
    assert_true(bad->error > 9e-4 && bad->error < 1.1e-3);
    assert_false(result.identical);
    for (size_t i = 0; i < result.n_ops; i++)
        if (result.ops[i].kind != TERN_OP_RMS_NORM) assert_true(result.ops[i].ok && result.ops[i].error == 0);
}

static void norm_is_nan(const float *x, const float *g, float eps, uint32_t n, float *y)
{
    sound.rms_norm(x, g, eps, n, y);
    if (++calls == 30) y[n / 2] = NAN;
}

static void nan_fails(void **state)
{
    (void)state;
    calls = 0;
    kernels->rms_norm = norm_is_nan;
    compare(TERN_KV_F32, true);
    assert_true(isnan(first_bad()->error));
    assert_true(first_bad()->layer == 0);
}

static uint32_t n_wrong;

/* Rounds the first elements the other way. */
static void quantize_flips(const float *x, uint32_t cols, int8_t *q, size_t stride, float *inv_scale, int32_t *sum)
{
    sound.quantize(x, cols, q, stride, inv_scale, sum);
    for (uint32_t i = 0; i < n_wrong && calls == 0; i++) {
        const int step = q[i] > 0 ? -1 : 1;
        q[i] = (int8_t)(q[i] + step);
        *sum += step;
    }
    calls++;
}

/* One element that rounds the other way is no fault; a whole run of them is. */
static void flips(void **state)
{
    (void)state;
    kernels->quantize = quantize_flips;
    for (n_wrong = 1; n_wrong <= 40; n_wrong += 39) {
        calls = 0;
        compare(TERN_KV_F32, true);
        uint64_t n_flips = 0;
        for (size_t i = 0; i < result.n_ops; i++) n_flips += result.ops[i].n_flips;
        assert_int_equal(n_flips, n_wrong);
        assert_false(result.identical);
        if (n_wrong == 1) assert_int_equal(result.first_bad, result.n_ops);
        else assert_string_equal(first_bad()->name, "attn_norm_q8-0");
    }
}

static tern_engine *open_dense(tern_block_rows rows)
{
    tern_error err = {0};
    tern_engine *engine;
    static const char path[] = TERN_SOURCE_DIR "/tests/data/dense/stories-dense.gguf";
    assert_ok(tern_engine_open_path(&engine, path, &(tern_model_options){.no_tokenizer = true},
                                    &(tern_engine_params){.int8_blocks = rows}, &err),
              err);
    return engine;
}

/* A dense model runs on int8 by blocks by default, and is compared by products of f32; those of
 * int8 where it was asked for. */
static void dense_layers(void **state)
{
    (void)state;
    static const tern_block_rows modes[] = {TERN_BLOCK_ROWS_AUTO, TERN_BLOCK_ROWS_INT8};
    static const int32_t few[] = {1, 31, 608};
    const tern_compare_params params = {.ids = few, .n_ids = 3, .kv = {TERN_KV_F32, TERN_KV_F32}};
    for (int i = 0; i < 2; i++) {
        tern_error err = {0};
        tern_engine *f32 = open_dense(TERN_BLOCK_ROWS_F32), *other = open_dense(modes[i]);
        tern_compare_result_deinit(&result);
        assert_ok(tern_compare(f32, other, &params, &result, &err), err);
        assert_true(result.identical == (modes[i] == TERN_BLOCK_ROWS_AUTO));
        tern_engine_close(f32);
        tern_engine_close(other);
    }
}

static void refusals(void **state)
{
    (void)state;
    tern_error err = {0};
    tern_compare_params params = {.ids = ids, .n_ids = 1};
    assert_int_equal(tern_compare(reference, tested, &params, &result, &err), TERN_INVALID_ARGUMENT);
    assert_string_equal(err.message, "1 tokens to compare with: at least 2 expected");
    const int32_t wrong[] = {1, 2048};
    params = (tern_compare_params){.ids = wrong, .n_ids = 2};
    assert_int_equal(tern_compare(reference, tested, &params, &result, &err), TERN_INVALID_ARGUMENT);
    assert_string_equal(err.message, "token 1 is id 2048: 0 to 2047 expected");
}

/* Errors of 0.1 everywhere: tokens 0.3 apart may change places, tokens 0.6 apart may not. */
static void top_tokens(void **state)
{
    (void)state;
    enum { N = 400 };
    float want[N], got[N];
    for (int i = 0; i < N; i++) {
        want[i] = (float)(i % 7) - 3;
        got[i] = want[i] + (i % 2 ? 0.1f : -0.1f);
    }
    want[5] = got[5] = 10;
    want[8] = 9.7f, got[8] = 9.6f;
    tern_compare_logits l = tern_compare__logits(want, got, N);
    assert_true(l.same_top && !l.tied_top && l.cosine > 0.998 && l.error > 0);
    got[8] = 10.1f;
    l = tern_compare__logits(want, got, N);
    assert_true(!l.same_top && l.tied_top);
    want[8] = 9.4f;
    l = tern_compare__logits(want, got, N);
    assert_true(!l.same_top && !l.tied_top);
    got[8] = NAN;
    l = tern_compare__logits(want, got, N);
    assert_false(l.cosine > 0.999);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test_teardown(with_adapters, forget_result), cmocka_unit_test_teardown(the_same_bits, forget_result),
    cmocka_unit_test_teardown(first_fault, forget_result),   cmocka_unit_test_teardown(nan_fails, forget_result),
    cmocka_unit_test_teardown(flips, forget_result),         cmocka_unit_test_teardown(dense_layers, forget_result),
    cmocka_unit_test_teardown(refusals, forget_result),      cmocka_unit_test(top_tokens),
};

TEST_GROUP(compare, "slow", tests, .setup = setup, .teardown = teardown);
