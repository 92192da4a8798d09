/* Linear layers of dense weights with the norm before them in one op, as fusion makes them for one token: against the
 * norm and the layer apart, on the CPU. */
#include "support/test.h"

#include "backend/gpu/caps.h"
#include "graph/graph.h"
#include "support/op_case.h"

static tern_rng rng;
static tern_backend *small; /* bindings of 64 KiB, so that weights are in slices */

static const struct {
    const char *name;
    uint32_t unit, lane; /* columns of a row are a multiple of; that a lane takes at a time */
} formats[] = {{"f32", 16, 8},     {"f16", 16, 8},     {"bf16", 16, 8},   {"q8_0", 32, 16},  {"q6_k", 256, 64},
               {"q4_k", 256, 32},  {"q5_k", 256, 32},  {"q4_0", 32, 32},  {"q4_1", 32, 32},  {"q5_0", 32, 32},
               {"q5_1", 32, 32},   {"iq4_nl", 32, 32}, {"q3_k", 256, 64}, {"q2_k", 256, 64}, {"q2_0", 64, 64},
               {"pq2_0", 128, 64}, {"q1_0", 128, 64}};
enum { N_FORMATS = sizeof formats / sizeof *formats };

typedef struct layer {
    uint32_t n_parts, rows[3], cols;
    const char *encodings[3];
    uint32_t gap; /* columns before and after x in its rows */
    bool residual, gated;
    tern_activation activation;
    uint32_t biases; /* a bit for each part that has one */
} layer;

static tern_view build(test_case *c, const layer *l)
{
    test_case_open(c, &rng, &(test_case_shape){.max_tokens = 1});
    tern_view x = test_case_rows(c, "x", TERN_ROWS_TOKENS, l->cols + 2 * l->gap, TEST_ORDINARY);
    tern_op norm = {.kind = TERN_OP_RMS_NORM,
                    .n_in = TERN_NORM_INPUTS,
                    .in = {test_case_columns(x, l->gap, l->cols), test_case_norm_weight(c, l->cols)},
                    .out = test_case_activation(c, "normed", TERN_ROWS_TOKENS, TERN_DTYPE_F32, l->cols),
                    .eps = 0.25f}; /* of the order of the mean square: a wrong one shows */
    tern_op linear = {.kind = TERN_OP_LINEAR,
                      .n_in = 1 + l->n_parts,
                      .n_parts = l->n_parts,
                      .in = {norm.out},
                      .gated = l->gated,
                      .activation = l->activation};
    uint32_t total = 0;
    for (uint32_t i = 0; i < l->n_parts; i++) {
        linear.in[TERN_LINEAR_W + i] = test_case_weight(c, l->encodings[i], l->rows[i], l->cols);
        total += l->gated && i ? 0 : l->rows[i];
        if (l->biases >> i & 1) linear.bias[i] = test_case_norm_weight(c, l->rows[i]);
    }
    if (l->residual) linear.residual = test_case_rows(c, "residual", TERN_ROWS_TOKENS, total, TEST_ORDINARY);
    linear.out = test_case_output(c, "y", TERN_ROWS_TOKENS, TERN_DTYPE_F32, total);
    test_case_add(c, norm);
    test_case_add(c, linear);
    return linear.out;
}

static void check(const layer *l, tern_backend *gpu)
{
    test_case c;
    test_results want, got;
    tern_error err = {0};
    const tern_view y = build(&c, l);
    test_case_run(&c, test_backend("cpu"), 1, 1, 1, &want);
    assert_ok(tern_graph_fuse(&c.graph, gpu, &err), err);
    assert_int_equal(c.graph.n_ops, 1);
    assert_true(c.graph.ops[0].norm_f32);
    test_case_run(&c, gpu, 1, 1, 1, &got);
    const char *what = test_case_difference_of_rows(&c, y.value, 1, &got, &want,
                                                    (test_tolerance){.absolute = 1e-6 * l->cols, .of_row = 1e-5});
    if (what) fail_msg("%s, %u x %u on %s: %s", l->encodings[0], l->rows[0], l->cols, gpu->info.device, what);
    test_results_free(&want);
    test_results_free(&got);
    test_case_close(&c);
}

/* At most as many units as 32 lanes take in one turn: some longer rows stay apart where subgroups have 32. */
static uint32_t some_cols(uint32_t format)
{
    const uint32_t unit = formats[format].unit, most = 32 * formats[format].lane;
    return unit * test_between(&rng, 1, most / unit);
}

static void every_format_and_device(void **state)
{
    (void)state;
    test_seed(&rng);
    for (test_gpu_kind kind = 0; kind < TEST_GPU_N_KINDS; kind++)
        for (uint32_t f = 0; f < N_FORMATS; f++) {
            /* Drivers take seconds for each kernel: one of each format, for one kind of device; all when simulated. */
            const bool all = getenv("TERN_TEST_SIMULATE") != NULL;
            if (f % TEST_GPU_N_KINDS != kind && !all) continue;
            const char *name = formats[f].name;
            const uint32_t rows = test_between(&rng, 1, 200);
            const layer three = {.n_parts = 3,
                                 .rows = {test_between(&rng, 1, 200), test_between(&rng, 1, 60), 37},
                                 .cols = some_cols(f),
                                 .encodings = {name, name, name},
                                 .gap = 8};
            const layer two = {.n_parts = 2,
                               .rows = {rows, rows},
                               .cols = some_cols(f),
                               .encodings = {name, name},
                               .gated = true,
                               .activation = (tern_activation)(f % 3)};
            if (all || f % 2 == 0) check(&three, test_gpu_backend_of(kind));
            if (all || f % 2 == 1) check(&two, test_gpu_backend_of(kind));
        }
}

/* Parts that are dispatches of their own: with biases, of several encodings, in slices. */
static void parts_apart(void **state)
{
    (void)state;
    test_seed(&rng);
    static const tern_gpu_caps limits = {.workgroup_bytes = 16384,
                                         .workgroup_invocations = 128,
                                         .max_groups = 65535,
                                         .max_binding = 65536,
                                         .binding_alignment = 256};
    static const layer layers[] = {
        {.n_parts = 3, .rows = {64, 20, 37}, .cols = 2048, .encodings = {"q4_k", "q4_k", "q6_k"}},
        {.n_parts = 3, .rows = {64, 20, 37}, .cols = 512, .encodings = {"q8_0", "q8_0", "q8_0"}, .biases = 7},
        {.n_parts = 3, .rows = {64, 20, 37}, .cols = 256, .encodings = {"f16", "f16", "f16"}, .biases = 2},
        {.n_parts = 1, .rows = {77}, .cols = 384, .encodings = {"q8_0"}, .residual = true},
        {.n_parts = 2, .rows = {33, 8}, .cols = 384, .encodings = {"q8_0", "q8_0"}, .residual = true},
        {.n_parts = 2, .rows = {33, 8}, .cols = 384, .encodings = {"q8_0", "f16"}, .residual = true, .biases = 1},
        {.n_parts = 2,
         .rows = {50, 50},
         .cols = 1024,
         .encodings = {"q4_k", "q5_k"},
         .gated = true,
         .activation = TERN_ACT_SILU}};
    test_gpu_backend(); /* skips where there is no device */
    for (size_t i = 0; i < sizeof layers / sizeof *layers; i++) check(&layers[i], test_gpu_backend());
    small = test_gpu_open(&limits);
    static const layer sliced[] = {
        {.n_parts = 2, .rows = {700, 301}, .cols = 512, .encodings = {"q8_0", "q8_0"}, .residual = true},
        {.n_parts = 2, .rows = {700, 700}, .cols = 512, .encodings = {"f16", "f16"}, .gated = true}};
    for (size_t i = 0; i < sizeof sliced / sizeof *sliced; i++) check(&sliced[i], small);
}

/* What has no kernel of both stays two ops: rows of the wrong length, ternary beside dense, a table. */
static void what_stays_apart(void **state)
{
    (void)state;
    test_seed(&rng);
    static const layer layers[] = {
        {.n_parts = 1, .rows = {40}, .cols = 40, .encodings = {"f16"}},
        {.n_parts = 2, .rows = {40, 40}, .cols = 128, .encodings = {"f16", "i2_s"}},
        {.n_parts = 1, .rows = {32768}, .cols = 32, .encodings = {"q8_0"}},
    };
    for (size_t i = 0; i < sizeof layers / sizeof *layers; i++) {
        test_case c;
        tern_error err = {0};
        build(&c, &layers[i]);
        assert_ok(tern_graph_fuse(&c.graph, test_gpu_backend(), &err), err);
        assert_int_equal(c.graph.n_ops, 2);
        test_case_close(&c);
    }
}

static int close_all(void **state)
{
    if (small) small->close(small);
    small = NULL;
    return test_backends_close(state);
}

static const struct CMUnitTest tests[] = {cmocka_unit_test(every_format_and_device), cmocka_unit_test(parts_apart),
                                          cmocka_unit_test(what_stays_apart)};

TEST_GROUP(dense_norm, "gpu kernels long simulated web", tests, .teardown = close_all);
