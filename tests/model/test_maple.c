/* Maple: windows and layers without RoPE that go together, named one by one, and clamped gates; there and back in both
 * formats, and what is refused. */
#include <math.h>
#include <sys/stat.h>

#include "base/file.h"
#include "format/gguf.h"
#include "format/json.h"
#include "format/safetensors.h"
#include "model/model_internal.h"
#include "model/support.h"
#include "model/write/hf.h"

enum { N_LAYERS = 5, N_EXPERTS = 8, FULL = 3, EMBD = 64, EXPERT_FF = 16 };

static void check_config(const tern_config *c)
{
    assert_string_equal(c->architecture, "maple");
    assert_int_equal(c->n_layers, N_LAYERS);
    assert_int_equal(c->activation, TERN_ACT_SWIGLU_CLAMPED);
    assert_float_equal(c->ffn_limit, 7, 0);
    assert_int_equal(c->n_experts, N_EXPERTS);
    assert_int_equal(c->n_experts_used, 3);
    assert_int_equal(c->n_ff, EXPERT_FF);
    assert_int_equal(c->route_rule, TERN_ROUTE_SOFTMAX_ALL_NORMED);
    assert_int_equal(c->rope_dim, 12);
    assert_int_equal(c->head_dim, 24);
    assert_true(c->qk_norm);
    assert_false(c->tied_head || c->rope_adjacent || c->bit_linear);
    for (uint32_t i = 0; i < N_LAYERS; i++) {
        const tern_layer_config layer = tern_config_layer(c, i);
        assert_int_equal(layer.window, i == FULL ? 0 : 6);
        assert_int_equal(layer.plain, i == FULL);
    }
}

/* Each expert's matrix lies behind the one before, and the table has a name of its own. */
static void folder(void **state)
{
    (void)state;
    static const struct {
        tern_role role;
        const char *name;
    } rows[] = {{TERN_ROLE_FFN_GATE_EXPS, "gate"}, {TERN_ROLE_FFN_UP_EXPS, "up"}, {TERN_ROLE_FFN_DOWN_EXPS, "down"}};
    tern_error err = {0};
    tern_safetensors *st = NULL;
    assert_ok(tern_safetensors_open(&st, test_made("maple/model.safetensors"), &err), err);
    tern_model *model = open_model(test_made("maple"));
    check_config(tern_model_config(model));
    for (size_t i = 0; i < 3; i++)
        for (uint32_t e = 0; e < N_EXPERTS; e++) {
            char name[96];
            snprintf(name, sizeof name, "model.layers.2.mlp.experts.%u.%s_proj.weight", e, rows[i].name);
            const tern_st_tensor *t = tern_safetensors_find(st, name);
            assert_memory_equal(tern_model_weight(model, rows[i].role, 2)->data + e * t->bytes, t->data, t->bytes);
        }
    const tern_st_tensor *table = tern_safetensors_find(st, "model.word_embeddings.weight");
    assert_memory_equal(tern_model_weight(model, TERN_ROLE_TOKEN_EMBD, 0)->data, table->data, table->bytes);
    tern_model_close(model);
    tern_safetensors_close(st);
}

/* Keys as llama.cpp reads them: of windows an array of bool, of limits one of f32. */
static void gguf_keys(void **state)
{
    (void)state;
    tern_error err = {0};
    tern_gguf *g = NULL;
    tern_buf bytes = {0};
    const tern_gguf_kv *kv = NULL;
    uint32_t n = 0;
    tern_model *model = open_model(test_made("maple"));
    assert_ok(tern_model_write_gguf(model, test_scratch("maple.gguf"), NULL, &err), err);
    assert_ok(tern_file_read(&bytes, test_scratch("maple.gguf"), 1 << 24, &err), err);
    assert_ok(tern_gguf_parse(&g, bytes.data, bytes.size, &err), err);
    assert_ok(tern_gguf_get_array(g, "maple.attention.sliding_window_pattern", TERN_GGUF_BOOL, &kv, &err), err);
    assert_int_equal(kv->count, N_LAYERS);
    for (uint32_t i = 0; i < N_LAYERS; i++) assert_int_equal(tern_gguf_array_int(kv, i), i != FULL);
    assert_ok(tern_gguf_get_array(g, "maple.swiglu_clamp_exp", TERN_GGUF_F32, &kv, &err), err);
    assert_int_equal(kv->count, N_LAYERS);
    for (uint32_t i = 0; i < N_LAYERS; i++) assert_float_equal(tern_load_f32(kv->value.data + 4 * i), 7, 0);
    assert_ok(tern_gguf_get_u32(g, "maple.attention.sliding_window", &n, &err), err);
    assert_int_equal(n, 6);
    assert_ok(tern_gguf_get_u32(g, "maple.rope.dimension_count", &n, &err), err);
    assert_int_equal(n, 12);
    assert_ok(tern_gguf_get_u32(g, "maple.expert_feed_forward_length", &n, &err), err);
    assert_int_equal(n, EXPERT_FF);
    assert_null(tern_gguf_find(g, "tern.swiglu_limit"));
    tern_gguf_close(g);
    tern_buf_deinit(&bytes);
    tern_model *back = open_model(test_scratch("maple.gguf"));
    check_config(tern_model_config(back));
    tern_model_close(back);
    tern_model_close(model);
}

static void folder_round_trip(void **state)
{
    (void)state;
    tern_error err = {0};
    json_t *root = NULL;
    tern_model *model = open_model(test_made("maple"));
    const tern_master_source source = tern_master_of_model(model);
    const char *dir = test_scratch("maple-hf"); /* used soon: such texts are few, and take turns */
    assert_ok(tern_hf_write(dir, tern_model_config(model), NULL, &source, NULL, &err), err);
    assert_ok(tern_json_read_in(&root, dir, "config.json", 1 << 20, &err), err);
    assert_string_equal(json_string_value(json_array_get(json_object_get(root, "architectures"), 0)),
                        "MapleForCausalLM");
    assert_true(json_is_true(json_object_get(root, "nope_on_global_attention")));
    assert_true(json_is_true(json_object_get(root, "norm_topk_prob")));
    assert_null(json_object_get(root, "no_rope_layers"));
    tern_json_free(root);
    tern_model *back = open_model(dir);
    check_config(tern_model_config(back));
    tern_model_close(back);
    tern_model_close(model);
}

static void presets(void **state)
{
    (void)state;
    tern_error err = {0};
    const tern_synth_options deep = {.preset = "maple-tiny", .layers = TERN_MAX_LAYERS + 1};
    assert_int_equal(tern_synth_write(test_scratch("maple-synth.gguf"), &deep, &err), TERN_INVALID_ARGUMENT);
    assert_non_null(strstr(err.message, "layers: 1025 found, 1 to 1024 expected"));
    const tern_synth_options options = {.preset = "maple-tiny", .layers = 5, .experts = 5, .experts_used = 3};
    assert_ok(tern_synth_write(test_scratch("maple-synth.gguf"), &options, &err), err);
    tern_model *model = open_model(test_scratch("maple-synth.gguf"));
    assert_int_equal(tern_model_config(model)->n_experts, 5);
    assert_int_equal(tern_config_layer(tern_model_config(model), 3).plain, true);
    assert_int_equal(tern_config_layer(tern_model_config(model), 4).window, 16);
    assert_int_equal(tern_model_weight(model, TERN_ROLE_FFN_UP_EXPS, 1)->encoding->id, TERN_ENC_I2_S);
    tern_model_close(model);
}

/* The fixture with one key of config.json changed; json NULL: it is not there. */
static const struct {
    const char *key, *json;
    tern_status status;
    const char *words;
} changes[] = {
    {"nope_on_global_attention", "false", TERN_UNSUPPORTED, "nope_on_global_attention: false found, true expected"},
    {"nope_on_global_attention", "1", TERN_MALFORMED, "nope_on_global_attention: number found"},
    {"use_qk_norm", "false", TERN_UNSUPPORTED, "use_qk_norm: false found, true expected"},
    {"norm_topk_prob", "false", TERN_UNSUPPORTED, "norm_topk_prob: false found, true expected in models of maple"},
    {"num_shared_experts", "1", TERN_UNSUPPORTED, "num_shared_experts: 1 found, 0 expected"},
    {"num_shared_experts", "-1", TERN_MALFORMED, "num_shared_experts"},
    {"num_experts", "0", TERN_LIMIT, "num_experts: 0 found, 1 to 1024 expected"},
    {"num_experts_per_tok", "9", TERN_LIMIT, "experts of a token: 9 found, 1 to 8 expected"},
    {"moe_intermediate_size", NULL, TERN_NOT_FOUND, "moe_intermediate_size"},
    {"hidden_act", "\"gelu_pytorch_tanh\"", TERN_UNSUPPORTED, "MapleForCausalLM with gelu_pytorch_tanh found"},
    {"sliding_window", NULL, TERN_NOT_FOUND, "sliding_window"},
    {"sliding_window", "0", TERN_MALFORMED, "sliding_window: 0 found, at least 1"},
    {"layer_types", NULL, TERN_NOT_FOUND, "layer_types"},
    {"layer_types", "[\"full_attention\"]", TERN_MALFORMED, "layer_types: 1 found, one for each of 5 layers"},
    {"layer_types",
     "[\"sliding_attention\", \"full_attention\", \"full_attention\", \"sliding_attention\", \"sliding_attention\"]",
     TERN_UNSUPPORTED, "layer_types: full_attention found at 2, full_attention only in every 2-th layer expected"},
    {"layer_types",
     "[\"full_attention\", \"full_attention\", \"full_attention\", \"full_attention\", \"full_attention\"]",
     TERN_UNSUPPORTED, "layer_types: no sliding_attention found, one expected in models of maple"},
    {"layer_types", "[\"mamba\", \"full_attention\", \"full_attention\", \"full_attention\", \"full_attention\"]",
     TERN_UNSUPPORTED, "layer_types: mamba found at 0"},
    {"partial_rotary_factor", "0", TERN_MALFORMED, "partial_rotary_factor: 0 found"},
    {"partial_rotary_factor", "0.25", TERN_UNSUPPORTED, "RoPE: 6 dimensions of a head found, a multiple of 4"},
    {"swiglu_limit", "0", TERN_MALFORMED, "SwiGLU limit: 0 found, a positive number expected"},
};

static void folder_refusals(void **state)
{
    (void)state;
    tern_error err = {0};
    tern_buf weights = {0};
    mkdir(test_scratch("maple-changed"), 0777);
    assert_ok(tern_file_read(&weights, test_made("maple/model.safetensors"), 1 << 24, &err), err);
    test_write_file(test_scratch("maple-changed/model.safetensors"), weights.data, weights.size);
    tern_buf_deinit(&weights);
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        tern_model *model = NULL;
        json_t *root = NULL;
        assert_ok(tern_json_read_in(&root, test_made("maple"), "config.json", 1 << 20, &err), err);
        if (changes[i].json)
            json_object_set_new(root, changes[i].key, json_loads(changes[i].json, JSON_DECODE_ANY, NULL));
        else json_object_del(root, changes[i].key);
        assert_ok(tern_json_write_in(root, test_scratch("maple-changed"), "config.json", 0, &err), err);
        const tern_status status = tern_model_open(&model, test_scratch("maple-changed"), NULL, &err);
        if (status == TERN_OK || !strstr(err.message, changes[i].words))
            fail_msg("%zu: '%s' is not in '%s'", i, changes[i].words, err.message);
        assert_int_equal(status, changes[i].status);
        assert_null(model);
    }
}

/* A GGUF file of the fixture with `n` bytes changed `at` bytes behind the type of a key; n 0: under another name. An
 * array has the kind of its elements there, their number, then them. */
#define WINDOWS  "maple.attention.sliding_window_pattern"
#define LIMITS   "maple.swiglu_clamp_exp"
#define ELEMENTS 12

static const struct {
    const char *key;
    uint32_t at, n;
    uint8_t bytes[8];
    tern_status status;
    const char *words;
} patches[] = {
    {"maple.attention.sliding_window", 0, 0, {0}, TERN_NOT_FOUND, "maple.attention.sliding_window"},
    {"maple.attention.sliding_window",
     0,
     4,
     {0},
     TERN_UNSUPPORTED,
     "maple.attention.sliding_window: no layer with a window of 1 or more found"},
    {WINDOWS, 0, 0, {0}, TERN_NOT_FOUND, WINDOWS},
    {WINDOWS, 0, 4, {0}, TERN_MALFORMED, WINDOWS ": "},
    {WINDOWS,
     ELEMENTS + 2,
     1,
     {0},
     TERN_UNSUPPORTED,
     WINDOWS ": false found at 3, false only in every 3-th layer expected"},
    {WINDOWS, ELEMENTS, 5, {0}, TERN_UNSUPPORTED, "no layer with a window of 1 or more found, one expected"},
    {LIMITS, 0, 4, {5}, TERN_MALFORMED, LIMITS ": "},
    {LIMITS,
     ELEMENTS + 8,
     4,
     {0, 0, 0xc0, 0x40},
     TERN_UNSUPPORTED,
     LIMITS ": 7 in layer 0 and 6 in layer 2 found, one number expected"},
    {LIMITS, ELEMENTS + 4, 4, {0, 0, 0xc0, 0x7f}, TERN_UNSUPPORTED, LIMITS ": 7 in layer 0 and nan in layer 1 found"},
    {LIMITS, ELEMENTS, 4, {0, 0, 0xc0, 0x7f}, TERN_UNSUPPORTED, LIMITS ": nan in layer 0 and 7 in layer 1 found"},
    {"maple.expert_count", 0, 4, {0}, TERN_LIMIT, "maple.expert_count: 0 found, 1 to 1024 expected"},
    {"maple.expert_count", 0, 4, {7}, TERN_MALFORMED, "ffn_gate_inp.weight: 8 rows of 64 found, 7 rows of 64"},
    {"maple.expert_used_count", 0, 4, {9}, TERN_LIMIT, "experts of a token: 9 found, 1 to 8 expected"},
    {"maple.rope.dimension_count", 0, 4, {10}, TERN_UNSUPPORTED, "RoPE: 10 dimensions of a head found"},
    {"maple.block_count", 0, 4, {4}, TERN_MALFORMED, "found, one for each of 4 layers"},
};

static uint8_t *find(const tern_buf *bytes, const char *key)
{
    const size_t n = strlen(key);
    uint8_t length[8] = {(uint8_t)n}, *at = (uint8_t *)bytes->data;
    while (memcmp(at, length, 8) != 0 || memcmp(at + 8, key, n) != 0) at++;
    return at + 8;
}

static void gguf_refusals(void **state)
{
    (void)state;
    tern_error err = {0};
    tern_model *model = open_model(test_made("maple"));
    assert_ok(tern_model_write_gguf(model, test_scratch("maple.gguf"), NULL, &err), err);
    tern_model_close(model);
    for (size_t i = 0; i < sizeof patches / sizeof *patches; i++) {
        tern_buf bytes = {0};
        tern_model *back = NULL;
        assert_ok(tern_file_read(&bytes, test_scratch("maple.gguf"), 1 << 24, &err), err);
        uint8_t *at = find(&bytes, patches[i].key);
        if (patches[i].n) memcpy(at + strlen(patches[i].key) + 4 + patches[i].at, patches[i].bytes, patches[i].n);
        else *at = 'n';
        const tern_status status = tern_model_open_memory(&back, bytes.data, bytes.size, NULL, &err);
        if (status == TERN_OK || !strstr(err.message, patches[i].words))
            fail_msg("%zu: '%s' is not in '%s'", i, patches[i].words, err.message);
        assert_int_equal(status, patches[i].status);
        tern_buf_deinit(&bytes);
    }
}

/* 7 where a file has no limits, the number where it has other ones. */
static void gguf_limits(void **state)
{
    (void)state;
    tern_error err = {0};
    tern_model *model = open_model(test_made("maple"));
    assert_ok(tern_model_write_gguf(model, test_scratch("maple.gguf"), NULL, &err), err);
    tern_model_close(model);
    for (int missing = 0; missing < 2; missing++) {
        tern_buf bytes = {0};
        assert_ok(tern_file_read(&bytes, test_scratch("maple.gguf"), 1 << 24, &err), err);
        uint8_t *at = find(&bytes, LIMITS);
        if (missing) *at = 'n';
        for (uint32_t i = 0; i < N_LAYERS; i++) tern_store_f32(at + strlen(LIMITS) + 4 + ELEMENTS + 4 * i, 2.5f);
        assert_ok(tern_model_open_memory(&model, bytes.data, bytes.size, NULL, &err), err);
        const float limit = missing ? 7.0f : 2.5f;
        assert_float_equal(tern_model_config(model)->ffn_limit, limit, 0);
        tern_model_close(model);
        tern_buf_deinit(&bytes);
    }
}

/* Files of other families may say windows so, too: here every third layer of Gemma 3 sees all positions. */
static void gemma_windows(void **state)
{
    (void)state;
    static const uint8_t windows[] = {1, 1, 0, 1, 1, 0, 1};
    static const float table[8 * EMBD];
    static const struct {
        const char *key;
        uint32_t value;
    } numbers[] = {{"gemma3.attention.head_count", 2},   {"gemma3.block_count", sizeof windows},
                   {"gemma3.context_length", 64},        {"gemma3.embedding_length", EMBD},
                   {"gemma3.feed_forward_length", EMBD}, {"gemma3.attention.sliding_window", 4}};
    tern_error err = {0};
    tern_gguf_writer *w;
    tern_gguf *g;
    tern_config c = {0};
    tern_buf file = {0};
    assert_ok(tern_gguf_writer_open_memory(&w, &file, &err), err);
    assert_ok(tern_gguf_add_string(w, "general.architecture", "gemma3", 6, &err), err);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        assert_ok(tern_gguf_add_u32(w, numbers[i].key, numbers[i].value, &err), err);
    assert_ok(tern_gguf_add_array(w, "gemma3.attention.sliding_window_pattern", TERN_GGUF_BOOL, windows, sizeof windows,
                                  &err),
              err);
    assert_ok(tern_gguf_add_tensor(w, "token_embd.weight", TERN_ENC_F32, (uint64_t[]){EMBD, 8}, 2, &err), err);
    assert_ok(tern_gguf_writer_begin_data(w, &err), err);
    assert_ok(tern_gguf_writer_data(w, table, sizeof table, &err), err);
    assert_ok(tern_gguf_writer_commit(w, &err), err);
    assert_ok(tern_gguf_parse(&g, file.data, file.size, &err), err);
    assert_ok(tern_config__from_gguf(&c, g, &err), err);
    assert_int_equal(c.full_period, 3);
    assert_int_equal(c.plain_period, 0);
    for (uint32_t i = 0; i < sizeof windows; i++) assert_int_equal(tern_config_layer(&c, i).window, 4 * windows[i]);
    tern_gguf_close(g);
    tern_buf_deinit(&file);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(folder),        cmocka_unit_test(gguf_keys),     cmocka_unit_test(folder_round_trip),
    cmocka_unit_test(presets),       cmocka_unit_test(gguf_limits),   cmocka_unit_test(folder_refusals),
    cmocka_unit_test(gguf_refusals), cmocka_unit_test(gemma_windows),
};

TEST_GROUP(maple, "", tests);
