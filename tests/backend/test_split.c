/* A graph split over two CPU backends computes the bits of one, wherever it is cut. */
#include "support/test.h"

#include "backend/counters.h"
#include "backend/cpu/cpu.h"
#include "backend/split/split_internal.h"
#include "base/alloc.h"
#include "graph/bound.h"
#include "graph/graph.h"
#include "model/model.h"
#include "ops/op.h"

enum { N_TOKENS = 5, N_OUTPUTS = 3, CONTEXT = 64 };

static tern_backend *open_cpu(bool scalar)
{
    tern_error err = {0};
    tern_backend *b;
    tern_cpu_options options = {.n_threads = 1, .features_set = scalar};
    assert_ok(tern_cpu_open(&b, &options, &err), err);
    return b;
}

static tern_backend *open_split(uint32_t device_layers)
{
    tern_error err = {0};
    tern_backend *b;
    assert_ok(tern_split_open(&b, open_cpu(false), open_cpu(true), device_layers, &err), err);
    return b;
}

/* A graph with its memory. */
typedef struct rig {
    tern_backend *b;
    tern_graph graph;
    tern_bound_graph bound;
} rig;

static void write_value(rig *r, uint32_t value, const void *data, uint64_t bytes)
{
    tern_error err = {0};
    assert_ok(tern_bound_write(&r->bound, value, data, bytes, &err), err);
}

static uint32_t rope_table_of(const tern_graph *g)
{
    uint32_t i = 0;
    while (g->values[i].kind != TERN_VALUE_CONSTANT) i++;
    return i;
}

/* Made-up angles, in two writes, before anything is prepared. */
static void write_rope_table(rig *r)
{
    const uint32_t value = rope_table_of(&r->graph);
    const tern_value *v = &r->graph.values[value];
    size_t n = v->bytes / sizeof(float);
    float *table = malloc(v->bytes);
    for (size_t i = 0; i < n; i++) table[i] = (float)(i % 97) / 97 - 0.4f;
    write_value(r, value, table, v->bytes / 2);
    const tern_binding *at = &r->bound.bindings[value];
    tern_error err = {0};
    assert_ok(r->b->buffer_write(r->b, at->buffer, at->offset + v->bytes / 2, table + n / 2, v->bytes / 2, &err), err);
    free(table);
}

static void write_counts(rig *r, uint32_t n_outputs)
{
    write_value(r, r->graph.params[TERN_PARAM_COUNTS], (uint32_t[]){N_TOKENS, n_outputs, 0}, 12);
}

static void write_params(rig *r)
{
    const uint32_t ids[] = {3, 1, 4, 1, 5}, positions[] = {0, 1, 2, 3, 4}, outputs[] = {4, 0, 2}, pages[] = {0, 1};
    write_value(r, r->graph.params[TERN_PARAM_IDS], ids, sizeof ids);
    write_value(r, r->graph.params[TERN_PARAM_POSITIONS], positions, sizeof positions);
    write_value(r, r->graph.params[TERN_PARAM_OUTPUTS], outputs, sizeof outputs);
    write_value(r, r->graph.params[TERN_PARAM_PAGES], pages, sizeof pages);
}

static void open_rig(rig *r, tern_backend *b, const tern_model *model, bool fused)
{
    tern_error err = {0};
    *r = (rig){.b = b};
    tern_graph_options options = {.max_tokens = N_TOKENS,
                                  .max_outputs = N_TOKENS,
                                  .n_ctx = CONTEXT,
                                  .n_sequences = 1,
                                  .n_pages = 2,
                                  .keep_hidden = true};
    assert_ok(tern_graph_build(&r->graph, model, &options, &err), err);
    if (fused) assert_ok(tern_graph_fuse(&r->graph, b, &err), err);
    assert_ok(tern_graph_plan(&r->graph, b->info.fusions, &err), err);
    assert_ok(tern_bound_open(&r->bound, b, &r->graph, NULL, &err), err);
    write_rope_table(r);
    write_counts(r, N_OUTPUTS); /* some parameters before anything is prepared, some after */
    assert_ok(tern_bound_prepare(&r->bound, &err), err);
    write_params(r);
}

static void close_rig(rig *r)
{
    tern_bound_close(&r->bound);
    tern_graph_deinit(&r->graph);
    r->b->close(r->b);
}

static void run(rig *r)
{
    tern_error err = {0};
    assert_ok(r->b->run(r->b, r->bound.prepared, 1, &err), err);
    assert_ok(r->b->wait(r->b, &err), err);
}

static void *read_value(rig *r, uint32_t value)
{
    tern_error err = {0};
    uint64_t bytes = r->graph.values[value].bytes;
    void *data = malloc(bytes);
    assert_ok(tern_bound_read(&r->bound, value, data, bytes, &err), err);
    return data;
}

static tern_backend_counters counters(const rig *r)
{
    tern_backend_counters c;
    r->b->counters(r->b, &c);
    return c;
}

static void assert_same_values(rig *a, rig *b)
{
    assert_int_equal(a->graph.n_values, b->graph.n_values);
    for (uint32_t i = 0; i < a->graph.n_values; i++) {
        const tern_value *v = &a->graph.values[i];
        if (v->kind != TERN_VALUE_OUTPUT && v->kind != TERN_VALUE_CACHE) continue;
        if (!a->bound.bindings[i].buffer) continue; /* fused away */
        void *x = read_value(a, i), *y = read_value(b, i);
        if (memcmp(x, y, v->bytes) != 0) fail_msg("%s differs on %s", v->name, b->b->info.name);
        free(x);
        free(y);
    }
}

static tern_model *open_model(const char *name)
{
    tern_error err = {0};
    tern_model *model;
    assert_ok(tern_model_open(&model, test_fixture(name), &(tern_model_options){.no_tokenizer = true}, &err), err);
    return model;
}

/* How many rows cross when so many of n layers run on the device: each token's into them, each output's out of them. */
static uint32_t rows_crossing(uint32_t device, uint32_t n, uint32_t n_outputs)
{
    return device == 0 || device > n ? 0 : N_TOKENS + n_outputs;
}

static void check_every_cut(const char *name, bool fused)
{
    tern_model *model = open_model(name);
    const tern_config *c = tern_model_config(model);
    rig whole;
    open_rig(&whole, open_cpu(false), model, fused);
    run(&whole);
    uint64_t weight_bytes = counters(&whole).weight_bytes;
    assert_true(weight_bytes > 0);
    for (uint32_t n = 0; n <= c->n_layers + 2; n++) {
        rig split;
        open_rig(&split, open_split(n), model, fused);
        run(&split);
        assert_same_values(&whole, &split);
        assert_int_equal(counters(&split).weight_bytes, weight_bytes);
        assert_int_equal(counters(&split).runs, 1);
        assert_int_equal(counters(&split).crossed_bytes,
                         rows_crossing(n, c->n_layers, N_OUTPUTS) * c->n_embd * sizeof(float));
        close_rig(&split);
    }
    close_rig(&whole);
    tern_model_close(model);
}

static void every_cut(void **state)
{
    (void)state;
    check_every_cut("bitnet", true);
    check_every_cut("bitnet", false);
    check_every_cut("llama", true);
}

/* Rows beyond the counts stay, and the head does nothing in a step without logits. */
static void steps_without_logits(void **state)
{
    (void)state;
    tern_model *model = open_model("bitnet");
    rig r;
    open_rig(&r, open_split(1), model, true);
    run(&r);
    uint64_t crossed = counters(&r).crossed_bytes, row = tern_model_config(model)->n_embd * sizeof(float);
    float *before = read_value(&r, r.graph.logits);
    write_counts(&r, 0);
    run(&r);
    float *after = read_value(&r, r.graph.logits);
    assert_memory_equal(before, after, r.graph.values[r.graph.logits].bytes);
    assert_int_equal(counters(&r).crossed_bytes - crossed, rows_crossing(1, 3, 0) * row);
    free(before);
    free(after);
    close_rig(&r);
    tern_model_close(model);
}

/* Each weight and cache is where its layer runs, and nowhere else. */
static void one_side_holds_it(void **state)
{
    (void)state;
    tern_model *model = open_model("bitnet");
    rig r;
    open_rig(&r, open_split(1), model, true);
    for (size_t i = 0; i < r.graph.n_ops; i++)
        for (uint32_t k = 0; k < r.graph.ops[i].n_in; k++) {
            uint32_t value = r.graph.ops[i].in[k].value;
            tern_value_kind kind = r.graph.values[value].kind;
            if (kind != TERN_VALUE_WEIGHT && kind != TERN_VALUE_CACHE) continue;
            bool device = r.graph.ops[i].layer == r.graph.n_layers - 1;
            assert_true((r.bound.bindings[value].buffer->on[TERN_SIDE_DEVICE] != NULL) == device);
            assert_true((r.bound.bindings[value].buffer->on[TERN_SIDE_HOST] != NULL) == !device);
        }
    close_rig(&r);
    tern_model_close(model);
}

static void runs_do_not_allocate(void **state)
{
    (void)state;
    tern_model *model = open_model("bitnet");
    rig r;
    open_rig(&r, open_split(1), model, true);
    run(&r);
    uint64_t before = tern_alloc_count();
    run(&r);
    assert_int_equal(tern_alloc_count(), before);
    close_rig(&r);
    tern_model_close(model);
}

static void errors(void **state)
{
    (void)state;
    tern_model *model = open_model("bitnet");
    tern_error err = {0};
    rig r;
    open_rig(&r, open_split(1), model, true);
    assert_int_equal(r.b->run(r.b, r.bound.prepared, 2, &err), TERN_INVALID_ARGUMENT);
    assert_string_equal(err.message, "run of 2 steps: cpu+cpu takes 1");
    write_value(&r, r.graph.params[TERN_PARAM_COUNTS], (uint32_t[]){N_TOKENS + 1, 0, 0}, 12);
    assert_int_equal(r.b->run(r.b, r.bound.prepared, 1, &err), TERN_INVALID_ARGUMENT);
    assert_non_null(strstr(err.message, "step of 6 tokens"));
    uint8_t byte = 0;
    assert_int_equal(r.b->buffer_read(r.b, r.bound.activations.buffers[0], 0, &byte, 1, &err), TERN_INVALID_ARGUMENT);
    assert_non_null(strstr(err.message, "both sides"));
    assert_int_equal(r.b->buffer_write(r.b, r.bound.params, r.graph.param_bytes, &byte, 1, &err),
                     TERN_INVALID_ARGUMENT);
    tern_op op = r.graph.ops[0];
    op.kind = TERN_OP_SAMPLE;
    assert_int_equal(r.b->supports(r.b, &r.graph, &op, &err), TERN_UNSUPPORTED);
    op = r.graph.ops[0];
    op.kind = TERN_OP_ROPE_ATTENTION;
    assert_int_equal(r.b->supports(r.b, &r.graph, &op, &err), TERN_UNSUPPORTED);
    assert_string_equal(err.message, "cpu side of cpu+cpu: cpu: op rope_attention");
    close_rig(&r);
    tern_model_close(model);
}

/* Every allocation fails once: an error each time, and nothing is lost. */
static void out_of_memory(void **state)
{
    (void)state;
    tern_model *model = open_model("bitnet");
    rig r;
    open_rig(&r, open_split(1), model, true);
    tern_error err = {0};
    for (uint64_t n = 1;; n++) {
        tern_prepared *p = NULL;
        tern_alloc_fail_after(n, false);
        tern_status status = r.b->prepare(r.b, &r.graph, r.bound.bindings, &p, &err);
        tern_alloc_fail_after(0, false);
        r.b->prepared_free(r.b, p);
        if (status == TERN_OK) break;
        assert_int_equal(status, TERN_OUT_OF_MEMORY);
    }
    run(&r);
    close_rig(&r);
    tern_model_close(model);
}

static void no_leaks(void **state)
{
    (void)state;
    int64_t live = tern_alloc_live();
    tern_model *model = open_model("bitnet");
    rig r;
    open_rig(&r, open_split(2), model, true);
    run(&r);
    close_rig(&r);
    tern_model_close(model);
    assert_int_equal(tern_alloc_live(), live);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(every_cut),
    cmocka_unit_test(steps_without_logits),
    cmocka_unit_test(one_side_holds_it),
    cmocka_unit_test(runs_do_not_allocate),
    cmocka_unit_test(errors),
    cmocka_unit_test(out_of_memory),
    cmocka_unit_test(no_leaks),
};

TEST_GROUP(split, "", tests);
