/* What threads ask for while they wait: rows of the next linear op, the first that are each thread's own. */
#include "support/test.h"

#include "backend/cpu/ops.h"
#include "ops/op.h"
#include "ops/operands.h"
#include "quant/encoding.h"
#include "quant/weight.h"

enum { ROW_BYTES = 640, PARTS = 3, MOST_BYTES = 128 << 10 };
static const uint32_t part_rows[PARTS] = {2560, 640, 640};

typedef struct ahead {
    tern_weight weights[PARTS];
    tern_buffer buffers[PARTS];
    uint8_t bytes[PARTS][2560 * ROW_BYTES];
    tern_op op;
    tern_cpu_op bound;
    tern_graph graph;
    tern_prepared prepared;
    tern_cpu_step step;
} ahead;

static ahead *make(bool gated)
{
    static ahead a;
    const tern_encoding *e = tern_encoding_by_name("i2_s");
    a.op = (tern_op){.kind = TERN_OP_LINEAR, .rows = TERN_ROWS_TOKENS, .n_parts = gated ? 2 : PARTS, .gated = gated};
    a.bound = (tern_cpu_op){.op = &a.op};
    for (uint32_t p = 0; p < PARTS; p++) {
        a.weights[p] = (tern_weight){.encoding = e, .rows = gated ? 640 : part_rows[p], .cols = 2560};
        a.buffers[p] = (tern_buffer){.data = a.bytes[p], .weight = &a.weights[p], .row_bytes = ROW_BYTES};
        a.bound.weight[TERN_LINEAR_W + p] = &a.buffers[p];
    }
    a.prepared = (tern_prepared){.graph = &a.graph};
    a.step = (tern_cpu_step){.prepared = &a.prepared, .n_tokens = 1, .ahead = &a.bound};
    return &a;
}

/* The part of which a range is whole rows, PARTS if there is none. */
static uint32_t part_of(const ahead *a, tern_ahead_range range)
{
    for (uint32_t p = 0; p < PARTS; p++) {
        const uint8_t *from = a->bytes[p];
        const size_t bytes = (size_t)a->weights[p].rows * ROW_BYTES;
        if (range.from >= from && range.from + range.bytes <= from + bytes)
            return (size_t)(range.from - from) % ROW_BYTES == 0 ? p : PARTS;
    }
    return PARTS;
}

static void check_threads(const ahead *a, uint32_t n_threads, uint32_t last_part)
{
    uint32_t part = 0, n_asking = 0;
    for (uint32_t thread = 0; thread < n_threads; thread++) {
        const tern_ahead_range range = tern_cpu__linear_ahead(&a->step, thread, n_threads);
        const uint32_t p = part_of(a, range);
        if (range.bytes == 0) continue; /* fewer tasks than threads */
        n_asking++;
        assert_true(range.bytes <= MOST_BYTES);
        assert_true(p >= part && p <= last_part);
        if (thread == 0) assert_ptr_equal(range.from, a->bytes[0]);
        part = p;
    }
    assert_true(n_asking > n_threads / 2);
    if (n_threads > 8) assert_int_equal(part, last_part);
}

static void each_thread_its_first_rows(void **state)
{
    (void)state;
    for (uint32_t n_threads = 1; n_threads <= 16; n_threads++) {
        check_threads(make(false), n_threads, PARTS - 1);
        check_threads(make(true), n_threads, 0); /* which rows of the other half are read depends on the gate */
    }
}

static void nothing_that_is_not_known(void **state)
{
    (void)state;
    struct tern_columns *const columns = (struct tern_columns *)(uintptr_t)64; /* never looked into */
    const tern_route route = {0};
    ahead *a = make(false);
    a->step.n_tokens = 0;
    assert_int_equal(tern_cpu__linear_ahead(&a->step, 0, 2).bytes, 0);
    a->step.n_tokens = 65; /* a prompt: weights are read once for all of it */
    assert_int_equal(tern_cpu__linear_ahead(&a->step, 0, 2).bytes, 0);
    a = make(false);
    a->buffers[0].columns = columns;
    assert_int_equal(tern_cpu__linear_ahead(&a->step, 0, 2).bytes, 0);
    a = make(false);
    a->bound.routes = &route;
    assert_int_equal(tern_cpu__linear_ahead(&a->step, 0, 2).bytes, 0);
    a = make(false);
    a->op.screened = true;
    assert_int_equal(tern_cpu__linear_ahead(&a->step, 0, 2).bytes, 0);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(each_thread_its_first_rows),
    cmocka_unit_test(nothing_that_is_not_known),
};

TEST_GROUP(ahead, "", tests);
