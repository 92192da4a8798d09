/* The micro model, written by the GGUF writer. */
#include "support/micro_model.h"

#include <unistd.h>

#include "base/file.h"
#include "base/rng.h"
#include "format/gguf.h"
#include "quant/encoding.h"
#include "support/test.h"

enum { N_VOCAB = 8, MAX_ELEMENTS = 1 << 18 };

static tern_error err;

static bool is(const char *name, const char *other)
{
    return name && other && strcmp(name, other) == 0;
}

static bool ends_in(const char *name, const char *ending)
{
    const size_t n = strlen(name), m = strlen(ending);
    return n >= m && strcmp(name + n - m, ending) == 0;
}

static void add_key(tern_gguf_writer *w, const micro_change *c, const char *prefix, const char *key, float f32,
                    uint32_t value)
{
    char full[96];
    snprintf(full, sizeof full, "%s.%s", prefix, key);
    if (is(c->drop, key)) return;
    if (is(c->key, key) && c->string) assert_ok(tern_gguf_add_string(w, full, c->string, strlen(c->string), &err), err);
    else if (is(c->key, key) && c->f32 != 0) assert_ok(tern_gguf_add_f32(w, full, c->f32, &err), err);
    else if (f32 != 0 && !is(c->key, key)) assert_ok(tern_gguf_add_f32(w, full, f32, &err), err);
    else assert_ok(tern_gguf_add_u32(w, full, is(c->key, key) ? c->value : value, &err), err);
}

static void add_keys(tern_gguf_writer *w, const micro_change *c, uint32_t width)
{
    const char *architecture = c->architecture ? c->architecture : "bitnet-b1.58";
    assert_ok(tern_gguf_add_string(w, "general.architecture", architecture, strlen(architecture), &err), err);
    const struct {
        const char *key;
        float f32;
        uint32_t value;
    } keys[] = {
        {"vocab_size", 0, N_VOCAB},        {"context_length", 0, 128},
        {"embedding_length", 0, width},    {"block_count", 0, 1},
        {"feed_forward_length", 0, width}, {"attention.head_count", 0, 2},
        {"attention.head_count_kv", 0, 1}, {"attention.layer_norm_rms_epsilon", 1e-5f, 0},
        {"rope.freq_base", 10000.0f, 0},
    };
    bool named = false;
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        add_key(w, c, architecture, keys[i].key, keys[i].f32, keys[i].value);
        named |= is(c->key, keys[i].key);
    }
    if (c->key && !named) add_key(w, c, architecture, c->key, 0, 0);
}

typedef struct micro_tensor {
    char name[64];
    uint32_t type;
    uint64_t rows, cols;
} micro_tensor;

static size_t tensor_list(const micro_change *c, uint32_t n, micro_tensor *out)
{
    const micro_tensor all[] = {
        {"token_embd.weight", TERN_ENC_F32, N_VOCAB, n},   {"output_norm.weight", TERN_ENC_F32, 1, n},
        {"blk.0.attn_norm.weight", TERN_ENC_F32, 1, n},    {"blk.0.attn_q.weight", TERN_ENC_I2_S, n, n},
        {"blk.0.attn_k.weight", TERN_ENC_I2_S, n / 2, n},  {"blk.0.attn_v.weight", TERN_ENC_I2_S, n / 2, n},
        {"blk.0.attn_output.weight", TERN_ENC_I2_S, n, n}, {"blk.0.attn_sub_norm.weight", TERN_ENC_F32, 1, n},
        {"blk.0.ffn_norm.weight", TERN_ENC_F32, 1, n},     {"blk.0.ffn_gate.weight", TERN_ENC_I2_S, n, n},
        {"blk.0.ffn_up.weight", TERN_ENC_I2_S, n, n},      {"blk.0.ffn_down.weight", TERN_ENC_I2_S, n, n},
        {"blk.0.ffn_sub_norm.weight", TERN_ENC_F32, 1, n},
    };
    size_t count = 0;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        micro_tensor t = all[i];
        if (c->drop && ends_in(t.name, c->drop)) continue;
        if (is(c->tensor, t.name) && c->type) t.type = c->type;
        if (is(c->tensor, t.name) && c->rows) t.rows = c->rows;
        if (is(c->tensor, t.name) && c->cols) t.cols = c->cols;
        out[count++] = t;
    }
    if (c->extra) {
        out[count] = (micro_tensor){"", TERN_ENC_F32, 1, c->extra_cols};
        snprintf(out[count++].name, sizeof out->name, "%s", c->extra);
    }
    return count;
}

static void add_tensor(tern_gguf_writer *w, const micro_tensor *t)
{
    uint64_t dims[2] = {t->cols, t->rows};
    assert_ok(tern_gguf_add_tensor(w, t->name, t->type, dims, t->rows == 1 ? 1 : 2, &err), err);
}

static void randomise(uint64_t seed, float mean, float *values, int8_t *codes, size_t n)
{
    tern_rng rng = {.state = seed};
    for (size_t i = 0; i < n; i++) {
        values[i] = mean + tern_rng_f32(&rng) - 0.5f;
        codes[i] = (int8_t)((int)tern_rng_below(&rng, 3) - 1);
    }
}

static void write_tensor(tern_gguf_writer *w, const micro_change *c, const micro_tensor *t)
{
    static float values[MAX_ELEMENTS];
    static int8_t codes[MAX_ELEMENTS];
    static uint8_t bytes[MAX_ELEMENTS * 4];
    const tern_encoding *e = tern_encoding_find(t->type);
    size_t n = t->rows * t->cols, size = 0;
    assert_true(n <= MAX_ELEMENTS);
    for (size_t i = 0; i < n; i++) values[i] = 1.0f;
    for (size_t i = 0; i < n; i++) codes[i] = (int8_t)((i + 1) % 3) - 1;
    if (c->seed) randomise(c->seed + t->cols, t->rows == 1 ? 1.0f : 0.0f, values, codes, n);
    assert_ok(tern_encoding_bytes(e, t->rows, t->cols, &size, &err), err);
    if (e->ternary) assert_ok(tern_encode_codes(e, codes, 0.5f, t->rows, t->cols, bytes, &err), err);
    else assert_ok(tern_encode(e, values, t->rows, t->cols, bytes, &err), err);
    if (is(c->tensor, t->name)) memcpy(bytes + c->at, c->bytes, c->n);
    assert_ok(tern_gguf_writer_data(w, bytes, size, &err), err);
}

tern_buf micro_model(const micro_change *change)
{
    char name[48];
    snprintf(name, sizeof name, "micro-%d.gguf", (int)getpid());
    const char *path = test_scratch(name);
    tern_gguf_writer *w = NULL;
    micro_tensor tensors[16];
    uint32_t width = change->width ? change->width : 16;
    size_t n = tensor_list(change, width, tensors);
    assert_ok(tern_gguf_writer_open(&w, path, &err), err);
    add_keys(w, change, width);
    for (size_t i = 0; i < n; i++) add_tensor(w, &tensors[i]);
    assert_ok(tern_gguf_writer_begin_data(w, &err), err);
    for (size_t i = 0; i < n; i++) write_tensor(w, change, &tensors[i]);
    assert_ok(tern_gguf_writer_commit(w, &err), err);
    tern_buf bytes = {0};
    assert_ok(tern_file_read(&bytes, path, 1 << 24, &err), err);
    unlink(path);
    return bytes;
}
