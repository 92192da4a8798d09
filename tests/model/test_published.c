/* Configurations as they were published (tests/data/configs): what is read of them, and folders of cut-down shapes. */
#include <math.h>

#include "base/alloc.h"
#include "format/gguf.h"
#include "model/hf_cases.h"
#include "model/model_internal.h"
#include "model/synth/internal.h"
#include "support/places.h"

/* n_embd, n_layers, n_heads, n_kv_heads, head_dim, n_ff, n_vocab, n_ctx_train */
#define SHAPE(embd, layers, heads, kv, dim, ff, vocab, ctx)                                                            \
    .n_embd = embd, .n_layers = layers, .n_heads = heads, .n_kv_heads = kv, .head_dim = dim, .n_ff = ff,               \
    .n_vocab = vocab, .n_ctx_train = ctx
#define LINEAR8 .rope[0] = {.base = 1e6f, .scaling = TERN_ROPE_LINEAR, .factor = 8.0f}, .rope[1] = {.base = 1e4f}
#define GEMMA3_OF(positions)                                                                                           \
    .architecture = "gemma3", .rms_eps = 1e-6f, .activation = TERN_ACT_GELU, .tied_head = true, .qk_norm = true,       \
    .post_norms = true, .window = positions, .full_period = 6
#define GEMMA3 GEMMA3_OF(1024), LINEAR8
#define GEMMA2                                                                                                         \
    .architecture = "gemma2", .rms_eps = 1e-6f, .activation = TERN_ACT_GELU, .tied_head = true, .post_norms = true,    \
    .window = 4096, .full_period = 2, .score_softcap = 50, .logit_softcap = 30, .rope[0].base = 1e4f

typedef struct published {
    const char *file;
    bool bitnet; /* packed ternary layers whose scales divide: quant_method "bitnet" alone */
    tern_config config;
} published;

static const published rows[] = {
    {"falcon3-10b-1.58bit",
     true,
     {.architecture = "llama",
      .rms_eps = 1e-6f,
      .activation = TERN_ACT_SILU,
      .rope[0].base = 1000042.0f,
      SHAPE(3072, 40, 12, 4, 256, 23040, 131072, 32768)}},
    {"falcon3-7b-1.58bit",
     true,
     {.architecture = "llama",
      .rms_eps = 1e-6f,
      .activation = TERN_ACT_SILU,
      .rope[0].base = 1000042.0f,
      SHAPE(3072, 28, 12, 4, 256, 23040, 131072, 8192)}},
    {"falcon-e-1b",
     true,
     {.architecture = "llama",
      .rms_eps = 1e-5f,
      .activation = TERN_ACT_SILU,
      .rope[0].base = 1e6f,
      SHAPE(2048, 24, 16, 2, 128, 9216, 32768, 32768)}},
    {"llama3-8b-1.58",
     true,
     {.architecture = "llama",
      .rms_eps = 1e-5f,
      .activation = TERN_ACT_SILU,
      .rope[0].base = 5e5f,
      SHAPE(4096, 32, 32, 8, 128, 14336, 128256, 8192)}},
    {"trilm-3.9b",
     false,
     {.architecture = "llama",
      .rms_eps = 1e-5f,
      .activation = TERN_ACT_SILU,
      .rope[0].base = 1e4f,
      SHAPE(3072, 30, 24, 24, 128, 9216, 50688, 2048)}},
    {"smollm2-360m",
     false,
     {.architecture = "llama",
      .rms_eps = 1e-5f,
      .activation = TERN_ACT_SILU,
      .tied_head = true,
      .rope[0].base = 1e5f,
      SHAPE(960, 32, 15, 5, 64, 2560, 49153, 8192)}},
    {"smollm3-3b",
     false,
     {.architecture = "smollm3",
      .rms_eps = 1e-6f,
      .activation = TERN_ACT_SILU,
      .tied_head = true,
      .plain_period = 4,
      .rope[0].base = 5e6f,
      SHAPE(2048, 36, 16, 4, 128, 11008, 128256, 65536)}},
    {"granite-3.2-8b",
     false,
     {.architecture = "granite",
      .rms_eps = 1e-5f,
      .activation = TERN_ACT_SILU,
      .tied_head = true,
      .score_scale = 0.0078125f,
      .embd_scale = 12.0f,
      .residual_scale = 0.22f,
      .logit_scale = 16.0f,
      .rope[0].base = 1e7f,
      SHAPE(4096, 40, 32, 8, 128, 12800, 49155, 131072)}},
    {"phi-4-mini",
     false,
     {.architecture = "phi3",
      .rms_eps = 1e-5f,
      .activation = TERN_ACT_SILU,
      .tied_head = true,
      .rope_dim = 96,
      .window = 262144,
      /* sqrt(1 + ln(131072 / 4096) / ln(4096)) */
      .rope[0] = {.base = 1e4f, .scaling = TERN_ROPE_LONG, .original_ctx = 4096, .size = 1.1902380714f},
      SHAPE(3072, 32, 24, 8, 128, 8192, 200064, 131072)}},
    {"qwen2.5-0.5b",
     false,
     {.architecture = "qwen2",
      .rms_eps = 1e-6f,
      .activation = TERN_ACT_SILU,
      .tied_head = true,
      .qkv_bias = true,
      .rope[0].base = 1e6f,
      SHAPE(896, 24, 14, 2, 64, 4864, 151936, 32768)}},
    {"qwen2.5-14b",
     false,
     {.architecture = "qwen2",
      .rms_eps = 1e-5f,
      .activation = TERN_ACT_SILU,
      .qkv_bias = true,
      .rope[0].base = 1e6f,
      SHAPE(5120, 48, 40, 8, 128, 13824, 152064, 32768)}},
    {"gemma2-2b", false, {GEMMA2, .embd_scale = 48.0f, SHAPE(2304, 26, 8, 4, 256, 9216, 256000, 8192)}},
    {"gemma2-9b", false, {GEMMA2, .embd_scale = 59.86651819f, SHAPE(3584, 42, 16, 8, 256, 14336, 256000, 8192)}},
    {"gemma3-1b",
     false,
     {GEMMA3_OF(512), .embd_scale = 33.94112550f, .rope[0].base = 1e6f, .rope[1].base = 1e4f,
      SHAPE(1152, 26, 4, 1, 256, 6912, 262144, 32768)}},
    {"gemma3-4b", false, {GEMMA3, .embd_scale = 50.59644256f, SHAPE(2560, 34, 8, 4, 256, 10240, 262208, 131072)}},
    {"gemma3-12b-text",
     false,
     {GEMMA3, .embd_scale = 61.96773354f, SHAPE(3840, 48, 16, 8, 256, 15360, 262208, 131072)}},
    {"gemma3-27b",
     false,
     {GEMMA3, .embd_scale = 73.32121112f, .score_scale = 0.0771516750f,
      SHAPE(5376, 62, 32, 16, 128, 21504, 262208, 131072)}},
    {"maple-20b-a1b",
     false,
     {.architecture = "maple",
      .rms_eps = 1e-6f,
      .activation = TERN_ACT_SWIGLU_CLAMPED,
      .ffn_limit = 7.0f,
      .qk_norm = true,
      .window = 512,
      .full_period = 4,
      .plain_period = 4,
      .rope_dim = 64,
      .rope[0].base = 1e4f,
      .n_experts = 256,
      .n_experts_used = 8,
      .route_rule = TERN_ROUTE_SOFTMAX_ALL_NORMED,
      SHAPE(2048, 24, 16, 4, 128, 512, 151936, 131072)}},
};

static tern_buf text_of(const char *name)
{
    char path[512];
    tern_buf text = {0};
    snprintf(path, sizeof path, "%s/tests/data/configs/%s.json", TERN_SOURCE_DIR, name);
    assert_ok(tern_file_read(&text, path, 1 << 20, &hf_err), hf_err);
    return text;
}

static json_t *document_of(const char *name)
{
    json_t *root = NULL;
    tern_buf text = text_of(name);
    assert_ok(tern_json_parse_last(&root, text.data, text.size, name, &hf_err), hf_err);
    tern_buf_deinit(&text);
    return root;
}

static void same_number(const char *file, const char *what, double found, double wanted)
{
    if (!(fabs(found - wanted) <= 1e-6 * fabs(wanted))) fail_msg("%s: %s %g, %g expected", file, what, found, wanted);
}

#define SAME(field) same_number(p->file, #field, (double)c->field, (double)w->field)

static void check_shapes(const published *p, const tern_config *c, const tern_config *w)
{
    SAME(n_embd);
    SAME(n_layers);
    SAME(n_heads);
    SAME(n_kv_heads);
    SAME(head_dim);
    SAME(n_ff);
    SAME(n_vocab);
    SAME(n_ctx_train);
}

static void check_rest(const published *p, const tern_config *c, const tern_config *w)
{
    SAME(rms_eps);
    SAME(activation);
    SAME(tied_head);
    SAME(qkv_bias);
    SAME(qk_norm);
    SAME(post_norms);
    SAME(sub_norms);
    SAME(linear_norms);
    SAME(window);
    SAME(full_period);
    SAME(plain_period);
    SAME(score_scale);
    SAME(score_softcap);
    SAME(embd_scale);
    SAME(residual_scale);
    SAME(logit_scale);
    SAME(logit_softcap);
    SAME(rope_dim);
    SAME(n_experts);
    SAME(n_experts_used);
    SAME(route_rule);
    SAME(ffn_limit);
    for (int i = 0; i < TERN_MAX_ROPES; i++) {
        SAME(rope[i].base);
        SAME(rope[i].scaling);
        SAME(rope[i].factor);
        SAME(rope[i].size);
    }
}

static void each_is_read(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const published *p = &rows[i];
        tern_config config = {0};
        tern_hf_layout layout = {0};
        json_t *root = document_of(p->file);
        assert_ok(tern_config__from_hf(&config, &layout, root, p->file, &hf_err), hf_err);
        tern_json_free(root);
        assert_string_equal(config.architecture, p->config.architecture);
        check_shapes(p, &config, &p->config);
        check_rest(p, &config, &p->config);
        if (layout.ternary != p->bitnet || layout.packed != p->bitnet || layout.reciprocal != p->bitnet || layout.norms)
            fail_msg("%s: ternary %d, packed %d, reciprocal %d, norms %d", p->file, layout.ternary, layout.packed,
                     layout.reciprocal, layout.norms);
    }
}

/* Presets of `tern synth` are the published shapes; LLaMA's pairs lie as its GGUF files have them. Maple's folder has
 * its ternary layers as numbers. */
static void presets_are_published(void **state)
{
    (void)state;
    static const struct {
        const char *preset, *file;
        bool ternary;
    } pairs[] = {{"falcon3-10b", "falcon3-10b-1.58bit", true},
                 {"gemma3-1b", "gemma3-1b", false},
                 {"gemma3-4b", "gemma3-4b", false},
                 {"maple-20b-a1b", "maple-20b-a1b", true}};
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        size_t at = 0;
        tern_config config;
        bool ternary;
        while (strcmp(rows[at].file, pairs[i].file) != 0) at++;
        assert_ok(tern_synth__preset(pairs[i].preset, &config, &ternary, &hf_err), hf_err);
        check_shapes(&rows[at], &config, &rows[at].config);
        check_rest(&rows[at], &config, &rows[at].config);
        assert_int_equal(ternary, pairs[i].ternary);
    }
}

static void factors_of_phi(void **state)
{
    (void)state;
    tern_config config = {0};
    tern_hf_layout layout;
    json_t *root = document_of("phi-4-mini");
    assert_ok(tern_config__from_hf(&config, &layout, root, "phi", &hf_err), hf_err);
    tern_json_free(root);
    assert_float_equal(config.long_factors[1], 1.118320672, 1e-6);
    assert_float_equal(config.long_factors[47], 47.77, 1e-5);
    assert_float_equal(config.long_factors[48], 0, 0); /* of 96 of 128 dimensions */
    for (int i = 0; i < 48; i++) assert_float_equal(config.short_factors[i], 1, 0);
}

/* Word for word, but the numbers of SMALL for those of shapes. */
static tern_model *open_small(folder *f, const char *name)
{
    json_t *root = document_of(name);
    static const struct {
        const char *key;
        int value;
    } small[] = {{"hidden_size", 16}, {"intermediate_size", 16}, {"num_attention_heads", 2}, {"num_key_value_heads", 1},
                 {"head_dim", 8},     {"vocab_size", N_VOCAB},   {"num_hidden_layers", 1}};
    for (size_t i = 0; i < sizeof small / sizeof *small; i++)
        assert_int_equal(json_object_set_new(root, small[i].key, json_integer(small[i].value)), 0);
    assert_int_equal(json_object_set_new(root, "tie_word_embeddings", json_true()), 0);
    char *text = json_dumps(root, JSON_COMPACT);
    tern_json_free(root);
    text[strlen(text) - 1] = 0;
    tern_model *model = hf_open_folder(f, text + 1);
    tern_free(text);
    return model;
}

static void ternary_ones_open(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows && strcmp(rows[i].config.architecture, "llama") == 0; i++) {
        folder f = {.packed = rows[i].bitnet};
        tern_model *model = open_small(&f, rows[i].file);
        const tern_weight *q = hf_q_of(model);
        assert_int_equal(q->encoding->ternary, rows[i].bitnet);
        assert_int_equal(tern_model_config(model)->bit_linear, rows[i].bitnet);
        if (rows[i].bitnet) assert_float_equal(q->scale, 4.0f, 0); /* 1 / 0.25 */
        assert_float_equal(tern_model_config(model)->rope[0].base, rows[i].config.rope[0].base, 0);
        tern_model_close(model);
    }
}

/* The file itself, in which a key is twice. */
static void twice(void **state)
{
    (void)state;
    json_t *root = NULL;
    tern_buf text = text_of("llama3-8b-1.58");
    assert_int_equal(tern_json_parse(&root, text.data, text.size, "it", &hf_err), TERN_MALFORMED);
    const char *dir = test_scratch("twice");
    mkdir(dir, 0777);
    test_write_file(test_scratch("twice/config.json"), text.data, text.size);
    tern_buf_deinit(&text);
    assert_ok(tern_json_read_last_in(&root, dir, "config.json", 1 << 20, &hf_err), hf_err);
    const json_t *last = json_object_get(root, "quantization_config");
    assert_int_equal(json_object_size(last), 1);
    assert_string_equal(json_string_value(json_object_get(last, "quant_method")), "bitnet");
    tern_json_free(root);
    tern_model *model = NULL;
    test_write_file(test_scratch("twice/model.safetensors"), "", 0); /* as far as it goes: the configuration is read */
    assert_int_not_equal(tern_model_open(&model, dir, NULL, &hf_err), TERN_OK);
    assert_null(strstr(hf_err.message, "duplicate"));
}

#define ADD(kind, key, value) assert_ok(tern_gguf_add_##kind(w, "qwen3." key, value, &hf_err), hf_err)

/* The metadata of prism-ml/Bonsai-8B-gguf (Ollama's page of it): YaRN, and a vocabulary that is no multiple of 8. */
static void bonsai_as_gguf(void **state)
{
    (void)state;
    static const float table[N_VOCAB * 4096];
    tern_gguf_writer *w;
    tern_gguf *g;
    tern_config c = {0};
    tern_buf file = {0};
    assert_ok(tern_gguf_writer_open_memory(&w, &file, &hf_err), hf_err);
    assert_ok(tern_gguf_add_string(w, "general.architecture", "qwen3", 5, &hf_err), hf_err);
    ADD(u32, "attention.head_count", 32);
    ADD(u32, "attention.head_count_kv", 8);
    ADD(u32, "attention.key_length", 128);
    ADD(u32, "attention.value_length", 128);
    ADD(f32, "attention.layer_norm_rms_epsilon", 1e-6f);
    ADD(u32, "block_count", 36);
    ADD(u32, "context_length", 65536);
    ADD(u32, "embedding_length", 4096);
    ADD(u32, "feed_forward_length", 12288);
    ADD(f32, "rope.freq_base", 1e6f);
    ADD(f32, "rope.scaling.factor", 4.0f);
    ADD(u32, "rope.scaling.original_context_length", 16384);
    assert_ok(tern_gguf_add_string(w, "qwen3.rope.scaling.type", "yarn", 4, &hf_err), hf_err);
    assert_ok(tern_gguf_add_tensor(w, "token_embd.weight", 0, (uint64_t[]){4096, N_VOCAB}, 2, &hf_err), hf_err);
    assert_ok(tern_gguf_writer_begin_data(w, &hf_err), hf_err);
    assert_ok(tern_gguf_writer_data(w, table, sizeof table, &hf_err), hf_err);
    assert_ok(tern_gguf_writer_commit(w, &hf_err), hf_err);
    assert_ok(tern_gguf_parse(&g, file.data, file.size, &hf_err), hf_err);
    assert_ok(tern_config__from_gguf(&c, g, &hf_err), hf_err);
    const published wanted = {"bonsai-8b",
                              false,
                              {.rms_eps = 1e-6f,
                               .activation = TERN_ACT_SILU,
                               .qk_norm = true,
                               .tied_head = true, /* there is no output.weight here */
                               .rope[0] = {1e6f, TERN_ROPE_YARN, 4.0f, .size = 1.1386294361f},
                               SHAPE(4096, 36, 32, 8, 128, 12288, N_VOCAB, 65536)}};
    check_shapes(&wanted, &c, &wanted.config);
    check_rest(&wanted, &c, &wanted.config);
    assert_int_equal(c.rope[0].original_ctx, 16384);
    assert_true(c.rope[0].truncate && !c.rope_adjacent);
    tern_gguf_close(g);
    tern_buf_deinit(&file);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(each_is_read),   cmocka_unit_test(presets_are_published),
    cmocka_unit_test(factors_of_phi), cmocka_unit_test(ternary_ones_open),
    cmocka_unit_test(twice),          cmocka_unit_test(bonsai_as_gguf),
};

TEST_GROUP(published, "", tests);
