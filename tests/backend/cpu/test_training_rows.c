/* The training ops of the CPU backend beside the linear layers: at every level and with several numbers of threads they
 * give the bits of ops/ref. */
#include "backend/cpu/training_rows_cases.h"

#include "quant/weight.h"

static tern_train_params *training(trial *t)
{
    return (tern_train_params *)(void *)test_case_param(&t->c, TERN_PARAM_TRAINING);
}

/* What an elementwise op made, plus the residual. */
static void add_residual(trial *t, float *out, tern_view residual, uint32_t cols)
{
    for (uint32_t r = 0; r < t->n && residual.value != TERN_NO_VALUE; r++)
        for (uint32_t c = 0; c < cols; c++)
            out[(size_t)r * cols + c] = training_rows_input(t, residual, r)[c] + out[(size_t)r * cols + c];
}

static uint32_t any_cols(void)
{
    return training_rows_between(0, 2) ? training_rows_between(1, 70) : training_rows_between(1, 700);
}

static void elementwise(void **state)
{
    (void)state;
    for (int round = 0; round < 3 * ROUNDS; round++) {
        trial t;
        tern_view residual;
        const tern_op_kind kinds[] = {TERN_OP_SCALE, TERN_OP_DROPOUT, TERN_OP_FAKE_QUANTIZE}, kind = kinds[round % 3];
        const uint32_t cols = any_cols();
        training_rows_open_trial(&t, training_rows_between(1, 9));
        tern_train_params *p = training(&t);
        p->dropout_seed = (uint32_t)tern_rng_u64(&training_rows_rng);
        p->blend = (float)training_rows_between(0, 4) / 4;
        const tern_view x = training_rows_rows(&t, "x", cols, training_rows_any_fill()),
                        params = test_case_param_view(&t.c, TERN_PARAM_TRAINING);
        tern_op op = {.kind = kind,
                      .n_in = TERN_SCALE_INPUTS,
                      .in = {[TERN_SCALE_X] = x},
                      .scale = kind == TERN_OP_SCALE ? test_float(&training_rows_rng, TEST_ORDINARY)
                                                     : (float)training_rows_between(0, 9) / 10,
                      .softcap = kind == TERN_OP_SCALE && training_rows_between(0, 1)
                                     ? 0.25f * (float)training_rows_between(1, 9)
                                     : 0,
                      .stream = training_rows_between(0, 5)};
        if (kind != TERN_OP_SCALE) { /* DROPOUT and FAKE_QUANTIZE name the same inputs */
            op.n_in = TERN_DROPOUT_INPUTS;
            op.in[TERN_DROPOUT_TRAINING] = params;
        }
        float *y = training_rows_add_op(&t, op, training_rows_output(&t, "y", cols), &residual);
        for (uint32_t r = 0; r < t.n; r++, y += cols) {
            const float *from = training_rows_input(&t, x, r);
            if (kind == TERN_OP_DROPOUT)
                tern_ref_dropout(from, cols, op.scale, p->dropout_seed + op.stream * 0x9e3779b9u, r * cols, y);
            if (kind == TERN_OP_FAKE_QUANTIZE) tern_ref_fake_quantize(from, cols, p->blend, y);
            for (uint32_t c = 0; c < cols && kind == TERN_OP_SCALE; c++) y[c] = from[c] * op.scale;
            if (op.softcap > 0) tern_ref_softcap_row(y, cols, op.softcap, y);
        }
        add_residual(&t, y - (size_t)t.n * cols, residual, cols);
        training_rows_check(&t, tern_op_name(kind));
    }
}

/* The steps of the definition, which agree with the formula in double precision. */
static void softcap_backward(void **state)
{
    (void)state;
    for (int round = 0; round < ROUNDS; round++) {
        trial t;
        const uint32_t cols = any_cols();
        training_rows_open_trial(&t, training_rows_between(1, 9));
        const tern_view x = training_rows_rows(&t, "x", cols, TEST_ORDINARY),
                        dy = training_rows_rows(&t, "dy", cols, TEST_ORDINARY);
        const tern_op op = {.kind = TERN_OP_SOFTCAP_BACKWARD,
                            .n_in = TERN_SOFTCAP_BACKWARD_INPUTS,
                            .in = {[TERN_SOFTCAP_BACKWARD_X] = x, [TERN_SOFTCAP_BACKWARD_DY] = dy},
                            .scale = 1.5f,
                            .softcap = 0.5f * (float)training_rows_between(1, 9)};
        tern_view residual, out = training_rows_output(&t, "dx", cols);
        float *y = training_rows_add_op(&t, op, out, &residual);
        for (uint32_t r = 0; r < t.n; r++, y += cols)
            for (uint32_t c = 0; c < cols; c++) {
                const float from = training_rows_input(&t, x, r)[c], d = training_rows_input(&t, dy, r)[c],
                            scaled = from * op.scale;
                const double th = tanh((double)scaled / (double)op.softcap);
                float capped;
                tern_ref_softcap_row(&scaled, 1, op.softcap, &capped);
                const float u = capped * (1 / op.softcap);
                y[c] = d * (1 - u * u) * op.scale;
                assert_true(fabs((double)y[c] - (double)d * (1 - th * th) * (double)op.scale) <=
                            1e-6 * (1 + fabs((double)d)));
            }
        add_residual(&t, y - (size_t)t.n * cols, residual, cols);
        training_rows_check(&t, "softcap_backward");
    }
}

static void gate(void **state)
{
    (void)state;
    static const tern_gate_backward_fn refs[] = {[TERN_ACT_RELU2] = tern_ref_relu2_backward,
                                                 [TERN_ACT_SILU] = tern_ref_silu_backward,
                                                 [TERN_ACT_GELU] = tern_ref_gelu_backward,
                                                 [TERN_ACT_SIGMOID] = tern_ref_sigmoid_backward};
    static const tern_gate_fn forward[] = {[TERN_ACT_RELU2] = tern_ref_relu2,
                                           [TERN_ACT_SILU] = tern_ref_silu,
                                           [TERN_ACT_GELU] = tern_ref_gelu,
                                           [TERN_ACT_SIGMOID] = tern_ref_sigmoid};
    static const tern_activation activations[] = {TERN_ACT_RELU2, TERN_ACT_SILU, TERN_ACT_GELU, TERN_ACT_SIGMOID};
    for (int round = 0; round < 4 * ROUNDS; round++) {
        trial t;
        tern_view residual;
        const tern_activation activation = activations[round % 4];
        const uint32_t cols = any_cols();
        training_rows_open_trial(&t, training_rows_between(1, 9));
        const tern_view both = training_rows_rows(&t, "gate_up", 2 * cols, training_rows_any_fill()),
                        dy = training_rows_rows(&t, "dy", cols, training_rows_any_fill());
        const tern_view g = test_case_columns(both, 0, cols), u = test_case_columns(both, cols, cols);
        const tern_view dup = training_rows_output(&t, "dup", cols), y = training_rows_output(&t, "y", cols);
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
        float *dg = training_rows_add_op(&t, op, training_rows_output(&t, "dgate", cols), &residual),
              *du = training_rows_want(&t, dup, t.n), *f = training_rows_want(&t, y, t.n);
        for (uint32_t r = 0; r < t.n; r++) {
            refs[activation](training_rows_input(&t, g, r), training_rows_input(&t, u, r),
                             training_rows_input(&t, dy, r), cols, dg + r * cols, du + r * cols);
            forward[activation](training_rows_input(&t, g, r), training_rows_input(&t, u, r), cols, f + r * cols);
        }
        add_residual(&t, dg, residual, cols);
        training_rows_check(&t, "gate_backward");
    }
}

/* The rows of the head: labels and losses from first_row on, more logits rows than tokens need not be. */
static void cross_entropy(void **state)
{
    (void)state;
    for (int round = 0; round < 2 * ROUNDS; round++) {
        trial t;
        const uint32_t vocab = any_cols(), n_rows = training_rows_between(1, 6),
                       first = training_rows_between(0, 1) * TERN_ROW_ALIGNMENT;
        t = (trial){.n = first + n_rows};
        test_case_open(&t.c, &training_rows_rng,
                       &(test_case_shape){.max_tokens = t.n, .max_outputs = n_rows, .training = true});
        training(&t)->loss_weight = 1 / (float)training_rows_between(1, 5);
        tern_view labels = test_case_param_view(&t.c, TERN_PARAM_LABELS),
                  losses = training_rows_output(&t, "losses", 1);
        const tern_view logits = test_case_rows(&t.c, "logits", TERN_ROWS_OUTPUTS, vocab, training_rows_any_fill());
        for (uint32_t r = 0; r < t.n; r++)
            test_case_param(&t.c, TERN_PARAM_LABELS)[r] = training_rows_between(0, vocab + 1) - 1;
        labels.first_row = losses.first_row = first;
        test_case_add(&t.c,
                      (tern_op){.kind = TERN_OP_CROSS_ENTROPY,
                                .rows = TERN_ROWS_OUTPUTS,
                                .n_in = TERN_CROSS_ENTROPY_INPUTS,
                                .in = {[TERN_CROSS_ENTROPY_LOGITS] = logits,
                                       [TERN_CROSS_ENTROPY_LABELS] = labels,
                                       [TERN_CROSS_ENTROPY_TRAINING] = test_case_param_view(&t.c, TERN_PARAM_TRAINING)},
                                .out = losses});
        float *z = training_rows_want(&t, logits, n_rows), *loss = training_rows_want(&t, losses, n_rows);
        for (uint32_t r = 0; r < n_rows; r++)
            loss[r] = tern_ref_cross_entropy(z + (size_t)r * vocab, vocab,
                                             (int32_t)test_case_param(&t.c, TERN_PARAM_LABELS)[first + r],
                                             training(&t)->loss_weight);
        t.n = n_rows; /* outputs of the step */
        for (size_t b = 0; b < training_rows_n_backends; b++) {
            test_results got;
            test_case_run(&t.c, training_rows_backends[b].backend, first + n_rows, n_rows, 1, &got);
            for (size_t i = 0; i < t.n_wanted; i++)
                training_rows_compare(&t, &t.wanted[i], &got, "cross_entropy", training_rows_backends[b].name);
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
        const uint32_t group = any_cols(), n_groups = training_rows_between(0, 1) ? 1 : training_rows_between(2, 5),
                       cols = n_groups * group;
        const bool norm_weight = training_rows_between(0, 3),
                   input_wanted = !norm_weight || training_rows_between(0, 3);
        training_rows_open_trial(&t, training_rows_between(1, 9));
        const tern_view x = training_rows_rows(&t, "x", cols, training_rows_any_fill()),
                        dy = training_rows_rows(&t, "dy", cols, training_rows_any_fill()),
                        g = test_case_norm_weight(&t.c, group);
        const tern_view dg = test_case_state(&t.c, "dg", TERN_STATE_GRADIENT, TERN_DTYPE_F32, 1, group, TEST_ORDINARY);
        tern_op op = {.kind = TERN_OP_RMS_NORM_BACKWARD,
                      .n_in = norm_weight ? TERN_NORM_BACKWARD_INPUTS : TERN_NORM_BACKWARD_DWEIGHT,
                      .in = {[TERN_NORM_BACKWARD_X] = x,
                             [TERN_NORM_BACKWARD_WEIGHT] = g,
                             [TERN_NORM_BACKWARD_DY] = dy,
                             [TERN_NORM_BACKWARD_DWEIGHT] = dg},
                      .eps = 1e-5f};
        float *dx = NULL, *sums = training_rows_want(&t, dg, 1);
        if (input_wanted) {
            dx = training_rows_add_op(&t, op, training_rows_output(&t, "dx", cols), &residual);
            training_rows_start_at_residual(&t, dx, residual, cols);
        } else {
            op.out.value = TERN_NO_VALUE;
            test_case_add(&t.c, op);
        }
        const float *w = (const float *)(const void *)test_case_weight_of(&t.c, g)->data;
        for (uint32_t i = 0; i < t.n * n_groups; i++) {
            const uint32_t r = i / n_groups, c = i % n_groups * group;
            tern_ref_rms_norm_backward(training_rows_input(&t, x, r) + c, w, op.eps, group,
                                       training_rows_input(&t, dy, r) + c, dx ? dx + (size_t)r * cols + c : NULL,
                                       norm_weight ? sums : NULL);
        }
        training_rows_check(&t, "rms_norm_backward");
    }
}

static void bias(void **state)
{
    (void)state;
    for (int round = 0; round < ROUNDS; round++) {
        trial t;
        const uint32_t cols = any_cols(), before = training_rows_between(0, 3);
        training_rows_open_trial(&t, training_rows_between(1, 40));
        const tern_view dy =
            test_case_columns(training_rows_rows(&t, "dy", before + cols, training_rows_any_fill()), before, cols);
        const tern_view db = test_case_state(&t.c, "db", TERN_STATE_GRADIENT, TERN_DTYPE_F32, 1, cols, TEST_ORDINARY);
        test_case_add(&t.c,
                      (tern_op){.kind = TERN_OP_BIAS_BACKWARD, .n_in = 2, .in = {dy, db}, .out.value = TERN_NO_VALUE});
        tern_ref_bias_backward(training_rows_input(&t, dy, 0), before + cols, t.n, cols, training_rows_want(&t, db, 1));
        training_rows_check(&t, "bias_backward");
    }
}

static void embed(void **state)
{
    (void)state;
    for (int round = 0; round < ROUNDS; round++) {
        trial t;
        const uint32_t cols = any_cols(), vocab = training_rows_between(1, 100);
        training_rows_open_trial(&t, training_rows_between(1, 60));
        const tern_view dy = training_rows_rows(&t, "dy", cols, training_rows_any_fill()),
                        ids = test_case_param_view(&t.c, TERN_PARAM_IDS);
        const tern_view dw =
            test_case_state(&t.c, "dw", TERN_STATE_GRADIENT, TERN_DTYPE_F32, vocab, cols, TEST_ORDINARY);
        for (uint32_t r = 0; r < t.n; r++)
            test_case_param(&t.c, TERN_PARAM_IDS)[r] = training_rows_between(0, vocab - 1);
        test_case_add(
            &t.c,
            (tern_op){
                .kind = TERN_OP_EMBED_BACKWARD,
                .n_in = TERN_EMBED_BACKWARD_INPUTS,
                .in = {[TERN_EMBED_BACKWARD_DY] = dy, [TERN_EMBED_BACKWARD_IDS] = ids, [TERN_EMBED_BACKWARD_DW] = dw},
                .out.value = TERN_NO_VALUE});
        float *sums = training_rows_want(&t, dw, vocab);
        tern_ref_embed_backward((const int32_t *)(const void *)test_case_param(&t.c, TERN_PARAM_IDS), t.n, cols,
                                training_rows_input(&t, dy, 0), cols, sums);
        training_rows_check(&t, "embed_backward");
    }
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(elementwise),   cmocka_unit_test(softcap_backward), cmocka_unit_test(gate),
    cmocka_unit_test(cross_entropy), cmocka_unit_test(rms_norm),         cmocka_unit_test(bias),
    cmocka_unit_test(embed),
};

TEST_GROUP(training_rows, "threads web", tests, .setup = training_rows_open_backends,
           .teardown = training_rows_close_backends);
