/* Dense matrices whose numbers are ternary already go into ternary encodings as they are. */
#include "model/hf_cases.h"
#include "support/micro_model.h"

static tern_model *through(const tern_model *model, const char *encoding, const char *name)
{
    const tern_export_options options = {.linear = tern_encoding_by_name(encoding)};
    assert_ok(tern_model_write_gguf(model, test_scratch(name), &options, &hf_err), hf_err);
    return open_model(test_scratch(name));
}

static void check_same(const tern_model *a, const tern_model *b, tern_role role)
{
    const tern_weight *x = tern_model_weight(a, role, 0), *y = tern_model_weight(b, role, 0);
    assert_same_codes(x, y);
    for (uint32_t r = 0; r < x->rows; r++) {
        const float want = x->row_scales ? x->row_scales[r] : x->scale,
                    got = y->row_scales ? y->row_scales[r] : y->scale;
        if (want != got) fail_msg("%s, row %u: %g, %g expected", x->name, r, (double)got, (double)want);
    }
}

/* Ternary, as f32, and ternary again. */
static void come_back(const tern_model *model, bool by_row, size_t n_encodings)
{
    static const char *const encodings[] = {"t160", "i2_s"};
    tern_model *dense = through(model, "f32", "signs-f32.gguf");
    assert_false(hf_q_of(dense)->encoding->ternary);
    for (size_t i = 0; i < n_encodings; i++) {
        tern_model *back = through(dense, encodings[i], "signs.gguf");
        assert_true(hf_q_of(back)->encoding->ternary);
        assert_int_equal(hf_q_of(back)->row_scales != NULL, by_row);
        for (int role = TERN_ROLE_ATTN_Q; role <= TERN_ROLE_FFN_DOWN; role++)
            if (tern_role_is_linear((tern_role)role)) check_same(model, back, (tern_role)role);
        tern_model_close(back);
    }
    tern_model_close(dense);
}

static void one_scale(void **state)
{
    (void)state;
    tern_model *model = open_model(test_fixture("bitnet"));
    come_back(model, false, 2);
    tern_model_close(model);
}

/* Of each row another. */
static void scales_of_rows(void **state)
{
    (void)state;
    folder f = {.packed = true, .sub_norms = true, .n_scales = 2};
    tern_model *model = hf_open_folder(&f, BITNET SMALL PACKED(AUTO));
    assert_non_null(hf_q_of(model)->row_scales);
    for (int role = TERN_ROLE_ATTN_Q; role <= TERN_ROLE_FFN_DOWN; role++) {
        const tern_weight *w = tern_model_weight(model, (tern_role)role, 0);
        for (uint32_t r = 0; w->row_scales && r < w->rows; r++)
            ((float *)(uintptr_t)w->row_scales)[r] = 0.25f + 0.125f * (float)r;
    }
    come_back(model, true, 1); /* its columns are too few for i2_s */
    tern_model_close(model);
}

/* A model whose down matrix, [16][128], was trained on two devices, each with half of its columns and a magnitude of
 * its own, as numbers; `off` is added to one of them. */
static tern_buf two_devices(float off)
{
    folder f = {.n_embd = 16, .n_ff = 128, .n_kv = 8, .packed = true, .sub_norms = true};
    tern_buf file = {0};
    tern_model *model =
        hf_open_folder(&f, BITNET "\"hidden_size\": 16, \"intermediate_size\": 128, "
                                  "\"num_attention_heads\": 2, \"num_key_value_heads\": 1" PACKED(AUTO));
    const tern_export_options options = {.linear = tern_encoding_by_name("f32")};
    assert_ok(tern_model_write_gguf(model, test_scratch("devices.gguf"), &options, &hf_err), hf_err);
    tern_model_close(model);
    assert_ok(tern_file_read(&file, test_scratch("devices.gguf"), 1 << 20, &hf_err), hf_err);
    assert_ok(tern_model_open_memory(&model, file.data, file.size, NULL, &hf_err), hf_err);
    const tern_weight *down = tern_model_weight(model, TERN_ROLE_FFN_DOWN, 0);
    uint8_t *at = (uint8_t *)file.data + (down->data - (const uint8_t *)file.data);
    for (uint32_t i = 0; i < 16 * 128; i++) {
        const float value = tern_load_f32(at + 4 * i) * (i % 128 < 64 ? 1.0f : 1.5f);
        tern_store_f32(at + 4 * i, i == 2000 ? value + off : value);
    }
    tern_model_close(model);
    return file;
}

static void columns_of_devices(void **state)
{
    (void)state;
    tern_export_report report;
    char clause[TERN_EXPORT_CLAUSE_BYTES];
    tern_model *dense, *back;
    tern_buf file = two_devices(0);
    assert_ok(tern_model_open_memory(&dense, file.data, file.size, NULL, &hf_err), hf_err);
    const tern_export_options options = {.linear = tern_encoding_by_name("t160"), .report = &report};
    assert_ok(tern_model_write_gguf(dense, test_scratch("signs.gguf"), &options, &hf_err), hf_err);
    back = open_model(test_scratch("signs.gguf"));
    assert_int_equal(hf_q_of(back)->encoding->id, TERN_ENC_T160);
    const tern_weight *a = tern_model_weight(dense, TERN_ROLE_FFN_DOWN, 0),
                      *b = tern_model_weight(back, TERN_ROLE_FFN_DOWN, 0);
    assert_int_equal(b->encoding->id, TERN_ENC_Q2_0);
    float *x = values_of(a), *y = values_of(b);
    for (size_t i = 0; i < a->bytes / sizeof *x; i++) assert_float_equal(x[i], y[i], 0);
    free(x);
    free(y);
    assert_int_equal(report.n_fallbacks, 1);
    tern_export_fallback_text(&report.fallbacks[0], clause);
    assert_string_equal(clause, "1 tensor is q2_0 instead of t160: several scales in a row");
    tern_model_close(back);
    tern_model_close(dense);
    tern_buf_deinit(&file);
    file = two_devices(0.5f); /* one number of another size */
    assert_ok(tern_model_open_memory(&dense, file.data, file.size, NULL, &hf_err), hf_err);
    assert_int_equal(tern_model_write_gguf(dense, test_scratch("signs.gguf"), &options, &hf_err), TERN_UNSUPPORTED);
    assert_non_null(strstr(hf_err.message, "blk.0.ffn_down.weight: f32 weights into t160"));
    tern_model_close(dense);
    tern_buf_deinit(&file);
}

/* Files of other programs: blocks of 256 with scales of their own (llama.cpp's of TriLM 3.9B). */
static void blocks_of_devices(void **state)
{
    (void)state;
    static const struct {
        const char *encoding;
        uint32_t type, at;
    } kinds[] = {{"tq2_0", 35, 64}, {"tq1_0", 34, 52}};
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        const micro_change one = {.width = 512, .tensor = "blk.0.ffn_up.weight", .type = kinds[k].type};
        micro_change two = one;
        two.at = kinds[k].at, two.n = 2, two.bytes[1] = 0x40; /* 2.0, of the first 256 columns of row 0 */
        tern_buf same = micro_model(&one), several = micro_model(&two);
        tern_model *a, *b;
        assert_ok(tern_model_open_memory(&a, same.data, same.size, NULL, &hf_err), hf_err);
        assert_ok(tern_model_open_memory(&b, several.data, several.size, NULL, &hf_err), hf_err);
        const tern_weight *up = tern_model_weight(a, TERN_ROLE_FFN_UP, 0),
                          *got = tern_model_weight(b, TERN_ROLE_FFN_UP, 0);
        assert_string_equal(up->encoding->name, kinds[k].encoding);
        assert_int_equal(got->encoding->id, TERN_ENC_Q2_0);
        int8_t *codes = codes_of(up);
        float *values = values_of(got);
        for (uint32_t i = 0; i < up->rows * up->cols; i++)
            assert_float_equal(values[i], (float)codes[i] * (i < 256 ? 2.0f : up->scale), 0);
        free(codes);
        free(values);
        tern_model_close(a);
        tern_model_close(b);
        tern_buf_deinit(&same);
        tern_buf_deinit(&several);
    }
}

/* Scales of 2 and, in another row, of another kind. */
static void blocks_of_wrong_scales(void **state)
{
    (void)state;
    static const uint8_t wrong[] = {0xc0, 0x7c, 0}; /* -2, infinity, 0 */
    for (size_t k = 0; k < sizeof wrong; k++) {
        tern_model *model;
        tern_buf file = micro_model(&(micro_change){
            .width = 512, .tensor = "blk.0.ffn_up.weight", .type = 35, .at = 64, .n = 2, .bytes = {0, 0x40}});
        assert_ok(tern_model_open_memory(&model, file.data, file.size, NULL, &hf_err), hf_err);
        tern_model_close(model);
        uint8_t *bytes = (uint8_t *)file.data;
        size_t at = 0, found = 0; /* the scale of the last block of the tensor, 0.5, beside the codes before it */
        for (size_t i = 0; i + 66 <= file.size && found < 1024; i++)
            if (tern_load_u16(bytes + i) == 0x3800 && ++found) at = i;
        tern_store_u16(bytes + at, (uint16_t)(wrong[k] << 8));
        assert_int_equal(tern_model_open_memory(&model, file.data, file.size, NULL, &hf_err), TERN_MALFORMED);
        assert_non_null(strstr(hf_err.message, "blk.0.ffn_up.weight"));
        tern_buf_deinit(&file);
    }
}

/* Numbers that are not: refused, as before. */
static void others(void **state)
{
    (void)state;
    tern_model *model = open_model(test_fixture("llama"));
    const tern_export_options options = {.linear = tern_encoding_by_name("t160")};
    assert_int_equal(tern_model_write_gguf(model, test_scratch("signs.gguf"), &options, &hf_err), TERN_UNSUPPORTED);
    assert_non_null(strstr(hf_err.message, "the model was not trained for it"));
    tern_model_close(model);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(one_scale),         cmocka_unit_test(scales_of_rows),         cmocka_unit_test(columns_of_devices),
    cmocka_unit_test(blocks_of_devices), cmocka_unit_test(blocks_of_wrong_scales), cmocka_unit_test(others),
};

TEST_GROUP(signs, "", tests);
