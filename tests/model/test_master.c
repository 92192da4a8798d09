/* What training starts from, and adapters that are made in memory. */
#include <math.h>

#include "format/safetensors.h"
#include "model/adapter/adapter.h"
#include "model/support.h"
#include "support/micro_model.h"

static tern_error err;

/* An HF folder of bf16 values: exactly those, and its ternary weights are made of them. */
static void of_a_folder(void **state)
{
    (void)state;
    static float values[128 * 256], part[128];
    static int8_t codes[128 * 256];
    tern_model *model = open_model(test_fixture("bitnet-train"));
    tern_safetensors *st = NULL;
    assert_ok(tern_safetensors_open(&st, test_fixture("bitnet-train/model.safetensors"), &err), err);
    const tern_st_tensor *t = tern_safetensors_find(st, "model.layers.1.mlp.down_proj.weight");
    assert_ok(tern_model_master(model, TERN_ROLE_FFN_DOWN, 1, 0, 128, values, &err), err);
    for (size_t i = 0; i < 128 * 256; i++) {
        float want;
        tern_st_to_f32(t, i, 1, &want);
        assert_memory_equal(&want, &values[i], sizeof want);
    }
    float scale;
    tern_ternarise(values, 128 * 256, codes, &scale);
    const tern_weight *w = tern_model_weight(model, TERN_ROLE_FFN_DOWN, 1);
    assert_memory_equal(&scale, &w->scale, sizeof scale);
    int8_t *packed = codes_of(w);
    assert_memory_equal(packed, codes, sizeof codes);
    free(packed);
    assert_true(tern_model_has_master(model, TERN_ROLE_FFN_DOWN, 1));
    assert_ok(tern_model_master(model, TERN_ROLE_ATTN_Q, 0, 5, 1, part, &err), err);
    t = tern_safetensors_find(st, "model.layers.0.self_attn.q_proj.weight");
    for (size_t i = 0; i < 128; i++) {
        float want;
        tern_st_to_f32(t, 5 * 128 + i, 1, &want);
        assert_memory_equal(&want, &part[i], sizeof want);
    }
    assert_int_equal(tern_model_master(model, TERN_ROLE_ATTN_Q, 0, 128, 1, part, &err), TERN_INVALID_ARGUMENT);
    assert_int_equal(tern_model_master(model, TERN_ROLE_ATTN_Q, 0, UINT32_MAX, 2, part, &err), TERN_INVALID_ARGUMENT);
    tern_safetensors_close(st);
    tern_model_close(model);
}

/* A file of codes: code * scale. */
static void of_codes(void **state)
{
    (void)state;
    float values[16 * 16];
    tern_buf bytes = micro_model(&(micro_change){.seed = 3});
    tern_model *model = NULL;
    assert_ok(tern_model_open_memory(&model, bytes.data, bytes.size, NULL, &err), err);
    assert_false(tern_model_has_master(model, TERN_ROLE_ATTN_Q, 0));
    assert_true(tern_model_has_master(model, TERN_ROLE_TOKEN_EMBD, 0));
    assert_ok(tern_model_master(model, TERN_ROLE_ATTN_Q, 0, 0, 16, values, &err), err);
    int8_t *codes = codes_of(tern_model_weight(model, TERN_ROLE_ATTN_Q, 0));
    for (size_t i = 0; i < 16 * 16; i++) assert_true(values[i] == 0.5f * (float)codes[i]);
    free(codes);
    assert_ok(tern_model_master(model, TERN_ROLE_ATTN_NORM, 0, 0, 1, values, &err), err);
    assert_memory_equal(values, tern_model_weight(model, TERN_ROLE_ATTN_NORM, 0)->data, 16 * sizeof(float));
    tern_model_close(model);
    tern_buf_deinit(&bytes);
}

static void names(void **state)
{
    (void)state;
    char name[TERN_ROLE_NAME_BYTES];
    tern_role_hf_name(NULL, TERN_ROLE_ATTN_Q, 12, name);
    assert_string_equal(name, "model.layers.12.self_attn.q_proj.weight");
    tern_role_hf_name(NULL, TERN_ROLE_OUTPUT, 0, name);
    assert_string_equal(name, "lm_head.weight");
    assert_true(tern_role_is_linear(TERN_ROLE_FFN_UP) && !tern_role_is_linear(TERN_ROLE_OUTPUT));
    assert_true(tern_role_is_norm(TERN_ROLE_FFN_SUB_NORM) && !tern_role_is_norm(TERN_ROLE_TOKEN_EMBD));
}

/* Made, filled in, written and read again. */
static void made_adapters(void **state)
{
    (void)state;
    tern_model *model = open_model(test_fixture("bitnet-train"));
    const tern_adapter_layer targets[] = {{TERN_ROLE_ATTN_K, 0}, {TERN_ROLE_FFN_DOWN, 1}};
    tern_adapter_info info = {.rank = 4, .alpha = 6, .dropout = 0.25f, .base = "a base"};
    tern_adapter *adapter = NULL, *again = NULL;
    assert_ok(tern_adapter_make(&adapter, model, &info, targets, 2, &err), err);
    const tern_adapter_pair *pair = tern_adapter_find(adapter, TERN_ROLE_FFN_DOWN, 1);
    assert_null(tern_adapter_find(adapter, TERN_ROLE_FFN_DOWN, 0));
    assert_int_equal(pair->in, 256);
    assert_int_equal(pair->out, 128);
    for (uint32_t i = 0; i < 4 * 256; i++) pair->a[i] = (float)i;
    pair->b[4 * 128 - 1] = -3;
    assert_true(tern_adapter_describe(adapter)->scale == 1.5f);
    assert_int_equal(tern_adapter_describe(adapter)->parameters, 4 * (128 + 64) + 4 * (256 + 128));
    assert_ok(tern_adapter_write_peft(adapter, test_scratch("made-adapter"), &err), err);
    assert_ok(tern_adapter_open(&again, test_scratch("made-adapter"), model, &err), err);
    const tern_adapter_pair *read = tern_adapter_find(again, TERN_ROLE_FFN_DOWN, 1);
    assert_memory_equal(read->a, pair->a, 4 * 256 * sizeof(float));
    assert_memory_equal(read->b, pair->b, 4 * 128 * sizeof(float));
    assert_string_equal(tern_adapter_describe(again)->base, "a base");
    tern_adapter_close(again);
    tern_adapter_close(adapter);
    const struct {
        tern_adapter_layer targets[2];
        size_t n;
        tern_status status;
    } wrong[] = {{{{TERN_ROLE_ATTN_NORM, 0}}, 1, TERN_INVALID_ARGUMENT},
                 {{{TERN_ROLE_ATTN_Q, 2}}, 1, TERN_INVALID_ARGUMENT},
                 {{{TERN_ROLE_ATTN_Q, 0}, {TERN_ROLE_ATTN_Q, 0}}, 2, TERN_INVALID_ARGUMENT},
                 {{{0}}, 0, TERN_INVALID_ARGUMENT}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_int_equal(tern_adapter_make(&adapter, model, &info, wrong[i].targets, wrong[i].n, &err),
                         wrong[i].status);
        assert_null(adapter);
    }
    info.rank = 0;
    assert_int_equal(tern_adapter_make(&adapter, model, &info, targets, 2, &err), TERN_LIMIT);
    tern_model_close(model);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(of_a_folder),
    cmocka_unit_test(of_codes),
    cmocka_unit_test(names),
    cmocka_unit_test(made_adapters),
};

TEST_GROUP(master, "", tests);
