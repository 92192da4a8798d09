/* Ternarisation: the rounding rule by hand, and the fixtures that hold one model as bf16 masters and as packed codes. */
#include "support/test.h"

#include "base/bytes.h"
#include "base/file.h"
#include "base/half.h"
#include "quant/encoding.h"

static void rounding_and_scale(void **state)
{
    (void)state;
    /* mean |w| = 8 / 8 = 1: exactly half is 0, above is 1, and large values stay at 1. */
    const float w[8] = {0.5f, -0.5f, 0.500001f, -0.500001f, 4.5f, -1.25f, 0.249998f, 0.0f};
    const int8_t expected[8] = {0, 0, 1, -1, 1, -1, 0, 0};
    int8_t codes[8];
    float scale;
    tern_ternarise(w, 8, codes, &scale);
    assert_true(scale == 1.0f);
    assert_memory_equal(codes, expected, 8);
}

static void small_weights_have_the_least_scale(void **state)
{
    (void)state;
    const float w[4] = {1e-6f, -4e-6f, 0, 6e-6f};
    const int8_t expected[4] = {0, 0, 0, 1}; /* in units of 1e-5 */
    int8_t codes[4];
    float scale;
    tern_ternarise(w, 4, codes, &scale);
    assert_true(scale == 1e-5f);
    assert_memory_equal(codes, expected, 4);
    tern_ternarise(w, 0, codes, &scale);
    assert_true(scale == 1e-5f);
}

/* Finds a tensor of a SafeTensors file by plain text search: shape and data. */
typedef struct tensor {
    unsigned rows, cols;
    const uint8_t *data;
} tensor;

static tensor find_tensor(const tern_file_map *map, const char *name, const char *dtype)
{
    char key[256];
    uint64_t header_bytes = tern_load_u64(map->data);
    char *header = calloc(1, header_bytes + 1);
    memcpy(header, map->data + 8, header_bytes);
    snprintf(key, sizeof key, "\"%s\":{\"dtype\":\"%s\",\"shape\":[", name, dtype);
    const char *at = strstr(header, key);
    if (!at) fail_msg("no %s", key);
    tensor t = {0};
    unsigned long begin = 0;
    at += strlen(key);
    int n = sscanf(at, "%u,%u],\"data_offsets\":[%lu", &t.rows, &t.cols, &begin);
    if (n == 1) n = sscanf(at, "%u],\"data_offsets\":[%lu", &t.rows, &begin) + 1, t.cols = 1;
    assert_int_equal(n, 3);
    t.data = map->data + 8 + header_bytes + begin;
    free(header);
    return t;
}

static void compare_tensor(const tern_file_map *masters, const tern_file_map *packed, const char *name)
{
    char scale_name[256];
    snprintf(scale_name, sizeof scale_name, "%s_scale", name);
    tensor w = find_tensor(masters, name, "BF16"), p = find_tensor(packed, name, "U8");
    assert_true(w.cols == p.cols && w.rows == 4 * p.rows);
    size_t n = (size_t)w.rows * w.cols;
    float *x = malloc(n * sizeof *x), scale;
    int8_t *codes = malloc(n), *expected = malloc(n);
    uint8_t *again = malloc(n / 4);
    tern_encoding_by_name("bf16")->unpack(w.data, n, x);
    tern_ternarise(x, n, codes, &scale);
    assert_int_equal(tern_hf_unpack(p.data, w.rows, w.cols, expected), 0);
    assert_memory_equal(codes, expected, n);
    tern_hf_pack(codes, w.rows, w.cols, again);
    assert_memory_equal(again, p.data, n / 4);
    uint16_t stored = tern_load_u16(find_tensor(packed, scale_name, "BF16").data);
    assert_int_equal(tern_f32_to_bf16(scale), stored);
    free(again);
    free(expected);
    free(codes);
    free(x);
}

static void fixtures_agree(void **state)
{
    (void)state;
    static const char *const projections[] = {"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj",
                                              "mlp.gate_proj",    "mlp.up_proj",      "mlp.down_proj"};
    tern_error err = {0};
    tern_file_map masters, packed;
    assert_ok(tern_file_map_open(&masters, test_fixture("bitnet/model.safetensors"), &err), err);
    assert_ok(tern_file_map_open(&packed, test_fixture("bitnet-packed/model.safetensors"), &err), err);
    for (int layer = 0; layer < 3; layer++)
        for (int i = 0; i < 7; i++) {
            char name[128];
            snprintf(name, sizeof name, "model.layers.%d.%s.weight", layer, projections[i]);
            compare_tensor(&masters, &packed, name);
        }
    tern_file_map_close(&masters);
    tern_file_map_close(&packed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rounding_and_scale),
        cmocka_unit_test(small_weights_have_the_least_scale),
        cmocka_unit_test(fixtures_agree),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
