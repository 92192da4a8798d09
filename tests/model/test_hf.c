/* Hugging Face folders: the ways in which config.json and the tensors differ between publishers. */
#include "model/hf_cases.h"

#include "tern/bytes.h"

static void scale_multiplies_or_divides(void **state)
{
    (void)state;
    folder a = {.packed = true, .sub_norms = true}, b = {.packed = true, .sub_norms = true};
    tern_model *model = hf_open_folder(&a, BITNET SMALL PACKED(AUTO));
    assert_float_equal(hf_q_of(model)->scale, 0.25f, 0);
    tern_model_close(model);
    model = hf_open_folder(&b, BITNET SMALL PACKED("")); /* linear_class is "bitlinear" where nothing is said */
    assert_float_equal(hf_q_of(model)->scale, 4.0f, 0);
    tern_model_close(model);
}

/* pack_bitnet_weights of tutorials: byte j / 4 of a row has columns j .. j + 3, the first in the lowest bits. */
static void four_columns_in_a_byte(void **state)
{
    (void)state;
    static const uint8_t bytes[] = {0x24, 0x92, 0x49};
    folder f = {.packed = true, .sub_norms = true, .lsb = true};
    tern_model *model = hf_open_folder(&f, BITNET SMALL PACKED(AUTO));
    assert_float_equal(hf_q_of(model)->scale, 0.25f, 0);
    int8_t *codes = codes_of(hf_q_of(model));
    for (size_t i = 0; i < 256; i++) assert_int_equal(codes[i], (bytes[i / 4 % 3] >> (i % 4 * 2) & 3) - 1);
    free(codes);
    tern_model_close(model);
}

static void scales_of_rows(void **state)
{
    (void)state;
    folder f = {.packed = true, .sub_norms = true, .n_scales = 2};
    tern_model *model = hf_open_folder(&f, BITNET SMALL PACKED(AUTO));
    assert_non_null(hf_q_of(model)->row_scales);
    for (int r = 0; r < 16; r++) assert_float_equal(hf_q_of(model)->row_scales[r], 0.25f, 0);
    tern_model_close(model);
}

/* The file with another word for the inputs of its layers. */
static void refuse_other_activations(const char *path)
{
    static const char key[] = "tern.activations";
    tern_buf file = {0};
    tern_model *model = NULL;
    assert_ok(tern_file_read(&file, path, 1 << 24, &hf_err), hf_err);
    for (size_t i = 0; i + 64 < file.size; i++)
        if (memcmp(file.data + i, key, strlen(key)) == 0) memcpy(file.data + i + strlen(key) + 12, "int4", 4);
    assert_int_equal(tern_model_open_memory(&model, file.data, file.size, NULL, &hf_err), TERN_UNSUPPORTED);
    if (!strstr(hf_err.message, "tern.activations: \"int4\" found, int8 expected")) fail_msg("%s", hf_err.message);
    tern_buf_deinit(&file);
}

/* LLaMA with ternary layers (Llama3-8B-1.58): no sub-norms, SiLU. */
static void ternary_llama(void **state)
{
    (void)state;
    folder f = {.packed = true};
    tern_model *model = hf_open_folder(&f, LLAMA SMALL PACKED(""));
    assert_string_equal(tern_model_config(model)->architecture, "llama");
    assert_false(tern_model_config(model)->sub_norms);
    assert_true(hf_q_of(model)->encoding->ternary);
    const char *path = test_scratch("ternary-llama.gguf");
    assert_ok(tern_model_write_gguf(model, path, NULL, &hf_err), hf_err);
    tern_model *back = open_model(path);
    assert_true(tern_model_config(back)->rope_adjacent);
    assert_true(tern_model_config(back)->bit_linear);
    const char *dense = test_scratch("ternary-llama-dense.gguf");
    const tern_export_options as_f32 = {.linear = tern_encoding_by_name("f32")};
    assert_ok(tern_model_write_gguf(model, dense, &as_f32, &hf_err), hf_err);
    tern_model *again = open_model(dense); /* its layers are numbers now, their inputs int8 as before */
    assert_false(hf_q_of(again)->encoding->ternary);
    assert_true(tern_model_config(again)->bit_linear);
    tern_model_close(again);
    refuse_other_activations(dense);
    assert_same_codes(tern_model_weight(model, TERN_ROLE_ATTN_V, 0), tern_model_weight(back, TERN_ROLE_ATTN_V, 0));
    int8_t *a = codes_of(hf_q_of(model)), *b = codes_of(hf_q_of(back));
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
        tern_model *model = hf_open_folder(&f, spellings[i]);
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
    tern_model *model = hf_open_folder(&f, MISTRAL SMALL ", \"sliding_window\": 12");
    assert_int_equal(tern_config_layer(tern_model_config(model), 0).window, 12);
    assert_ok(tern_model_write_gguf(model, test_scratch("mistral.gguf"), NULL, &hf_err), hf_err);
    tern_model_close(model);
    model = open_model(test_scratch("mistral.gguf"));
    assert_int_equal(tern_model_config(model)->window, 12);
    tern_model_close(model);
}

static void opens_by_any_of_its_files(void **state)
{
    (void)state;
    folder f = {0};
    hf_write_folder(&f, LLAMA SMALL);
    static const char *const paths[] = {"hf", "hf/", "hf/config.json", "hf/model.safetensors"};
    for (int i = 0; i < 4; i++) {
        tern_model *model = open_model(test_scratch(paths[i]));
        assert_string_equal(tern_model_config(model)->name, "hf");
        tern_model_close(model);
    }
}

static void older_names(void **state)
{
    (void)state;
    folder f = {.sub_norms = true, .older_names = true};
    tern_model *model = hf_open_folder(
        &f, "\"architectures\": [\"BitnetForCausalLM\"], \"model_type\": \"llama\", \"hidden_act\": \"silu\", "
            "\"vocab_size\": 8, \"num_hidden_layers\": 1, \"max_position_embeddings\": 64, " SMALL);
    assert_string_equal(tern_model_config(model)->architecture, "bitnet");
    assert_true(tern_model_config(model)->sub_norms);
    assert_true(tern_model_config(model)->tied_head); /* there is no lm_head */
    assert_true(hf_q_of(model)->encoding->ternary);
    assert_string_equal(tern_model_weight(model, TERN_ROLE_FFN_SUB_NORM, 0)->name,
                        "model.layers.0.mlp.ffn_layernorm.weight");
    tern_model_close(model);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(scale_multiplies_or_divides),
    cmocka_unit_test(four_columns_in_a_byte),
    cmocka_unit_test(scales_of_rows),
    cmocka_unit_test(older_names),
    cmocka_unit_test(ternary_llama),
    cmocka_unit_test(both_spellings_of_rope),
    cmocka_unit_test(mistral_has_a_window),
    cmocka_unit_test(opens_by_any_of_its_files),
};

TEST_GROUP(hf, "", tests);
