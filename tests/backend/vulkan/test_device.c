/* The Vulkan backend itself: buffers, runs, counters. Its kernels have tests of their own. */
#include <pthread.h>

#include "backend/open.h"
#include "backend/vulkan/device.h"
#include "graph/bound.h"
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
        test_case_add(&c, (tern_op){.kind = TERN_OP_ADD,
                                    .n_in = TERN_ADD_INPUTS,
                                    .in = {[TERN_ADD_A] = y, [TERN_ADD_B] = x},
                                    .out = sum});
        y = sum;
    }
    test_case_compare(&c, gpu(), 7, 7, (test_tolerance){0});
    test_case_compare(&c, gpu(), 3, 3, (test_tolerance){0});
    test_case_close(&c);
}

enum { N_TURNS = 50, N_ADDENDS = 40, WIDTH = 500 };

/* One of two threads with a graph of its own: out = (n + 1) * x, with another x each turn. */
typedef struct session {
    test_case c;
    uint32_t x, out;
    tern_bound_graph bound;
    float factor;
    const char *wrong;
} session;

static void session_open(session *s, tern_rng *rng, tern_backend *b)
{
    tern_error err = {0};
    test_case_open(&s->c, rng, &(test_case_shape){0});
    tern_view x = test_case_rows(&s->c, "x", TERN_ROWS_TOKENS, WIDTH, TEST_ORDINARY), y = x;
    for (int i = 0; i < N_ADDENDS; i++) {
        tern_view sum = test_case_output(&s->c, "sum", TERN_ROWS_TOKENS, TERN_DTYPE_F32, WIDTH);
        test_case_add(&s->c, (tern_op){.kind = TERN_OP_ADD,
                                       .n_in = TERN_ADD_INPUTS,
                                       .in = {[TERN_ADD_A] = y, [TERN_ADD_B] = x},
                                       .out = sum});
        y = sum;
    }
    s->x = x.value;
    s->out = y.value;
    assert_ok(tern_bound_open(&s->bound, b, &s->c.graph, NULL, &err), err);
    memcpy(tern_bound_param(&s->bound, TERN_PARAM_COUNTS), (uint32_t[]){1, 1, 0}, 12);
    assert_ok(tern_bound_prepare(&s->bound, &err), err);
}

static void session_close(session *s)
{
    tern_bound_close(&s->bound);
    test_case_close(&s->c);
}

static void *take_turns(void *context)
{
    session *s = context;
    tern_backend *b = test_gpu_backend();
    tern_error err = {0};
    float x[WIDTH], out[WIDTH];
    for (int turn = 1; turn <= N_TURNS && !s->wrong; turn++) {
        for (int i = 0; i < WIDTH; i++) x[i] = s->factor * (float)(turn + i);
        bool ok = tern_bound_write(&s->bound, s->x, x, sizeof x, &err) == TERN_OK &&
                  tern_bound_start(&s->bound, 1, &err) == TERN_OK && b->wait(b, &err) == TERN_OK &&
                  tern_bound_read(&s->bound, s->out, out, sizeof out, &err) == TERN_OK;
        if (!ok) s->wrong = "an error";
        for (int i = 0; i < WIDTH && ok; i++)
            if (!(out[i] == x[i] * (N_ADDENDS + 1))) s->wrong = "another session's numbers, or an earlier turn's";
    }
    return NULL;
}

/* Sessions on two threads take turns; a run makes nothing anew. */
static void two_threads(void **state)
{
    (void)state;
    tern_backend *b = gpu();
    tern_rng rng;
    test_seed(&rng);
    static session sessions[2];
    pthread_t threads[2];
    for (int i = 0; i < 2; i++) {
        sessions[i] = (session){.factor = i ? 0.5f : 2};
        session_open(&sessions[i], &rng, b);
    }
    tern_backend_counters before, after;
    b->counters(b, &before);
    for (int i = 0; i < 2; i++) assert_int_equal(pthread_create(&threads[i], NULL, take_turns, &sessions[i]), 0);
    for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
    b->counters(b, &after);
    for (int i = 0; i < 2; i++) {
        if (sessions[i].wrong) fail_msg("session %d: %s", i, sessions[i].wrong);
        session_close(&sessions[i]);
    }
    assert_int_equal(after.runs - before.runs, 2 * N_TURNS);
    assert_int_equal(after.dispatches - before.dispatches, 2 * N_TURNS * N_ADDENDS);
    assert_int_equal(after.downloaded_bytes - before.downloaded_bytes, 2 * N_TURNS * WIDTH * 4);
    assert_true(after.submits - before.submits <= 2 * 2 * N_TURNS); /* with uploads, where memory is not mapped */
}

/* A device that is this CPU is no faster than the CPU's own kernels, and does at least `share` of what they do; others
 * are within what hardware can be. */
static void plausible(double found, double cpu, double share, double least, double most, const char *what)
{
    const bool is_cpu = tern_vulkan__self(gpu())->physical.properties.deviceType == VK_PHYSICAL_DEVICE_TYPE_CPU;
    const double from = is_cpu ? cpu * share : least, to = is_cpu ? 4 * cpu : most;
    print_message("%s: %.3g a second, %.3g by the CPU's kernels\n", what, found, cpu);
    if (!(found >= from && found <= to)) fail_msg("%s: %g found, %g to %g expected", what, found, from, to);
}

static void measures(void **state)
{
    (void)state;
    tern_error err = {0};
    tern_backend *b = gpu(), *cpu;
    tern_backend_counters before, after;
    double found[3], own[3];
    assert_ok(tern_backend_open(&cpu, &(tern_backend_options){0}, &err), err);
    b->counters(b, &before);
    for (int i = 0; i < 3; i++) {
        found[i] = b->measure(b, (tern_measure)i, NULL, 0, 0.05);
        own[i] = cpu->measure(cpu, (tern_measure)i, NULL, 0, 0.05);
    }
    b->counters(b, &after);
    cpu->close(cpu);
    plausible(found[TERN_MEASURE_READ], own[TERN_MEASURE_READ], 1e-3, 1e9, 2e13, "bytes read");
    plausible(found[TERN_MEASURE_DOTS], own[TERN_MEASURE_DOTS], 1e-5, 1e10, 2e16, "multiply-adds of int8");
    plausible(found[TERN_MEASURE_FMA], own[TERN_MEASURE_FMA], 1e-4, 1e10, 1e15, "multiply-adds of f32");
    assert_int_equal(after.dispatches, before.dispatches);
    assert_int_equal(after.uploaded_bytes, before.uploaded_bytes);
}

static const struct CMUnitTest tests[] = {cmocka_unit_test(buffers_round_trip), cmocka_unit_test(dependent_dispatches),
                                          cmocka_unit_test(two_threads), cmocka_unit_test(measures)};

TEST_GROUP(device, "gpu swiftshader", tests, .teardown = test_backends_close);
