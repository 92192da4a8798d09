/* LoRA adapters: the fixture made by PEFT, round trips between the two forms, and what must be refused. */
#include <jansson.h>

#include "model/adapter_cases.h"

static void assert_tensor(const tern_safetensors *st, const char *name, const float *values, size_t n)
{
    const tern_st_tensor *t = tern_safetensors_find(st, name);
    assert_non_null(t);
    assert_int_equal(t->bytes, n * sizeof *values);
    assert_memory_equal(t->data, values, t->bytes);
}

static void reads_the_fixture(void **state)
{
    (void)state;
    tern_model *model = open_model(test_fixture("bitnet-train"));
    tern_adapter *adapter = adapter_open_adapter(test_fixture("bitnet-train/lora"), model);
    const tern_adapter_info *info = tern_adapter_describe(adapter);
    assert_int_equal(info->rank, 8);
    assert_float_equal(info->alpha, 16, 0);
    assert_float_equal(info->scale, 2, 0);
    assert_float_equal(info->dropout, 0, 0);
    assert_false(info->rslora);
    assert_int_equal(info->n_layers, 2);
    assert_int_equal(info->n_pairs, 14);
    assert_int_equal(info->parameters, 32768);
    assert_string_equal(info->base, "");
    assert_null(tern_adapter_find(adapter, TERN_ROLE_ATTN_NORM, 0));
    assert_null(tern_adapter_find(adapter, TERN_ROLE_ATTN_Q, 2));
    tern_safetensors *st = NULL;
    assert_ok(tern_safetensors_open(&st, test_fixture("bitnet-train/lora/adapter_model.safetensors"), &adapter_err),
              adapter_err);
    const tern_adapter_pair *k = tern_adapter_find(adapter, TERN_ROLE_ATTN_K, 1);
    assert_tensor(st, "base_model.model.model.layers.1.self_attn.k_proj.lora_A.weight", k->a, 8 * 128);
    assert_tensor(st, "base_model.model.model.layers.1.self_attn.k_proj.lora_B.weight", k->b, 64 * 8);
    const tern_adapter_pair *down = tern_adapter_find(adapter, TERN_ROLE_FFN_DOWN, 0);
    assert_tensor(st, "base_model.model.model.layers.0.mlp.down_proj.lora_A.weight", down->a, 8 * 256);
    tern_safetensors_close(st);
    tern_adapter_close(adapter);
    tern_model_close(model);
}

/* Every way to name the same adapter. */
static void opens_by_each_path(void **state)
{
    (void)state;
    static const char *const paths[] = {"bitnet-train/lora", "bitnet-train/lora/adapter_config.json",
                                        "bitnet-train/lora/adapter_model.safetensors"};
    for (size_t i = 0; i < 3; i++) {
        tern_adapter *adapter = adapter_open_adapter(test_fixture(paths[i]), NULL);
        assert_int_equal(tern_adapter_describe(adapter)->n_pairs, 14);
        assert_int_equal(tern_adapter_write_gguf(adapter, test_scratch("never.gguf"), &adapter_err),
                         TERN_INVALID_ARGUMENT);
        assert_false(tern_file_exists(test_scratch("never.gguf")));
        tern_adapter_close(adapter);
    }
}

static void round_trips(void **state)
{
    (void)state;
    tern_model *model = open_model(test_fixture("bitnet-train"));
    tern_adapter *first = adapter_open_adapter(test_fixture("bitnet-train/lora"), model);
    assert_ok(tern_adapter_write_gguf(first, test_scratch("lora.gguf"), &adapter_err), adapter_err);
    tern_adapter *gguf = adapter_open_adapter(test_scratch("lora.gguf"), model);
    assert_int_equal(adapter_err.code, TERN_OK); /* keys that need not be there are no error */
    assert_string_equal(tern_adapter_describe(gguf)->format, "GGUF");
    adapter_assert_same(first, gguf);
    assert_ok(tern_adapter_write_peft(gguf, test_scratch("lora-peft"), &adapter_err), adapter_err);
    tern_adapter *peft = adapter_open_adapter(test_scratch("lora-peft"), model);
    assert_string_equal(tern_adapter_describe(peft)->format, "PEFT");
    adapter_assert_same(first, peft);
    tern_adapter_close(peft);
    tern_adapter_close(gguf);
    tern_adapter_close(first);
    tern_model_close(model);
}

/* What PEFT says of itself, of the model's class and of the task, Tern does not; all else is as PEFT 0.21.0 wrote it.
 */
static bool is_of_the_writer(const char *key)
{
    static const char *const keys[] = {"auto_mapping", "peft_version", "task_type", "target_modules"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (strcmp(key, keys[i]) == 0) return true;
    return false;
}

static bool equal_values(const json_t *a, const json_t *b)
{
    if (json_is_number(a) && json_is_number(b)) return json_number_value(a) == json_number_value(b);
    return json_equal(a, b);
}

static void the_config_has_peft_s_keys(void **state)
{
    (void)state;
    json_error_t error;
    const char *key;
    json_t *value;
    tern_model *model = open_model(test_fixture("bitnet-train"));
    tern_adapter *adapter = adapter_open_adapter(test_fixture("bitnet-train/lora"), model);
    assert_ok(tern_adapter_write_peft(adapter, test_scratch("lora-keys"), &adapter_err), adapter_err);
    json_t *theirs = json_load_file(test_fixture("bitnet-train/lora/adapter_config.json"), 0, &error);
    json_t *ours = json_load_file(test_scratch("lora-keys/adapter_config.json"), JSON_REJECT_DUPLICATES, &error);
    assert_non_null(theirs);
    assert_non_null(ours);
    assert_int_equal(json_object_size(ours), json_object_size(theirs));
    json_object_foreach(theirs, key, value)
    {
        const json_t *found = json_object_get(ours, key);
        if (!found || (!is_of_the_writer(key) && !equal_values(found, value))) fail_msg("%s", key);
    }
    assert_int_equal(json_array_size(json_object_get(ours, "target_modules")), 7);
    json_decref(theirs);
    json_decref(ours);
    tern_adapter_close(adapter);
    tern_model_close(model);
}

/* BF16 and F16, the adapter's name in the tensors, rslora, dropout and a base: all of it through GGUF and back. */
static void keeps_settings(void **state)
{
    (void)state;
    folder f = {.config =
                    PLAIN ", \"use_rslora\": true, \"lora_dropout\": 0.05, \"target_modules\": [\"self_attn.q_proj\"], "
                          "\"base_model_name_or_path\": \"some/base\"}"};
    adapter_add(&f, "base_model.model.model.layers.0.self_attn.q_proj.lora_A.default.weight", RANK, 16);
    adapter_add(&f, "base_model.model.model.layers.0.self_attn.q_proj.lora_B.default.weight", 16, RANK);
    f.tensors[0].dtype = TERN_ST_BF16, f.tensors[1].dtype = TERN_ST_F16;
    f.tensors[0].bytes /= 2, f.tensors[1].bytes /= 2;
    uint16_t *a = (uint16_t *)f.values[0], *b = (uint16_t *)f.values[1];
    for (int i = 0; i < 32; i++) a[i] = 0x3fc0, b[i] = 0x3e00; /* 1.5 in both */
    tern_buf bytes;
    tern_model *model = adapter_open_micro(NULL, &bytes);
    tern_adapter *first = adapter_open_adapter(adapter_write_made(&f), model);
    const tern_adapter_info *info = tern_adapter_describe(first);
    assert_true(info->rslora);
    assert_float_equal(info->scale, 3.0f / sqrtf(2.0f), 0);
    assert_string_equal(info->base, "some/base");
    const tern_adapter_pair *q = tern_adapter_find(first, TERN_ROLE_ATTN_Q, 0);
    for (int i = 0; i < 32; i++) assert_true(q->a[i] == 1.5f && q->b[i] == 1.5f);
    assert_ok(tern_adapter_write_gguf(first, test_scratch("lora-rs.gguf"), &adapter_err), adapter_err);
    tern_adapter *gguf = adapter_open_adapter(test_scratch("lora-rs.gguf"), model);
    adapter_assert_same(first, gguf);
    assert_ok(tern_adapter_write_peft(gguf, test_scratch("lora-rs"), &adapter_err), adapter_err);
    tern_adapter *peft = adapter_open_adapter(test_scratch("lora-rs"), model);
    adapter_assert_same(first, peft);
    tern_adapter_close(peft);
    tern_adapter_close(gguf);
    tern_adapter_close(first);
    tern_model_close(model);
    tern_buf_deinit(&bytes);
}

/* The row of a tensor in a GGUF file. */
static float gguf_value(const char *path, const char *name, size_t at)
{
    tern_file_map map = {0};
    tern_gguf *g = NULL;
    assert_ok(tern_file_map_open(&map, path, &adapter_err), adapter_err);
    assert_ok(tern_gguf_parse(&g, map.data, map.size, &adapter_err), adapter_err);
    const tern_gguf_tensor *t = tern_gguf_find_tensor(g, name);
    assert_non_null(t);
    assert_true((at + 1) * 4 <= t->bytes);
    float v = tern_load_f32(t->data + at * 4);
    tern_gguf_close(g);
    tern_file_map_close(&map);
    return v;
}

/* llama GGUF files hold Q and K in adjacent pairs: row 2 i + h of a head is row h * 4 + i of the PEFT one (heads of 8).
 */
static void permutes_llama(void **state)
{
    (void)state;
    tern_buf bytes;
    tern_model *model = adapter_open_micro("llama", &bytes);
    assert_true(tern_model_config(model)->rope_adjacent);
    assert_int_equal(tern_model_config(model)->head_dim, 8);
    folder f = adapter_sound(PLAIN "}");
    adapter_add(&f, "base_model.model.model.layers.0.self_attn.v_proj.lora_A.weight", RANK, 16);
    adapter_add(&f, "base_model.model.model.layers.0.self_attn.v_proj.lora_B.weight", 8, RANK);
    tern_adapter *first = adapter_open_adapter(adapter_write_made(&f), model);
    const tern_adapter_pair *q = tern_adapter_find(first, TERN_ROLE_ATTN_Q, 0);
    for (int row = 0; row < 16; row++) {
        int source = row / 8 * 8 + row % 2 * 4 + row % 8 / 2;
        assert_float_equal(q->b[row * RANK + 1], f.values[1][source * RANK + 1], 0);
    }
    assert_memory_equal(q->a, f.values[0], RANK * 16 * sizeof(float));
    assert_memory_equal(tern_adapter_find(first, TERN_ROLE_ATTN_V, 0)->b, f.values[3], RANK * 8 * sizeof(float));
    const char *path = test_scratch("lora-llama.gguf");
    assert_ok(tern_adapter_write_gguf(first, path, &adapter_err), adapter_err);
    assert_float_equal(gguf_value(path, "blk.0.attn_q.weight.lora_b", RANK), f.values[1][4 * RANK], 0);
    tern_adapter *gguf = adapter_open_adapter(path, model);
    adapter_assert_same(first, gguf);
    assert_ok(tern_adapter_write_peft(gguf, test_scratch("lora-llama"), &adapter_err), adapter_err);
    tern_safetensors *st = NULL;
    assert_ok(tern_safetensors_open(&st, test_scratch("lora-llama/adapter_model.safetensors"), &adapter_err),
              adapter_err);
    assert_tensor(st, Q_B, f.values[1], 16 * RANK);
    tern_safetensors_close(st);
    tern_adapter_close(gguf);
    tern_adapter_close(first);
    tern_model_close(model);
    tern_buf_deinit(&bytes);
}

#define K_A "base_model.model.model.layers.0.self_attn.k_proj.lora_A.weight"
#define K_B "base_model.model.model.layers.0.self_attn.k_proj.lora_B.weight"

/* What the pair adds to a weight: its scale times B A, of matrices made by adapter_add with this rank. */
static void assert_product(const tern_adapter *adapter, tern_role role, uint32_t out, uint32_t rank, double scale)
{
    const tern_adapter_info *info = tern_adapter_describe(adapter);
    const tern_adapter_pair *p = tern_adapter_find(adapter, role, 0);
    assert_non_null(p);
    for (uint32_t o = 0; o < out; o++)
        for (uint32_t c = 0; c < 16; c++) {
            double found = 0, expected = 0;
            for (uint32_t r = 0; r < info->rank; r++)
                found += (double)p->b[o * info->rank + r] * (double)p->a[r * 16 + c];
            for (uint32_t r = 0; r < rank; r++) expected += (o * rank + r + 1) / 8.0 * ((r * 16 + c + 1) / 8.0);
            found *= (double)info->scale;
            expected *= scale;
            if (!(fabs(found - expected) <= 1e-5 * fabs(expected))) fail_msg("%u %u: %g, %g", o, c, found, expected);
        }
}

/* Ranks and alphas of single modules: each pair adds alpha / r B A of its own, as in PEFT. */
static void patterns_of_ranks_and_alphas(void **state)
{
    static const struct {
        const char *config;
        double q, k; /* scales */
    } cases[] = {
        {", \"rank_pattern\": {\"k_proj\": 3}}", 3.0 / 2, 3.0 / 3},
        {", \"rank_pattern\": {\"model.layers.0.self_attn.k_proj\": 3}}", 3.0 / 2, 3.0 / 3},
        {", \"rank_pattern\": {\"layers\\\\.[01]\\\\..*k_proj\": 3, \"k_proj\": 4, \"_proj\": 5}}", 3.0 / 2, 3.0 / 3},
        {", \"rank_pattern\": {\"k_proj\": 3}, \"alpha_pattern\": {\"k_proj\": 8, \"(q|v)_proj\": 5}}", 5.0 / 2,
         8.0 / 3},
        {", \"rank_pattern\": {\"k_proj\": 3}, \"use_rslora\": true}", 3.0 / 1.4142135623730951,
         3.0 / 1.7320508075688772},
    };
    (void)state;
    tern_buf bytes;
    tern_model *model = adapter_open_micro(NULL, &bytes);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char config[400];
        snprintf(config, sizeof config, PLAIN "%s", cases[i].config);
        folder f = adapter_sound(config);
        adapter_add(&f, K_A, 3, 16);
        adapter_add(&f, K_B, 8, 3);
        tern_adapter *adapter = adapter_open_adapter(adapter_write_made(&f), model);
        assert_int_equal(tern_adapter_describe(adapter)->rank, 3);
        assert_product(adapter, TERN_ROLE_ATTN_Q, 16, 2, cases[i].q);
        assert_product(adapter, TERN_ROLE_ATTN_K, 8, 3, cases[i].k);
        tern_adapter_close(adapter);
    }
    tern_model_close(model);
    tern_buf_deinit(&bytes);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(patterns_of_ranks_and_alphas),
    cmocka_unit_test(reads_the_fixture),
    cmocka_unit_test(opens_by_each_path),
    cmocka_unit_test(round_trips),
    cmocka_unit_test(the_config_has_peft_s_keys),
    cmocka_unit_test(the_config_has_peft_s_keys),
    cmocka_unit_test(keeps_settings),
    cmocka_unit_test(permutes_llama),
};

TEST_GROUP(adapter, "web", tests);
