/* Dense matrices whose numbers are ternary already go into ternary encodings as they are. */
#include "model/hf_cases.h"

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
    cmocka_unit_test(one_scale),
    cmocka_unit_test(scales_of_rows),
    cmocka_unit_test(others),
};

TEST_GROUP(signs, "", tests);
