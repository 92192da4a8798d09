/* Mixes: which tensors get which type, and what stands in where blocks do not fit. */
#include "base/file.h"
#include "format/gguf.h"
#include "model/mix.h"
#include "model/support.h"
#include "model/synth/internal.h"
#include "support/micro_model.h"

/* Numbers of tensors by type that llama.cpp prints when it loads files that its quantiser made of these models. */
static const struct {
    const char *preset, *mix;
    uint32_t q4_k, q5_k, q6_k;
} published[] = {
    {"llama3-8b", "Q4_K_M", 193, 0, 33}, {"llama3-8b", "q4_k_s", 217, 8, 1},   {"llama3-8b", "Q5_K_M", 0, 193, 33},
    {"llama3-8b", "q5_k_s", 0, 225, 1},  {"llama3.2-1b", "Q4_K_M", 96, 0, 17},
};

static void counts_are_those_of_llama_cpp(void **state)
{
    (void)state;
    tern_error err = {0};
    for (size_t i = 0; i < sizeof published / sizeof *published; i++) {
        tern_config c;
        bool ternary;
        uint32_t n[3] = {0};
        assert_ok(tern_synth__preset(published[i].preset, &c, &ternary, &err), err);
        tern_role_walk walk = {0};
        while (tern_role__next(&walk, &c)) {
            if (tern_role_is_vector(walk.role)) continue;
            n[tern_mix_encoding(tern_mix_by_name(published[i].mix), &c, walk.role, walk.layer)->id - TERN_ENC_Q4_K]++;
        }
        print_message("%s %s\n", published[i].preset, published[i].mix);
        assert_int_equal(n[0], published[i].q4_k);
        assert_int_equal(n[1], published[i].q5_k);
        assert_int_equal(n[2], published[i].q6_k);
    }
}

/* The eighths at both ends and every third layer between: 2, 2 + 3, ... after the first eighth. */
static void layers_with_more_bits(void **state)
{
    (void)state;
    tern_config c = {.n_heads = 4, .n_kv_heads = 2, .tied_head = true};
    const uint32_t layers[] = {12, 13};
    static const char twelve[] = "100100100111", thirteen[] = "1001001001011";
    for (int k = 0; k < 2; k++) {
        c.n_layers = layers[k];
        for (uint32_t i = 0; i < c.n_layers; i++) {
            const tern_encoding *v = tern_mix_encoding(tern_mix_by_name("q4_k_m"), &c, TERN_ROLE_ATTN_V, i);
            assert_int_equal(v->id, (k ? thirteen : twelve)[i] == '1' ? TERN_ENC_Q6_K : TERN_ENC_Q4_K);
        }
    }
}

/* 80 layers with shared keys and values: V has five bits where the mix gives it four. */
static void seventy_billion(void **state)
{
    (void)state;
    tern_config c = {.n_layers = 80, .n_heads = 64, .n_kv_heads = 8};
    const tern_mix *s = tern_mix_by_name("Q4_K_S"), *m = tern_mix_by_name("Q4_K_M");
    assert_int_equal(tern_mix_encoding(s, &c, TERN_ROLE_ATTN_V, 40)->id, TERN_ENC_Q5_K);
    assert_int_equal(tern_mix_encoding(m, &c, TERN_ROLE_ATTN_V, 79)->id, TERN_ENC_Q6_K);
    assert_int_equal(tern_mix_encoding(m, &c, TERN_ROLE_ATTN_K, 40)->id, TERN_ENC_Q4_K);
    c.n_kv_heads = 64;
    assert_int_equal(tern_mix_encoding(s, &c, TERN_ROLE_ATTN_V, 40)->id, TERN_ENC_Q4_K);
}

/* Beside eight experts keys and values have 8 bits (64 tensors of published Q4_K_M files of Mixtral) and o has 5; parts
 * of experts are as those of dense layers. In MXFP4_MOE experts alone are MXFP4. */
static void experts(void **state)
{
    (void)state;
    static const struct {
        const char *preset, *mix;
        tern_role role;
        tern_encoding_id encoding;
    } rows[] = {
        {"mixtral-8x7b", "Q4_K_M", TERN_ROLE_ATTN_K, TERN_ENC_Q8_0},
        {"mixtral-8x7b", "Q4_K_M", TERN_ROLE_ATTN_V, TERN_ENC_Q8_0},
        {"mixtral-8x7b", "Q4_K_M", TERN_ROLE_ATTN_OUTPUT, TERN_ENC_Q5_K},
        {"mixtral-8x7b", "Q5_K_M", TERN_ROLE_ATTN_OUTPUT, TERN_ENC_Q5_K},
        {"mixtral-8x7b", "Q4_K_M", TERN_ROLE_FFN_DOWN_EXPS, TERN_ENC_Q6_K},
        {"mixtral-8x7b", "Q4_K_M", TERN_ROLE_FFN_UP_EXPS, TERN_ENC_Q4_K},
        {"qwen3-30b-a3b", "Q4_K_M", TERN_ROLE_ATTN_K, TERN_ENC_Q4_K},
        {"gpt-oss-20b", "MXFP4_MOE", TERN_ROLE_FFN_GATE_EXPS, TERN_ENC_MXFP4},
        {"gpt-oss-20b", "MXFP4_MOE", TERN_ROLE_FFN_DOWN_EXPS, TERN_ENC_MXFP4},
        {"gpt-oss-20b", "MXFP4_MOE", TERN_ROLE_ATTN_Q, TERN_ENC_Q8_0},
        {"gpt-oss-20b", "MXFP4_MOE", TERN_ROLE_OUTPUT, TERN_ENC_Q8_0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        tern_config c;
        bool ternary;
        tern_error err = {0};
        assert_ok(tern_synth__preset(rows[i].preset, &c, &ternary, &err), err);
        print_message("%s %s\n", rows[i].preset, rows[i].mix);
        assert_int_equal(tern_mix_encoding(tern_mix_by_name(rows[i].mix), &c, rows[i].role, 0)->id, rows[i].encoding);
    }
}

/* By hand from the same rules: 32 layers, 4 heads to a key; four letters for q, v, o, down of layers 0, 1, 2, 3, 4. */
static void three_bits_and_two(void **state)
{
    (void)state;
    static const tern_role roles[] = {TERN_ROLE_ATTN_Q, TERN_ROLE_ATTN_V, TERN_ROLE_ATTN_OUTPUT, TERN_ROLE_FFN_DOWN};
    static const struct {
        const char *mix, *bits;
    } rows[] = {{"Q2_K_S", "2424 2424 2424 2424 2422"},
                {"Q3_K_S", "3333 3333 3333 3333 3333"},
                {"Q3_K_M", "3545 3545 3444 3444 3444"},
                {"Q3_K_L", "3555 3555 3555 3555 3555"}};
    const tern_config c = {.n_layers = 32, .n_heads = 32, .n_kv_heads = 8};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const tern_mix *mix = tern_mix_by_name(rows[i].mix);
        for (uint32_t k = 0; k < 20; k++) {
            const tern_encoding *e = tern_mix_encoding(mix, &c, roles[k % 4], k / 4);
            assert_int_equal(e->name[1], rows[i].bits[k / 4 * 5 + k % 4]);
        }
        assert_int_equal(tern_mix_encoding(mix, &c, TERN_ROLE_OUTPUT, 0)->id, TERN_ENC_Q6_K);
    }
    const tern_config few = {.n_layers = 32, .n_heads = 8, .n_kv_heads = 4};
    assert_int_equal(tern_mix_encoding(tern_mix_by_name("q2_k_s"), &few, TERN_ROLE_ATTN_V, 0)->id, TERN_ENC_Q2_K);
}

static void siblings(void **state)
{
    (void)state;
    static const struct {
        const char *asked, *got;
        uint64_t cols;
    } rows[] = {
        {"q4_k", "q4_k", 512}, {"q4_k", "q5_0", 1152}, {"q5_k", "q5_1", 1152}, {"q3_k", "q4_0", 1152},
        {"q2_k", "q4_0", 96},  {"q6_k", "q8_0", 1152}, {"q6_k", "f16", 1168},  {"q8_0", "f16", 48},
        {"f16", "f16", 7},     {"tq2_0", "tq2_0", 96}, {"i2_s", "i2_s", 7},    {"q4_k", "f16", 40},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        assert_string_equal(tern_encoding_fitting(tern_encoding_by_name(rows[i].asked), rows[i].cols)->name,
                            rows[i].got);
}

static void parses(void **state)
{
    (void)state;
    tern_error err = {0};
    const tern_encoding *e;
    const tern_mix *mix;
    assert_ok(tern_type_parse("type", "q4_K_m", &e, &mix, &err), err);
    assert_string_equal(mix->name, "Q4_K_M");
    assert_int_equal(e->id, TERN_ENC_Q4_K);
    assert_ok(tern_type_parse("type", "Q8_0", &e, &mix, &err), err);
    assert_null(mix);
    assert_int_equal(e->id, TERN_ENC_Q8_0);
    assert_ok(tern_type_parse("type", NULL, &e, &mix, &err), err);
    assert_true(!e && !mix);
    assert_int_equal(tern_type_parse("--type", "q4_k_l", &e, &mix, &err), TERN_INVALID_ARGUMENT);
    assert_non_null(strstr(err.message, "--type q4_k_l: no such encoding"));
    assert_non_null(strstr(
        err.message, "or of the mixes q2_k_s, q3_k_s, q3_k_m, q3_k_l, q4_k_s, q4_k_m, q5_k_s, q5_k_m, mxfp4_moe"));
}

/* A model of 96 columns, which no block of 256 fits, and one of 256: the file says which mix it is all the same. */
static void writes(void **state)
{
    (void)state;
    for (uint32_t width = 96; width <= 256; width += 160) {
        tern_error err = {0};
        tern_buf bytes = micro_model(&(micro_change){.width = width, .seed = 3, .architecture = "llama"});
        const char *from = test_scratch("mix-from.gguf"), *to = test_scratch("mix-to.gguf");
        assert_ok(tern_file_write(from, bytes.data, bytes.size, &err), err);
        tern_buf_deinit(&bytes);
        tern_model *model = open_model(from);
        tern_export_report report = {0};
        const tern_mix *mix = tern_mix_by_name("Q4_K_M");
        tern_export_options how = {.linear = tern_encoding_find(mix->encoding), .mix = mix, .report = &report};
        assert_ok(tern_model_write_gguf(model, to, &how, &err), err);
        tern_model_close(model);
        model = open_model(to);
        const tern_encoding *q = tern_model_weight(model, TERN_ROLE_ATTN_Q, 0)->encoding;
        assert_string_equal(tern_model_weight(model, TERN_ROLE_ATTN_V, 0)->encoding->name,
                            width == 256 ? "q6_k" : "q8_0");
        assert_string_equal(q->name, tern_encoding_fitting(tern_encoding_find(TERN_ENC_Q4_K), width)->name);
        tern_model_close(model);
        assert_int_equal(report.n_fallbacks, width == 256 ? 0 : 2);
        if (report.n_fallbacks) {
            char text[TERN_EXPORT_CLAUSE_BYTES];
            tern_export_fallback_text(&report.fallbacks[0], text);
            assert_string_equal(text, "3 tensors are q8_0 instead of q6_k: 96 columns, no multiple of 256");
        }
        tern_file_map map;
        tern_gguf *g = NULL;
        uint32_t file_type = 0;
        assert_ok(tern_file_map_open(&map, to, &err), err);
        assert_ok(tern_gguf_parse(&g, map.data, map.size, &err), err);
        assert_ok(tern_gguf_get_u32(g, "general.file_type", &file_type, &err), err);
        assert_int_equal(file_type, 15);
        tern_gguf_close(g);
        tern_file_map_close(&map);
    }
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(counts_are_those_of_llama_cpp),
    cmocka_unit_test(layers_with_more_bits),
    cmocka_unit_test(seventy_billion),
    cmocka_unit_test(three_bits_and_two),
    cmocka_unit_test(experts),
    cmocka_unit_test(siblings),
    cmocka_unit_test(parses),
    cmocka_unit_test(writes),
};

TEST_GROUP(mix, "", tests);
