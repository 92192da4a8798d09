/* A model whose weights are rotated, as Bonsai 2's are. */
#include "support/rotated.h"

#include "base/bytes.h"
#include "base/file.h"
#include "base/rng.h"
#include "format/gguf.h"
#include "format/gguf_parts.h"
#include "ops/ref/rotated/hadamard.h"
#include "support/test.h"

enum { BLOCK = 16, MAX_NAMES = 256, MAX_WIDTH = 512 };

static tern_error err;
static float signs[MAX_WIDTH];

static bool ends_in(const char *name, const char *ending)
{
    const size_t n = strlen(name), m = strlen(ending);
    return n >= m && strcmp(name + n - m, ending) == 0;
}

/* Matrices of the layers whose rows are whole blocks. */
static bool is_rotated(const char *name, uint64_t cols)
{
    static const char *const endings[] = {"attn_q.weight",  "attn_k.weight",   "attn_output.weight", "attn_qkv.weight",
                                          "ssm_out.weight", "ffn_gate.weight", "ffn_down.weight"};
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++)
        if (ends_in(name, endings[i])) return cols % BLOCK == 0;
    return strcmp(name, "token_embd.weight") == 0;
}

static void add_text(tern_gguf_writer *w, const char *key, const char *text)
{
    assert_ok(tern_gguf_add_string(w, key, text, strlen(text), &err), err);
}

/* The widths of the rotated tensors, with the first signs of the row for each. */
static void add_signs(tern_gguf_writer *w, const uint32_t *widths, uint32_t n)
{
    static uint8_t numbers[8 * 4], values[8 * MAX_WIDTH * 4];
    uint64_t n_values = 0;
    for (uint32_t i = 0; i < n; i++) {
        tern_store_u32(numbers + 4 * i, widths[i]);
        for (uint32_t k = 0; k < widths[i]; k++) tern_store_u32(values + 4 * n_values++, (uint32_t)(int32_t)signs[k]);
    }
    assert_ok(tern_gguf_add_array(w, "prism.hadamard.sign_widths", TERN_GGUF_I32, numbers, n, &err), err);
    assert_ok(tern_gguf_add_array(w, "prism.hadamard.sign_values", TERN_GGUF_I32, values, n_values, &err), err);
}

static void add_metadata(tern_gguf_writer *w, const tern_gguf *g)
{
    tern_span names[MAX_NAMES];
    static const char table[] = "token_embd.weight";
    const tern_span inverse = {(const uint8_t *)table, sizeof table - 1};
    uint32_t n = 0, n_widths = 0, widths[8];
    for (size_t i = 0; i < tern_gguf_n_tensors(g); i++) {
        const tern_gguf_tensor *t = tern_gguf_tensor_at(g, i);
        char name[96];
        snprintf(name, sizeof name, "%.*s", (int)t->name.size, (const char *)t->name.data);
        if (!is_rotated(name, t->cols)) continue;
        uint32_t at = 0;
        while (at < n_widths && widths[at] != t->cols) at++;
        if (at == n_widths) widths[n_widths++] = (uint32_t)t->cols;
        if (strcmp(name, table) != 0) names[n++] = t->name;
    }
    assert_ok(tern_gguf_add_u32(w, "prism.hadamard.version", 1, &err), err);
    assert_ok(tern_gguf_add_u32(w, "prism.hadamard.block_size", BLOCK, &err), err);
    add_text(w, "prism.hadamard.transform", "normalized-sylvester-walsh-hadamard");
    add_text(w, "prism.hadamard.axis", "input-last-dimension");
    add_text(w, "prism.hadamard.sign_mode", "explicit");
    add_signs(w, widths, n_widths);
    assert_ok(tern_gguf_add_array(w, "prism.hadamard.weight_names", TERN_GGUF_STRING, names, n, &err), err);
    assert_ok(tern_gguf_add_array(w, "prism.hadamard.inverse_weight_names", TERN_GGUF_STRING, &inverse, 1, &err), err);
}

/* W x = (W S H) (H S x), so that each row w becomes H S w. */
static void write_rotated(tern_gguf_writer *w, const tern_gguf_tensor *t, bool rotated)
{
    float row[MAX_WIDTH];
    const size_t bytes = t->cols * sizeof(float);
    for (uint64_t r = 0; rotated && r < t->rows; r++) {
        memcpy(row, t->data + r * bytes, bytes);
        tern_ref_hadamard(row, signs, (uint32_t)t->cols, BLOCK, row);
        assert_ok(tern_gguf_writer_data(w, (const uint8_t *)row, bytes, &err), err);
    }
    if (!rotated) assert_ok(tern_gguf_writer_data(w, t->data, t->bytes, &err), err);
}

const char *test_rotated(const char *path, const char *name)
{
    tern_rng rng = {0};
    for (uint32_t i = 0; i < MAX_WIDTH; i++) signs[i] = tern_rng_below(&rng, 2) ? 1.0f : -1.0f;
    const char *out = test_scratch(name);
    tern_gguf_file file;
    tern_gguf_writer *w;
    assert_ok(tern_gguf_file_open(&file, path, &err), err);
    const tern_gguf *g = file.gguf;
    assert_ok(tern_gguf_writer_open(&w, out, &err), err);
    for (size_t i = 0; i < tern_gguf_n_kv(g); i++) assert_ok(tern_gguf_add_kv(w, tern_gguf_kv_at(g, i), &err), err);
    add_metadata(w, g);
    for (int pass = 0; pass < 2; pass++) {
        if (pass) assert_ok(tern_gguf_writer_begin_data(w, &err), err);
        for (size_t i = 0; i < tern_gguf_n_tensors(g); i++) {
            const tern_gguf_tensor *t = tern_gguf_tensor_at(g, i);
            char of[96];
            snprintf(of, sizeof of, "%.*s", (int)t->name.size, (const char *)t->name.data);
            const uint64_t dims[] = {t->cols, t->rows};
            if (!pass) assert_ok(tern_gguf_add_tensor(w, of, t->type, dims, t->rows == 1 ? 1 : 2, &err), err);
            else write_rotated(w, t, is_rotated(of, t->cols));
        }
        const tern_gguf_tensor *table = tern_gguf_find_tensor(g, "token_embd.weight");
        const uint64_t dims[] = {table->cols, table->rows}; /* the head, which is no rotated table's */
        if (!pass) assert_ok(tern_gguf_add_tensor(w, "output.weight", table->type, dims, 2, &err), err);
        else write_rotated(w, table, false);
    }
    assert_ok(tern_gguf_writer_commit(w, &err), err);
    tern_gguf_file_close(&file);
    return out;
}
