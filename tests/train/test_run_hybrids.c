/* Whole runs of models whose layers keep a state: decays, adapters, models from scratch. */
#include "model/adapter/adapter.h"
#include "quant/weight.h"
#include "train/run_support.h"

static tern_error err;

static void assert_near(double found, double want, double most)
{
    if (!(fabs(found - want) <= most)) fail_msg("%g found, %g within %g expected", found, want, most);
}

static const char config[] =
    "{\"architectures\": [\"Qwen3_5ForCausalLM\"], \"model_type\": \"qwen3_5_text\", \"hidden_size\": 64, "
    "\"intermediate_size\": 64, \"num_hidden_layers\": 2, \"num_attention_heads\": 2, \"num_key_value_heads\": 1, "
    "\"head_dim\": 32, \"vocab_size\": 64, \"max_position_embeddings\": 64, \"rms_norm_eps\": 1e-6, "
    "\"layer_types\": [\"linear_attention\", \"full_attention\"], \"linear_num_key_heads\": 4, "
    "\"linear_num_value_heads\": 4, \"linear_key_head_dim\": 16, \"linear_value_head_dim\": 16, "
    "\"linear_conv_kernel_dim\": 4, \"rope_parameters\": {\"rope_type\": \"default\", \"rope_theta\": 10000.0, "
    "\"partial_rotary_factor\": 0.25}}";

/* A folder of random weights. */
static run_path put_hybrid(void)
{
    tern_init init;
    const run_path dir = scratch("hybrid-model");
    assert_ok(tern_init_read(&init, put_file("hybrid.json", config, sizeof config - 1), &err), err);
    init.seed = 7;
    const tern_master_source source = tern_init_source(&init);
    assert_ok(tern_hf_write(dir.text, &init.config, NULL, &source, NULL, &err), err);
    return dir;
}

static tern_model *open_model(const char *path)
{
    tern_model *model;
    assert_ok(tern_model_open(&model, path, NULL, &err), err);
    return model;
}

static uint32_t decays_of(const char *path, float out[16])
{
    tern_model *model = open_model(path);
    const tern_weight *w = tern_model_weight(model, TERN_ROLE_SSM_DECAY, 0);
    const uint32_t n = w->cols;
    assert_true(n <= 16);
    assert_ok(tern_model_master(model, TERN_ROLE_SSM_DECAY, 0, 0, 1, out, &err), err);
    tern_model_close(model);
    return n;
}

/* AdamW's first step moves each A_log by the learning rate, so decays by a factor: they stay below 0. */
static void decays_are_trained_as_logarithms(void **state)
{
    (void)state;
    const run_path model = put_hybrid(), out = scratch("hybrid-tuned.gguf"), folder = scratch("hybrid-tuned");
    const char *data = put_sequences("hybrid.jsonl", 40, 3);
    float before[16], after[16], again[16];
    tern_finetune_options o = run_options(model.text, &data, out.text);
    o.steps = 1;
    o.lr = 2.5;
    o.eps = 1e-15; /* below all gradients */
    o.warmup = 0;
    o.clip = 0;
    o.schedule = TERN_FINETUNE_SCHEDULE_CONSTANT;
    assert_ok(tern_finetune(&o, NULL, &err), err);
    const uint32_t n = decays_of(model.text, before);
    assert_int_equal(decays_of(out.text, after), n);
    for (uint32_t i = 0; i < n; i++) {
        assert_true(before[i] < 0 && after[i] < 0);
        assert_near(fabs(log(after[i] / before[i])), o.lr, 1e-3);
    }
    tern_model *tuned = open_model(out.text);
    const tern_master_source source = tern_master_of_model(tuned);
    assert_ok(tern_hf_write(folder.text, tern_model_config(tuned), NULL, &source, NULL, &err), err);
    tern_model_close(tuned);
    assert_int_equal(decays_of(folder.text, again), n);
    for (uint32_t i = 0; i < n; i++) assert_near(log(again[i] / after[i]), 0, 0.02); /* A_log as bf16 */
}

static void adapters_of_every_matrix(void **state)
{
    (void)state;
    static const char *const targets[] = {"in_proj_qkv", "in_proj_z", "in_proj_a", "in_proj_b", "out_proj"};
    const run_path path = put_hybrid(), out = scratch("hybrid-adapter");
    const char *data = put_sequences("hybrid.jsonl", 40, 3);
    tern_finetune_options o = run_options(path.text, &data, out.text);
    tern_finetune_result result = {.size = sizeof result};
    tern_adapter *adapter;
    o.lora_rank = 4;
    o.lora_targets = targets;
    o.n_lora_targets = 5;
    assert_ok(tern_finetune(&o, &result, &err), err);
    tern_model *model = open_model(path.text);
    assert_ok(tern_adapter_open(&adapter, out.text, model, &err), err);
    assert_int_equal(tern_adapter_describe(adapter)->n_pairs, 5);
    for (int role = TERN_ROLE_SSM_QKV; role <= TERN_ROLE_SSM_OUT; role++) {
        const tern_adapter_pair *p = tern_adapter_find(adapter, (tern_role)role, 0);
        double sum = 0;
        if (!tern_adapter_target((tern_role)role) || role == TERN_ROLE_SSM_BETA_ALPHA) continue;
        assert_non_null(p);
        for (size_t i = 0; i < (size_t)p->out * 4; i++) sum += fabs((double)p->b[i]);
        assert_true(sum > 0); /* B began as zeros: it has learned */
    }
    tern_adapter_close(adapter);
    tern_model_close(model);
}

/* The first values let every weight learn. */
static void they_come_from_nothing(void **state)
{
    (void)state;
    static const tern_role learned[] = {TERN_ROLE_SSM_QKV,   TERN_ROLE_SSM_CONV, TERN_ROLE_SSM_DECAY, TERN_ROLE_SSM_DT,
                                        TERN_ROLE_SSM_ALPHA, TERN_ROLE_SSM_NORM, TERN_ROLE_SSM_OUT};
    const run_path path = put_hybrid(), out = scratch("hybrid-nothing.gguf");
    const char *data = put_sequences("hybrid.jsonl", 200, 3);
    tern_finetune_options o = run_options(path.text, &data, out.text);
    tern_finetune_result result = {.size = sizeof result};
    o.steps = 150;
    o.batch = 8;
    o.lr = 1e-2;
    o.validation_split = 0.1;
    assert_ok(tern_finetune(&o, &result, &err), err);
    if (!(result.best_validation < 0.7 * result.first_validation))
        fail_msg("loss %g to %g", result.first_validation, result.best_validation);
    tern_model *models[2] = {open_model(path.text), open_model(out.text)};
    for (size_t i = 0; i < sizeof learned / sizeof *learned; i++) {
        float x[2][128];
        for (int m = 0; m < 2; m++) assert_ok(tern_model_master(models[m], learned[i], 0, 0, 1, x[m], &err), err);
        assert_true(memcmp(x[0], x[1], sizeof(float)) != 0);
    }
    for (int m = 0; m < 2; m++) tern_model_close(models[m]);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(decays_are_trained_as_logarithms),
    cmocka_unit_test(adapters_of_every_matrix),
    cmocka_unit_test(they_come_from_nothing),
};

TEST_GROUP(run_hybrids, "", tests);
