/* Adapters that are refused, each with its message. */
#include "model/adapter_cases.h"

static void assert_refused(folder *f, tern_status status, const char *words)
{
    tern_buf bytes;
    tern_model *model = adapter_open_micro(NULL, &bytes);
    tern_adapter *adapter = NULL;
    tern_status found = tern_adapter_open(&adapter, adapter_write_made(f), model, &adapter_err);
    assert_null(adapter);
    if (!strstr(adapter_err.message, words)) fail_msg("\"%s\" found, \"%s\" expected", adapter_err.message, words);
    assert_int_equal(found, status);
    tern_model_close(model);
    tern_buf_deinit(&bytes);
}

static void refuses_configs(void **state)
{
    (void)state;
    static const struct {
        const char *config;
        tern_status status;
        const char *words;
    } cases[] = {
        {"[]", TERN_MALFORMED, "array found, an object expected"},
        {"{\"r\": 2, \"lora_alpha\": 3}", TERN_MALFORMED, "peft_type: not found"},
        {"{\"peft_type\": \"IA3\", \"r\": 2}", TERN_UNSUPPORTED, "peft_type: \"IA3\" found"},
        {PLAIN ", \"use_dora\": true}", TERN_UNSUPPORTED, "use_dora: true found"},
        {PLAIN ", \"bias\": \"all\"}", TERN_UNSUPPORTED, "bias: all found"},
        {PLAIN ", \"rank_pattern\": {\"q_proj\": 4}}", TERN_MALFORMED, "[2][16] found, [4][16] expected"},
        {PLAIN ", \"rank_pattern\": {\"q_proj\": 0}}", TERN_MALFORMED, "rank_pattern: number found for model.layers.0"},
        {PLAIN ", \"rank_pattern\": {\"q_proj\": \"2\"}}", TERN_MALFORMED, "rank_pattern: string found"},
        {PLAIN ", \"rank_pattern\": [2]}", TERN_MALFORMED, "rank_pattern: array found"},
        {PLAIN ", \"rank_pattern\": {\"q_(proj\": 2}}", TERN_MALFORMED, "\"q_(proj\" is not a regular expression"},
        {PLAIN ", \"rank_pattern\": {\"(a|[^x]|..|.)*(a|[^x]|..|.)*(a|[^x]|..|.)*y\": 2}}", TERN_LIMIT,
         "takes too long to match"},
        {PLAIN ", \"alpha_pattern\": {\"q_proj\": 0}}", TERN_MALFORMED, "alpha_pattern: number found"},
        {PLAIN ", \"alpha_pattern\": {\"q_proj\": true}}", TERN_MALFORMED, "alpha_pattern: true found"},
        {PLAIN ", \"init_lora_weights\": \"olora\"}", TERN_UNSUPPORTED,
         "init_lora_weights: olora found, which changes"},
        {PLAIN ", \"init_lora_weights\": \"pissa\"}", TERN_UNSUPPORTED, "init_lora_weights: pissa found"},
        {PLAIN ", \"init_lora_weights\": \"pissa_niter_16\"}", TERN_UNSUPPORTED, "pissa_niter_16 found"},
        {PLAIN ", \"init_lora_weights\": \"corda\"}", TERN_UNSUPPORTED, "init_lora_weights: corda found"},
        {PLAIN ", \"init_lora_weights\": \"loftq\"}", TERN_UNSUPPORTED, "init_lora_weights: loftq found"},
        {PLAIN ", \"init_lora_weights\": 1}", TERN_UNSUPPORTED, "init_lora_weights: number found"},
        {PLAIN ", \"modules_to_save\": [\"lm_head\"]}", TERN_UNSUPPORTED, "modules_to_save: array found"},
        {"{\"peft_type\": \"LORA\", \"lora_alpha\": 3}", TERN_MALFORMED, "r: not found"},
        {"{\"peft_type\": \"LORA\", \"r\": 2}", TERN_MALFORMED, "lora_alpha: not found"},
        {"{\"peft_type\": \"LORA\", \"r\": 0, \"lora_alpha\": 3}", TERN_LIMIT, "rank 0 found, 1 to 4096"},
        {"{\"peft_type\": \"LORA\", \"r\": 4097, \"lora_alpha\": 3}", TERN_LIMIT, "rank 4097 found"},
        {"{\"peft_type\": \"LORA\", \"r\": 2, \"lora_alpha\": 0}", TERN_MALFORMED, "alpha 0 found"},
        {PLAIN ", \"lora_dropout\": 1.5}", TERN_MALFORMED, "dropout 1.5 found"},
        {"{\"peft_type\": \"LORA\", \"r\": 3, \"lora_alpha\": 3}", TERN_MALFORMED, "[2][16] found, [3][16] expected"},
        {PLAIN ", \"target_modules\": [\"q_proj\", \"c_attn\"]}", TERN_MALFORMED, "\"c_attn\" found"},
        {PLAIN ", \"target_modules\": [\"proj\"]}", TERN_MALFORMED, "\"proj\" found"},
        {PLAIN ", \"target_modules\": [3]}", TERN_MALFORMED, "target_modules: number found"},
        {PLAIN ", \"base_model_name_or_path\": \"a\\u0000b\"}", TERN_MALFORMED, "base_model_name_or_path: a NUL"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        folder f = adapter_sound(cases[i].config);
        assert_refused(&f, cases[i].status, cases[i].words);
    }
}

static void refuses_tensors(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        uint32_t rows, cols;
        tern_status status;
        const char *words;
    } cases[] = {
        {"base_model.model.model.layers.0.self_attn.k_proj.lora_A.weight", RANK, 16, TERN_MALFORMED,
         "without its lora_B"},
        {"base_model.model.model.layers.0.self_attn.k_proj.lora_B.weight", 8, RANK, TERN_MALFORMED,
         "without its lora_A"},
        {"base_model.model.model.layers.0.self_attn.k_proj.lora_A.weight", RANK, 15, TERN_MALFORMED,
         "k_proj.lora_A.weight: shape [2][15] found, [2][16] expected"},
        {"base_model.model.model.layers.0.self_attn.k_proj.lora_B.weight", 16, RANK, TERN_MALFORMED,
         "k_proj.lora_B.weight: shape [16][2] found, [8][2] expected"},
        {"base_model.model.model.layers.1.self_attn.k_proj.lora_A.weight", RANK, 16, TERN_MALFORMED,
         "layer 1 found, a layer below 1 expected"},
        {"base_model.model.model.layers.9999999999.self_attn.k_proj.lora_A.weight", RANK, 16, TERN_LIMIT,
         "the layer's number is too large"},
        {"base_model.model.model.layers.00.self_attn.k_proj.lora_A.weight", RANK, 16, TERN_UNSUPPORTED, "layers.00"},
        {"base_model.model.model.layers.0.self_attn.c_proj.lora_A.weight", RANK, 16, TERN_UNSUPPORTED, "c_proj"},
        {"base_model.model.model.layers.0.input_layernorm.lora_A.weight", RANK, 16, TERN_UNSUPPORTED,
         "input_layernorm"},
        {"base_model.model.lm_head.lora_A.weight", RANK, 16, TERN_UNSUPPORTED, "lm_head"},
        {"base_model.model.model.layers.0.self_attn.q_proj.lora_magnitude_vector", 1, 16, TERN_UNSUPPORTED,
         "magnitude"},
        {"model.layers.0.self_attn.k_proj.lora_A.weight", RANK, 16, TERN_UNSUPPORTED, "\"base_model.model.\""},
        {"base_model.model.model.layers.0.self_attn.q_proj.lora_A.default.weight", RANK, 16, TERN_MALFORMED, "twice"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        folder f = adapter_sound(PLAIN "}");
        adapter_add(&f, cases[i].name, cases[i].rows, cases[i].cols);
        assert_refused(&f, cases[i].status, cases[i].words);
    }
}

static void refuses_values(void **state)
{
    (void)state;
    folder f = adapter_sound(PLAIN "}");
    f.values[1][5] = NAN;
    assert_refused(&f, TERN_MALFORMED, "nan found at element 5");
    f.values[1][5] = -INFINITY;
    assert_refused(&f, TERN_MALFORMED, "-inf found at element 5");
    f = adapter_sound(PLAIN "}");
    f.tensors[1].dtype = TERN_ST_I32;
    assert_refused(&f, TERN_UNSUPPORTED, "I32 found, F32, F16 or BF16 expected");
    f = (folder){.config = PLAIN "}"};
    assert_refused(&f, TERN_MALFORMED, "no tensors found");
}

/* A llama adapter does not go with a BitNet model, nor a model where an adapter is expected. */
static void refuses_other_files(void **state)
{
    (void)state;
    tern_buf bytes;
    tern_model *llama = adapter_open_micro("llama", &bytes);
    folder f = adapter_sound(PLAIN "}");
    tern_adapter *adapter = adapter_open_adapter(adapter_write_made(&f), llama), *none = NULL;
    assert_ok(tern_adapter_write_gguf(adapter, test_scratch("lora-other.gguf"), &adapter_err), adapter_err);
    tern_adapter_close(adapter);
    tern_buf other;
    tern_model *bitnet = adapter_open_micro(NULL, &other);
    assert_int_equal(tern_adapter_open(&none, test_scratch("lora-other.gguf"), bitnet, &adapter_err), TERN_MALFORMED);
    assert_non_null(strstr(adapter_err.message, "\"llama\" found, the model's \"bitnet-b1.58\" expected"));
    assert_int_equal(tern_adapter_open(&none, test_fixture("tokenizers/ggml-vocab-gpt-2.gguf"), bitnet, &adapter_err),
                     TERN_MALFORMED);
    assert_non_null(strstr(adapter_err.message, "general.type"));
    assert_int_equal(tern_adapter_open(&none, "/nothing/here.gguf", bitnet, &adapter_err), TERN_NOT_FOUND);
    assert_null(none);
    tern_model_close(bitnet);
    tern_model_close(llama);
    tern_buf_deinit(&other);
    tern_buf_deinit(&bytes);
}

/* A file that ends anywhere is refused, whichever kind it is. */
static void refuses_truncations(void **state)
{
    (void)state;
    static const char *const files[] = {"lora-cut.gguf", "lora-made/adapter_model.safetensors",
                                        "lora-made/adapter_config.json"};
    tern_buf micro, whole = {0};
    tern_model *model = adapter_open_micro(NULL, &micro);
    folder f = adapter_sound(PLAIN "}");
    tern_adapter *adapter = adapter_open_adapter(adapter_write_made(&f), model);
    assert_ok(tern_adapter_write_gguf(adapter, test_scratch(files[0]), &adapter_err), adapter_err);
    tern_adapter_close(adapter);
    for (size_t i = 0; i < 3; i++) {
        const char *path = test_scratch(files[i]);
        assert_ok(tern_file_read(&whole, path, 1 << 20, &adapter_err), adapter_err);
        for (size_t n = 0; n < whole.size; n++) {
            if (!test_takes(n, 7, 8)) continue; /* fields have up to 8 bytes */
            test_write_file(path, whole.data, n);
            adapter = NULL;
            assert_int_not_equal(tern_adapter_open(&adapter, path, model, &adapter_err), TERN_OK);
            assert_null(adapter);
        }
        test_write_file(path, whole.data, whole.size);
        tern_adapter_close(adapter_open_adapter(path, model));
    }
    tern_buf_deinit(&whole);
    tern_model_close(model);
    tern_buf_deinit(&micro);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(refuses_configs),     cmocka_unit_test(refuses_tensors),     cmocka_unit_test(refuses_values),
    cmocka_unit_test(refuses_other_files), cmocka_unit_test(refuses_truncations),
};

TEST_GROUP(adapter_refusals, "web", tests);
