/* Ternarisation: the rounding rule by hand, and the fixtures that hold one model as bf16 masters and as packed codes.
 */
#include "support/kernels.h"
#include "support/test.h"

#include <math.h>

#include "base/bytes.h"
#include "base/file.h"
#include "base/half.h"
#include "base/rng.h"
#include "quant/absmean.h"
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

/* The mean in integers of 128 bits, from the definition: sum * 2^32 / n, then rounded by dropping bits. */
static float mean_by_definition(const float *w, size_t n)
{
    uint32_t exponent = 0;
    unsigned __int128 sum = 0;
    for (size_t i = 0; i < n; i++) {
        const uint32_t e = tern_f32_bits(fabsf(w[i])) >> 23;
        exponent = e > exponent ? e : exponent;
    }
    for (size_t i = 0; i < n; i++) sum += (uint64_t)floor(ldexp(fabs((double)w[i]), 158 - (int)exponent) + 0.5);
    if (sum == 0) return 1e-5f;
    const unsigned __int128 whole = (sum << 60) / n, rest = (sum << 60) % n;
    int drop = 0;
    while (whole >> drop >= (unsigned __int128)1 << 25) drop++;
    uint64_t digits = (uint64_t)(whole >> drop);
    const bool more = rest != 0 || (whole & (((unsigned __int128)1 << drop) - 1)) != 0;
    digits = digits / 2 + (digits & 1 && (more || (digits / 2 & 1)));
    const float mean = (float)ldexp((double)digits, drop + 1 - 60 + (int)exponent - 158);
    return mean > 1e-5f ? mean : 1e-5f;
}

static void scale_is_the_mean(void **state)
{
    (void)state;
    tern_rng rng;
    test_seed(&rng);
    enum { MOST = 3000 };
    static float w[MOST];
    static int8_t codes[MOST];
    for (int round = 0; round < 400; round++) {
        const size_t n = 1 + tern_rng_below(&rng, MOST);
        const float size = ldexpf(1, (int)tern_rng_below(&rng, 60) - 20), spread = (float)tern_rng_below(&rng, 30);
        double sum = 0;
        for (size_t i = 0; i < n; i++) {
            w[i] = size * (2 * tern_rng_f32(&rng) - 1) * exp2f(-spread * tern_rng_f32(&rng));
            if (round % 4 == 0) w[i] = tern_bf16_to_f32(tern_f32_to_bf16(w[i]));
            if (round % 7 == 0) w[i] = size;
            sum += fabs((double)w[i]);
        }
        float scale;
        tern_ternarise(w, n, codes, &scale);
        if (!(scale == mean_by_definition(w, n)))
            fail_msg("round %d: %a, %a expected", round, (double)scale, (double)mean_by_definition(w, n));
        const double mean = sum / (double)n;
        if (mean > 1e-4) assert_true(fabs((double)scale - mean) <= 1e-7 * mean);
    }
}

/* The sum in parts, and rounding where it is closest: quotients one unit around a half. */
static void quotients_round_to_even(void **state)
{
    (void)state;
    /* exponent 158: a unit is 1 */
    assert_true(tern_absmean_scale(0x1000001, 1, 158) == 0x1p24f);
    assert_true(tern_absmean_scale(0x1000003, 1, 158) == 0x1000004);
    assert_true(tern_absmean_scale((uint64_t)0x1000001 * 3 + 1, 3, 158) == 0x1000002);
    assert_true(tern_absmean_scale((uint64_t)0x1000001 * 3 - 1, 3, 158) == 0x1p24f);
    assert_true(tern_absmean_scale(UINT64_MAX, UINT32_MAX, 158) == 0x1p32f);
    assert_true(tern_absmean_scale(1, UINT32_MAX, 200) == (float)(0x1p42 / 4294967295.0));
    assert_true(tern_absmean_scale((uint64_t)0xffffffff << 20, 0xfffffffe, 158) == 0x1p20f);
    assert_true(tern_absmean_scale(7, 0, 158) == 1e-5f);
    const float w[3] = {1, 0.75f, 0x1p-40f};
    assert_int_equal(tern_absmean_exponent(w, 3), 127);
    assert_true(tern_absmean_sum(w, 3, 127) == 0x80000000ull + 0x60000000);
    assert_true(tern_absmean_units(0x2f800000, 127) == 1); /* 2^-32: half a unit, up */
    assert_true(tern_absmean_units(0x2f7fffff, 127) == 0);
}

/* What is no number makes no undefined behaviour. */
static void odd_weights(void **state)
{
    (void)state;
    const float w[4] = {NAN, 1, -1, 0x1p-140f}, infinite[2] = {-INFINITY, 1};
    const int8_t expected[4] = {0, 1, -1, 0};
    int8_t codes[4];
    float scale;
    tern_ternarise(w, 4, codes, &scale);
    assert_true(scale == 0.5f);
    assert_memory_equal(codes, expected, 4);
    tern_ternarise(infinite, 2, codes, &scale);
    assert_true(scale == 0x1.fffffep126f);
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
    size_t n_header = 0;
    for (uint64_t i = 0; i < header_bytes; i++) /* blanks between members are free */
        if (map->data[8 + i] != ' ') header[n_header++] = (char)map->data[8 + i];
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
    static const char *const projections[] = {"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj",
                                              "self_attn.o_proj", "mlp.gate_proj",    "mlp.up_proj",
                                              "mlp.down_proj"};
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

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(rounding_and_scale), cmocka_unit_test(small_weights_have_the_least_scale),
    cmocka_unit_test(scale_is_the_mean),  cmocka_unit_test(quotients_round_to_even),
    cmocka_unit_test(odd_weights),        cmocka_unit_test(fixtures_agree),
};

TEST_GROUP(ternarise, "web", tests);
