/* Adapters beside experts: a pair for each, as PEFT and llama.cpp write them, and what must be refused. */
#include "base/rng.h"
#include "format/json.h"
#include "model/adapter_cases.h"

enum { EXPERTS = 8 };

static const tern_adapter_layer targets[] = {
    {TERN_ROLE_FFN_GATE_EXPS, 0}, {TERN_ROLE_FFN_DOWN_EXPS, 1}, {TERN_ROLE_ATTN_Q, 1}};

static tern_adapter *made_beside(const tern_model *model, size_t n)
{
    tern_adapter *adapter = NULL;
    const tern_adapter_info info = {.rank = 3, .alpha = 6};
    tern_rng rng = {77};
    assert_ok(tern_adapter_make(&adapter, model, &info, targets, n, &adapter_err), adapter_err);
    for (size_t i = 0; i < n; i++) {
        const tern_adapter_pair *p = tern_adapter_find(adapter, targets[i].role, targets[i].layer);
        for (size_t k = 0; k < (size_t)p->n_experts * 3 * p->in; k++) p->a[k] = tern_rng_f32(&rng) - 0.5f;
        for (size_t k = 0; k < (size_t)3 * p->out; k++) p->b[k] = tern_rng_f32(&rng) - 0.5f;
    }
    return adapter;
}

static void check_pair(const tern_adapter *want, const tern_adapter *got, size_t i)
{
    const tern_adapter_pair *p = tern_adapter_find(want, targets[i].role, targets[i].layer),
                            *q = tern_adapter_find(got, targets[i].role, targets[i].layer);
    assert_non_null(q);
    assert_true(p->in == q->in && p->out == q->out && p->n_experts == q->n_experts);
    assert_memory_equal(p->a, q->a, (size_t)p->n_experts * 3 * p->in * sizeof *p->a);
    assert_memory_equal(p->b, q->b, (size_t)3 * p->out * sizeof *p->b);
}

static void check_same(const tern_adapter *want, const char *path, const tern_model *model, size_t n)
{
    tern_adapter *got = adapter_open_adapter(path, model);
    const tern_adapter_info *info = tern_adapter_describe(got);
    assert_int_equal(info->n_pairs, n);
    assert_int_equal(info->parameters, tern_adapter_describe(want)->parameters);
    for (size_t i = 0; i < n; i++)
        if (model || targets[i].role != TERN_ROLE_ATTN_Q) check_pair(want, got, i);
    tern_adapter_close(got);
}

static void round_trips(void **state)
{
    (void)state;
    tern_model *model = open_model(test_fixture("mixtral"));
    tern_adapter *adapter = made_beside(model, 3);
    const tern_adapter_pair *down = tern_adapter_find(adapter, TERN_ROLE_FFN_DOWN_EXPS, 1);
    assert_int_equal(down->n_experts, EXPERTS);
    assert_ok(tern_adapter_write_gguf(adapter, test_scratch("experts.gguf"), &adapter_err), adapter_err);
    assert_ok(tern_adapter_write_peft(adapter, test_scratch("experts-lora"), &adapter_err), adapter_err);
    check_same(adapter, test_scratch("experts.gguf"), model, 3);
    check_same(adapter, test_scratch("experts.gguf"), NULL, 3);
    check_same(adapter, test_scratch("experts-lora"), model, 3);
    check_same(adapter, test_scratch("experts-lora"), NULL, 3);
    tern_safetensors *st = NULL;
    assert_ok(tern_safetensors_open(&st, test_scratch("experts-lora/adapter_model.safetensors"), &adapter_err),
              adapter_err);
    const tern_st_tensor *t =
        tern_safetensors_find(st, "base_model.model.model.layers.1.block_sparse_moe.experts.2.w2.lora_A.weight");
    assert_non_null(t);
    assert_int_equal(t->bytes, (size_t)3 * down->in * sizeof(float));
    assert_memory_equal(t->data, down->a + (size_t)2 * 3 * down->in, t->bytes);
    tern_safetensors_close(st);
    json_t *config = NULL;
    assert_ok(tern_json_read(&config, test_scratch("experts-lora/adapter_config.json"), 1 << 20, &adapter_err),
              adapter_err);
    const json_t *words = json_object_get(config, "target_modules");
    static const char *const want[] = {"q_proj", "w1", "w2"};
    assert_int_equal(json_array_size(words), 3);
    for (size_t i = 0; i < 3; i++) assert_string_equal(json_string_value(json_array_get(words, i)), want[i]);
    tern_json_free(config);
    tern_adapter_close(adapter);
    tern_model_close(model);
}

/* GPT-OSS has its experts in one tensor: only GGUF files have a form for that. */
static void experts_in_one_tensor(void **state)
{
    (void)state;
    tern_model *model = open_model(test_fixture("gpt-oss"));
    tern_adapter *adapter = made_beside(model, 2);
    assert_int_equal(tern_adapter_write_peft(adapter, test_scratch("never"), &adapter_err), TERN_UNSUPPORTED);
    assert_non_null(strstr(adapter_err.message, "an adapter of experts of gpt-oss has no name"));
    assert_ok(tern_adapter_write_gguf(adapter, test_scratch("experts.gguf"), &adapter_err), adapter_err);
    check_same(adapter, test_scratch("experts.gguf"), model, 2);
    tern_adapter_close(adapter);
    tern_model_close(model);
}

static void refuse(const tern_model *model, folder *f, const char *why)
{
    tern_adapter *adapter = NULL;
    const char *path = adapter_write_made(f);
    assert_int_not_equal(tern_adapter_open(&adapter, path, model, &adapter_err), TERN_OK);
    assert_null(adapter);
    if (!strstr(adapter_err.message, why)) fail_msg("%s: \"%s\" expected", adapter_err.message, why);
}

static void add_expert(folder *f, unsigned expert, uint32_t rows, uint32_t cols)
{
    char name[120];
    snprintf(name, sizeof name, "base_model.model.model.layers.0.block_sparse_moe.experts.%u.w1.lora_A.weight", expert);
    adapter_add(f, name, 2, cols);
    snprintf(name, sizeof name, "base_model.model.model.layers.0.block_sparse_moe.experts.%u.w1.lora_B.weight", expert);
    adapter_add(f, name, rows, 2);
}

static void refusals(void **state)
{
    (void)state;
    tern_buf bytes = {0};
    tern_model *mixtral = open_model(test_fixture("mixtral")), *dense = adapter_open_micro(NULL, &bytes);
    folder some = {.config = PLAIN "}"}, far = some, ragged = some, alone = some, many = some;
    add_expert(&some, 1, 8, 16);
    refuse(NULL, &some, "one of 1 experts' halves found, one for each of 2 expected");
    refuse(dense, &some, "found, lora_A and lora_B of the layers' matrices expected");
    refuse(mixtral, &some, "one of 1 experts' halves found, one for each of 8 expected");
    add_expert(&far, 0, 8, 16);
    add_expert(&far, 8, 8, 16);
    refuse(mixtral, &far, "expert 8 found, an expert below 8 expected");
    add_expert(&many, 4096, 8, 16);
    refuse(NULL, &many, "the expert's number is too large, an expert below 1024 expected");
    add_expert(&ragged, 0, 8, 16);
    add_expert(&ragged, 1, 6, 16);
    refuse(NULL, &ragged, "shape [6][2] found, [8][2] expected");
    adapter_add(&alone, "base_model.model.model.layers.0.block_sparse_moe.experts.0.w1.lora_A.weight", 2, 16);
    refuse(NULL, &alone, "found without its lora_B, both expected");
    tern_model_close(mixtral);
    tern_model_close(dense);
    tern_buf_deinit(&bytes);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(round_trips),
    cmocka_unit_test(experts_in_one_tensor),
    cmocka_unit_test(refusals),
};

TEST_GROUP(adapter_experts, "", tests);
