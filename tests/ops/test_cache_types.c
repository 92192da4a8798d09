/* Types of the cache of keys and values: what is stored, against GGML's blocks of the same names. */
#include "support/test.h"

#include <math.h>

#include "base/bytes.h"
#include "base/half.h"
#include "ops/ref/ref.h"
#include "quant/encoding.h"
#include "support/kernels.h"

enum { MAX_N = 512, BLOCK = TERN_CACHE_BLOCK, N_ROUNDS = 400 };

static tern_rng rng;

/* A row as GGML has it: each block's scale before its codes. */
static size_t to_blocks(tern_dtype type, const uint8_t *row, uint32_t n, uint8_t *out)
{
    const size_t codes = tern_cache_type_of(type)->bytes - 2, n_blocks = n / BLOCK;
    for (size_t b = 0; b < n_blocks; b++) {
        memcpy(out + b * (codes + 2), row + 2 * b, 2);
        memcpy(out + b * (codes + 2) + 2, row + 2 * n_blocks + b * codes, codes);
    }
    return n_blocks;
}

static void random_row(float *x, uint32_t n)
{
    static const float sizes[] = {1, 1000, 1e-3f};
    const float size = sizes[test_between(&rng, 0, 2)];
    test_floats(&rng, TEST_ORDINARY, x, n);
    for (uint32_t i = 0; i < n; i++) x[i] *= size;
}

static void bytes_of_rows(void **state)
{
    (void)state;
    static const char *const names[] = {"f16", "f32", "q8_0", "q4_0"};
    static const size_t bytes[] = {256, 512, 136, 72};
    for (size_t i = 0; tern_cache_type_at(i); i++) {
        const tern_cache_type *t = tern_cache_type_at(i);
        assert_string_equal(t->name, names[i]);
        assert_int_equal(tern_cache_bytes(t->dtype, 128), bytes[i]);
        assert_ptr_equal(tern_cache_type_of(t->dtype), t);
    }
    assert_null(tern_cache_type_of(TERN_DTYPE_U32));
}

/* What a row stands for is what GGML's decoder makes of its blocks, and near what was stored: half a step, and what the
 * scale was rounded by; on the side of q4_0 that has one code less up to a whole one. */
static void numbers(tern_dtype type, tern_kv_store_fn store, float steps)
{
    const tern_encoding *e = tern_encoding_by_name(tern_cache_type_of(type)->name);
    for (int round = 0; round < N_ROUNDS; round++) {
        const uint32_t n = test_between(&rng, 1, MAX_N / BLOCK) * BLOCK;
        float x[MAX_N], found[MAX_N], expected[MAX_N];
        uint8_t row[MAX_N * 2], blocks[MAX_N * 2];
        random_row(x, n);
        store(x, n, row);
        tern_ref_kv_load(type, row, n, found);
        e->unpack(blocks, to_blocks(type, row, n, blocks), expected);
        assert_memory_equal(found, expected, n * sizeof *found);
        for (uint32_t i = 0; i < n; i++) {
            const float scale = fabsf(tern_f16_to_f32(tern_load_u16(row + i / BLOCK * 2)));
            if (!(fabsf(found[i] - x[i]) <= steps * scale)) fail_msg("%s: %a for %a", e->name, found[i], x[i]);
        }
    }
}

static void numbers_of_q8_0(void **state)
{
    (void)state;
    numbers(TERN_DTYPE_Q8_0, tern_ref_kv_store_q8_0, 0.57f);
}

static void numbers_of_q4_0(void **state)
{
    (void)state;
    numbers(TERN_DTYPE_Q4_0, tern_ref_kv_store_q4_0, 1.01f);
}

/* The same scales as GGML's packer, whose codes are another by at most one: they are rounded from a scale that is not.
 */
static void packer_of_q8_0(void **state)
{
    (void)state;
    const tern_encoding *e = tern_encoding_by_name("q8_0");
    for (int round = 0; round < N_ROUNDS; round++) {
        float x[MAX_N];
        uint8_t row[MAX_N * 2], blocks[MAX_N * 2], packed[MAX_N * 2];
        random_row(x, MAX_N);
        tern_ref_kv_store_q8_0(x, MAX_N, row);
        to_blocks(TERN_DTYPE_Q8_0, row, MAX_N, blocks);
        e->pack(x, MAX_N / BLOCK, packed);
        for (size_t i = 0; i < MAX_N / BLOCK * 34; i++)
            if (i % 34 < 2) assert_int_equal(blocks[i], packed[i]);
            else assert_true(abs((int8_t)blocks[i] - (int8_t)packed[i]) <= 1);
    }
}

/* The number furthest from 0 comes back but for the rounding of the scale, and keeps its sign. */
static void largest_of_q4_0(void **state)
{
    (void)state;
    for (int round = 0; round < N_ROUNDS; round++) {
        float x[BLOCK], found[BLOCK];
        uint8_t row[MAX_N];
        random_row(x, BLOCK);
        uint32_t at = 0;
        for (uint32_t i = 0; i < BLOCK; i++)
            if (fabsf(x[i]) > fabsf(x[at])) at = i;
        tern_ref_kv_store_q4_0(x, BLOCK, row);
        tern_ref_kv_load(TERN_DTYPE_Q4_0, row, BLOCK, found);
        assert_true(fabsf(found[at] - x[at]) <= fabsf(x[at]) / 1024);
    }
}

/* Zeros stay zeros; a NaN or an infinity spoils its block, and no other. */
static void edges(tern_dtype type, tern_kv_store_fn store)
{
    static const float values[] = {0, -0.0f, 1e-30f, NAN, -NAN, INFINITY, -INFINITY};
    for (size_t v = 0; v < sizeof values / sizeof *values; v++) {
        float x[2 * BLOCK] = {0}, found[2 * BLOCK];
        uint8_t row[MAX_N];
        x[7] = values[v];
        x[BLOCK] = 1;
        store(x, 2 * BLOCK, row);
        tern_ref_kv_load(type, row, 2 * BLOCK, found);
        assert_true(fabsf(found[BLOCK] - 1) <= 1e-3f);
        for (uint32_t i = 0; i < BLOCK; i++) {
            assert_true(v < 3 ? found[i] == 0 : !isfinite(found[i]));
            assert_true(i == 0 || found[BLOCK + i] == 0);
        }
    }
}

static void edges_of_blocks(void **state)
{
    (void)state;
    edges(TERN_DTYPE_Q8_0, tern_ref_kv_store_q8_0);
    edges(TERN_DTYPE_Q4_0, tern_ref_kv_store_q4_0);
}

static int setup(void **state)
{
    (void)state;
    test_seed(&rng);
    return 0;
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(bytes_of_rows),  cmocka_unit_test(numbers_of_q8_0), cmocka_unit_test(numbers_of_q4_0),
    cmocka_unit_test(packer_of_q8_0), cmocka_unit_test(largest_of_q4_0), cmocka_unit_test(edges_of_blocks),
};

TEST_GROUP(cache_types, "web", tests, .setup = setup);
