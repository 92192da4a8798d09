/* Models whose layers have feed-forward blocks of different widths: they compute what the same model computes with all
 * blocks as wide and zeros in the rest; on every backend. */
#include "support/test.h"

#include "base/file.h"
#include "format/gguf.h"
#include "model/write/hf.h"
#include "quant/weight.h"
#include "support/converted.h"
#include "support/golden.h"
#include "support/gpu_model.h"
#include "support/logits.h"
#include "support/op_case.h"

enum { N_LAYERS = 3, WIDEST = 512, EMBD = 256 };
static const uint32_t widths[N_LAYERS] = {352, WIDEST, 96};

static tern_error err;

/* How a file differs from another: layers cut to their widths or filled up with zeros; the number or numbers of a key.
 */
typedef struct change {
    bool cut, zeros;
    const char *key; /* without its prefix */
    tern_gguf_kind element;
    uint32_t values[8], n;
} change;

static bool ends_with(tern_span name, const char *end)
{
    const size_t n = strlen(end);
    return name.size >= n && memcmp(name.data + name.size - n, end, n) == 0;
}

/* The width of the layer that a tensor of a feed-forward block is in; WIDEST for others. */
static uint32_t width_of(const tern_gguf_tensor *t)
{
    char name[64];
    for (uint32_t layer = 0; layer < N_LAYERS; layer++) {
        snprintf(name, sizeof name, "blk.%u.ffn_", layer);
        if (t->name.size > strlen(name) && memcmp(t->name.data, name, strlen(name)) == 0) return widths[layer];
    }
    return WIDEST;
}

static bool is_up(const tern_gguf_tensor *t)
{
    return ends_with(t->name, "ffn_gate.weight") || ends_with(t->name, "ffn_up.weight");
}

static bool is_down(const tern_gguf_tensor *t)
{
    return ends_with(t->name, "ffn_down.weight");
}

static void shape_of(const tern_gguf_tensor *t, const change *how, uint64_t dims[2])
{
    dims[0] = t->dims[0];
    dims[1] = t->n_dims > 1 ? t->dims[1] : 1;
    if (how->cut && is_down(t)) dims[0] = width_of(t);
    if (how->cut && is_up(t)) dims[1] = width_of(t);
}

static void write_data(tern_gguf_writer *w, const tern_gguf_tensor *t, const change *how)
{
    const uint32_t width = width_of(t);
    uint64_t dims[2];
    float *row = calloc(t->dims[0], sizeof *row);
    shape_of(t, how, dims);
    for (uint64_t r = 0; r < dims[1]; r++) {
        memcpy(row, t->data + r * t->dims[0] * sizeof *row, t->dims[0] * sizeof *row);
        if (how->zeros && is_up(t) && r >= width) memset(row, 0, t->dims[0] * sizeof *row);
        if (how->zeros && is_down(t)) memset(row + width, 0, (t->dims[0] - width) * sizeof *row);
        assert_ok(tern_gguf_writer_data(w, row, dims[0] * sizeof *row, &err), err);
    }
    free(row);
}

static void write_key(tern_gguf_writer *w, const tern_gguf_kv *kv, const change *how)
{
    char key[96], full[64];
    snprintf(full, sizeof full, "llama.%s", how->key ? how->key : "");
    snprintf(key, sizeof key, "%.*s", (int)kv->key.size, (const char *)kv->key.data);
    if (strcmp(key, full) != 0) assert_ok(tern_gguf_add_kv(w, kv, &err), err);
    else assert_ok(tern_gguf_add_array(w, key, how->element, how->values, how->n, &err), err);
}

/* The fixture of llama as F32, changed. */
static const char *write_model(const char *name, const change *how)
{
    const char *path = test_scratch(name);
    tern_file_map map;
    tern_gguf *g = NULL;
    tern_gguf_writer *w = NULL;
    assert_ok(tern_file_map_open(&map, test_converted(test_fixture("llama"), "f32", "f32"), &err), err);
    assert_ok(tern_gguf_parse(&g, map.data, map.size, &err), err);
    assert_ok(tern_gguf_writer_open(&w, path, &err), err);
    for (size_t i = 0; i < tern_gguf_n_kv(g); i++) write_key(w, tern_gguf_kv_at(g, i), how);
    for (size_t i = 0; i < tern_gguf_n_tensors(g); i++) {
        const tern_gguf_tensor *t = tern_gguf_tensor_at(g, i);
        char tensor[64];
        uint64_t dims[2];
        snprintf(tensor, sizeof tensor, "%.*s", (int)t->name.size, (const char *)t->name.data);
        shape_of(t, how, dims);
        assert_ok(tern_gguf_add_tensor(w, tensor, t->type, dims, t->n_dims, &err), err);
    }
    assert_ok(tern_gguf_writer_begin_data(w, &err), err);
    for (size_t i = 0; i < tern_gguf_n_tensors(g); i++) write_data(w, tern_gguf_tensor_at(g, i), how);
    assert_ok(tern_gguf_writer_commit(w, &err), err);
    tern_gguf_close(g);
    tern_file_map_close(&map);
    return path;
}

static const change cut = {
    .cut = true, .key = "feed_forward_length", .element = TERN_GGUF_U32, .values = {352, WIDEST, 96}, .n = N_LAYERS};

static tern_engine *engine_here(const char *path)
{
    return test_on_gpu() ? test_gpu_engine(path, test_all_layers, NULL) : test_engine(path, NULL);
}

static void as_wide_ones_with_zeros(void **state)
{
    (void)state;
    enum { N = 40, N_SINGLE = 5 };
    int32_t ids[N];
    tern_engine *narrow = engine_here(write_model("widths-cut.gguf", &cut)),
                *wide = test_engine(write_model("widths-wide.gguf", &(change){.zeros = true}), NULL);
    const uint32_t n_vocab = tern_engine_config(wide)->n_vocab;
    for (uint32_t i = 0; i < N; i++) ids[i] = (int32_t)(i * 37 % n_vocab);
    tern_session *got = test_session(narrow, false), *want = test_session(wide, false);
    assert_ok(tern_session_append_all(got, ids, N, &err), err);
    assert_ok(tern_session_append_all(want, ids, N, &err), err);
    const double most = test_on_gpu() ? 5e-4 : 1e-6;
    test_check_rows(test_logits(got, 0), test_logits(want, 0), N, n_vocab, most, "prefill");
    tern_session_truncate(got, 0);
    tern_session_truncate(want, 0);
    for (uint32_t t = 0; t < N_SINGLE; t++) {
        assert_ok(tern_session_append(got, &ids[t], 1, &err), err);
        assert_ok(tern_session_append(want, &ids[t], 1, &err), err);
        test_check_rows(test_logits(got, 0), test_logits(want, 0), 1, n_vocab, most, "decode");
    }
    tern_session_close(got);
    tern_session_close(want);
    tern_engine_close(narrow);
    tern_engine_close(wide);
}

static void check_widths(const char *path)
{
    tern_model *model;
    assert_ok(tern_model_open(&model, path, &(tern_model_options){0}, &err), err);
    const tern_config *c = tern_model_config(model);
    assert_int_equal(c->n_ff, WIDEST);
    for (uint32_t i = 0; i < N_LAYERS; i++) assert_int_equal(tern_config_layer(c, i).n_ff, widths[i]);
    assert_int_equal(tern_model_weight(model, TERN_ROLE_FFN_DOWN, 2)->cols, widths[2]);
    tern_model_close(model);
}

/* What was read is written, and read again. */
static void configurations_survive(void **state)
{
    (void)state;
    tern_model *model;
    assert_ok(tern_model_open(&model, write_model("widths-cut.gguf", &cut), &(tern_model_options){0}, &err), err);
    assert_ok(tern_model_write_gguf(model, test_scratch("widths-again.gguf"), &(tern_export_options){0}, &err), err);
    check_widths(test_scratch("widths-again.gguf"));
    tern_config config = *tern_model_config(model);
    config.rope[0].factors = NULL; /* which a folder cannot say */
    tern_master_source source = tern_master_of_model(model);
    assert_ok(tern_hf_write(test_scratch("widths-hf"), &config, NULL, &source, NULL, &err), err);
    check_widths(test_scratch("widths-hf"));
    tern_model_close(model);
}

/* An array of one and the same number is that number. */
static void equal_numbers_are_one(void **state)
{
    (void)state;
    static const change equal[] = {
        {.key = "feed_forward_length", .element = TERN_GGUF_U32, .values = {WIDEST, WIDEST, WIDEST}, .n = N_LAYERS},
        {.key = "attention.head_count", .element = TERN_GGUF_I32, .values = {4, 4, 4}, .n = N_LAYERS},
        {.key = "attention.head_count_kv", .element = TERN_GGUF_U32, .values = {2, 2, 2}, .n = N_LAYERS}};
    for (size_t i = 0; i < sizeof equal / sizeof *equal; i++) {
        tern_model *model;
        assert_ok(tern_model_open(&model, write_model("widths-equal.gguf", &equal[i]), &(tern_model_options){0}, &err),
                  err);
        assert_int_equal(tern_model_config(model)->n_ff, WIDEST);
        assert_int_equal(tern_model_config(model)->layer_n_ff[0], 0);
        assert_int_equal(tern_model_config(model)->n_heads, 4);
        assert_int_equal(tern_model_config(model)->n_kv_heads, 2);
        tern_model_close(model);
    }
}

static void refusals(void **state)
{
    (void)state;
    static const struct {
        change how;
        const char *message;
    } cases[] = {{{.key = "feed_forward_length", .element = TERN_GGUF_U32, .values = {352, 512}, .n = 2},
                  "llama.feed_forward_length: 2 numbers found, one for each of 3 layers"},
                 {{.key = "feed_forward_length", .element = TERN_GGUF_U32, .values = {352, 0, 96}, .n = 3},
                  "llama.feed_forward_length: 0 found in layer 1, 1 to"},
                 {{.key = "feed_forward_length", .element = TERN_GGUF_F32, .values = {352, 512, 96}, .n = 3},
                  "llama.feed_forward_length: array of f32 found, of integers expected"},
                 {{.key = "feed_forward_length", .element = TERN_GGUF_U32, .values = {352, 512, 96}, .n = 3},
                  "blk.0.ffn_gate.weight: 512 rows of 256 found, 352 rows of 256 expected"},
                 {{.key = "attention.head_count_kv", .element = TERN_GGUF_U32, .values = {2, 2, 1}, .n = 3},
                  "llama.attention.head_count_kv: 2 in layer 0 and 1 in layer 2 found, one number expected"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tern_model *model = NULL;
        const char *path = write_model("widths-refused.gguf", &cases[i].how);
        assert_int_not_equal(tern_model_open(&model, path, &(tern_model_options){0}, &err), TERN_OK);
        if (!strstr(err.message, cases[i].message))
            fail_msg("\"%s\", \"%s\" expected in it", err.message, cases[i].message);
    }
}

static const struct CMUnitTest here[] = {cmocka_unit_test(as_wide_ones_with_zeros)};
static const struct CMUnitTest files[] = {cmocka_unit_test(configurations_survive),
                                          cmocka_unit_test(equal_numbers_are_one), cmocka_unit_test(refusals)};

TEST_GROUP(layer_widths, "backends", here, .teardown = test_backends_close);
TEST_GROUP(layer_widths_files, "", files);
