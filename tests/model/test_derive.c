/* Models with other weights: in memory, and as Hugging Face folders. */
#include "model/derive.h"

#include <math.h>

#include "model/support.h"
#include "support/converted.h"
#include "text/tokenizer/tokenizer.h"

static void assert_same_config(const tern_config *a, const tern_config *b)
{
    assert_string_equal(a->architecture, b->architecture);
    const uint32_t x[] = {a->n_vocab,    a->n_embd,   a->n_layers, a->n_heads,
                          a->n_kv_heads, a->head_dim, a->n_ff,     a->n_ctx_train};
    const uint32_t y[] = {b->n_vocab,    b->n_embd,   b->n_layers, b->n_heads,
                          b->n_kv_heads, b->head_dim, b->n_ff,     b->n_ctx_train};
    assert_memory_equal(x, y, sizeof x);
    assert_true(a->rms_eps == b->rms_eps && a->rope[0].base == b->rope[0].base &&
                a->rope[0].factor == b->rope[0].factor);
    assert_true(a->rope[0].scaling == b->rope[0].scaling && a->rope[0].original_ctx == b->rope[0].original_ctx);
    assert_true(a->activation == b->activation && a->sub_norms == b->sub_norms && a->tied_head == b->tied_head);
    assert_true(a->bit_linear == b->bit_linear);
}

static bool has_none(const void *context, tern_role role, uint32_t layer)
{
    (void)context;
    (void)role;
    (void)layer;
    return false;
}

/* A GGUF model has no masters: its folder is the same model again, scales within bf16's rounding. */
static void a_ternary_model_keeps_its_scales(void **state)
{
    static const tern_hf_options f32 = {.f32 = true};
    static const tern_derivation nothing = {.has = has_none};
    (void)state;
    tern_error err = {0};
    const char *dir = test_scratch("derived-bundled"), *text = "Once upon a time, there was a naïve cat.\n 12";
    tern_model *model = open_model(test_small_model());
    tern_derived_masters masters = {model, &nothing};
    const tern_master_source source = tern_derived_source(&masters);
    assert_ok(tern_hf_write(dir, tern_model_config(model), tern_model_tokenizer(model), &source, &f32, &err), err);
    tern_model *back = open_model(dir);
    assert_same_config(tern_model_config(model), tern_model_config(back));
    int n_compared = 0;
    for (int role = TERN_ROLE_ATTN_Q; role < TERN_ROLE_COUNT; role++) {
        if (!tern_role_is_linear((tern_role)role)) continue;
        const tern_weight *x = tern_model_weight(model, (tern_role)role, 3),
                          *y = tern_model_weight(back, (tern_role)role, 3);
        assert_int_equal(!x->encoding, !y->encoding);
        if (!x->encoding) continue; /* a role of other architectures */
        n_compared++;
        assert_same_codes(x, y);
        if (!(fabsf(x->scale - y->scale) <= 1e-5f * x->scale)) fail_msg("%s: %g, %g", x->name, x->scale, y->scale);
    }
    assert_int_equal(n_compared, 7);
    tern_tokens a = {0}, b = {0};
    assert_ok(tern_tokenize(tern_model_tokenizer(model), text, strlen(text), true, &a, &err), err);
    assert_ok(tern_tokenize(tern_model_tokenizer(back), text, strlen(text), true, &b, &err), err);
    assert_int_equal(a.n, b.n);
    assert_memory_equal(a.ids, b.ids, a.n * sizeof *a.ids);
    assert_int_equal(tern_tokenizer_bos(tern_model_tokenizer(model)), tern_tokenizer_bos(tern_model_tokenizer(back)));
    tern_tokens_deinit(&a);
    tern_tokens_deinit(&b);
    tern_model_close(back);
    tern_model_close(model);
}

/* Gives ATTN_Q of layer 1 and the embedding table, as the function of their place. */
static float value_of(size_t i)
{
    return (float)((double)(i * 2654435761u % 1000) / 500 - 1);
}

static bool has_two(const void *context, tern_role role, uint32_t layer)
{
    (void)context;
    return role == TERN_ROLE_TOKEN_EMBD || (role == TERN_ROLE_ATTN_Q && layer == 1);
}

static tern_status give(void *context, tern_role role, uint32_t layer, uint32_t first, uint32_t n, float *out,
                        tern_error *err)
{
    const tern_weight *w = tern_model_weight(context, role, layer);
    (void)err;
    for (size_t i = 0; i < (size_t)n * w->cols; i++) out[i] = value_of((size_t)first * w->cols + i);
    return TERN_OK;
}

static void given_weights_take_their_place(void **state)
{
    (void)state;
    for (int by_threshold = 0; by_threshold < 2; by_threshold++) {
        tern_error err = {0};
        tern_model *base = open_model(test_fixture("bitnet")), *model;
        const tern_master_source source = {give, base};
        const tern_derivation how = {.has = has_two, .source = &source, .threshold = by_threshold ? 0.9f : 0};
        assert_ok(tern_model_derive(&model, base, &how, &err), err);
        assert_true(tern_model_parameters(model) == tern_model_parameters(base));
        const tern_weight *q = tern_model_weight(model, TERN_ROLE_ATTN_Q, 1);
        const size_t n = (size_t)q->rows * q->cols;
        int8_t *codes = codes_of(q);
        double mean = 0;
        for (size_t i = 0; i < n; i++) mean += fabs((double)value_of(i));
        mean /= (double)n;
        assert_true(fabs((double)q->scale - mean) < 1e-6);
        for (size_t i = 0; i < n; i++) {
            const double limit = (by_threshold ? 0.9 : 0.5) * mean, v = (double)value_of(i);
            if (fabs(fabs(v) - limit) > 1e-4) assert_int_equal(codes[i], (v > limit) - (v < -limit));
        }
        free(codes);
        float *table = values_of(tern_model_weight(model, TERN_ROLE_TOKEN_EMBD, 0));
        for (size_t i = 0; i < 1000; i++) assert_true(fabsf(table[i] - value_of(i)) <= 1.0f / 256);
        free(table);
        assert_same_codes(tern_model_weight(base, TERN_ROLE_ATTN_Q, 0), tern_model_weight(model, TERN_ROLE_ATTN_Q, 0));
        assert_ok(tern_model_write_gguf(model, test_scratch("derived.gguf"), NULL, &err), err);
        tern_model *back = open_model(test_scratch("derived.gguf"));
        assert_same_codes(q, tern_model_weight(back, TERN_ROLE_ATTN_Q, 1));
        tern_model_close(back);
        tern_model_close(model);
        tern_model_close(base);
    }
}

static tern_status give_nan(void *context, tern_role role, uint32_t layer, uint32_t first, uint32_t n, float *out,
                            tern_error *err)
{
    TERN_TRY(give(context, role, layer, first, n, out, err));
    if (role == TERN_ROLE_FFN_UP) out[7] = NAN;
    return TERN_OK;
}

static void what_is_not_finite_is_refused(void **state)
{
    (void)state;
    tern_error err = {0};
    tern_model *base = open_model(test_fixture("bitnet")), *model;
    const tern_master_source source = {give_nan, base};
    const tern_derivation how = {.source = &source};
    assert_int_equal(tern_model_derive(&model, base, &how, &err), TERN_INVALID_ARGUMENT);
    assert_null(model);
    assert_non_null(strstr(err.message, "model.layers.0.mlp.up_proj.weight: element 7 is nan"));
    tern_model_close(base);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(a_ternary_model_keeps_its_scales),
    cmocka_unit_test(given_weights_take_their_place),
    cmocka_unit_test(what_is_not_finite_is_refused),
};

TEST_GROUP(derive, "", tests);
