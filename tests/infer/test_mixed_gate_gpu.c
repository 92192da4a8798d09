/* Models whose gate is ternary and what it is multiplied with is not, or the other way round, on GPUs of both drivers:
 * the same codes stored as numbers give the golden numbers, coarser ones what the CPU computes. */
#include "base/file.h"
#include "format/gguf.h"
#include "infer/support.h"
#include "quant/encoding.h"
#include "support/converted.h"
#include "support/gpu_model.h"
#include "support/logits.h"
#include "support/op_case.h"

enum { ALL = 1000 };
static const double budget = 2e-3;
static tern_error err;

/* Of which tensors, and what they become. */
typedef struct change {
    const char *ending;
    tern_encoding_id to;
} change;

static const tern_encoding *encoding_of(const tern_gguf_tensor *t, const change *how)
{
    const size_t n = strlen(how->ending);
    const bool changed = t->name.size > n && memcmp(t->name.data + t->name.size - n, how->ending, n) == 0;
    return tern_encoding_find(changed ? how->to : t->type);
}

static void write_data(tern_gguf_writer *w, const tern_gguf_tensor *t, const change *how)
{
    const tern_encoding *from = tern_encoding_find(t->type), *to = encoding_of(t, how);
    const uint64_t cols = t->dims[0], rows = t->n_dims > 1 ? t->dims[1] : 1;
    size_t bytes;
    assert_ok(tern_encoding_bytes(to, rows, cols, &bytes, &err), err);
    if (from == to) {
        assert_ok(tern_gguf_writer_data(w, t->data, bytes, &err), err);
        return;
    }
    float *values = malloc(rows * cols * sizeof *values);
    void *out = malloc(bytes);
    assert_ok(tern_decode_rows(from, t->data, rows, cols, 0, rows, values, &err), err);
    assert_ok(tern_encode(to, values, rows, cols, out, &err), err);
    assert_ok(tern_gguf_writer_data(w, out, bytes, &err), err);
    free(values);
    free(out);
}

/* The ternary fixture with some tensors in another encoding. */
static const char *write_model(const change *how)
{
    const char *path = test_scratch("mixed-gate.gguf");
    tern_file_map map;
    tern_gguf *g = NULL;
    tern_gguf_writer *w = NULL;
    assert_ok(tern_file_map_open(&map, test_converted(test_fixture("bitnet"), "i2_s", NULL), &err), err);
    assert_ok(tern_gguf_parse(&g, map.data, map.size, &err), err);
    assert_ok(tern_gguf_writer_open(&w, path, &err), err);
    for (size_t i = 0; i < tern_gguf_n_kv(g); i++) assert_ok(tern_gguf_add_kv(w, tern_gguf_kv_at(g, i), &err), err);
    for (size_t i = 0; i < tern_gguf_n_tensors(g); i++) {
        const tern_gguf_tensor *t = tern_gguf_tensor_at(g, i);
        char name[64];
        snprintf(name, sizeof name, "%.*s", (int)t->name.size, (const char *)t->name.data);
        assert_ok(tern_gguf_add_tensor(w, name, encoding_of(t, how)->id, t->dims, t->n_dims, &err), err);
    }
    assert_ok(tern_gguf_writer_begin_data(w, &err), err);
    for (size_t i = 0; i < tern_gguf_n_tensors(g); i++) write_data(w, tern_gguf_tensor_at(g, i), how);
    assert_ok(tern_gguf_writer_commit(w, &err), err);
    tern_gguf_close(g);
    tern_file_map_close(&map);
    return path;
}

/* Codes times their scale are numbers that f32 holds: PyTorch's results, prompt and tokens one by one. */
static void goldens_of_the_same_codes(void **state)
{
    (void)state;
    static const change changes[] = {{"ffn_up.weight", TERN_ENC_F32}, {"ffn_gate.weight", TERN_ENC_F32}};
    for (size_t i = 0; i < 2; i++) {
        if (!test_takes(i, 2, 1)) continue;
        test_pair pair;
        test_pair_open(&pair, write_model(&changes[i]), test_all_layers, NULL, budget);
        test_pair_check_golden(&pair, test_fixture("bitnet/golden.safetensors"), test_quick() ? 4 : ALL);
        test_pair_close(&pair);
    }
}

static void few_bits_as_on_the_cpu(void **state)
{
    (void)state;
    static const change changes[] = {{"ffn_up.weight", TERN_ENC_Q2_0}, {"ffn_gate.weight", TERN_ENC_PQ2_0}};
    int32_t ids[11] = {1, 5, 2, 7, 3, 3, 0, 6, 4, 1, 7};
    for (size_t i = 0; i < 2; i++) {
        test_pair pair;
        test_pair_open(&pair, write_model(&changes[i]), test_all_layers, NULL, budget);
        assert_ok(tern_session_append_all(pair.gpu, ids, 11, &err), err);
        test_pair_check(&pair, ids, 11, test_logits(pair.gpu, 0));
        tern_session_truncate(pair.gpu, 0);
        assert_ok(tern_session_append(pair.gpu, &ids[0], 1, &err), err);
        test_pair_check(&pair, ids, 1, test_logits(pair.gpu, 0));
        test_pair_close(&pair);
    }
}

static const struct CMUnitTest tests[] = {cmocka_unit_test(goldens_of_the_same_codes),
                                          cmocka_unit_test(few_bits_as_on_the_cpu)};

TEST_GROUP(mixed_gate_gpu, "devices swiftshader", tests, .teardown = test_backends_close);
