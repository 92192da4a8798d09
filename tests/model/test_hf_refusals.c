/* Hugging Face folders that are refused: scales, shapes and settings, each with its message. */
#include "model/hf_cases.h"

#define GEMMA(layers, more)                                                                                            \
    "\"architectures\": [\"Gemma3ForCausalLM\"], \"hidden_activation\": \"gelu_pytorch_tanh\", \"vocab_size\": 8, "    \
    "\"num_hidden_layers\": " layers                                                                                   \
    ", \"max_position_embeddings\": 64, \"sliding_window\": 4, \"head_dim\": 8, " more

#define SILU(class, more)                                                                                              \
    "\"architectures\": [\"" class "\"], \"hidden_act\": \"silu\", \"vocab_size\": 8, \"num_hidden_layers\": 1, "      \
                                   "\"max_position_embeddings\": 64, \"tie_word_embeddings\": true, " SMALL ", " more
#define GRANITE(more) SILU("GraniteForCausalLM", more)
#define PHI3(more)    SILU("Phi3ForCausalLM", more)
#define LONG(longer, shorter)                                                                                          \
    "\"rope_scaling\": {\"type\": \"longrope\", \"long_factor\": " longer ", \"short_factor\": " shorter "}"
#define YARN(more)    LLAMA SMALL ", \"rope_scaling\": {\"rope_type\": \"yarn\", " more "}"
#define SMOLLM3(more) SILU("SmolLM3ForCausalLM", more)

#define ODD                                                                                                            \
    "\"hidden_size\": 40, \"intermediate_size\": 22, "                                                                 \
    "\"num_attention_heads\": 5, \"num_key_value_heads\": 5"

/* None of them means anything. */
static void wrong_scales(void **state)
{
    (void)state;
    static const float scales[] = {0, -0.5f, INFINITY, NAN};
    static const char *const words[] = {"1 / weight_scale inf", "1 / weight_scale -2", "1 / weight_scale 0",
                                        "1 / weight_scale nan"};
    for (size_t i = 0; i < 4; i++) {
        folder f = {.packed = true, .sub_norms = true, .scale = &scales[i]};
        tern_model *model = NULL;
        hf_write_folder(&f, BITNET SMALL PACKED(""));
        assert_int_equal(tern_model_open(&model, test_scratch("hf"), NULL, &hf_err), TERN_MALFORMED);
        if (!strstr(hf_err.message, words[i])) fail_msg("'%s' is not in '%s'", words[i], hf_err.message);
        if (!strstr(hf_err.message, "q_proj.weight")) fail_msg("no name in '%s'", hf_err.message);
    }
}

/* Columns that i2_s cannot hold row by row, and rows that are no multiple of four. */
static void odd_shapes(void **state)
{
    (void)state;
    folder f = {.n_embd = 40, .n_ff = 22, .n_kv = 40, .packed = true, .sub_norms = true};
    tern_model *model = hf_open_folder(&f, BITNET ODD PACKED(AUTO));
    const tern_weight *w = tern_model_weight(model, TERN_ROLE_FFN_UP, 0);
    int8_t *codes = codes_of(w);
    assert_int_equal(w->rows, 22);
    for (size_t row = 0; row < 22; row++) /* six rows to a quarter; the last one is padded */
        for (size_t col = 0; col < 40; col++) {
            static const uint8_t pattern[3] = {0x24, 0x92, 0x49};
            int want = (pattern[(row % 6 * 40 + col) % 3] >> (row / 6 * 2) & 3) - 1;
            assert_int_equal(codes[row * 40 + col], want);
        }
    free(codes);
    tern_model_close(model);
}

static const struct {
    const char *json;
    bool packed;
    uint8_t first_byte;
    tern_status status;
    const char *words;
} refusals[] = {
    {GRANITE("\"embedding_multiplier\": 0"), false, 0, TERN_MALFORMED,
     "embedding_multiplier: 0 found, a positive number expected"},
    {GRANITE("\"residual_multiplier\": -1"), false, 0, TERN_MALFORMED, "residual_multiplier: -1 found"},
    {GRANITE("\"attention_multiplier\": 1e999"), false, 0, TERN_MALFORMED, "1e999"},
    {GRANITE("\"logits_scaling\": \"8\""), false, 0, TERN_MALFORMED, "logits_scaling: string found"},
    {SMOLLM3("\"no_rope_layers\": [1, 1]"), false, 0, TERN_MALFORMED, "no_rope_layers: 2 found"},
    {SMOLLM3("\"no_rope_layers\": [0]"), false, 0, TERN_UNSUPPORTED, "no_rope_layers: number 0 found at 0, 1 expected"},
    {SMOLLM3("\"no_rope_layers\": [\"1\"]"), false, 0, TERN_UNSUPPORTED, "no_rope_layers: string -1 found at 0"},
    {SMOLLM3("\"no_rope_layer_interval\": 3"), false, 0, TERN_UNSUPPORTED,
     "no_rope_layer_interval: 3 found, 4 expected"},
    {SMOLLM3("\"sliding_window\": 4, \"use_sliding_window\": true"), false, 0, TERN_UNSUPPORTED,
     "use_sliding_window: true found"},
    {PHI3("\"partial_rotary_factor\": 0"), false, 0, TERN_MALFORMED,
     "partial_rotary_factor: 0 found, more than 0 and at most 1 expected"},
    {PHI3("\"partial_rotary_factor\": 1.5"), false, 0, TERN_MALFORMED, "partial_rotary_factor: 1.5 found"},
    {PHI3("\"partial_rotary_factor\": 0.75"), false, 0, TERN_UNSUPPORTED, "RoPE: 6 dimensions of a head found"},
    {LLAMA SMALL ", \"partial_rotary_factor\": 0.5", false, 0, TERN_UNSUPPORTED,
     "partial_rotary_factor: 0.5 found, 1 expected"},
    {PHI3("\"rope_scaling\": {\"type\": \"longrope\"}"), false, 0, TERN_NOT_FOUND, "long_factor"},
    {PHI3(LONG("[1, 2, 3]", "[1, 2, 3, 4]")), false, 0, TERN_MALFORMED,
     "long_factor: 3 found, one for each of 4 pairs of dimensions expected"},
    {PHI3(LONG("[1, 2, 3, 4]", "[1, 2, 0, 4]")), false, 0, TERN_MALFORMED, "short_factor: number 0 found at 2"},
    {PHI3(LONG("[1, 2, 3, 4]", "[1, 2, \"3\", 4]")), false, 0, TERN_MALFORMED, "short_factor: string 0 found at 2"},
    {PHI3(LONG("[1, 2, 3, 4]", "[1, 2, 3, 4], \"attention_factor\": -1")), false, 0, TERN_MALFORMED,
     "RoPE attention factor: -1 found"},
    {PHI3("\"original_max_position_embeddings\": 0, " LONG("[1, 2, 3, 4]", "[1, 2, 3, 4]")), false, 0, TERN_MALFORMED,
     "original_max_position_embeddings: 0 found"},
    {LLAMA SMALL ", \"rope_scaling\": {\"type\": \"longrope\"}", false, 0, TERN_UNSUPPORTED,
     "rope_type: \"longrope\" found"},
    {PHI3("\"sliding_window\": 0"), false, 0, TERN_MALFORMED, "sliding_window: 0 found"},
    {"\"a\": 1", false, 0, TERN_NOT_FOUND, "architectures"},
    {"\"architectures\": [7], \"hidden_act\": \"silu\"", false, 0, TERN_MALFORMED, "architectures: number found"},
    {"\"architectures\": [\"GPTForCausalLM\"], \"hidden_act\": \"silu\"", false, 0, TERN_UNSUPPORTED, "GPTForCausalLM"},
    {"\"architectures\": [\"LlamaForCausalLM\"], \"hidden_act\": \"gelu\"", false, 0, TERN_UNSUPPORTED,
     "hidden_act: \"gelu\" found"},
    {LLAMA "\"hidden_size\": 16", false, 0, TERN_NOT_FOUND, "num_attention_heads"},
    {PHI3("\"attention_bias\": true"), false, 0, TERN_UNSUPPORTED, "attention_bias: true found, false expected"},
    {LLAMA SMALL ", \"nope_on_global_attention\": true", false, 0, TERN_UNSUPPORTED,
     "nope_on_global_attention: true found, false expected"},
    {LLAMA SMALL ", \"mlp_bias\": true", false, 0, TERN_UNSUPPORTED, "mlp_bias: true found"},
    {MISTRAL SMALL ", \"sliding_window\": 0", false, 0, TERN_MALFORMED, "sliding_window: 0 found"},
    {"\"architectures\": [\"Qwen2ForCausalLM\"], \"hidden_act\": \"silu\", \"vocab_size\": 8, \"num_hidden_layers\": "
     "1, "
     "\"max_position_embeddings\": 64, \"sliding_window\": 8, \"use_sliding_window\": true, " SMALL,
     false, 0, TERN_UNSUPPORTED, "use_sliding_window: true found"},
    {GEMMA("1", "\"layer_types\": [], ") SMALL, false, 0, TERN_MALFORMED, "layer_types: 0 found, one for each of 1"},
    {GEMMA("1", "\"layer_types\": [\"chunked_attention\"], ") SMALL, false, 0, TERN_UNSUPPORTED,
     "layer_types: chunked_attention found at 0"},
    {GEMMA("3", "\"layer_types\": [\"sliding_attention\", \"full_attention\", \"full_attention\"], ") SMALL, false, 0,
     TERN_UNSUPPORTED, "layer_types: full_attention found at 2, full_attention only in every 2-th layer expected"},
    {GEMMA("1", "\"query_pre_attn_scalar\": 0, ") SMALL, false, 0, TERN_MALFORMED, "query_pre_attn_scalar: 0 found"},
    {GEMMA("1", "\"query_pre_attn_scalar\": 1e-320, ") SMALL, false, 0, TERN_MALFORMED,
     "query_pre_attn_scalar: 0 found"},
    {GEMMA("1", "\"rope_local_base_freq\": 0, ") SMALL, false, 0, TERN_MALFORMED, "rope_local_base_freq: 0 found"},
    {GEMMA("1", "\"query_pre_attn_scalar\": -4, ") SMALL, false, 0, TERN_MALFORMED, "query_pre_attn_scalar: -4 found"},
    {GEMMA("1", "\"attn_logit_softcapping\": -4, ") SMALL, false, 0, TERN_MALFORMED, "soft cap of attention: -4 found"},
    {GEMMA("1", "") SMALL, false, 0, TERN_MALFORMED, "pre_feedforward_layernorm.weight: no such tensor found"},
    {LLAMA SMALL ", \"sliding_window\": 4096", false, 0, TERN_UNSUPPORTED, "sliding_window: number found"},
    {LLAMA SMALL ", \"rope_scaling\": {\"rope_type\": \"dynamic\", \"factor\": 4}", false, 0, TERN_UNSUPPORTED,
     "rope_type: \"dynamic\" found"},
    {SILU("GptOssForCausalLM", "\"num_local_experts\": 2, \"num_experts_per_tok\": 1"), false, 0, TERN_NOT_FOUND,
     "rope_parameters: not found, expected in models of gpt-oss"},
    {SILU("Qwen3MoeForCausalLM", "\"num_experts\": 2, \"num_experts_per_tok\": 1"), false, 0, TERN_NOT_FOUND,
     "moe_intermediate_size"},
    {YARN("\"factor\": 0.5"), false, 0, TERN_MALFORMED, "RoPE scaling factor: 0.5 found, at least 1 expected"},
    {YARN("\"factor\": 4, \"beta_slow\": 0"), false, 0, TERN_MALFORMED, "beta_fast 32 and beta_slow 0 found"},
    {YARN("\"factor\": 4, \"beta_fast\": 1"), false, 0, TERN_MALFORMED, "beta_fast 1 and beta_slow 1 found"},
    {YARN("\"factor\": 4, \"attention_factor\": 0"), false, 0, TERN_MALFORMED, "attention factor: 0 found"},
    {YARN("\"factor\": 4, \"rope_theta\": 1"), false, 0, TERN_MALFORMED, "RoPE base: 1 found, more than 1"},
    {YARN("\"factor\": 4, \"truncate\": 1"), false, 0, TERN_MALFORMED, "truncate"},
    {YARN("\"factor\": 4, \"original_max_position_embeddings\": 0"), false, 0, TERN_LIMIT,
     "RoPE original context length: 0 found"},
    {LLAMA SMALL ", \"rope_scaling\": {\"rope_type\": \"llama3\", \"factor\": 4}", false, 0, TERN_NOT_FOUND,
     "low_freq_factor"},
    {LLAMA SMALL ", \"head_dim\": 1024", false, 0, TERN_LIMIT, "head dimension: 1024 found"},
    {LLAMA SMALL ", \"rms_norm_eps\": 0", false, 0, TERN_MALFORMED, "epsilon: 0 found"},
    {LLAMA SMALL PACKED(", \"linear_class\": \"other\""), false, 0, TERN_UNSUPPORTED, "linear_class: \"other\" found"},
    {LLAMA SMALL PACKED(", \"use_rms_norm\": true"), false, 0, TERN_UNSUPPORTED,
     "rms_norm_eps 1e-06 found, that of the model, 1e-05, expected"},
    {LLAMA SMALL PACKED(", \"use_rms_norm\": true, \"rms_norm_eps\": 1e-5"), true, 0, TERN_MALFORMED,
     "model.layers.0.self_attn.q_proj.rms_norm.weight: no such tensor found"},
    {LLAMA SMALL PACKED(", \"use_rms_norm\": 1"), false, 0, TERN_MALFORMED, "use_rms_norm"},
    {LLAMA SMALL ", \"use_bidirectional_attention\": true", false, 0, TERN_UNSUPPORTED,
     "use_bidirectional_attention: true found, false expected"},
    {LLAMA SMALL ", \"quantization_config\": {\"quant_method\": \"gptq\"}", false, 0, TERN_UNSUPPORTED,
     "quant_method: \"gptq\" found"},
    {LLAMA SMALL, true, 0, TERN_UNSUPPORTED, "q_proj.weight: U8 found"},
    {BITNET SMALL, false, 0, TERN_MALFORMED, "attn_sub_norm.weight: no such tensor found"},
    {LLAMA SMALL ", \"head_dim\": 16", false, 0, TERN_MALFORMED,
     "q_proj.weight: 16 rows of 16 found, 32 rows of 16 expected"},
    {LLAMA SMALL ", \"head_dim\": 24" PACKED(""), true, 0, TERN_MALFORMED,
     "q_proj.weight: 4 rows of 16 found, 12 rows of 16"},
    {LLAMA SMALL PACKED(""), true, 0x0d, TERN_MALFORMED,
     "q_proj.weight: found code 11 at element 64 (row 4, column 0)"},
};

static void refuses(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++) {
        folder f = {.packed = refusals[i].packed, .first_byte = refusals[i].first_byte};
        tern_model *model = NULL;
        tern_status status = tern_model_open(&model, hf_write_folder(&f, refusals[i].json), NULL, &hf_err);
        if (status == TERN_OK || !strstr(hf_err.message, refusals[i].words))
            fail_msg("'%s' is not in '%s'", refusals[i].words, hf_err.message);
        assert_int_equal(status, refusals[i].status);
        assert_null(model);
    }
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(wrong_scales),
    cmocka_unit_test(odd_shapes),
    cmocka_unit_test(refuses),
};

TEST_GROUP(hf_refusals, "", tests);
