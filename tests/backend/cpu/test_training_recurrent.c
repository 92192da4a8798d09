/* The training ops with a state, and their backward, on the CPU: the bits of the definitions at every level and with
 * any number of threads, for documents of every length. */
#include "backend/cpu/training_rows_cases.h"

#include "ops/ref/recurrent/recurrent.h"
#include "quant/weight.h"

/* Documents of 1, 2 and 3 tokens, then of random lengths or one long one. */
static uint32_t *cut_documents(trial *t)
{
    uint32_t *starts = test_case_param(&t->c, TERN_PARAM_SEQ_STARTS);
    for (uint32_t i = 0, first = 0, how = training_rows_between(0, 2); i < t->n; i++) {
        if ((how && (i == 1 || i == 3 || i == 6)) || (how == 2 && i && training_rows_between(0, 30) == 0)) first = i;
        starts[i] = first;
    }
    return starts;
}

static const float *weight_of(trial *t, tern_view view)
{
    return (const float *)(const void *)test_case_weight_of(&t->c, view)->data;
}

/* A gradient of a weight, or none. */
static tern_view any_gradient(trial *t, const char *name, uint32_t rows, uint32_t cols, float **want)
{
    *want = NULL;
    if (training_rows_between(0, 2) == 0) return (tern_view){.value = TERN_NO_VALUE};
    const tern_view view = test_case_state(&t->c, name, TERN_STATE_GRADIENT, TERN_DTYPE_F32, rows, cols, TEST_ORDINARY);
    *want = training_rows_want(t, view, rows);
    return view;
}

typedef struct conv_rows {
    const float **x; /* [n] rows */
    const float *weight, *dy;
    float *y, *dx, *dweight;
    uint32_t cols, taps;
} conv_rows;

/* The definition, with the weight as the file has it, [cols][taps]. */
static void conv_definition(const conv_rows *r, uint32_t n, const uint32_t *starts)
{
    float *weight = calloc((size_t)r->taps * r->cols, sizeof *weight),
          *dweight = calloc((size_t)r->taps * r->cols, sizeof *dweight), *zeros = calloc(r->cols, sizeof *zeros);
    for (uint32_t i = 0; i < r->cols * r->taps; i++) {
        weight[i % r->taps * r->cols + i / r->taps] = r->weight[i];
        if (r->dweight) dweight[i % r->taps * r->cols + i / r->taps] = r->dweight[i];
    }
    for (uint32_t t = 0; t < n; t++) {
        const float *taps[TERN_CONV_MAX_TAPS];
        float *dtaps[TERN_CONV_MAX_TAPS];
        for (uint32_t k = 0; k < r->taps; k++) {
            const bool before = t + k + 1 < starts[t] + r->taps;
            taps[k] = before ? zeros : r->x[t + k + 1 - r->taps];
            dtaps[k] = before ? NULL : r->dx + (size_t)(t + k + 1 - r->taps) * r->cols;
        }
        tern_ref_conv(&(tern_conv_args){taps, weight, r->taps, r->cols, r->y + (size_t)t * r->cols});
        tern_ref_conv_backward(&(tern_conv_backward_args){.taps = taps,
                                                          .weight = weight,
                                                          .n_taps = r->taps,
                                                          .n = r->cols,
                                                          .dy = r->dy + (size_t)t * r->cols,
                                                          .dtaps = dtaps,
                                                          .dweight = dweight});
    }
    for (uint32_t i = 0; i < r->cols * r->taps && r->dweight; i++)
        r->dweight[i] = dweight[i % r->taps * r->cols + i / r->taps];
    free(weight);
    free(dweight);
    free(zeros);
}

static void conv_round(void)
{
    trial t;
    conv_rows r = {.cols = training_rows_between(1, 200), .taps = training_rows_between(1, 5)};
    training_rows_open_trial(&t, training_rows_between(1, 40));
    const uint32_t *starts = cut_documents(&t);
    const tern_view x = test_case_columns(training_rows_rows(&t, "x", r.cols + 9, TEST_ORDINARY), 5, r.cols),
                    weight = test_case_weight(&t.c, "f32", r.cols, r.taps),
                    dy = training_rows_rows(&t, "dy", r.cols, TEST_ORDINARY), y = training_rows_output(&t, "y", r.cols),
                    dx = training_rows_output(&t, "dx", r.cols);
    tern_op op = {.kind = TERN_OP_VARLEN_CONV,
                  .n_in = TERN_VARLEN_CONV_INPUTS,
                  .in = {[TERN_VARLEN_CONV_X] = x,
                         [TERN_VARLEN_CONV_WEIGHT] = weight,
                         [TERN_VARLEN_CONV_STARTS] = test_case_param_view(&t.c, TERN_PARAM_SEQ_STARTS)},
                  .out = y};
    test_case_add(&t.c, op);
    op.kind = TERN_OP_VARLEN_CONV_BACKWARD;
    op.in[TERN_VARLEN_CONV_DOUT] = dy;
    op.in[TERN_VARLEN_CONV_DWEIGHT] = any_gradient(&t, "dweight", r.cols, r.taps, &r.dweight);
    op.n_in = r.dweight ? TERN_VARLEN_CONV_BACKWARD_INPUTS : TERN_VARLEN_CONV_DWEIGHT;
    op.out = dx;
    test_case_add(&t.c, op);
    r.x = calloc(t.n, sizeof *r.x);
    for (uint32_t i = 0; i < t.n; i++) r.x[i] = training_rows_input(&t, x, i);
    r.weight = weight_of(&t, weight);
    r.dy = training_rows_input(&t, dy, 0);
    r.y = training_rows_want(&t, y, t.n);
    r.dx = training_rows_want(&t, dx, t.n);
    conv_definition(&r, t.n, starts);
    free(r.x);
    training_rows_check(&t, "conv");
}

static void conv(void **state)
{
    (void)state;
    for (int round = 0; round < 2 * ROUNDS; round++) conv_round();
}

typedef struct delta_rows {
    uint32_t n, heads, key_heads, keys, values;
    bool tiled, log_decay;
    tern_view q, k, v, a, b, decay, dt;
    const uint32_t *starts;
    const float *dy; /* [n][heads * values] */
    float *y, *dq, *dk, *dv, *da, *db, *ddecay, *ddt;
} delta_rows;

static tern_delta_rate rate_of(trial *t, const delta_rows *r, uint32_t head)
{
    return tern_ref_delta_rate(weight_of(t, r->decay)[head], r->log_decay);
}

static tern_delta_args delta_of(trial *t, const delta_rows *r, uint32_t row, uint32_t head)
{
    const size_t key = (size_t)tern_delta_key_head(head, r->heads, r->key_heads, r->tiled) * r->keys,
                 value = (size_t)head * r->values;
    return (tern_delta_args){.q = training_rows_input(t, r->q, row) + key,
                             .k = training_rows_input(t, r->k, row) + key,
                             .v = training_rows_input(t, r->v, row) + value,
                             .decay = tern_ref_delta_decay(training_rows_input(t, r->a, row)[head],
                                                           weight_of(t, r->dt)[head], rate_of(t, r, head).decay),
                             .beta = tern_ref_logistic(training_rows_input(t, r->b, row)[head]),
                             .keys = r->keys,
                             .values = r->values,
                             .y = r->y + (size_t)row * r->heads * r->values + value};
}

/* One head through all rows with every state kept, then back. */
static void delta_definition(trial *t, const delta_rows *r, uint32_t head)
{
    const size_t size = (size_t)r->keys * r->values,
                 key = (size_t)tern_delta_key_head(head, r->heads, r->key_heads, r->tiled) * r->keys,
                 all_keys = (size_t)r->key_heads * r->keys, all_values = (size_t)r->heads * r->values;
    float *states = calloc((r->n + 2) * size, sizeof *states), *dstate = states + (r->n + 1) * size,
          *dlog = calloc(r->n, sizeof *dlog), dbeta;
    for (uint32_t i = 0; i < r->n; i++) {
        tern_delta_args args = delta_of(t, r, i, head);
        args.state = r->starts[i] == i ? NULL : states + i * size;
        args.next = states + (i + 1) * size;
        tern_ref_delta(&args);
    }
    for (uint32_t i = r->n; i-- > 0;) {
        const tern_delta_args of = delta_of(t, r, i, head);
        const size_t value = i * all_values + (size_t)head * r->values;
        if (i + 1 == r->n || r->starts[i + 1] == i + 1) memset(dstate, 0, size * sizeof *dstate);
        tern_ref_delta_backward(&(tern_delta_backward_args){.state = r->starts[i] == i ? NULL : states + i * size,
                                                            .q = of.q,
                                                            .k = of.k,
                                                            .v = of.v,
                                                            .dy = r->dy + value,
                                                            .decay = of.decay,
                                                            .beta = of.beta,
                                                            .keys = r->keys,
                                                            .values = r->values,
                                                            .dstate = dstate,
                                                            .dq = r->dq + i * all_keys + key,
                                                            .dk = r->dk + i * all_keys + key,
                                                            .dv = r->dv + value,
                                                            .dlog = &dlog[i],
                                                            .dbeta = &dbeta});
        r->db[i * r->heads + head] = tern_ref_delta_beta_backward(of.beta, dbeta);
    }
    for (uint32_t i = 0; i < r->n; i++)
        r->da[i * r->heads + head] = tern_ref_delta_decay_backward(
            training_rows_input(t, r->a, i)[head], weight_of(t, r->dt)[head], rate_of(t, r, head), dlog[i],
            r->ddecay ? &r->ddecay[head] : NULL, r->ddt ? &r->ddt[head] : NULL);
    free(states);
    free(dlog);
}

static delta_rows any_delta(trial *t)
{
    delta_rows r = {.n = training_rows_between(0, 1) ? training_rows_between(1, 20) : training_rows_between(60, 200),
                    .key_heads = training_rows_between(1, 3),
                    .keys = training_rows_between(1, 20),
                    .values = 8 * training_rows_between(1, 5),
                    .tiled = training_rows_between(0, 1),
                    .log_decay = training_rows_between(0, 1)};
    r.heads = r.key_heads * training_rows_between(1, 3);
    training_rows_open_trial(t, r.n);
    r.starts = cut_documents(t);
    r.q = training_rows_rows(t, "q", r.key_heads * r.keys, TEST_ORDINARY);
    r.k = training_rows_rows(t, "k", r.key_heads * r.keys, TEST_ORDINARY);
    r.v = test_case_columns(training_rows_rows(t, "mixed", r.heads * r.values + 11, TEST_ORDINARY), 11,
                            r.heads * r.values);
    r.a = training_rows_rows(t, "a", r.heads, TEST_ORDINARY);
    r.b = training_rows_rows(t, "b", r.heads, TEST_ORDINARY);
    r.decay = test_case_norm_weight(&t->c, r.heads);
    r.dt = test_case_norm_weight(&t->c, r.heads);
    float *decay = (float *)(uintptr_t)weight_of(t, r.decay);
    for (uint32_t h = 0; h < r.heads && !r.log_decay; h++) decay[h] = -fabsf(decay[h]) - 0.1f;
    /* so that states stay small: keys of about length 1 */
    for (uint32_t i = 0; i < r.n; i++)
        for (uint32_t c = 0; c < r.k.cols; c++) ((float *)(uintptr_t)training_rows_input(t, r.k, i))[c] *= 0.2f;
    return r;
}

static void delta_round(void)
{
    trial t;
    delta_rows r = any_delta(&t);
    const uint32_t numbers = r.heads * r.keys * r.values, all = r.heads * r.values;
    const tern_view dy = training_rows_rows(&t, "dy", all, TEST_ORDINARY), y = training_rows_output(&t, "y", all),
                    states = training_rows_output(&t, "states", (numbers + TERN_DELTA_CHUNK - 1) / TERN_DELTA_CHUNK),
                    dmixed = test_case_columns(training_rows_output(&t, "dmixed", all + 11), 11, all),
                    dq = training_rows_output(&t, "dq", r.q.cols), dk = training_rows_output(&t, "dk", r.q.cols),
                    da = training_rows_output(&t, "da", r.heads), db = training_rows_output(&t, "db", r.heads);
    tern_op op = {.kind = TERN_OP_VARLEN_GATED_DELTA,
                  .n_in = TERN_VARLEN_GATED_DELTA_INPUTS,
                  .in = {[TERN_VARLEN_GATED_DELTA_Q] = r.q,
                         [TERN_VARLEN_GATED_DELTA_K] = r.k,
                         [TERN_VARLEN_GATED_DELTA_V] = r.v,
                         [TERN_VARLEN_GATED_DELTA_A] = r.a,
                         [TERN_VARLEN_GATED_DELTA_B] = r.b,
                         [TERN_VARLEN_GATED_DELTA_DECAY] = r.decay,
                         [TERN_VARLEN_GATED_DELTA_DT] = r.dt,
                         [TERN_VARLEN_GATED_DELTA_STARTS] = test_case_param_view(&t.c, TERN_PARAM_SEQ_STARTS),
                         [TERN_VARLEN_GATED_DELTA_STATES] = states},
                  .n_heads = r.heads,
                  .n_kv_heads = r.key_heads,
                  .head_dim = r.keys,
                  .tiled_heads = r.tiled,
                  .log_decay = r.log_decay,
                  .out = y};
    test_case_add(&t.c, op);
    op.kind = TERN_OP_VARLEN_GATED_DELTA_BACKWARD;
    op.in[TERN_VARLEN_GATED_DELTA_DOUT] = dy;
    op.in[TERN_VARLEN_GATED_DELTA_DK] = dk;
    op.in[TERN_VARLEN_GATED_DELTA_DV] = dmixed;
    op.in[TERN_VARLEN_GATED_DELTA_DA] = da;
    op.in[TERN_VARLEN_GATED_DELTA_DB] = db;
    op.in[TERN_VARLEN_GATED_DELTA_DDECAY] = any_gradient(&t, "ddecay", 1, r.heads, &r.ddecay);
    op.in[TERN_VARLEN_GATED_DELTA_DDT] = any_gradient(&t, "ddt", 1, r.heads, &r.ddt);
    op.n_in = r.ddecay || r.ddt ? TERN_VARLEN_GATED_DELTA_BACKWARD_INPUTS : TERN_VARLEN_GATED_DELTA_DDECAY;
    op.out = dq;
    test_case_add(&t.c, op);
    r.dy = training_rows_input(&t, dy, 0);
    r.y = training_rows_want(&t, y, r.n);
    r.dq = training_rows_want(&t, dq, r.n);
    r.dk = training_rows_want(&t, dk, r.n);
    r.dv = training_rows_want(&t, dmixed, r.n);
    r.da = training_rows_want(&t, da, r.n);
    r.db = training_rows_want(&t, db, r.n);
    for (uint32_t head = 0; head < r.heads; head++) delta_definition(&t, &r, head);
    char what[96];
    snprintf(what, sizeof what, "gated delta rule of %u tokens, %u of %u heads of %u by %u", r.n, r.key_heads, r.heads,
             r.keys, r.values);
    training_rows_check(&t, what);
}

static void gated_delta(void **state)
{
    (void)state;
    const int n = test_quick() ? ROUNDS : 3 * ROUNDS;
    for (int round = 0; round < n; round++) delta_round();
}

static void split(void **state)
{
    (void)state;
    for (int round = 0; round < ROUNDS; round++) {
        trial t;
        const uint32_t dim = training_rows_between(1, 40), cols = dim * training_rows_between(1, 5);
        training_rows_open_trial(&t, training_rows_between(1, 9));
        const tern_view dout = training_rows_rows(&t, "dout", cols, TEST_ORDINARY),
                        dgate = training_rows_rows(&t, "dgate", cols, TEST_ORDINARY),
                        dx = training_rows_output(&t, "dx", 2 * cols);
        test_case_add(&t.c, (tern_op){.kind = TERN_OP_SPLIT_BACKWARD,
                                      .n_in = TERN_SPLIT_BACKWARD_INPUTS,
                                      .in = {[TERN_SPLIT_BACKWARD_DOUT] = dout, [TERN_SPLIT_BACKWARD_DGATE] = dgate},
                                      .head_dim = dim,
                                      .out = dx});
        float *want = training_rows_want(&t, dx, t.n);
        for (uint32_t i = 0; i < t.n; i++)
            for (uint32_t c = 0; c < 2 * cols; c++)
                *want++ = training_rows_input(&t, c / dim % 2 ? dgate : dout, i)[c / (2 * dim) * dim + c % dim];
        training_rows_check(&t, "split_backward");
    }
}

/* One gate for all columns. */
static void gate_of_one_column(void **state)
{
    (void)state;
    for (int round = 0; round < ROUNDS; round++) {
        trial t;
        tern_view residual;
        const uint32_t cols = training_rows_between(2, 300);
        training_rows_open_trial(&t, training_rows_between(1, 9));
        const tern_view gate = training_rows_rows(&t, "gate", 1, TEST_ORDINARY),
                        up = training_rows_rows(&t, "up", cols, TEST_ORDINARY),
                        dy = training_rows_rows(&t, "dy", cols, TEST_ORDINARY),
                        dup = training_rows_output(&t, "dup", cols);
        const tern_op op = {.kind = TERN_OP_GATE_BACKWARD,
                            .n_in = TERN_GATE_BACKWARD_INPUTS,
                            .in = {[TERN_GATE_BACKWARD_GATE] = gate,
                                   [TERN_GATE_BACKWARD_UP] = up,
                                   [TERN_GATE_BACKWARD_DY] = dy,
                                   [TERN_GATE_BACKWARD_DUP] = dup},
                            .activation = TERN_ACT_SIGMOID};
        float *dg = training_rows_add_op(&t, op, training_rows_output(&t, "dgate", 1), &residual),
              *du = training_rows_want(&t, dup, t.n);
        for (uint32_t i = 0; i < t.n; i++) {
            const float s = tern_ref_logistic(training_rows_input(&t, gate, i)[0]), *d = training_rows_input(&t, dy, i);
            const float slope = tern_ref_dot(d, training_rows_input(&t, up, i), cols) * (s * (1 - s));
            dg[i] = residual.value == TERN_NO_VALUE ? slope : training_rows_input(&t, residual, i)[0] + slope;
            for (uint32_t c = 0; c < cols; c++) *du++ = d[c] * s;
        }
        training_rows_check(&t, "gate_backward of one column");
    }
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(conv),
    cmocka_unit_test(gated_delta),
    cmocka_unit_test(split),
    cmocka_unit_test(gate_of_one_column),
};

TEST_GROUP(training_recurrent, "threads web", tests, .setup = training_rows_open_backends,
           .teardown = training_rows_close_backends);
