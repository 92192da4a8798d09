/* The training ops of the CPU backend beside the linear layers: at every level and with several numbers of threads they
 * give the bits of ops/ref. */
#include "support/test.h"

#include <math.h>

#include "backend/cpu/cpu.h"
#include "ops/ref/backward.h"
#include "support/op_case.h"

enum { MAX_BACKENDS = 12, MAX_EXPECTED = 8, ROUNDS = 12 };

static tern_rng rng;

static struct {
    tern_backend *backend;
    char name[64];
} backends[MAX_BACKENDS];
static size_t n_backends;

static uint32_t between(uint32_t low, uint32_t high)
{
    return test_between(&rng, low, high);
}

static test_fill any_fill(void)
{
    return (test_fill)between(0, TEST_N_FILLS - 1);
}

/* What rows of a value must be after a run. */
typedef struct expected {
    tern_view view;
    uint32_t n_rows;
    float *rows; /* [n_rows][view.cols] */
} expected;

typedef struct trial {
    test_case c;
    uint32_t n; /* tokens of the step */
    expected wanted[MAX_EXPECTED];
    size_t n_wanted;
} trial;

static void open_trial(trial *t, uint32_t n)
{
    *t = (trial){.n = n};
    test_case_open(&t->c, &rng, &(test_case_shape){.max_tokens = n + between(0, 3), .training = true, .n_ctx = n + 3});
}

/* n_rows x view.cols floats that the view must hold in the end; they start as what it holds before, or 0. */
static float *want(trial *t, tern_view view, uint32_t n_rows)
{
    const size_t n = (size_t)n_rows * view.cols, stride = t->c.graph.values[view.value].cols;
    float *rows = calloc(n ? n : 1, sizeof *rows);
    const float *initial = test_case_floats(&t->c, view);
    for (uint32_t r = 0; r < n_rows && initial; r++)
        memcpy(rows + (size_t)r * view.cols, initial + (view.first_row + r) * stride + view.first_col,
               view.cols * sizeof *rows);
    assert_true(t->n_wanted < MAX_EXPECTED);
    t->wanted[t->n_wanted++] = (expected){view, n_rows, rows};
    return rows;
}

/* A row of an input as it is before a run. */
static const float *input(trial *t, tern_view view, uint32_t row)
{
    return test_case_floats(&t->c, view) + (size_t)(view.first_row + row) * t->c.graph.values[view.value].cols +
           view.first_col;
}

static void compare(const trial *t, const expected *e, const test_results *got, const char *what, const char *backend)
{
    for (uint32_t r = 0; r < e->n_rows; r++) {
        const float *row = test_results_row(&t->c, got, e->view, e->view.first_row + r);
        for (uint32_t c = 0; c < e->view.cols; c++)
            if (!test_same_bits(&row[c], &e->rows[(size_t)r * e->view.cols + c], 1))
                fail_msg("%s on %s: %s row %u of %u, column %u of %u: %a, %a expected", what, backend,
                         t->c.graph.values[e->view.value].name, r, e->n_rows, c, e->view.cols, (double)row[c],
                         (double)e->rows[(size_t)r * e->view.cols + c]);
    }
}

/* Runs the case on every backend and closes it. */
static void check(trial *t, const char *what)
{
    for (size_t b = 0; b < n_backends; b++) {
        test_results got;
        test_case_run(&t->c, backends[b].backend, t->n, t->n, 1, &got);
        for (size_t i = 0; i < t->n_wanted; i++) {
            const tern_value *v = &t->c.graph.values[t->wanted[i].view.value];
            compare(t, &t->wanted[i], &got, what, backends[b].name);
            const char *touched = v->kind == TERN_VALUE_STATE
                                      ? NULL
                                      : test_case_touched(&t->c, t->wanted[i].view.value,
                                                          t->wanted[i].view.first_row + t->wanted[i].n_rows, &got);
            if (touched) fail_msg("%s on %s: %s", what, backends[b].name, touched);
        }
        test_results_free(&got);
    }
    for (size_t i = 0; i < t->n_wanted; i++) free(t->wanted[i].rows);
    test_case_close(&t->c);
}

static tern_view rows(trial *t, const char *name, uint32_t cols, test_fill fill)
{
    return test_case_rows(&t->c, name, TERN_ROWS_TOKENS, cols, fill);
}

static tern_view output(trial *t, const char *name, uint32_t cols)
{
    return test_case_output(&t->c, name, TERN_ROWS_TOKENS, TERN_DTYPE_F32, cols);
}

static tern_train_params *training(trial *t)
{
    return (tern_train_params *)(void *)test_case_param(&t->c, TERN_PARAM_TRAINING);
}

/* Adds an op whose output is `out`, at random with a residual, which at random lies in the output's place. The rows
 * that are wanted of `out`. */
static float *add_op(trial *t, tern_op op, tern_view out, tern_view *residual)
{
    op.out = out;
    *residual = (tern_view){.value = TERN_NO_VALUE};
    if (between(0, 1)) op.residual = *residual = rows(t, "residual", out.cols, TEST_ORDINARY);
    test_case_add(&t->c, op);
    if (residual->value == TERN_NO_VALUE || between(0, 1)) return want(t, out, t->n);
    t->c.graph.values[out.value].kind = TERN_VALUE_ACTIVATION;
    t->c.graph.values[out.value].offset = t->c.graph.values[residual->value].offset;
    return want(t, *residual, t->n);
}

/* What an elementwise op made, plus the residual. */
static void add_residual(trial *t, float *out, tern_view residual, uint32_t cols)
{
    for (uint32_t r = 0; r < t->n && residual.value != TERN_NO_VALUE; r++)
        for (uint32_t c = 0; c < cols; c++)
            out[(size_t)r * cols + c] = input(t, residual, r)[c] + out[(size_t)r * cols + c];
}

static void start_at_residual(trial *t, float *out, tern_view residual, uint32_t cols)
{
    for (uint32_t r = 0; r < t->n && residual.value != TERN_NO_VALUE; r++)
        memcpy(out + (size_t)r * cols, input(t, residual, r), cols * sizeof *out);
}

static uint32_t any_cols(void)
{
    return between(0, 2) ? between(1, 70) : between(1, 700);
}

static void elementwise(void **state)
{
    (void)state;
    for (int round = 0; round < 3 * ROUNDS; round++) {
        trial t;
        tern_view residual;
        const tern_op_kind kinds[] = {TERN_OP_SCALE, TERN_OP_DROPOUT, TERN_OP_FAKE_QUANTIZE}, kind = kinds[round % 3];
        const uint32_t cols = any_cols();
        open_trial(&t, between(1, 9));
        tern_train_params *p = training(&t);
        p->seed = (uint32_t)tern_rng_u64(&rng);
        p->blend = (float)between(0, 4) / 4;
        const tern_view x = rows(&t, "x", cols, any_fill()), params = test_case_param_view(&t.c, TERN_PARAM_TRAINING);
        tern_op op = {.kind = kind,
                      .n_in = TERN_SCALE_INPUTS,
                      .in = {[TERN_SCALE_X] = x},
                      .scale = kind == TERN_OP_SCALE ? test_float(&rng, TEST_ORDINARY) : (float)between(0, 9) / 10,
                      .softcap = kind == TERN_OP_SCALE && between(0, 1) ? 0.25f * (float)between(1, 9) : 0,
                      .stream = between(0, 5)};
        if (kind != TERN_OP_SCALE) { /* DROPOUT and FAKE_QUANTIZE name the same inputs */
            op.n_in = TERN_DROPOUT_INPUTS;
            op.in[TERN_DROPOUT_TRAINING] = params;
        }
        float *y = add_op(&t, op, output(&t, "y", cols), &residual);
        for (uint32_t r = 0; r < t.n; r++, y += cols) {
            const float *from = input(&t, x, r);
            if (kind == TERN_OP_DROPOUT)
                tern_ref_dropout(from, cols, op.scale, p->seed + op.stream * 0x9e3779b9u, r * cols, y);
            if (kind == TERN_OP_FAKE_QUANTIZE) tern_ref_fake_quantize(from, cols, p->blend, y);
            for (uint32_t c = 0; c < cols && kind == TERN_OP_SCALE; c++) y[c] = from[c] * op.scale;
            if (op.softcap > 0) tern_ref_softcap_row(y, cols, op.softcap, y);
        }
        add_residual(&t, y - (size_t)t.n * cols, residual, cols);
        check(&t, tern_op_name(kind));
    }
}

/* The steps of the definition, which agree with the formula in double precision. */
static void softcap_backward(void **state)
{
    (void)state;
    for (int round = 0; round < ROUNDS; round++) {
        trial t;
        const uint32_t cols = any_cols();
        open_trial(&t, between(1, 9));
        const tern_view x = rows(&t, "x", cols, TEST_ORDINARY), dy = rows(&t, "dy", cols, TEST_ORDINARY);
        const tern_op op = {.kind = TERN_OP_SOFTCAP_BACKWARD,
                            .n_in = TERN_SOFTCAP_BACKWARD_INPUTS,
                            .in = {[TERN_SOFTCAP_BACKWARD_X] = x, [TERN_SOFTCAP_BACKWARD_DY] = dy},
                            .scale = 1.5f,
                            .softcap = 0.5f * (float)between(1, 9)};
        tern_view residual, out = output(&t, "dx", cols);
        float *y = add_op(&t, op, out, &residual);
        for (uint32_t r = 0; r < t.n; r++, y += cols)
            for (uint32_t c = 0; c < cols; c++) {
                const float from = input(&t, x, r)[c], d = input(&t, dy, r)[c], scaled = from * op.scale;
                const double th = tanh((double)scaled / (double)op.softcap);
                float capped;
                tern_ref_softcap_row(&scaled, 1, op.softcap, &capped);
                const float u = capped * (1 / op.softcap);
                y[c] = d * (1 - u * u) * op.scale;
                assert_true(fabs((double)y[c] - (double)d * (1 - th * th) * (double)op.scale) <=
                            1e-6 * (1 + fabs((double)d)));
            }
        add_residual(&t, y - (size_t)t.n * cols, residual, cols);
        check(&t, "softcap_backward");
    }
}

static void gate(void **state)
{
    (void)state;
    static const tern_gate_backward_fn refs[] = {[TERN_ACT_RELU2] = tern_ref_relu2_backward,
                                                 [TERN_ACT_SILU] = tern_ref_silu_backward,
                                                 [TERN_ACT_GELU] = tern_ref_gelu_backward};
    static const tern_gate_fn forward[] = {
        [TERN_ACT_RELU2] = tern_ref_relu2, [TERN_ACT_SILU] = tern_ref_silu, [TERN_ACT_GELU] = tern_ref_gelu};
    for (int round = 0; round < 3 * ROUNDS; round++) {
        trial t;
        tern_view residual;
        const tern_activation activation = (tern_activation)(round % 3);
        const uint32_t cols = any_cols();
        open_trial(&t, between(1, 9));
        const tern_view both = rows(&t, "gate_up", 2 * cols, any_fill()), dy = rows(&t, "dy", cols, any_fill());
        const tern_view g = test_case_columns(both, 0, cols), u = test_case_columns(both, cols, cols);
        const tern_view dup = output(&t, "dup", cols), y = output(&t, "y", cols);
        test_case_add(&t.c, (tern_op){.kind = TERN_OP_GATE,
                                      .n_in = TERN_GATE_INPUTS,
                                      .in = {[TERN_GATE_GATE] = g, [TERN_GATE_UP] = u},
                                      .out = y,
                                      .activation = activation});
        const tern_op op = {.kind = TERN_OP_GATE_BACKWARD,
                            .n_in = TERN_GATE_BACKWARD_INPUTS,
                            .in = {[TERN_GATE_BACKWARD_GATE] = g,
                                   [TERN_GATE_BACKWARD_UP] = u,
                                   [TERN_GATE_BACKWARD_DY] = dy,
                                   [TERN_GATE_BACKWARD_DUP] = dup},
                            .activation = activation};
        float *dg = add_op(&t, op, output(&t, "dgate", cols), &residual), *du = want(&t, dup, t.n),
              *f = want(&t, y, t.n);
        for (uint32_t r = 0; r < t.n; r++) {
            refs[activation](input(&t, g, r), input(&t, u, r), input(&t, dy, r), cols, dg + r * cols, du + r * cols);
            forward[activation](input(&t, g, r), input(&t, u, r), cols, f + r * cols);
        }
        add_residual(&t, dg, residual, cols);
        check(&t, "gate_backward");
    }
}

/* The rows of the head: labels and losses from first_row on, more logits rows than tokens need not be. */
static void cross_entropy(void **state)
{
    (void)state;
    for (int round = 0; round < 2 * ROUNDS; round++) {
        trial t;
        const uint32_t vocab = any_cols(), n_rows = between(1, 6), first = between(0, 1) * TERN_ROW_ALIGNMENT;
        t = (trial){.n = first + n_rows};
        test_case_open(&t.c, &rng, &(test_case_shape){.max_tokens = t.n, .max_outputs = n_rows, .training = true});
        training(&t)->loss_weight = 1 / (float)between(1, 5);
        tern_view labels = test_case_param_view(&t.c, TERN_PARAM_LABELS), losses = output(&t, "losses", 1);
        const tern_view logits = test_case_rows(&t.c, "logits", TERN_ROWS_OUTPUTS, vocab, any_fill());
        for (uint32_t r = 0; r < t.n; r++) test_case_param(&t.c, TERN_PARAM_LABELS)[r] = between(0, vocab + 1) - 1;
        labels.first_row = losses.first_row = first;
        test_case_add(&t.c,
                      (tern_op){.kind = TERN_OP_CROSS_ENTROPY,
                                .rows = TERN_ROWS_OUTPUTS,
                                .n_in = TERN_CROSS_ENTROPY_INPUTS,
                                .in = {[TERN_CROSS_ENTROPY_LOGITS] = logits,
                                       [TERN_CROSS_ENTROPY_LABELS] = labels,
                                       [TERN_CROSS_ENTROPY_TRAINING] = test_case_param_view(&t.c, TERN_PARAM_TRAINING)},
                                .out = losses});
        float *z = want(&t, logits, n_rows), *loss = want(&t, losses, n_rows);
        for (uint32_t r = 0; r < n_rows; r++)
            loss[r] = tern_ref_cross_entropy(z + (size_t)r * vocab, vocab,
                                             (int32_t)test_case_param(&t.c, TERN_PARAM_LABELS)[first + r],
                                             training(&t)->loss_weight);
        t.n = n_rows; /* outputs of the step */
        for (size_t b = 0; b < n_backends; b++) {
            test_results got;
            test_case_run(&t.c, backends[b].backend, first + n_rows, n_rows, 1, &got);
            for (size_t i = 0; i < t.n_wanted; i++) compare(&t, &t.wanted[i], &got, "cross_entropy", backends[b].name);
            test_results_free(&got);
        }
        free(z);
        free(loss);
        test_case_close(&t.c);
    }
}

static void rms_norm(void **state)
{
    (void)state;
    for (int round = 0; round < 2 * ROUNDS; round++) {
        trial t;
        tern_view residual;
        const uint32_t group = any_cols(), n_groups = between(0, 1) ? 1 : between(2, 5), cols = n_groups * group;
        const bool norm_weight = between(0, 3), input_wanted = !norm_weight || between(0, 3);
        open_trial(&t, between(1, 9));
        const tern_view x = rows(&t, "x", cols, any_fill()), dy = rows(&t, "dy", cols, any_fill()),
                        g = test_case_norm_weight(&t.c, group);
        const tern_view dg = test_case_state(&t.c, "dg", TERN_STATE_GRADIENT, TERN_DTYPE_F32, 1, group, TEST_ORDINARY);
        tern_op op = {.kind = TERN_OP_RMS_NORM_BACKWARD,
                      .n_in = norm_weight ? TERN_NORM_BACKWARD_INPUTS : TERN_NORM_BACKWARD_DWEIGHT,
                      .in = {[TERN_NORM_BACKWARD_X] = x,
                             [TERN_NORM_BACKWARD_WEIGHT] = g,
                             [TERN_NORM_BACKWARD_DY] = dy,
                             [TERN_NORM_BACKWARD_DWEIGHT] = dg},
                      .eps = 1e-5f};
        float *dx = NULL, *sums = want(&t, dg, 1);
        if (input_wanted) {
            dx = add_op(&t, op, output(&t, "dx", cols), &residual);
            start_at_residual(&t, dx, residual, cols);
        } else {
            op.out.value = TERN_NO_VALUE;
            test_case_add(&t.c, op);
        }
        const float *w = (const float *)(const void *)test_case_weight_of(&t.c, g)->data;
        for (uint32_t i = 0; i < t.n * n_groups; i++) {
            const uint32_t r = i / n_groups, c = i % n_groups * group;
            tern_ref_rms_norm_backward(input(&t, x, r) + c, w, op.eps, group, input(&t, dy, r) + c,
                                       dx ? dx + (size_t)r * cols + c : NULL, norm_weight ? sums : NULL);
        }
        check(&t, "rms_norm_backward");
    }
}

static void bias(void **state)
{
    (void)state;
    for (int round = 0; round < ROUNDS; round++) {
        trial t;
        const uint32_t cols = any_cols(), before = between(0, 3);
        open_trial(&t, between(1, 40));
        const tern_view dy = test_case_columns(rows(&t, "dy", before + cols, any_fill()), before, cols);
        const tern_view db = test_case_state(&t.c, "db", TERN_STATE_GRADIENT, TERN_DTYPE_F32, 1, cols, TEST_ORDINARY);
        test_case_add(&t.c,
                      (tern_op){.kind = TERN_OP_BIAS_BACKWARD, .n_in = 2, .in = {dy, db}, .out.value = TERN_NO_VALUE});
        tern_ref_bias_backward(input(&t, dy, 0), before + cols, t.n, cols, want(&t, db, 1));
        check(&t, "bias_backward");
    }
}

static void rope(void **state)
{
    (void)state;
    for (int round = 0; round < ROUNDS; round++) {
        trial t;
        const uint32_t heads = between(1, 4), dim = between(0, 1) ? 2 * between(1, 40) : 64, before = between(0, 3);
        open_trial(&t, between(1, 9));
        const tern_view all = rows(&t, "dqkv", before + heads * dim, any_fill());
        const tern_view dx = test_case_columns(all, before, heads * dim), table = test_case_rope_table(&t.c, dim);
        const bool adjacent = between(0, 1);
        test_case_add(&t.c, (tern_op){.kind = TERN_OP_ROPE_BACKWARD,
                                      .n_in = TERN_ROPE_INPUTS,
                                      .in = {[TERN_ROPE_X] = dx,
                                             [TERN_ROPE_POSITIONS] = test_case_param_view(&t.c, TERN_PARAM_POSITIONS),
                                             [TERN_ROPE_TABLE] = table},
                                      .out.value = TERN_NO_VALUE,
                                      .n_heads = heads,
                                      .head_dim = dim,
                                      .rope_adjacent = adjacent});
        float *rotated = want(&t, dx, t.n);
        for (uint32_t r = 0; r < t.n; r++)
            (adjacent ? tern_ref_rope_adjacent_backward : tern_ref_rope_halves_backward)(
                rotated + (size_t)r * dx.cols, heads, dim, input(&t, table, 0) + (size_t)r * dim);
        check(&t, "rope_backward");
    }
}

static void embed(void **state)
{
    (void)state;
    for (int round = 0; round < ROUNDS; round++) {
        trial t;
        const uint32_t cols = any_cols(), vocab = between(1, 100);
        open_trial(&t, between(1, 60));
        const tern_view dy = rows(&t, "dy", cols, any_fill()), ids = test_case_param_view(&t.c, TERN_PARAM_IDS);
        const tern_view dw =
            test_case_state(&t.c, "dw", TERN_STATE_GRADIENT, TERN_DTYPE_F32, vocab, cols, TEST_ORDINARY);
        for (uint32_t r = 0; r < t.n; r++) test_case_param(&t.c, TERN_PARAM_IDS)[r] = between(0, vocab - 1);
        test_case_add(
            &t.c,
            (tern_op){
                .kind = TERN_OP_EMBED_BACKWARD,
                .n_in = TERN_EMBED_BACKWARD_INPUTS,
                .in = {[TERN_EMBED_BACKWARD_DY] = dy, [TERN_EMBED_BACKWARD_IDS] = ids, [TERN_EMBED_BACKWARD_DW] = dw},
                .out.value = TERN_NO_VALUE});
        float *sums = want(&t, dw, vocab);
        tern_ref_embed_backward((const int32_t *)(const void *)test_case_param(&t.c, TERN_PARAM_IDS), t.n, cols,
                                input(&t, dy, 0), cols, sums);
        check(&t, "embed_backward");
    }
}

/* Documents of random lengths, some of one token. */
static void cut_documents(uint32_t *starts, uint32_t n)
{
    for (uint32_t t = 0, first = 0, how = between(0, 2); t < n; t++) {
        if (t && (how == 1 ? between(0, 40) == 0 : how == 2 && between(0, 2) == 0)) first = t;
        starts[t] = first;
    }
}

/* Rows of a view, packed. */
static float *packed(trial *t, tern_view view)
{
    float *to = calloc((size_t)t->n * view.cols, sizeof *to);
    for (uint32_t r = 0; r < t->n; r++) memcpy(to + (size_t)r * view.cols, input(t, view, r), view.cols * sizeof *to);
    return to;
}

typedef struct attention_shape {
    uint32_t n, heads, kv_heads, dim;
} attention_shape;

/* Sizes around those of panels and blocks, as large as the definition's time allows. */
static attention_shape any_attention(void)
{
    const size_t most = test_quick() ? 500000 : 6000000; /* multiply-adds of a product */
    attention_shape s = {.n = between(0, 2) ? between(1, 70) : between(120, 700), .kv_heads = between(1, 3)};
    s.heads = s.kv_heads * (between(0, 4) ? between(1, 4) : between(1, 20));
    s.dim = between(0, 1) ? 8 * between(1, 6) : between(1, 40);
    while ((size_t)s.n * s.n / 2 * s.heads * s.dim > most) {
        if (s.heads > s.kv_heads) s.heads = s.kv_heads;
        else if (s.dim > 3) s.dim /= 2;
        else if (s.kv_heads > 1) s.heads = s.kv_heads = 1;
        else s.n /= 2;
    }
    return s;
}

static void attention_round(void)
{
    const attention_shape s = any_attention();
    const uint32_t q_cols = s.heads * s.dim, kv_cols = s.kv_heads * s.dim;
    trial t;
    tern_view residual;
    open_trial(&t, s.n);
    cut_documents(test_case_param(&t.c, TERN_PARAM_SEQ_STARTS), s.n);
    const tern_view starts = test_case_param_view(&t.c, TERN_PARAM_SEQ_STARTS);
    const tern_view qkv = rows(&t, "qkv", q_cols + 2 * kv_cols, between(0, 3) ? TEST_ORDINARY : any_fill());
    const tern_view q = test_case_columns(qkv, 0, q_cols), k = test_case_columns(qkv, q_cols, kv_cols);
    const tern_view v = test_case_columns(qkv, q_cols + kv_cols, kv_cols);
    const tern_view statistics = output(&t, "statistics", 2 * s.heads), out = output(&t, "attention", q_cols);
    const tern_view dout = rows(&t, "dout", q_cols, between(0, 3) ? TEST_ORDINARY : any_fill());
    const tern_view dkv = output(&t, "dkv", 2 * kv_cols), dk = test_case_columns(dkv, 0, kv_cols);
    const tern_view dv = test_case_columns(dkv, kv_cols, kv_cols);
    tern_op op = {.kind = TERN_OP_VARLEN_ATTENTION,
                  .n_in = TERN_VARLEN_ATTENTION_INPUTS,
                  .in = {[TERN_VARLEN_ATTENTION_Q] = q,
                         [TERN_VARLEN_ATTENTION_K] = k,
                         [TERN_VARLEN_ATTENTION_V] = v,
                         [TERN_VARLEN_ATTENTION_STARTS] = starts,
                         [TERN_VARLEN_ATTENTION_STATISTICS] = statistics},
                  .out = out};
    op.n_heads = s.heads, op.n_kv_heads = s.kv_heads, op.head_dim = s.dim;
    op.scale = between(0, 1) ? 0.2f : 0;
    op.softcap = between(0, 2) ? 0 : 1.5f;
    op.window = between(0, 2) ? 0 : between(1, s.n + 1);
    if (between(0, 1)) op.sinks = test_case_norm_weight(&t.c, s.heads);
    test_case_add(&t.c, op);
    op.kind = TERN_OP_VARLEN_ATTENTION_BACKWARD, op.n_in = TERN_VARLEN_ATTENTION_BACKWARD_INPUTS;
    op.in[TERN_VARLEN_ATTENTION_OUT] = out;
    op.in[TERN_VARLEN_ATTENTION_DOUT] = dout;
    op.in[TERN_VARLEN_ATTENTION_DK] = dk;
    op.in[TERN_VARLEN_ATTENTION_DV] = dv;
    float *dsinks = NULL;
    if (op.sinks.cols && between(0, 1)) {
        op.in[op.n_in] =
            test_case_state(&t.c, "dsinks", TERN_STATE_GRADIENT, TERN_DTYPE_F32, 1, s.heads, TEST_ORDINARY);
        dsinks = want(&t, op.in[op.n_in++], 1);
    }
    float *dq = add_op(&t, op, output(&t, "dq", q_cols), &residual);
    start_at_residual(&t, dq, residual, q_cols);
    float *o = want(&t, out, s.n), *both = want(&t, statistics, s.n), *dk_rows = want(&t, dk, s.n),
          *dv_rows = want(&t, dv, s.n);
    float *q_rows = packed(&t, q), *k_rows = packed(&t, k), *v_rows = packed(&t, v),
          *m = calloc(2, s.n * s.heads * sizeof *m);
    float *l = m + s.n * s.heads;
    const float *sinks = op.sinks.cols ? (const float *)(const void *)test_case_weight_of(&t.c, op.sinks)->data : NULL;
    const tern_varlen_attention all = {s.n,
                                       s.heads,
                                       s.kv_heads,
                                       s.dim,
                                       q_rows,
                                       k_rows,
                                       v_rows,
                                       q_cols,
                                       kv_cols,
                                       test_case_param(&t.c, TERN_PARAM_SEQ_STARTS),
                                       op.scale > 0 ? op.scale : 1.0f / sqrtf((float)s.dim),
                                       op.softcap,
                                       op.window,
                                       sinks};
    tern_ref_varlen_attention(&all, o, m, l);
    tern_ref_varlen_attention_backward(&all, o, m, l, input(&t, dout, 0), dq, dk_rows, dv_rows, dsinks);
    for (uint32_t i = 0; i < s.n * s.heads; i++) {
        both[i / s.heads * 2 * s.heads + i % s.heads] = m[i];
        both[i / s.heads * 2 * s.heads + s.heads + i % s.heads] = l[i];
    }
    free(q_rows);
    free(k_rows);
    free(v_rows);
    free(m);
    char what[96];
    snprintf(what, sizeof what, "attention of %u tokens, %u of %u heads of %u", s.n, s.heads, s.kv_heads, s.dim);
    check(&t, what);
}

static void attention(void **state)
{
    (void)state;
    const int n = test_quick() ? ROUNDS / 3 : 2 * ROUNDS;
    for (int round = 0; round < n; round++) attention_round();
}

static void open_backend(uint32_t features, uint32_t n_threads, const char *level)
{
    tern_error err = {0};
    const tern_cpu_options options = {.n_threads = n_threads, .features = features, .features_set = true};
    assert_true(n_backends < MAX_BACKENDS);
    assert_ok(tern_cpu_open(&backends[n_backends].backend, &options, &err), err);
    snprintf(backends[n_backends].name, sizeof backends->name, "%s, %u threads", level, n_threads);
    n_backends++;
}

static int open_backends(void **state)
{
    (void)state;
    const uint32_t all = tern_cpu_features();
    test_seed(&rng);
    open_backend(0, 1, "scalar");
#define TERN_CPU_LEVEL(level, words, needed)                                                                           \
    if ((all & (needed)) == (needed)) open_backend(needed, 1, words);
    TERN_CPU_LEVEL_LIST(TERN_CPU_LEVEL)
#undef TERN_CPU_LEVEL
    open_backend(all, 2, "all");
    open_backend(all, 3, "all");
    open_backend(all, 8, "all");
    return 0;
}

static int close_backends(void **state)
{
    (void)state;
    for (size_t i = 0; i < n_backends; i++) backends[i].backend->close(backends[i].backend);
    return test_backends_close(state);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(elementwise), cmocka_unit_test(softcap_backward),
    cmocka_unit_test(gate),        cmocka_unit_test(cross_entropy),
    cmocka_unit_test(rms_norm),    cmocka_unit_test(bias),
    cmocka_unit_test(rope),        cmocka_unit_test(embed),
    cmocka_unit_test(attention),
};

TEST_GROUP(training_rows, "threads web", tests, .setup = open_backends, .teardown = close_backends);
