/* The GPU's ops of training with a state, and their backward, against the CPU; a backend without them refuses them by
 * name. */
#include <math.h>

#include "ops/ref/recurrent/recurrent.h"
#include "quant/weight.h"
#include "support/op_case.h"
#include "support/test.h"

static tern_rng rng;

enum { BESIDE = 4 /* columns before those that an op takes */ };

/* The documents of a step: the rows of each. */
static const uint32_t documents[][4] = {{1, 2, 3, 0}, {64, 1, 70, 0}, {200, 0}, {30, 98, 64, 0}};

static uint32_t open_case(test_case *c, const uint32_t *lengths)
{
    uint32_t n = 0, first = 0;
    for (const uint32_t *of = lengths; *of; of++) n += *of;
    test_case_open(c, &rng, &(test_case_shape){.max_tokens = n, .training = true});
    uint32_t *starts = test_case_param(c, TERN_PARAM_SEQ_STARTS);
    for (; *lengths; first += *lengths++)
        for (uint32_t i = 0; i < *lengths; i++) starts[first + i] = first;
    return n;
}

static tern_view rows(test_case *c, const char *name, uint32_t cols)
{
    return test_case_columns(test_case_rows(c, name, TERN_ROWS_TOKENS, BESIDE + cols, TEST_ORDINARY), BESIDE, cols);
}

static tern_view result(test_case *c, const char *name, uint32_t cols)
{
    return test_case_columns(test_case_output(c, name, TERN_ROWS_TOKENS, TERN_DTYPE_F32, BESIDE + cols), BESIDE, cols);
}

static tern_view gradient(test_case *c, const char *name, uint32_t n_rows, uint32_t cols)
{
    return test_case_state(c, name, TERN_STATE_GRADIENT, TERN_DTYPE_F32, n_rows, cols, TEST_ORDINARY);
}

static void compare(test_case *c, uint32_t n)
{
    for (int kind = 0; kind < test_gpu_kinds(); kind++)
        test_case_compare_if_supported(c, test_gpu_backend_of((test_gpu_kind)kind), n,
                                       tern_op_tolerance(&c->graph.ops[c->graph.n_ops - 1]));
    test_case_close(c);
}

static void conv_case(const uint32_t *lengths, uint32_t cols, uint32_t taps, bool frozen)
{
    test_case c;
    const uint32_t n = open_case(&c, lengths);
    tern_op op = {.kind = TERN_OP_VARLEN_CONV,
                  .n_in = TERN_VARLEN_CONV_INPUTS,
                  .in = {[TERN_VARLEN_CONV_X] = rows(&c, "x", cols),
                         [TERN_VARLEN_CONV_WEIGHT] = test_case_weight(&c, "f32", cols, taps),
                         [TERN_VARLEN_CONV_STARTS] = test_case_param_view(&c, TERN_PARAM_SEQ_STARTS)},
                  .out = result(&c, "y", cols)};
    test_case_add(&c, op);
    op.kind = TERN_OP_VARLEN_CONV_BACKWARD;
    op.in[TERN_VARLEN_CONV_DOUT] = rows(&c, "dy", cols);
    if (!frozen) op.in[TERN_VARLEN_CONV_DWEIGHT] = gradient(&c, "dweight", cols, taps);
    op.n_in = frozen ? TERN_VARLEN_CONV_DWEIGHT : TERN_VARLEN_CONV_BACKWARD_INPUTS;
    op.out = result(&c, "dx", cols);
    test_case_add(&c, op);
    compare(&c, n);
}

static void conv(void **state)
{
    (void)state;
    test_gpu_backend(); /* or skipped, with nothing allocated */
    for (size_t i = 0; i < sizeof documents / sizeof *documents; i++) {
        conv_case(documents[i], 70, 4, i == 2);
        conv_case(documents[i], 130, i % 2 ? 2 : 8, false);
    }
}

typedef struct delta_shape {
    uint32_t heads, key_heads, keys, values;
    bool tiled, frozen;
} delta_shape;

/* Keys of length 1 and queries of length 1 / sqrt(keys), as models have them. */
static void norm_heads(test_case *c, tern_view x, uint32_t n, uint32_t keys, double length)
{
    const uint32_t stride = c->graph.values[x.value].cols;
    for (uint32_t i = 0; i < n * (x.cols / keys); i++) {
        float *head =
            test_case_floats(c, x) + (size_t)(i / (x.cols / keys)) * stride + x.first_col + i % (x.cols / keys) * keys;
        double sum = 1e-6;
        for (uint32_t d = 0; d < keys; d++) sum += (double)head[d] * (double)head[d];
        for (uint32_t d = 0; d < keys; d++) head[d] = (float)((double)head[d] * length / sqrt(sum));
    }
}

static void set_decays(test_case *c, tern_view decay)
{
    float *x = (float *)(void *)(uintptr_t)test_case_weight_of(c, decay)->data;
    for (uint32_t h = 0; h < decay.cols; h++) x[h] = -fabsf(x[h]) - 0.1f;
}

static void delta_case(const uint32_t *lengths, const delta_shape *s)
{
    test_case c;
    const uint32_t n = open_case(&c, lengths), keys = s->key_heads * s->keys, values = s->heads * s->values,
                   chunk = TERN_DELTA_CHUNK, numbers = values * s->keys;
    tern_op op = {.kind = TERN_OP_VARLEN_GATED_DELTA,
                  .n_in = TERN_VARLEN_GATED_DELTA_INPUTS,
                  .in = {[TERN_VARLEN_GATED_DELTA_Q] = rows(&c, "q", keys),
                         [TERN_VARLEN_GATED_DELTA_K] = rows(&c, "k", keys),
                         [TERN_VARLEN_GATED_DELTA_V] = rows(&c, "v", values),
                         [TERN_VARLEN_GATED_DELTA_A] = rows(&c, "a", s->heads),
                         [TERN_VARLEN_GATED_DELTA_B] = rows(&c, "b", s->heads),
                         [TERN_VARLEN_GATED_DELTA_DECAY] = test_case_norm_weight(&c, s->heads),
                         [TERN_VARLEN_GATED_DELTA_DT] = test_case_norm_weight(&c, s->heads),
                         [TERN_VARLEN_GATED_DELTA_STARTS] = test_case_param_view(&c, TERN_PARAM_SEQ_STARTS),
                         [TERN_VARLEN_GATED_DELTA_STATES] = test_case_output(
                             &c, "states", TERN_ROWS_TOKENS, TERN_DTYPE_F32, (numbers + chunk - 1) / chunk)},
                  .n_heads = s->heads,
                  .n_kv_heads = s->key_heads,
                  .head_dim = s->keys,
                  .tiled_heads = s->tiled,
                  .out = result(&c, "y", values)};
    set_decays(&c, op.in[TERN_VARLEN_GATED_DELTA_DECAY]);
    norm_heads(&c, op.in[TERN_VARLEN_GATED_DELTA_Q], n, s->keys, 1 / sqrt((double)s->keys));
    norm_heads(&c, op.in[TERN_VARLEN_GATED_DELTA_K], n, s->keys, 1);
    test_case_add(&c, op);
    op.kind = TERN_OP_VARLEN_GATED_DELTA_BACKWARD;
    op.in[TERN_VARLEN_GATED_DELTA_DOUT] = rows(&c, "dy", values);
    op.in[TERN_VARLEN_GATED_DELTA_DK] = result(&c, "dk", keys);
    op.in[TERN_VARLEN_GATED_DELTA_DV] = result(&c, "dv", values);
    op.in[TERN_VARLEN_GATED_DELTA_DA] = result(&c, "da", s->heads);
    op.in[TERN_VARLEN_GATED_DELTA_DB] = result(&c, "db", s->heads);
    if (!s->frozen) {
        op.in[TERN_VARLEN_GATED_DELTA_DDECAY] = gradient(&c, "ddecay", 1, s->heads);
        op.in[TERN_VARLEN_GATED_DELTA_DDT] = gradient(&c, "ddt", 1, s->heads);
    }
    op.n_in = s->frozen ? TERN_VARLEN_GATED_DELTA_DDECAY : TERN_VARLEN_GATED_DELTA_BACKWARD_INPUTS;
    op.out = result(&c, "dq", keys);
    test_case_add(&c, op);
    compare(&c, n);
}

static void gated_delta(void **state)
{
    (void)state;
    test_gpu_backend();
    static const delta_shape shapes[] = {{.heads = 4, .key_heads = 2, .keys = 32, .values = 64},
                                         {.heads = 2, .key_heads = 1, .keys = 128, .values = 128, .tiled = true},
                                         {.heads = 3, .key_heads = 3, .keys = 100, .values = 40, .frozen = true}};
    for (size_t i = 0; i < sizeof documents / sizeof *documents; i++)
        for (size_t k = 0; k < sizeof shapes / sizeof *shapes; k++) delta_case(documents[i], &shapes[k]);
}

static void split(void **state)
{
    (void)state;
    test_gpu_backend();
    static const uint32_t dims[] = {1, 5, 64, 256};
    for (size_t i = 0; i < sizeof dims / sizeof *dims; i++) {
        test_case c;
        const uint32_t n = open_case(&c, documents[0]), cols = 3 * dims[i];
        test_case_add(&c, (tern_op){.kind = TERN_OP_SPLIT_BACKWARD,
                                    .n_in = TERN_SPLIT_BACKWARD_INPUTS,
                                    .in = {rows(&c, "dout", cols), rows(&c, "dgate", cols)},
                                    .head_dim = dims[i],
                                    .out = result(&c, "dx", 2 * cols)});
        compare(&c, n);
    }
}

/* An output gate, also of one column for all. */
static void output_gate(void **state)
{
    (void)state;
    test_gpu_backend();
    for (int one = 0; one < 2; one++) {
        test_case c;
        const uint32_t n = open_case(&c, documents[1]), cols = 300, gates = one ? 1 : cols;
        test_case_add(&c, (tern_op){.kind = TERN_OP_GATE_BACKWARD,
                                    .n_in = TERN_GATE_BACKWARD_INPUTS,
                                    .in = {[TERN_GATE_BACKWARD_GATE] = rows(&c, "gate", gates),
                                           [TERN_GATE_BACKWARD_UP] = rows(&c, "up", cols),
                                           [TERN_GATE_BACKWARD_DY] = rows(&c, "dy", cols),
                                           [TERN_GATE_BACKWARD_DUP] = result(&c, "dup", cols)},
                                    .activation = TERN_ACT_SIGMOID,
                                    .out = result(&c, "dgate", gates)});
        compare(&c, n);
    }
}

static int seed(void **state)
{
    (void)state;
    test_seed(&rng);
    return 0;
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(conv),
    cmocka_unit_test(gated_delta),
    cmocka_unit_test(split),
    cmocka_unit_test(output_gate),
};

TEST_GROUP(documents_gpu, "gpu web simulated", tests, .setup = seed, .teardown = test_backends_close);
