/* Weights in a rotated basis: what a GGUF file says of them is read, checked, kept by conversion, and refused by what
 * takes every input as it is. */
#include "base/file.h"
#include "format/gguf.h"
#include "graph/graph.h"
#include "model/hadamard.h"
#include "model/support.h"
#include "ops/op.h"

enum { BLOCK = 16, MAX_NAMES = 4 };

static tern_error err;

/* Metadata of a file; 0 and NULL: left out. */
typedef struct words {
    uint32_t version, block;
    const char *transform, *axis, *sign_mode;
    const char *names[MAX_NAMES], *inverse;
    int32_t widths[2];
    bool grouped, short_signs, odd_sign;
} words;

static const words right = {.version = 1,
                            .block = BLOCK,
                            .transform = "normalized-sylvester-walsh-hadamard",
                            .axis = "input-last-dimension",
                            .sign_mode = "explicit",
                            .names = {"blk.0.ffn_up.weight", "blk.1.attn_q.weight", "output.weight"},
                            .inverse = "token_embd.weight",
                            .grouped = true};

static tern_span span(const char *text)
{
    return (tern_span){(const uint8_t *)text, strlen(text)};
}

static void add_text(tern_gguf_writer *w, const char *key, const char *text)
{
    if (text) assert_ok(tern_gguf_add_string(w, key, text, strlen(text), &err), err);
}

static void add_signs(tern_gguf_writer *w, const words *say, uint32_t n_embd)
{
    int32_t widths[] = {(int32_t)n_embd, 0}, values[4096];
    uint32_t n = 0;
    for (uint32_t i = 0; i < 2; i++)
        if (say->widths[i]) widths[i] = say->widths[i];
    for (uint32_t i = 0; i < 2; i++) n += (uint32_t)widths[i];
    n -= say->short_signs;
    for (uint32_t i = 0; i < n; i++) values[i] = i % 3 ? 1 : -1;
    if (say->odd_sign) values[7] = 2;
    assert_ok(tern_gguf_add_array(w, "prism.hadamard.sign_widths", TERN_GGUF_I32, widths, widths[1] ? 2 : 1, &err),
              err);
    assert_ok(tern_gguf_add_array(w, "prism.hadamard.sign_values", TERN_GGUF_I32, values, n, &err), err);
}

static void add_words(tern_gguf_writer *w, const words *say, uint32_t n_embd)
{
    tern_span names[MAX_NAMES];
    uint32_t n = 0;
    while (n < MAX_NAMES && say->names[n]) names[n] = span(say->names[n]), n++;
    if (say->version) assert_ok(tern_gguf_add_u32(w, "prism.hadamard.version", say->version, &err), err);
    if (say->block) assert_ok(tern_gguf_add_u32(w, "prism.hadamard.block_size", say->block, &err), err);
    add_text(w, "prism.hadamard.transform", say->transform);
    add_text(w, "prism.hadamard.axis", say->axis);
    add_text(w, "prism.hadamard.sign_mode", say->sign_mode);
    if (say->sign_mode && strcmp(say->sign_mode, "explicit") == 0) add_signs(w, say, n_embd);
    assert_ok(tern_gguf_add_array(w, "prism.hadamard.weight_names", TERN_GGUF_STRING, names, n, &err), err);
    if (say->inverse) {
        const tern_span inverse = span(say->inverse);
        assert_ok(tern_gguf_add_array(w, "prism.hadamard.inverse_weight_names", TERN_GGUF_STRING, &inverse, 1, &err),
                  err);
    }
    if (say->grouped) assert_ok(tern_gguf_add_bool(w, "prism.hadamard.gdn_v_grouped", true, &err), err);
}

/* The file of a model of several layers and a head of its own, with these words. */
static tern_buf file_saying(const words *say)
{
    tern_buf plain = {0}, out = {0};
    tern_gguf *g = NULL;
    tern_gguf_writer *w = NULL;
    tern_model *model = open_model(test_made("mistral"));
    const uint32_t n_embd = tern_model_config(model)->n_embd;
    assert_ok(tern_model_write_gguf(model, test_scratch("plain.gguf"), NULL, &err), err);
    tern_model_close(model);
    assert_ok(tern_file_read(&plain, test_scratch("plain.gguf"), 1 << 24, &err), err);
    assert_ok(tern_gguf_parse(&g, plain.data, plain.size, &err), err);
    assert_ok(tern_gguf_writer_open_memory(&w, &out, &err), err);
    for (size_t i = 0; i < tern_gguf_n_kv(g); i++) assert_ok(tern_gguf_add_kv(w, tern_gguf_kv_at(g, i), &err), err);
    add_words(w, say, n_embd);
    for (size_t i = 0; i < tern_gguf_n_tensors(g); i++) {
        const tern_gguf_tensor *t = tern_gguf_tensor_at(g, i);
        char name[80];
        snprintf(name, sizeof name, "%.*s", (int)t->name.size, (const char *)t->name.data);
        assert_ok(tern_gguf_add_tensor(w, name, t->type, t->dims, t->n_dims, &err), err);
    }
    assert_ok(tern_gguf_writer_begin_data(w, &err), err);
    for (size_t i = 0; i < tern_gguf_n_tensors(g); i++) {
        const tern_gguf_tensor *t = tern_gguf_tensor_at(g, i);
        assert_ok(tern_gguf_writer_data(w, t->data, t->bytes, &err), err);
    }
    assert_ok(tern_gguf_writer_commit(w, &err), err);
    tern_gguf_close(g);
    tern_buf_deinit(&plain);
    return out;
}

static void check(const tern_hadamard *h, uint32_t n_embd)
{
    assert_non_null(h);
    assert_int_equal(h->block, BLOCK);
    assert_int_equal(h->n_inputs, 3);
    assert_true(h->embedding && h->grouped_heads);
    assert_true(tern_hadamard_rotates(h, TERN_ROLE_FFN_UP, 0));
    assert_true(tern_hadamard_rotates(h, TERN_ROLE_ATTN_Q, 1));
    assert_true(tern_hadamard_rotates(h, TERN_ROLE_OUTPUT, 0));
    assert_false(tern_hadamard_rotates(h, TERN_ROLE_FFN_UP, 1) || tern_hadamard_rotates(h, TERN_ROLE_ATTN_Q, 0));
    const float *signs = tern_hadamard_signs_of(h, n_embd);
    for (uint32_t i = 0; i < n_embd; i++) assert_true(signs[i] == (i % 3 ? 1.0f : -1.0f));
    assert_null(tern_hadamard_signs_of(h, n_embd + BLOCK));
}

static void read_and_kept(void **state)
{
    (void)state;
    tern_buf bytes = file_saying(&right);
    tern_model *model = NULL;
    tern_gguf *before = NULL, *after = NULL;
    tern_buf written = {0};
    assert_ok(tern_model_open_memory(&model, bytes.data, bytes.size, NULL, &err), err);
    check(tern_model_hadamard(model), tern_model_config(model)->n_embd);
    assert_ok(tern_model_write_gguf(model, test_scratch("kept.gguf"), NULL, &err), err);
    tern_model_close(model);
    model = open_model(test_scratch("kept.gguf"));
    check(tern_model_hadamard(model), tern_model_config(model)->n_embd);
    tern_model_close(model);
    assert_ok(tern_file_read(&written, test_scratch("kept.gguf"), 1 << 24, &err), err);
    assert_ok(tern_gguf_parse(&before, bytes.data, bytes.size, &err), err);
    assert_ok(tern_gguf_parse(&after, written.data, written.size, &err), err);
    unsigned n = 0;
    for (size_t i = 0; i < tern_gguf_n_kv(before); i++) {
        const tern_gguf_kv *kv = tern_gguf_kv_at(before, i);
        char key[80];
        snprintf(key, sizeof key, "%.*s", (int)kv->key.size, (const char *)kv->key.data);
        if (strncmp(key, "prism.", 6) != 0) continue;
        const tern_gguf_kv *kept = tern_gguf_find(after, key);
        assert_non_null(kept);
        assert_int_equal(kept->value.size, kv->value.size);
        assert_memory_equal(kept->value.data, kv->value.data, kv->value.size);
        n++;
    }
    assert_int_equal(n, 10);
    tern_gguf_close(before);
    tern_gguf_close(after);
    tern_buf_deinit(&written);
    tern_buf_deinit(&bytes);
}

/* Each with one word that is another. */
static void refused(void **state)
{
    (void)state;
    static const struct {
        tern_status status;
        const char *message;
        words other;
    } cases[] = {
        {TERN_UNSUPPORTED, "prism.hadamard.version: 2 found, 1 expected", {.version = 2}},
        {TERN_MALFORMED, "prism.hadamard.block_size: 24 found, a power of two expected", {.block = 24}},
        {TERN_UNSUPPORTED, "prism.hadamard.transform: dct found, normalized-sylvester", {.transform = "dct"}},
        {TERN_UNSUPPORTED, "prism.hadamard.axis: rows found, input-last-dimension expected", {.axis = "rows"}},
        {TERN_UNSUPPORTED, "prism.hadamard.sign_mode: seed found, identity or explicit", {.sign_mode = "seed"}},
        {TERN_UNSUPPORTED, "weight_names: blk.9.ffn_up.weight found, tensors", {.names = {"blk.9.ffn_up.weight"}}},
        {TERN_UNSUPPORTED, "weight_names: output_norm.weight found, matrices", {.names = {"output_norm.weight"}}},
        {TERN_UNSUPPORTED, "inverse_weight_names: output.weight found", {.inverse = "output.weight"}},
        {TERN_MALFORMED, "blk.0.ffn_down.weight", {.names = {"blk.0.ffn_down.weight"}}},
        {TERN_MALFORMED, "sign_widths: 40 found, a multiple of", {.widths = {40}}},
        {TERN_MALFORMED, "sign_widths: 64 found twice", {.widths = {64, 64}}},
        {TERN_MALFORMED, "sign_values: 63 found, 64 expected", {.short_signs = true}},
        {TERN_MALFORMED, "sign_values: 2 found at 7, 1 or -1 expected", {.odd_sign = true}},
        {TERN_MALFORMED, "found twice", {.names = {"output.weight", "output.weight"}}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const words *other = &cases[i].other;
        words say = right;
        if (other->version) say.version = other->version;
        if (other->block) say.block = other->block;
        if (other->transform) say.transform = other->transform;
        if (other->axis) say.axis = other->axis;
        if (other->sign_mode) say.sign_mode = other->sign_mode;
        if (other->inverse) say.inverse = other->inverse;
        if (other->names[0]) memcpy(say.names, other->names, sizeof say.names);
        memcpy(say.widths, other->widths, sizeof say.widths);
        say.short_signs = other->short_signs;
        say.odd_sign = other->odd_sign;
        tern_buf bytes = file_saying(&say);
        tern_model *model = NULL;
        err = (tern_error){0};
        assert_int_equal(tern_model_open_memory(&model, bytes.data, bytes.size, NULL, &err), cases[i].status);
        if (!strstr(err.message, cases[i].message)) fail_msg("'%s' is not in '%s'", cases[i].message, err.message);
        tern_buf_deinit(&bytes);
    }
}

static void words_without_a_version(void **state)
{
    (void)state;
    words say = right;
    say.version = 0;
    tern_buf bytes = file_saying(&say);
    tern_model *model = NULL;
    assert_int_equal(tern_model_open_memory(&model, bytes.data, bytes.size, NULL, &err), TERN_NOT_FOUND);
    assert_non_null(strstr(err.message, "prism.hadamard.version"));
    tern_buf_deinit(&bytes);
}

/* Each input of a weight that lies in the basis is rotated, and rows of the table back. */
static void in_the_graph(void **state)
{
    (void)state;
    tern_buf bytes = file_saying(&right);
    tern_model *model = NULL;
    tern_graph graph;
    assert_ok(tern_model_open_memory(&model, bytes.data, bytes.size, NULL, &err), err);
    tern_graph_options options = {.max_tokens = 1, .n_ctx = 32, .max_outputs = 1, .n_sequences = 1};
    tern_graph_size_caches(&options, tern_model_config(model), 1);
    assert_ok(tern_graph_build(&graph, model, &options, &err), err);
    uint32_t n = 0, n_inverse = 0;
    for (size_t i = 0; i < graph.n_ops; i++) {
        n += graph.ops[i].kind == TERN_OP_HADAMARD;
        n_inverse += graph.ops[i].kind == TERN_OP_HADAMARD && graph.ops[i].inverse;
    }
    assert_int_equal(n_inverse, 1);
    assert_int_equal(n, 3 + n_inverse);
    tern_graph_deinit(&graph);
    tern_model_close(model);
    tern_buf_deinit(&bytes);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(read_and_kept),
    cmocka_unit_test(refused),
    cmocka_unit_test(words_without_a_version),
    cmocka_unit_test(in_the_graph),
};

TEST_GROUP(hadamard_files, "", tests);
