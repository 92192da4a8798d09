/* Writing models as GGUF: what is read back is what was written. */
#include <math.h>

#include "base/file.h"
#include "base/half.h"
#include "format/gguf.h"
#include "model/support.h"

static void write_model(const tern_model *model, const char *path, const tern_export_options *options)
{
    tern_error err = {0};
    assert_ok(tern_model_write_gguf(model, path, options, &err), err);
}

static void assert_same_config(const tern_config *a, const tern_config *b)
{
    assert_string_equal(a->architecture, b->architecture);
    assert_string_equal(a->name, b->name);
    const uint32_t x[] = {a->n_vocab,    a->n_embd,   a->n_layers, a->n_heads,
                          a->n_kv_heads, a->head_dim, a->n_ff,     a->n_ctx_train};
    const uint32_t y[] = {b->n_vocab,    b->n_embd,   b->n_layers, b->n_heads,
                          b->n_kv_heads, b->head_dim, b->n_ff,     b->n_ctx_train};
    assert_memory_equal(x, y, sizeof x);
    assert_float_equal(a->rms_eps, b->rms_eps, 0);
    assert_float_equal(a->rope[0].base, b->rope[0].base, 0);
    assert_int_equal(a->activation, b->activation);
    assert_int_equal(a->sub_norms, b->sub_norms);
    assert_int_equal(a->tied_head, b->tied_head);
}

static void assert_same_dense(const tern_weight *a, const tern_weight *b)
{
    float *x = values_of(a), *y = values_of(b);
    assert_memory_equal(x, y, (size_t)a->rows * a->cols * sizeof *x);
    free(x);
    free(y);
}

static void assert_same_weights(const tern_model *a, const tern_model *b)
{
    for (uint32_t layer = 0; layer < tern_model_config(a)->n_layers; layer++) {
        for (int role = 0; role < TERN_ROLE_COUNT; role++) {
            const tern_weight *x = tern_model_weight(a, (tern_role)role, layer);
            const tern_weight *y = tern_model_weight(b, (tern_role)role, layer);
            assert_int_equal(!x->encoding, !y->encoding);
            if (!x->encoding) continue;
            if (!x->encoding->ternary) {
                assert_same_dense(x, y);
                continue;
            }
            assert_same_codes(x, y);
            assert_null(y->row_scales);
            assert_float_equal(x->scale, y->scale, 0);
        }
    }
}

static void round_trip(const char *from, const char *encoding)
{
    char name[64];
    snprintf(name, sizeof name, "export-%s.gguf", encoding);
    const char *path = test_scratch(name);
    tern_model *model = open_model(from);
    tern_export_options options = {.linear = tern_encoding_by_name(encoding)};
    write_model(model, path, &options);
    tern_model *back = open_model(path);
    assert_same_config(tern_model_config(model), tern_model_config(back));
    assert_same_weights(model, back);
    const tern_weight *q = tern_model_weight(back, TERN_ROLE_ATTN_Q, 0);
    assert_string_equal(q->encoding->name, encoding);
    assert_true(q->mapped);
    assert_int_equal(tern_model_parameters(model), tern_model_parameters(back));
    tern_model_close(back);
    tern_model_close(model);
}

static void ternary_round_trips(void **state)
{
    (void)state;
    static const char *const encodings[] = {"i2_s", "tq1_0", "tq2_0", "t160"};
    for (size_t i = 0; i < 4; i++) {
        round_trip(test_fixture("bitnet"), encodings[i]);
        round_trip(test_fixture("bitnet-packed"), encodings[i]);
        round_trip(test_model("tiny-stories-bitnet"), encodings[i]);
    }
}

static void metadata(void **state)
{
    (void)state;
    tern_error err = {0};
    tern_model *model = open_model(test_fixture("bitnet"));
    const char *path = test_scratch("export-metadata.gguf");
    write_model(model, path, NULL);
    tern_model_close(model);
    tern_file_map map;
    tern_gguf *g = NULL;
    assert_ok(tern_file_map_open(&map, path, &err), err);
    assert_ok(tern_gguf_parse(&g, map.data, map.size, &err), err);
    uint32_t file_type = 0, heads = 0;
    assert_ok(tern_gguf_get_u32(g, "general.file_type", &file_type, &err), err);
    assert_ok(tern_gguf_get_u32(g, "bitnet-b1.58.attention.head_count_kv", &heads, &err), err);
    tern_span words = {0}; /* without a tokenizer: what llama.cpp asks for, which Tern reads as none */
    assert_ok(tern_gguf_get_string(g, "tokenizer.ggml.model", &words, &err), err);
    assert_int_equal(words.size, 8);
    assert_memory_equal(words.data, "no_vocab", 8);
    assert_ok(tern_model_open(&model, path, NULL, &err), err);
    assert_null(tern_model_tokenizer(model));
    tern_model_close(model);
    assert_int_equal(file_type, 40);
    assert_int_equal(heads, 2);
    const tern_gguf_tensor *t = tern_gguf_find_tensor(g, "blk.2.ffn_down.weight");
    assert_int_equal(t->type, 36);
    assert_int_equal(t->dims[0], 512);
    assert_int_equal(t->dims[1], 256);
    assert_int_equal(t->bytes, 512 * 256 / 4 + 32);
    assert_null(tern_gguf_find_tensor(g, "output.weight"));
    assert_int_equal(tern_gguf_find_tensor(g, "blk.0.attn_sub_norm.weight")->n_dims, 1);
    tern_gguf_close(g);
    tern_file_map_close(&map);
}

static void same_bytes_twice(void **state)
{
    (void)state;
    tern_error err = {0};
    tern_model *model = open_model(test_model("tiny-stories-bitnet"));
    tern_export_options options = {.linear = tern_encoding_by_name("t160"), .head = tern_encoding_by_name("q6_k")};
    tern_buf bytes[2] = {0};
    for (int i = 0; i < 2; i++) {
        write_model(model, test_scratch("export-twice.gguf"), &options);
        assert_ok(tern_file_read(&bytes[i], test_scratch("export-twice.gguf"), 1 << 26, &err), err);
    }
    assert_int_equal(bytes[0].size, bytes[1].size);
    assert_memory_equal(bytes[0].data, bytes[1].data, bytes[0].size);
    tern_buf_deinit(&bytes[0]);
    tern_buf_deinit(&bytes[1]);
    tern_model_close(model);
}

/* GGUF's llama architecture rotates adjacent pairs: row 2i + j of a head is row i + j * head_dim / 2 of the HF matrix.
 */
static void llama_is_permuted(void **state)
{
    (void)state;
    const char *path = test_scratch("export-llama.gguf");
    tern_model *model = open_model(test_fixture("llama"));
    write_model(model, path, NULL);
    tern_model *back = open_model(path);
    assert_same_config(tern_model_config(model), tern_model_config(back));
    assert_false(tern_model_config(model)->rope_adjacent);
    assert_true(tern_model_config(back)->rope_adjacent);
    const tern_weight *x = tern_model_weight(model, TERN_ROLE_ATTN_K, 1),
                      *y = tern_model_weight(back, TERN_ROLE_ATTN_K, 1);
    float *a = values_of(x), *b = values_of(y);
    for (size_t head = 0; head < 2; head++)
        for (size_t pair = 0; pair < 32; pair++)
            for (size_t half = 0; half < 2; half++)
                assert_memory_equal(b + (head * 64 + pair * 2 + half) * 256, a + (head * 64 + half * 32 + pair) * 256,
                                    1024);
    free(a);
    free(b);
    assert_same_dense(tern_model_weight(model, TERN_ROLE_ATTN_V, 1), tern_model_weight(back, TERN_ROLE_ATTN_V, 1));
    tern_model_close(back);
    tern_model_close(model);
}

/* A second writing, from GGUF, must not permute again, and keeps the RoPE factors. */
static void gguf_to_gguf_is_the_same(void **state)
{
    (void)state;
    const char *first = test_scratch("export-again-1.gguf"), *second = test_scratch("export-again-2.gguf");
    tern_model *model = open_model(test_fixture("llama"));
    write_model(model, first, NULL);
    tern_model *once = open_model(first);
    write_model(once, second, NULL);
    tern_error err = {0};
    tern_buf a = {0}, b = {0};
    assert_ok(tern_file_read(&a, first, 1 << 26, &err), err);
    assert_ok(tern_file_read(&b, second, 1 << 26, &err), err);
    assert_int_equal(a.size, b.size);
    assert_memory_equal(a.data, b.data, a.size);
    tern_buf_deinit(&a);
    tern_buf_deinit(&b);
    tern_model_close(once);
    tern_model_close(model);
}

static void rope_factors_come_back(void **state)
{
    (void)state;
    const char *path = test_scratch("export-rope.gguf");
    tern_model *model = open_model(test_fixture("llama"));
    write_model(model, path, NULL);
    tern_model *back = open_model(path);
    float a[32], b[32];
    tern_rope_frequencies(&tern_model_config(model)->rope[0], tern_model_config(model)->head_dim, a);
    tern_rope_frequencies(&tern_model_config(back)->rope[0], tern_model_config(back)->head_dim, b);
    for (int i = 0; i < 32; i++) assert_true(fabsf(a[i] - b[i]) <= a[i] * 0x1p-22f);
    /* Meta's rule in double precision: kept, three blended ones, slowed by 8. */
    const float want[] = {1.0f, 0.543540662f, 0.214667358f, 0.0781481555f, 0.0242403431f, 0.0160859217f};
    for (int i = 0; i < 6; i++) assert_true(fabsf(a[i] - want[i]) <= want[i] * 1e-6f);
    assert_true(fabsf(a[31] - 3.76732269e-07f) <= 4e-13f);
    assert_null(tern_model_config(model)->rope[0].factors);
    assert_non_null(tern_model_config(back)->rope[0].factors);
    tern_model_close(back);
    tern_model_close(model);
}

static void ternary_to_dense(void **state)
{
    (void)state;
    const char *path = test_scratch("export-f16.gguf");
    tern_model *model = open_model(test_fixture("bitnet"));
    tern_export_options options = {.linear = tern_encoding_by_name("f16"), .head = tern_encoding_by_name("f32")};
    write_model(model, path, &options);
    tern_model *back = open_model(path);
    const tern_weight *w = tern_model_weight(model, TERN_ROLE_FFN_UP, 0),
                      *v = tern_model_weight(back, TERN_ROLE_FFN_UP, 0);
    int8_t *codes = codes_of(w);
    float *values = values_of(v);
    float scale = tern_f16_to_f32(tern_f32_to_f16(w->scale));
    for (size_t i = 0; i < (size_t)w->rows * w->cols; i++) assert_true(values[i] == (float)codes[i] * scale);
    free(codes);
    free(values);
    assert_int_equal(tern_model_weight(back, TERN_ROLE_OUTPUT, 0)->encoding->id, TERN_ENC_F32);
    assert_same_dense(tern_model_weight(model, TERN_ROLE_OUTPUT, 0), tern_model_weight(back, TERN_ROLE_OUTPUT, 0));
    tern_model_close(back);
    tern_model_close(model);
}

static void assert_refused(const char *from, const tern_export_options *options, tern_status code, const char *words)
{
    tern_error err = {0};
    const char *path = test_scratch("export-refused.gguf");
    tern_model *model = open_model(from);
    assert_int_equal(tern_model_write_gguf(model, path, options, &err), code);
    if (!strstr(err.message, words)) fail_msg("'%s' is not in '%s'", words, err.message);
    assert_false(tern_file_exists(path));
    tern_model_close(model);
}

static bool cancel(void *context, float done)
{
    (void)context;
    return done < 0.5f;
}

static void refusals(void **state)
{
    (void)state;
    remove(test_scratch("export-refused.gguf"));
    const tern_export_options i2_s = {.linear = tern_encoding_by_name("i2_s")};
    const tern_export_options head = {.head = tern_encoding_by_name("tq1_0")};
    const tern_export_options blocks = {.linear = tern_encoding_by_name("tq2_0")};
    const tern_export_options cancelled = {.progress = cancel};
    assert_refused(test_fixture("llama"), &i2_s, TERN_UNSUPPORTED,
                   "q_proj.weight: bf16 weights into i2_s: the model was not trained");
    assert_refused(test_fixture("bitnet"), &head, TERN_INVALID_ARGUMENT, "model.embed_tokens.weight: tq1_0 found");
    assert_refused(test_fixture("bitnet-train"), &blocks, TERN_INVALID_ARGUMENT, "t160 takes any shape");
    assert_refused(test_fixture("bitnet"), &cancelled, TERN_CANCELLED, "cancelled");
}

/* With `force` a dense model is ternarised by the mean magnitude, in each of the encodings to the same numbers. */
static void forced(void **state)
{
    (void)state;
    static const char *const encodings[] = {"i2_s", "tq2_0"};
    tern_model *model = open_model(test_fixture("llama")), *back[2];
    for (int i = 0; i < 2; i++) {
        const char *path = test_scratch(i ? "export-forced-1.gguf" : "export-forced-0.gguf");
        tern_export_options options = {.linear = tern_encoding_by_name(encodings[i]), .force = true};
        write_model(model, path, &options);
        back[i] = open_model(path);
    }
    assert_same_weights(back[0], back[1]);
    const tern_weight *w = tern_model_weight(model, TERN_ROLE_FFN_DOWN, 2);
    float *values = values_of(w);
    double sum = 0;
    for (size_t i = 0; i < (size_t)w->rows * w->cols; i++) sum += fabs((double)values[i]);
    float mean = (float)(sum / w->rows / w->cols);
    assert_true(fabsf(tern_model_weight(back[0], TERN_ROLE_FFN_DOWN, 2)->scale - mean) <= mean * 1e-6f);
    free(values);
    for (int i = 0; i < 2; i++) tern_model_close(back[i]);
    tern_model_close(model);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(ternary_round_trips),
    cmocka_unit_test(metadata),
    cmocka_unit_test(same_bytes_twice),
    cmocka_unit_test(llama_is_permuted),
    cmocka_unit_test(gguf_to_gguf_is_the_same),
    cmocka_unit_test(rope_factors_come_back),
    cmocka_unit_test(ternary_to_dense),
    cmocka_unit_test(refusals),
    cmocka_unit_test(forced),
};

TEST_GROUP(export, "", tests);
