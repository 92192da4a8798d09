/* Hugging Face folders: written, read again, and run through what they were made of. */
#include "format/safetensors.h"
#include "model/support.h"
#include "model/write/hf.h"

static tern_error err;

static void check_floats(const tern_model *a, const tern_model *b, tern_role role, uint32_t layer, bool exact)
{
    const tern_weight *w = tern_model_weight(a, role, layer), *v = tern_model_weight(b, role, layer);
    assert_int_equal(v->rows, w->rows);
    assert_int_equal(v->cols, w->cols);
    size_t n = (size_t)w->rows * w->cols;
    float *x = malloc(n * sizeof *x), *y = malloc(n * sizeof *y);
    assert_ok(tern_model_master(a, role, layer, 0, w->rows, x, &err), err);
    assert_ok(tern_model_master(b, role, layer, 0, w->rows, y, &err), err);
    for (size_t i = 0; i < n; i++) {
        float off = x[i] > y[i] ? x[i] - y[i] : y[i] - x[i], most = (x[i] > 0 ? x[i] : -x[i]) / 256;
        if (exact ? memcmp(&x[i], &y[i], sizeof *x) != 0 : !(off <= most))
            fail_msg("%s, element %zu: %.9g, %.9g expected", w->name, i, (double)y[i], (double)x[i]);
    }
    free(x);
    free(y);
}

static void check_config(const tern_config *a, const tern_config *b)
{
    assert_int_equal(a->n_vocab, b->n_vocab);
    assert_int_equal(a->n_embd, b->n_embd);
    assert_int_equal(a->n_layers, b->n_layers);
    assert_int_equal(a->n_heads, b->n_heads);
    assert_int_equal(a->n_kv_heads, b->n_kv_heads);
    assert_int_equal(a->head_dim, b->head_dim);
    assert_int_equal(a->n_ff, b->n_ff);
    assert_int_equal(a->n_ctx_train, b->n_ctx_train);
    assert_int_equal(a->activation, b->activation);
    assert_int_equal(a->bit_linear, b->bit_linear);
    assert_int_equal(a->sub_norms, b->sub_norms);
    assert_int_equal(a->linear_norms, b->linear_norms);
    assert_int_equal(a->tied_head, b->tied_head);
    assert_true(a->rms_eps == b->rms_eps);
    assert_int_equal(a->post_norms, b->post_norms);
    assert_int_equal(a->qk_norm, b->qk_norm);
    assert_int_equal(a->qkv_bias, b->qkv_bias);
    assert_int_equal(a->n_experts, b->n_experts);
    assert_int_equal(a->n_experts_used, b->n_experts_used);
    assert_int_equal(a->route_rule, b->route_rule);
    assert_true(a->ffn_limit == b->ffn_limit);
    assert_int_equal(a->rope[0].truncate, b->rope[0].truncate);
    for (uint32_t i = 0; i < a->n_layers; i++) {
        assert_int_equal(tern_config_layer(a, i).window, tern_config_layer(b, i).window);
        assert_int_equal(tern_config_layer(a, i).rope, tern_config_layer(b, i).rope);
    }
    assert_true(a->score_scale == b->score_scale && a->score_softcap == b->score_softcap);
    assert_true(a->logit_softcap == b->logit_softcap && a->embd_scale == b->embd_scale);
    assert_true(a->residual_scale == b->residual_scale && a->logit_scale == b->logit_scale);
    assert_int_equal(a->plain_period, b->plain_period);
    assert_int_equal(a->rope_dim, b->rope_dim);
    assert_true(a->rope[0].size == b->rope[0].size);
    assert_memory_equal(a->long_factors, b->long_factors, sizeof a->long_factors);
    assert_memory_equal(a->short_factors, b->short_factors, sizeof a->short_factors);
    assert_true(a->rope[1].base == b->rope[1].base);
    float x[256], y[256];
    tern_rope_frequencies(&a->rope[0], a->head_dim, x);
    tern_rope_frequencies(&b->rope[0], b->head_dim, y);
    assert_memory_equal(x, y, a->head_dim / 2 * sizeof *x);
}

static tern_model *through(const tern_model *model, const char *name, bool f32)
{
    tern_master_source source = tern_master_of_model(model);
    const char *dir = test_scratch(name);
    assert_ok(tern_hf_write(dir, tern_model_config(model), tern_model_tokenizer(model), &source,
                            &(tern_hf_options){.f32 = f32}, &err),
              err);
    tern_model *back = open_model(dir);
    check_config(tern_model_config(model), tern_model_config(back));
    return back;
}

static void check_masters(const char *path)
{
    tern_model *model = open_model(path), *back = through(model, "hf-masters", false);
    for (uint32_t layer = 0; layer < 2; layer++)
        for (int role = 0; role < TERN_ROLE_COUNT; role++)
            if (tern_model_weight(model, (tern_role)role, layer)->encoding)
                check_floats(model, back, (tern_role)role, layer, true);
    const tern_encoding *e = tern_model_weight(model, TERN_ROLE_ATTN_Q, 1)->encoding; /* NULL: the layer recurs */
    if (e && e->ternary)
        assert_same_codes(tern_model_weight(model, TERN_ROLE_ATTN_Q, 1), tern_model_weight(back, TERN_ROLE_ATTN_Q, 1));
    tern_model_close(model);
    tern_model_close(back);
}

/* bf16 masters come out as they went in, so the ternary weights are the same as well; MXFP4 fits into bf16. */
static void test_masters(void **state)
{
    (void)state;
    const char *const fixtures[] = {"bitnet",  "bitnet-train", "llama",       "gemma2",     "gemma3", "mixtral",
                                    "gpt-oss", "qwen3_5",      "qwen3_5_moe", "qwen3_next", NULL};
    for (const char *const *name = fixtures; *name; name++) check_masters(test_fixture(*name));
    for (const char *const *name = test_made_families; *name; name++) check_masters(test_made(*name));
    for (const char *const *name = test_made_experts; *name; name++) check_masters(test_made(*name));
    for (const char *const *name = test_made_ternary; *name; name++) check_masters(test_made(*name));
}

/* Biases of Q and K go the way of their rows, to a GGUF file and back. */
static void test_adjacent_biases(void **state)
{
    (void)state;
    tern_model *model = open_model(test_made("llama-biases"));
    const char *path = test_scratch("write-biases.gguf");
    assert_ok(tern_model_write_gguf(model, path, NULL, &err), err);
    tern_model *gguf = open_model(path);
    tern_config config = *tern_model_config(gguf);
    assert_true(config.rope_adjacent && config.qkv_bias && config.o_bias);
    const float *halves = (const float *)(const void *)tern_model_weight(model, TERN_ROLE_ATTN_Q_BIAS, 1)->data;
    const float *pairs = (const float *)(const void *)tern_model_weight(gguf, TERN_ROLE_ATTN_Q_BIAS, 1)->data;
    assert_true(pairs[0] == halves[0] && pairs[1] == halves[config.head_dim / 2] && pairs[2] == halves[1]);
    tern_model *back = through(gguf, "hf-biases", true);
    for (int role = 0; role < TERN_ROLE_COUNT; role++)
        if (tern_model_weight(model, (tern_role)role, 1)->encoding) check_floats(model, back, (tern_role)role, 1, true);
    config.o_bias = false;
    tern_master_source source = tern_master_of_model(gguf);
    assert_int_equal(tern_hf_write(test_scratch("hf-biases"), &config, NULL, &source, NULL, &err), TERN_UNSUPPORTED);
    assert_non_null(
        strstr(err.message, "biases of q, k and v alone found: LlamaForCausalLM expects those of q, k, v and o"));
    tern_model_close(model);
    tern_model_close(gguf);
    tern_model_close(back);
}

/* A GGUF file of llama has its Q and K rows as adjacent pairs: the folder has them as split halves again. */
static void test_adjacent(void **state)
{
    (void)state;
    tern_model *model = open_model(test_fixture("llama"));
    const char *path = test_scratch("write-hf.gguf");
    assert_ok(tern_model_write_gguf(model, path, NULL, &err), err);
    tern_model *gguf = open_model(path), *back = through(model, "hf-plain", false);
    assert_true(tern_model_config(gguf)->rope_adjacent);
    tern_config config = *tern_model_config(gguf);
    config.rope[0].scaling = TERN_ROPE_PLAIN; /* the frequencies of a GGUF file are one by one */
    config.rope[0].factors = NULL;
    tern_master_source source = tern_master_of_model(gguf);
    assert_int_equal(tern_hf_write(test_scratch("hf-adjacent"), tern_model_config(gguf), NULL, &source, NULL, &err),
                     TERN_UNSUPPORTED);
    assert_non_null(strstr(err.message, "frequencies"));
    assert_ok(tern_hf_write(test_scratch("hf-adjacent"), &config, NULL, &source, &(tern_hf_options){.f32 = true}, &err),
              err);
    tern_model *halves = open_model(test_scratch("hf-adjacent"));
    for (int role = 0; role < TERN_ROLE_COUNT; role++)
        if (tern_model_weight(model, (tern_role)role, 1)->encoding)
            check_floats(back, halves, (tern_role)role, 1, true);
    tern_model_close(model);
    tern_model_close(gguf);
    tern_model_close(back);
    tern_model_close(halves);
}

/* F32 values that bf16 does not hold: as they are, and rounded. */
static tern_status odd(void *context, tern_role role, uint32_t layer, uint32_t first, uint32_t n, float *out,
                       tern_error *e)
{
    TERN_TRY(tern_model_master(context, role, layer, first, n, out, e));
    uint32_t cols = tern_model_weight(context, role, layer)->cols;
    for (size_t i = 0; i < (size_t)n * cols; i++) out[i] *= 1.0001f;
    return TERN_OK;
}

static void test_source(void **state)
{
    (void)state;
    tern_model *model = open_model(test_fixture("bitnet"));
    tern_master_source source = {odd, model};
    assert_ok(tern_hf_write(test_scratch("hf-odd"), tern_model_config(model), NULL, &source,
                            &(tern_hf_options){.f32 = true}, &err),
              err);
    tern_model *back = open_model(test_scratch("hf-odd"));
    float x[256], y[256];
    assert_ok(tern_model_master(model, TERN_ROLE_FFN_UP, 2, 7, 1, x, &err), err);
    assert_ok(tern_model_master(back, TERN_ROLE_FFN_UP, 2, 7, 1, y, &err), err);
    for (int i = 0; i < 256; i++) assert_true(y[i] == x[i] * 1.0001f);
    tern_model_close(back);
    assert_ok(tern_hf_write(test_scratch("hf-odd"), tern_model_config(model), NULL, &source, NULL, &err), err);
    back = open_model(test_scratch("hf-odd"));
    check_floats(model, back, TERN_ROLE_FFN_UP, 2, false);
    tern_model_close(back);
    tern_model_close(model);
    tern_st_tensor tensor = {.name = "a", .dtype = TERN_ST_F32, .n_dims = 1, .dims = {2}, .n_elements = 2, .bytes = 8};
    tern_safetensors_writer w;
    assert_ok(tern_safetensors_writer_open(&w, test_scratch("short.safetensors"), &tensor, 1, NULL, &err), err);
    tern_safetensors_writer_add(&w, "1234", 4);
    assert_int_equal(tern_safetensors_writer_commit(&w, &err), TERN_INVALID_ARGUMENT);
    tern_safetensors_writer_abort(&w);
}

static const struct CMUnitTest tests[] = {cmocka_unit_test(test_masters), cmocka_unit_test(test_adjacent),
                                          cmocka_unit_test(test_adjacent_biases), cmocka_unit_test(test_source)};

TEST_GROUP(write_hf, "", tests);
