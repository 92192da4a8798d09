/* Hugging Face folders: the ways in which config.json and the tensors differ between publishers. */
#include <math.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/half.h"
#include "format/safetensors.h"
#include "model/support.h"

enum { N_VOCAB = 8, MAX_TENSORS = 32, ROOM = 1 << 16 };

#define BITNET                                                                                                         \
    "\"architectures\": [\"BitNetForCausalLM\"], \"hidden_act\": \"relu2\", \"vocab_size\": 8, "                       \
    "\"num_hidden_layers\": 1, "                                                                                       \
    "\"max_position_embeddings\": 64, \"tie_word_embeddings\": true, "
#define LLAMA                                                                                                          \
    "\"architectures\": [\"LlamaForCausalLM\"], \"hidden_act\": \"silu\", \"vocab_size\": 8, \"num_hidden_layers\": "  \
    "1, "                                                                                                              \
    "\"max_position_embeddings\": 64, \"tie_word_embeddings\": true, "
#define MISTRAL                                                                                                        \
    "\"architectures\": [\"MistralForCausalLM\"], \"hidden_act\": \"silu\", \"vocab_size\": 8, "                       \
    "\"num_hidden_layers\": 1, \"max_position_embeddings\": 64, \"tie_word_embeddings\": true, "
#define GEMMA(layers, more)                                                                                            \
    "\"architectures\": [\"Gemma3ForCausalLM\"], \"hidden_activation\": \"gelu_pytorch_tanh\", \"vocab_size\": 8, "    \
    "\"num_hidden_layers\": " layers ", \"max_position_embeddings\": 64, \"sliding_window\": 4, " more
#define SMALL                                                                                                          \
    "\"hidden_size\": 16, \"intermediate_size\": 16, "                                                                 \
    "\"num_attention_heads\": 2, \"num_key_value_heads\": 1"
#define ODD                                                                                                            \
    "\"hidden_size\": 40, \"intermediate_size\": 22, "                                                                 \
    "\"num_attention_heads\": 5, \"num_key_value_heads\": 5"
#define PACKED(linear) ", \"quantization_config\": {\"quant_method\": \"bitnet\"" linear "}"
#define AUTO           ", \"linear_class\": \"autobitlinear\", \"quantization_mode\": \"offline\""

/* A folder while it is made. */
typedef struct folder {
    uint32_t n_embd, n_ff, n_kv; /* n_kv: rows of K and V */
    bool packed, sub_norms, older_names;
    uint8_t first_byte; /* of packed q, unless 0 */
    uint32_t n_scales;
    const float *scale; /* NULL: 0.25 */
    tern_st_tensor tensors[MAX_TENSORS];
    char names[MAX_TENSORS][80];
    size_t n;
    uint8_t data[ROOM];
    size_t used;
} folder;

static tern_error err;

static uint8_t *add(folder *f, const char *name, tern_st_dtype dtype, uint32_t rows, uint32_t cols)
{
    tern_st_tensor *t = &f->tensors[f->n];
    snprintf(f->names[f->n], sizeof *f->names, "%s", name);
    *t = (tern_st_tensor){.name = f->names[f->n], .dtype = dtype, .n_dims = rows ? 2 : 1, .data = f->data + f->used};
    t->dims[0] = rows ? rows : cols;
    t->dims[1] = cols;
    t->n_elements = (uint64_t)(rows ? rows : 1) * cols;
    t->bytes = t->n_elements * tern_st_dtype_bytes(dtype);
    uint8_t *data = f->data + f->used;
    f->used += t->bytes;
    f->n++;
    assert_true(f->used <= ROOM && f->n <= MAX_TENSORS);
    return data;
}

/* bf16 values 0.5, 1, ..., so that no two neighbours are the same. */
static void add_floats(folder *f, const char *name, uint32_t rows, uint32_t cols)
{
    uint8_t *data = add(f, name, TERN_ST_BF16, rows, cols);
    for (size_t i = 0; i < (size_t)(rows ? rows : 1) * cols; i++)
        tern_store_u16(data + 2 * i, tern_f32_to_bf16((float)(i % 5) * 0.5f - 1.0f));
}

static void add_linear(folder *f, const char *name, uint32_t rows, uint32_t cols)
{
    char full[80], scale[96];
    snprintf(full, sizeof full, "model.layers.0.%s.weight", name);
    if (!f->packed) {
        add_floats(f, full, rows, cols);
        return;
    }
    uint8_t *data = add(f, full, TERN_ST_U8, (rows + 3) / 4, cols);
    for (size_t i = 0; i < (size_t)((rows + 3) / 4) * cols; i++) data[i] = i % 3 == 0 ? 0x24 : i % 3 == 1 ? 0x92 : 0x49;
    if (f->first_byte) data[0] = f->first_byte;
    snprintf(scale, sizeof scale, "%s_scale", full);
    uint8_t *scales = add(f, scale, TERN_ST_BF16, 0, f->n_scales == 1 ? 1 : rows);
    for (uint32_t r = 0; r < (f->n_scales == 1 ? 1 : rows); r++)
        tern_store_u16(scales + 2 * r, tern_f32_to_bf16(f->scale ? *f->scale : 0.25f));
}

static void add_layer(folder *f)
{
    add_linear(f, "self_attn.q_proj", f->n_embd, f->n_embd);
    add_linear(f, "self_attn.k_proj", f->n_kv, f->n_embd);
    add_linear(f, "self_attn.v_proj", f->n_kv, f->n_embd);
    add_linear(f, "self_attn.o_proj", f->n_embd, f->n_embd);
    add_linear(f, "mlp.gate_proj", f->n_ff, f->n_embd);
    add_linear(f, "mlp.up_proj", f->n_ff, f->n_embd);
    add_linear(f, "mlp.down_proj", f->n_embd, f->n_ff);
    add_floats(f, "model.layers.0.input_layernorm.weight", 0, f->n_embd);
    add_floats(f, "model.layers.0.post_attention_layernorm.weight", 0, f->n_embd);
    if (!f->sub_norms) return;
    add_floats(f,
               f->older_names ? "model.layers.0.self_attn.inner_attn_ln.weight"
                              : "model.layers.0.self_attn.attn_sub_norm.weight",
               0, f->n_embd);
    add_floats(f, f->older_names ? "model.layers.0.mlp.ffn_layernorm.weight" : "model.layers.0.mlp.ffn_sub_norm.weight",
               0, f->n_ff);
}

static const char *write_folder(folder *f, const char *json)
{
    if (!f->n_embd) f->n_embd = f->n_ff = 16, f->n_kv = 8;
    if (!f->n_scales) f->n_scales = 1;
    const char *dir = test_scratch("hf");
    mkdir(dir, 0777);
    add_floats(f, "model.embed_tokens.weight", N_VOCAB, f->n_embd);
    add_layer(f);
    add_floats(f, "model.norm.weight", 0, f->n_embd);
    tern_file_writer w;
    assert_ok(tern_file_writer_open(&w, test_scratch("hf/config.json"), &err), err);
    tern_file_writer_add(&w, "{", 1);
    tern_file_writer_add(&w, json, strlen(json));
    tern_file_writer_add(&w, "}", 1);
    assert_ok(tern_file_writer_commit(&w, &err), err);
    assert_ok(tern_safetensors_write(test_scratch("hf/model.safetensors"), f->tensors, f->n, NULL, &err), err);
    return dir;
}

static tern_model *open_folder(folder *f, const char *json)
{
    return open_model(write_folder(f, json));
}

static const tern_weight *q_of(const tern_model *model)
{
    return tern_model_weight(model, TERN_ROLE_ATTN_Q, 0);
}

static void scale_multiplies_or_divides(void **state)
{
    (void)state;
    folder a = {.packed = true, .sub_norms = true}, b = {.packed = true, .sub_norms = true};
    tern_model *model = open_folder(&a, BITNET SMALL PACKED(AUTO));
    assert_float_equal(q_of(model)->scale, 0.25f, 0);
    tern_model_close(model);
    model = open_folder(&b, BITNET SMALL PACKED("")); /* linear_class is "bitlinear" where nothing is said */
    assert_float_equal(q_of(model)->scale, 4.0f, 0);
    tern_model_close(model);
}

static void scales_of_rows(void **state)
{
    (void)state;
    folder f = {.packed = true, .sub_norms = true, .n_scales = 2};
    tern_model *model = open_folder(&f, BITNET SMALL PACKED(AUTO));
    assert_non_null(q_of(model)->row_scales);
    for (int r = 0; r < 16; r++) assert_float_equal(q_of(model)->row_scales[r], 0.25f, 0);
    tern_model_close(model);
}

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
        write_folder(&f, BITNET SMALL PACKED(""));
        assert_int_equal(tern_model_open(&model, test_scratch("hf"), NULL, &err), TERN_MALFORMED);
        if (!strstr(err.message, words[i])) fail_msg("'%s' is not in '%s'", words[i], err.message);
        if (!strstr(err.message, "q_proj.weight")) fail_msg("no name in '%s'", err.message);
    }
}

/* Columns that i2_s cannot hold row by row, and rows that are no multiple of four. */
static void odd_shapes(void **state)
{
    (void)state;
    folder f = {.n_embd = 40, .n_ff = 22, .n_kv = 40, .packed = true, .sub_norms = true};
    tern_model *model = open_folder(&f, BITNET ODD PACKED(AUTO));
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

static void older_names(void **state)
{
    (void)state;
    folder f = {.sub_norms = true, .older_names = true};
    tern_model *model = open_folder(
        &f, "\"architectures\": [\"BitnetForCausalLM\"], \"model_type\": \"llama\", \"hidden_act\": \"silu\", "
            "\"vocab_size\": 8, \"num_hidden_layers\": 1, \"max_position_embeddings\": 64, " SMALL);
    assert_string_equal(tern_model_config(model)->architecture, "bitnet");
    assert_true(tern_model_config(model)->sub_norms);
    assert_true(tern_model_config(model)->tied_head); /* there is no lm_head */
    assert_true(q_of(model)->encoding->ternary);
    assert_string_equal(tern_model_weight(model, TERN_ROLE_FFN_SUB_NORM, 0)->name,
                        "model.layers.0.mlp.ffn_layernorm.weight");
    tern_model_close(model);
}

/* LLaMA with ternary layers (Llama3-8B-1.58): no sub-norms, SiLU. */
static void ternary_llama(void **state)
{
    (void)state;
    folder f = {.packed = true};
    tern_model *model = open_folder(&f, LLAMA SMALL PACKED(""));
    assert_string_equal(tern_model_config(model)->architecture, "llama");
    assert_false(tern_model_config(model)->sub_norms);
    assert_true(q_of(model)->encoding->ternary);
    const char *path = test_scratch("ternary-llama.gguf");
    assert_ok(tern_model_write_gguf(model, path, NULL, &err), err);
    tern_model *back = open_model(path);
    assert_true(tern_model_config(back)->rope_adjacent);
    assert_same_codes(tern_model_weight(model, TERN_ROLE_ATTN_V, 0), tern_model_weight(back, TERN_ROLE_ATTN_V, 0));
    int8_t *a = codes_of(q_of(model)), *b = codes_of(q_of(back));
    for (size_t row = 0; row < 16; row++) /* two heads of 8 */
        assert_memory_equal(b + row * 16, a + (row / 8 * 8 + row % 2 * 4 + row % 8 / 2) * 16, 16);
    free(a);
    free(b);
    tern_model_close(back);
    tern_model_close(model);
}

static void both_spellings_of_rope(void **state)
{
    (void)state;
    static const char *const spellings[] = {
        LLAMA SMALL ", \"rope_theta\": 1234, \"rope_scaling\": {\"type\": \"linear\", \"factor\": 4}",
        LLAMA SMALL ", \"rope_parameters\": {\"rope_theta\": 1234, \"rope_type\": \"linear\", \"factor\": 4}",
    };
    for (int i = 0; i < 2; i++) {
        folder f = {0};
        tern_model *model = open_folder(&f, spellings[i]);
        const tern_config *c = tern_model_config(model);
        float freq[4];
        assert_int_equal(c->rope[0].scaling, TERN_ROPE_LINEAR);
        assert_float_equal(c->rope[0].base, 1234.0f, 0);
        assert_float_equal(c->rope[0].factor, 4.0f, 0);
        tern_rope_frequencies(&c->rope[0], c->head_dim, freq);
        assert_float_equal(freq[0], 0.25f, 0);
        tern_model_close(model);
    }
}

/* Mistral's window is that of every layer, in the folder and in the GGUF file made of it. */
static void mistral_has_a_window(void **state)
{
    (void)state;
    folder f = {0};
    tern_model *model = open_folder(&f, MISTRAL SMALL ", \"sliding_window\": 12");
    assert_int_equal(tern_config_layer(tern_model_config(model), 0).window, 12);
    assert_ok(tern_model_write_gguf(model, test_scratch("mistral.gguf"), NULL, &err), err);
    tern_model_close(model);
    model = open_model(test_scratch("mistral.gguf"));
    assert_int_equal(tern_model_config(model)->window, 12);
    tern_model_close(model);
}

static void opens_by_any_of_its_files(void **state)
{
    (void)state;
    folder f = {0};
    write_folder(&f, LLAMA SMALL);
    static const char *const paths[] = {"hf", "hf/", "hf/config.json", "hf/model.safetensors"};
    for (int i = 0; i < 4; i++) {
        tern_model *model = open_model(test_scratch(paths[i]));
        assert_string_equal(tern_model_config(model)->name, "hf");
        tern_model_close(model);
    }
}

static const struct {
    const char *json;
    bool packed;
    uint8_t first_byte;
    tern_status status;
    const char *words;
} refusals[] = {
    {"\"a\": 1", false, 0, TERN_NOT_FOUND, "architectures"},
    {"\"architectures\": [7], \"hidden_act\": \"silu\"", false, 0, TERN_MALFORMED, "architectures: number found"},
    {"\"architectures\": [\"GPTForCausalLM\"], \"hidden_act\": \"silu\"", false, 0, TERN_UNSUPPORTED, "GPTForCausalLM"},
    {"\"architectures\": [\"LlamaForCausalLM\"], \"hidden_act\": \"gelu\"", false, 0, TERN_UNSUPPORTED,
     "hidden_act: \"gelu\" found"},
    {LLAMA "\"hidden_size\": 16", false, 0, TERN_NOT_FOUND, "num_attention_heads"},
    {LLAMA SMALL ", \"attention_bias\": true", false, 0, TERN_UNSUPPORTED, "attention_bias: true found"},
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
     TERN_UNSUPPORTED, "layer_types: full_attention found at 2, full_attention in every 2-th layer alone expected"},
    {GEMMA("1", "\"query_pre_attn_scalar\": -4, ") SMALL, false, 0, TERN_MALFORMED, "query_pre_attn_scalar: -4 found"},
    {GEMMA("1", "\"attn_logit_softcapping\": -4, ") SMALL, false, 0, TERN_MALFORMED, "soft cap of attention: -4 found"},
    {GEMMA("1", "") SMALL, false, 0, TERN_MALFORMED, "pre_feedforward_layernorm.weight: no such tensor found"},
    {LLAMA SMALL ", \"sliding_window\": 4096", false, 0, TERN_UNSUPPORTED, "sliding_window: number found"},
    {LLAMA SMALL ", \"rope_scaling\": {\"rope_type\": \"yarn\", \"factor\": 4}", false, 0, TERN_UNSUPPORTED,
     "rope_type: \"yarn\" found"},
    {LLAMA SMALL ", \"rope_scaling\": {\"rope_type\": \"llama3\", \"factor\": 4}", false, 0, TERN_NOT_FOUND,
     "low_freq_factor"},
    {LLAMA SMALL ", \"head_dim\": 1024", false, 0, TERN_LIMIT, "head dimension: 1024 found"},
    {LLAMA SMALL ", \"rms_norm_eps\": 0", false, 0, TERN_MALFORMED, "epsilon: 0 found"},
    {LLAMA SMALL PACKED(", \"linear_class\": \"other\""), false, 0, TERN_UNSUPPORTED, "linear_class: \"other\" found"},
    {LLAMA SMALL PACKED(", \"use_rms_norm\": true"), false, 0, TERN_UNSUPPORTED, "use_rms_norm: true found"},
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
        tern_status status = tern_model_open(&model, write_folder(&f, refusals[i].json), NULL, &err);
        if (status == TERN_OK || !strstr(err.message, refusals[i].words))
            fail_msg("'%s' is not in '%s'", refusals[i].words, err.message);
        assert_int_equal(status, refusals[i].status);
        assert_null(model);
    }
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(scale_multiplies_or_divides),
    cmocka_unit_test(scales_of_rows),
    cmocka_unit_test(wrong_scales),
    cmocka_unit_test(odd_shapes),
    cmocka_unit_test(older_names),
    cmocka_unit_test(ternary_llama),
    cmocka_unit_test(both_spellings_of_rope),
    cmocka_unit_test(mistral_has_a_window),
    cmocka_unit_test(opens_by_any_of_its_files),
    cmocka_unit_test(refuses),
};

TEST_GROUP(hf, "", tests);
