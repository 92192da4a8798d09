/* The Vulkan backend itself: buffers, runs, counters. Its kernels have tests of their own. */
#include "backend/open.h"
#include "support/op_case.h"
#include "support/test.h"

static tern_backend *gpu(void)
{
    return test_gpu_backend();
}

static void fill(uint8_t *bytes, size_t n, uint32_t seed)
{
    for (size_t i = 0; i < n; i++) bytes[i] = (uint8_t)((i * 2654435761u + seed) >> 13);
}

/* Zeroed when made; any run of bytes comes back as it was written, also one larger than a staging buffer. */
static void buffers_round_trip(void **state)
{
    (void)state;
    tern_backend *b = gpu();
    static const size_t sizes[] = {1, 4, 255, 4096, 1000003, (20 << 20) + 7};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        size_t n = sizes[i], part = n / 3;
        tern_error err = {0};
        tern_buffer *buffer;
        uint8_t *data = malloc(n), *back = malloc(n);
        assert_ok(b->buffer_create(b, n, &buffer, &err), err);
        assert_ok(b->buffer_read(b, buffer, 0, back, n, &err), err);
        for (size_t k = 0; k < n; k++) assert_int_equal(back[k], 0);
        fill(data, n, (uint32_t)i);
        assert_ok(b->buffer_write(b, buffer, 0, data, n, &err), err);
        fill(data + part, part, 99);
        assert_ok(b->buffer_write(b, buffer, part, data + part, part, &err), err);
        assert_ok(b->buffer_read(b, buffer, 0, back, n, &err), err);
        assert_memory_equal(back, data, n);
        assert_int_equal(b->buffer_read(b, buffer, n, back, 1, &err), TERN_INVALID_ARGUMENT);
        assert_int_equal(b->buffer_write(b, buffer, 0, data, n + 1, &err), TERN_INVALID_ARGUMENT);
        b->buffer_free(b, buffer);
        free(data);
        free(back);
    }
}

/* A chain of sums, each reading what the one before wrote: wrong without barriers. */
static void dependent_dispatches(void **state)
{
    (void)state;
    tern_rng rng;
    test_seed(&rng);
    test_case c;
    test_case_open(&c, &rng, &(test_case_shape){.max_tokens = 7});
    tern_view x = test_case_rows(&c, "x", TERN_ROWS_TOKENS, 300, TEST_ORDINARY), y = x;
    for (int i = 0; i < 20; i++) {
        tern_view sum = i < 19 ? test_case_activation(&c, "sum", TERN_ROWS_TOKENS, TERN_DTYPE_F32, 300)
                               : test_case_output(&c, "out", TERN_ROWS_TOKENS, TERN_DTYPE_F32, 300);
        test_case_add(&c, (tern_op){.kind = TERN_OP_ADD, .n_in = 2, .in = {y, x}, .out = sum});
        y = sum;
    }
    test_case_compare(&c, gpu(), 7, 7, (test_tolerance){0});
    test_case_compare(&c, gpu(), 3, 3, (test_tolerance){0});
    test_case_close(&c);
}

static void measures(void **state)
{
    (void)state;
    tern_backend *b = gpu();
    tern_backend_counters before, after;
    b->counters(b, &before);
    double read = b->measure(b, TERN_MEASURE_READ, NULL, 0, 0.05), dots = b->measure(b, TERN_MEASURE_DOTS, NULL, 0, 0.05);
    print_message("%.2f GB/s, %.2f billion int8 multiply-adds/s\n", read * 1e-9, dots * 1e-9);
    assert_true(read > 1e6 && read < 1e14);
    assert_true(dots > 1e6 && dots < 1e18);
    b->counters(b, &after);
    assert_int_equal(after.dispatches, before.dispatches);
    assert_int_equal(after.uploaded_bytes, before.uploaded_bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(buffers_round_trip), cmocka_unit_test(dependent_dispatches),
                                       cmocka_unit_test(measures)};
    return cmocka_run_group_tests(tests, NULL, test_backends_close);
}
