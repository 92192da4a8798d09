/* Bound graphs: what they own and what they are given, parameters, steps, reads that wait and reads that do not. */
#include "support/test.h"

#include "backend/cpu/cpu.h"
#include "base/alloc.h"
#include "graph/bound.h"
#include "graph/graph.h"
#include "ops/op.h"
#include "support/pending_backend.h"

enum { COLS = 16, TOKENS = 3 };

static tern_error err;

static tern_backend *open_cpu(void)
{
    tern_backend *b;
    assert_ok(tern_cpu_open(&b, &(tern_cpu_options){.n_threads = 1}, &err), err);
    return b;
}

/* out = (x + x) + x over planned activations; COUNTS; one value that no op touches. */
typedef struct sums {
    tern_graph graph;
    uint32_t x, twice, out, untouched;
} sums;

static uint32_t add_value(tern_graph *g, tern_value_kind kind, const char *name)
{
    uint32_t id;
    tern_value v = {.kind = kind, .dtype = TERN_DTYPE_F32, .cols = COLS, .bytes = TOKENS * COLS * sizeof(float)};
    snprintf(v.name, sizeof v.name, "%s", name);
    assert_ok(tern_graph__add_value(g, v, &id, &err), err);
    return id;
}

static void add_sum(tern_graph *g, uint32_t a, uint32_t b, uint32_t out)
{
    const tern_view none = {.value = TERN_NO_VALUE};
    const tern_op op = {.kind = TERN_OP_ADD,
                        .n_in = 2,
                        .in = {{.value = a, .cols = COLS}, {.value = b, .cols = COLS}},
                        .out = {.value = out, .cols = COLS},
                        .residual = none,
                        .norm_weight = none};
    assert_ok(tern_graph__add_op(g, &op, &err), err);
}

static sums open_sums(tern_value_kind input)
{
    sums s = {.graph = {.max_tokens = TOKENS,
                        .max_outputs = TOKENS,
                        .max_pages = 1,
                        .n_sequences = 1,
                        .logits = TERN_NO_VALUE,
                        .tokens = TERN_NO_VALUE,
                        .losses = TERN_NO_VALUE,
                        .norms = TERN_NO_VALUE}};
    tern_graph *g = &s.graph;
    for (int i = 0; i < TERN_PARAM_COUNT; i++) g->params[i] = TERN_NO_VALUE;
    const tern_value counts = {.kind = TERN_VALUE_PARAM, .dtype = TERN_DTYPE_U32, .bytes = 12};
    assert_ok(tern_graph__add_value(g, counts, &g->params[TERN_PARAM_COUNTS], &err), err);
    g->param_bytes = TERN_PARAM_ALIGNMENT;
    s.x = add_value(g, input, "x");
    s.twice = add_value(g, TERN_VALUE_ACTIVATION, "twice");
    s.out = add_value(g, TERN_VALUE_OUTPUT, "out");
    s.untouched = add_value(g, TERN_VALUE_OUTPUT, "untouched");
    add_sum(g, s.x, s.x, s.twice);
    add_sum(g, s.twice, s.x, s.out);
    assert_ok(tern_graph_plan(g, 0, &err), err);
    return s;
}

static void set_tokens(const tern_bound_graph *b, uint32_t n)
{
    memcpy(tern_bound_param(b, TERN_PARAM_COUNTS), (uint32_t[]){n, n, 0}, 12);
}

static void fill(float x[TOKENS * COLS], float factor)
{
    for (int i = 0; i < TOKENS * COLS; i++) x[i] = factor * (float)(i - 20);
}

/* Three times x in the first rows; those beyond the step stay. */
static void check_out(const float *x, const float *out, uint32_t n_rows)
{
    for (uint32_t i = 0; i < TOKENS * COLS; i++)
        assert_true(out[i] == (i < n_rows * COLS ? 3 * x[i] : 0)); /* small integers: exact */
}

static void steps(void **state)
{
    (void)state;
    tern_backend *backend = open_cpu();
    sums s = open_sums(TERN_VALUE_OUTPUT);
    tern_bound_graph b;
    float x[TOKENS * COLS], out[TOKENS * COLS];
    assert_ok(tern_bound_open(&b, backend, &s.graph, NULL, &err), err);
    assert_null(b.bindings[s.untouched].buffer);
    assert_null(tern_bound_param(&b, TERN_PARAM_IDS));
    assert_ok(tern_bound_prepare(&b, &err), err);
    fill(x, 1);
    assert_ok(tern_bound_write(&b, s.x, x, sizeof x, &err), err);
    for (uint32_t n = 1; n <= TOKENS; n += 2) {
        set_tokens(&b, n);
        const uint64_t before = tern_alloc_count();
        assert_ok(tern_bound_start(&b, 1, &err), err);
        assert_ok(tern_bound_read(&b, s.out, out, sizeof out, &err), err);
        assert_int_equal(tern_alloc_count(), before);
        check_out(x, out, n);
    }
    tern_bound_close(&b);
    tern_bound_close(&b); /* nothing left */
    tern_graph_deinit(&s.graph);
    backend->close(backend);
}

/* Ops alone, on what is there. */
static void some_ops(void **state)
{
    (void)state;
    tern_backend *backend = open_cpu();
    sums s = open_sums(TERN_VALUE_OUTPUT);
    tern_bound_graph b;
    float x[TOKENS * COLS], out[TOKENS * COLS];
    assert_ok(tern_bound_open(&b, backend, &s.graph, NULL, &err), err);
    fill(x, 1);
    assert_ok(tern_bound_write(&b, s.x, x, sizeof x, &err), err);
    assert_ok(tern_bound_write(&b, s.twice, x, sizeof x, &err), err);
    set_tokens(&b, TOKENS);
    assert_ok(tern_bound_write_params(&b, &err), err);
    assert_ok(tern_bound_run_ops(&b, 0, 0, &err), err); /* none */
    assert_ok(tern_bound_run_ops(&b, 1, 2, &err), err);
    assert_ok(tern_bound_read(&b, s.out, out, sizeof out, &err), err);
    for (int i = 0; i < TOKENS * COLS; i++) assert_true(out[i] == 2 * x[i]);
    tern_bound_close(&b);
    tern_graph_deinit(&s.graph);
    backend->close(backend);
}

static tern_status find_cache(void *context, const tern_graph *graph, uint32_t value, tern_binding *out, tern_error *e)
{
    (void)e;
    assert_true(graph->values[value].kind != TERN_VALUE_PARAM && graph->values[value].kind != TERN_VALUE_ACTIVATION);
    if (graph->values[value].kind == TERN_VALUE_CACHE) out->buffer = tern_graph_buffers_at(context, graph, value);
    return TERN_OK;
}

/* Two graphs over the same caches and activations. */
/* Cut in two, of which the second goes on with what the first has made. */
static void parts(void **state)
{
    (void)state;
    tern_backend *backend = open_cpu();
    sums s = open_sums(TERN_VALUE_OUTPUT);
    tern_bound_graph b;
    float x[TOKENS * COLS], out[TOKENS * COLS];
    assert_ok(tern_bound_open(&b, backend, &s.graph, NULL, &err), err);
    assert_ok(tern_bound_prepare(&b, &err), err);
    assert_ok(tern_bound_cut(&b, (const size_t[]){1, 2}, 2, &err), err);
    assert_int_equal(b.n_parts, 2);
    fill(x, 1);
    assert_ok(tern_bound_write(&b, s.x, x, sizeof x, &err), err);
    for (uint32_t n = 1, before = 0; n <= TOKENS; before = n, n += 2) {
        set_tokens(&b, n);
        const uint64_t allocations = tern_alloc_count();
        for (size_t i = 0; i < 2; i++) {
            assert_ok(tern_bound_start_part(&b, i, &err), err);
            assert_ok(tern_bound_read(&b, s.out, out, sizeof out, &err), err);
            check_out(x, out, i ? n : before);
        }
        assert_int_equal(tern_alloc_count(), allocations);
    }
    tern_bound_close(&b);
    assert_int_equal(b.n_parts, 0);
    tern_graph_deinit(&s.graph);
    backend->close(backend);
}

static void shared_memory(void **state)
{
    (void)state;
    tern_backend *backend = open_cpu();
    sums s = open_sums(TERN_VALUE_CACHE);
    tern_graph_buffers caches;
    tern_activations activations;
    assert_ok(tern_graph_buffers_make(&caches, backend, &s.graph, TERN_VALUE_CACHE, &err), err);
    assert_ok(tern_activations_make(&activations, backend, s.graph.activation_bytes, 0, &err), err);
    assert_int_equal(caches.n, 1);
    assert_int_equal(tern_graph_bytes_of(&s.graph, TERN_VALUE_CACHE), TOKENS * COLS * 4);
    const tern_bound_options options = {.find = find_cache, .context = &caches, .activations = &activations};
    tern_bound_graph both[2];
    float x[TOKENS * COLS], out[TOKENS * COLS];
    for (int i = 0; i < 2; i++) {
        assert_ok(tern_bound_open(&both[i], backend, &s.graph, &options, &err), err);
        assert_ok(tern_bound_prepare(&both[i], &err), err);
        assert_ptr_equal(both[i].bindings[s.x].buffer, caches.buffers[0]);
        assert_ptr_equal(both[i].bindings[s.twice].buffer, activations.buffers[0]);
    }
    assert_ptr_not_equal(both[0].bindings[s.out].buffer, both[1].bindings[s.out].buffer);
    fill(x, 2);
    assert_ok(tern_bound_write(&both[0], s.x, x, sizeof x, &err), err);
    set_tokens(&both[1], TOKENS);
    assert_ok(tern_bound_start(&both[1], 1, &err), err);
    assert_ok(tern_bound_read(&both[1], s.out, out, sizeof out, &err), err);
    check_out(x, out, TOKENS);
    for (int i = 0; i < 2; i++) tern_bound_close(&both[i]);
    tern_activations_free(&activations, backend);
    tern_graph_buffers_free(&caches, backend);
    tern_graph_deinit(&s.graph);
    backend->close(backend);
}

/* Blocks: offsets beyond one are in the next buffer. */
static void activations_in_blocks(void **state)
{
    (void)state;
    tern_backend *backend = open_cpu();
    tern_activations a;
    assert_ok(tern_activations_make(&a, backend, 1000, 256, &err), err);
    for (int i = 0; i < 4; i++) assert_non_null(a.buffers[i]);
    assert_null(a.buffers[4]);
    assert_ptr_equal(tern_activations_at(&a, 600).buffer, a.buffers[2]);
    assert_int_equal(tern_activations_at(&a, 600).offset, 88);
    tern_activations_free(&a, backend);
    assert_int_equal(tern_activations_make(&a, backend, 65 * 256, 256, &err), TERN_LIMIT);
    assert_non_null(strstr(err.message, "at most 64"));
    tern_activations_free(&a, backend);
    backend->close(backend);
}

/* A constant larger than what is written at once holds the rows of all positions; one without frequencies stays. */
static void constants(void **state)
{
    (void)state;
    enum { PAIRS = 64, ROWS = 5000 };
    tern_backend *backend = open_cpu();
    float frequencies[PAIRS], *want = malloc(ROWS * 2 * PAIRS * sizeof *want), *got = calloc(ROWS * 2 * PAIRS, 4);
    for (int i = 0; i < PAIRS; i++) frequencies[i] = 1 / (float)(1 + i * i);
    tern_value values[] = {{.kind = TERN_VALUE_CONSTANT, .cols = 2 * PAIRS, .bytes = ROWS * 2 * PAIRS * 4},
                           {.kind = TERN_VALUE_OUTPUT, .cols = 1, .bytes = 4},
                           {.kind = TERN_VALUE_CONSTANT, .cols = 2 * PAIRS, .bytes = ROWS * 2 * PAIRS * 4}};
    values[2].frequencies = frequencies;
    const tern_graph g = {.values = values, .n_values = 3};
    tern_graph_buffers made;
    assert_ok(tern_graph_buffers_make(&made, backend, &g, TERN_VALUE_CONSTANT, &err), err);
    assert_int_equal(made.n, 2);
    assert_ptr_equal(tern_graph_buffers_at(&made, &g, 0), made.buffers[0]);
    assert_ptr_equal(tern_graph_buffers_at(&made, &g, 2), made.buffers[1]);
    for (int which = 0; which < 2; which++) {
        memset(want, 0, ROWS * 2 * PAIRS * sizeof *want);
        if (which) tern_rope_rows(frequencies, NULL, PAIRS, 0, ROWS, want);
        assert_ok(backend->buffer_read(backend, made.buffers[which], 0, got, ROWS * 2 * PAIRS * 4, &err), err);
        assert_memory_equal(got, want, ROWS * 2 * PAIRS * 4);
    }
    tern_graph_buffers_free(&made, backend);
    backend->close(backend);
    free(want);
    free(got);
}

/* A device that cannot be waited for: the read is made again until it is there, or given up. */
static void reads_that_do_not_wait(void **state)
{
    (void)state;
    tern_backend *backend = open_cpu();
    sums s = open_sums(TERN_VALUE_OUTPUT);
    tern_bound_graph b;
    float x[TOKENS * COLS], out[TOKENS * COLS];
    test_make_pending(backend, 4);
    assert_ok(tern_bound_open(&b, backend, &s.graph, NULL, &err), err);
    assert_ok(tern_bound_prepare(&b, &err), err);
    set_tokens(&b, TOKENS);
    for (int turn = 1; turn < 20; turn++) {
        tern_status status;
        fill(x, (float)turn);
        assert_ok(tern_bound_write(&b, s.x, x, sizeof x, &err), err);
        assert_ok(tern_bound_start(&b, 1, &err), err);
        while ((status = tern_bound_read(&b, s.out, out, sizeof out, &err)) == TERN_PENDING && turn % 3) {
            assert_true(b.pending);
        }
        if (status == TERN_PENDING) tern_bound_forget(&b);
        else check_out(x, out, TOKENS);
        assert_false(b.pending || test_pending_reading());
    }
    assert_true(test_pending_count() > 3);
    while (tern_bound_read(&b, s.out, out, sizeof out, &err) != TERN_PENDING) continue;
    tern_bound_close(&b); /* with a read under way */
    test_end_pending(backend);
    tern_graph_deinit(&s.graph);
    backend->close(backend);
}

static tern_status refuse(void *context, const tern_graph *graph, uint32_t value, tern_binding *out, tern_error *e)
{
    (void)context;
    (void)out;
    return tern_fail(e, TERN_INTERNAL, "no place for %s", graph->values[value].name);
}

/* Every allocation fails once, and so does find: an error, nothing lost, nothing to close. */
static void failures(void **state)
{
    (void)state;
    const int64_t live = tern_alloc_live();
    tern_backend *backend = open_cpu();
    sums s = open_sums(TERN_VALUE_OUTPUT);
    tern_bound_graph b;
    assert_int_equal(tern_bound_open(&b, backend, &s.graph, &(tern_bound_options){.find = refuse}, &err),
                     TERN_INTERNAL);
    assert_string_equal(err.message, "no place for x");
    assert_null(b.backend);
    tern_status status = TERN_OUT_OF_MEMORY;
    for (uint64_t n = 1; status != TERN_OK; n++) {
        tern_alloc_fail_after(n, false);
        status = tern_bound_open(&b, backend, &s.graph, NULL, &err);
        tern_alloc_fail_after(0, false);
        assert_true(status == TERN_OK ? n > 5 : status == TERN_OUT_OF_MEMORY && !b.backend);
    }
    tern_bound_close(&b);
    tern_graph_deinit(&s.graph);
    backend->close(backend);
    assert_int_equal(tern_alloc_live(), live);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(steps),         cmocka_unit_test(some_ops),
    cmocka_unit_test(shared_memory), cmocka_unit_test(activations_in_blocks),
    cmocka_unit_test(constants),     cmocka_unit_test(reads_that_do_not_wait),
    cmocka_unit_test(failures),      cmocka_unit_test(parts),
};

TEST_GROUP(bound, "", tests);
