/* Trainers of small models on every backend: what a step is made of, what is kept, refused and planned. */
#include <math.h>

#include "train/trainers.h"

static tern_error err;

static void names_and_order(void **state)
{
    (void)state;
    micro m = open_micro(0);
    tern_trainer_params p = small_params();
    tern_trainer *trainer = test_trainer(test_backend_here(), m.model, &p);
    static const char *const first[] = {"model.embed_tokens.weight", "model.norm.weight",
                                        "model.layers.0.input_layernorm.weight",
                                        "model.layers.0.self_attn.q_proj.weight"};
    assert_int_equal(tern_trainer_n_tensors(trainer), 13);
    for (size_t i = 0; i < 4; i++) assert_string_equal(tern_trainer_tensor_at(trainer, i)->name, first[i]);
    const tern_trainer_tensor *q = tern_trainer_tensor_at(trainer, 3), *norm = tern_trainer_tensor_at(trainer, 1);
    assert_true(q->ternary && !norm->ternary && q->rows == 16 && q->cols == 16 && norm->rows == 1);
    const tern_trainer_plan *plan = tern_trainer_plan_of(trainer);
    assert_int_equal(plan->n_trained, plan->n_parameters);
    assert_int_equal(plan->n_parameters, tern_model_parameters(m.model));
    tern_trainer_close(trainer);
    close_micro(&m);
}

/* Codes alone: the model that is trained is the model of the file. */
static void starts_from_codes(void **state)
{
    (void)state;
    micro m = open_micro(0);
    test_batch batch;
    double tuned, adapted;
    uint64_t n_labels;
    test_batch_random(&batch, 1, 3, SEQ, N_VOCAB);
    tern_trainer_params p = small_params();
    tern_trainer *trainer = test_trainer(test_backend_here(), m.model, &p);
    assert_ok(tern_trainer_evaluate(trainer, batch.rows, 3, &tuned, &n_labels, &err), err);
    tern_trainer_close(trainer);
    p.lora = (tern_trainer_lora){.rank = 2, .alpha = 4, .dropout = 0.5f};
    trainer = test_trainer(test_backend_here(), m.model, &p); /* B is zero */
    assert_ok(tern_trainer_evaluate(trainer, batch.rows, 3, &adapted, &n_labels, &err), err);
    assert_true(fabs(tuned - adapted) <= 1e-5 * adapted && adapted > 0);
    assert_int_equal(n_labels, batch.rows[0].n_labels + batch.rows[1].n_labels + batch.rows[2].n_labels);
    tern_trainer_close(trainer);
    close_micro(&m);
}

/* Two rows in one run, or in two. */
static void accumulation(void **state)
{
    (void)state;
    micro m = open_micro(0);
    test_batch batch;
    double at_once, in_turn;
    test_batch_random(&batch, 2, 2, SEQ, N_VOCAB);
    tern_trainer_params p = small_params();
    tern_trainer *a = test_trainer(test_backend_here(), m.model, &p);
    p.batch = 1;
    p.accumulate = 2;
    tern_trainer *b = test_trainer(test_backend_here(), m.model, &p);
    assert_ok(tern_trainer_backward(a, batch.rows, 2, &at_once, &err), err);
    assert_ok(tern_trainer_backward(b, batch.rows, 2, &in_turn, &err), err);
    assert_true(fabs(at_once - in_turn) <= 1e-6 * at_once);
    assert_same_gradients(a, b);
    tern_trainer_close(a);
    tern_trainer_close(b);
    close_micro(&m);
}

/* What passes make of the rows, each alone and from zero, one after the other. As many labels in each make the weights
 * of losses exact shares, so that trainers of one pass have those gradients, times a power of two: to the bit on the
 * CPU. */
static void passes_begin_at_zero(void **state)
{
    (void)state;
    enum { N_PASSES = 4 };
    micro m = open_micro(64);
    test_batch batch;
    double loss;
    test_batch_random(&batch, 2, N_PASSES, SEQ, N_VOCAB);
    for (uint32_t r = 0; r < N_PASSES; r++) {
        for (uint32_t i = 0; i < SEQ; i++) batch.labels[r * SEQ + i] = batch.ids[r * SEQ + (i + 1) % SEQ];
        batch.rows[r].n_labels = SEQ;
    }
    for (size_t way = 0; way < N_WAYS; way += N_WAYS - 1) {
        tern_trainer_params p = way_params(&ways[way]);
        p.batch = 1;
        p.lora.dropout = 0; /* whose seeds are those of passes */
        p.accumulate = N_PASSES;
        tern_trainer *all = test_trainer(test_backend_here(), m.model, &p), *one[N_PASSES];
        assert_ok(tern_trainer_backward(all, batch.rows, N_PASSES, &loss, &err), err);
        p.accumulate = 1;
        for (uint32_t r = 0; r < N_PASSES; r++) {
            one[r] = test_trainer(test_backend_here(), m.model, &p);
            assert_ok(tern_trainer_backward(one[r], &batch.rows[r], 1, &loss, &err), err);
        }
        for (size_t i = 0; i < tern_trainer_n_tensors(all); i++) {
            const tern_trainer_tensor *t = tern_trainer_tensor_at(all, i);
            const size_t n = (size_t)t->rows * t->cols;
            float *got = test_trainer_floats(all, i, TERN_STATE_GRADIENT), *want = calloc(n, sizeof *want);
            for (uint32_t r = 0; r < N_PASSES; r++) {
                float *part = test_trainer_floats(one[r], i, TERN_STATE_GRADIENT);
                for (size_t k = 0; k < n; k++) want[k] += part[k] / N_PASSES;
                free(part);
            }
            double error = 0, size = 0;
            for (size_t k = 0; k < n; k++) {
                error += ((double)got[k] - (double)want[k]) * ((double)got[k] - (double)want[k]);
                size += (double)want[k] * (double)want[k];
            }
            if (!(error <= (test_on_gpu() ? 1e-10 * size : 0))) fail_msg("%s of %s", t->name, ways[way].name);
            free(got);
            free(want);
        }
        for (uint32_t r = 0; r < N_PASSES; r++) tern_trainer_close(one[r]);
        tern_trainer_close(all);
    }
    close_micro(&m);
}

static void freezing(void **state)
{
    (void)state;
    micro m = open_micro(0);
    static const char *const patterns[] = {"model.layers.*.mlp.*", "*embed*"};
    tern_trainer_params p = small_params();
    p.freeze = patterns;
    p.n_freeze = 2;
    tern_trainer *trainer = test_trainer(test_backend_here(), m.model, &p);
    assert_int_equal(tern_trainer_n_tensors(trainer), 13 - 1 - 4);
    for (size_t i = 0; i < tern_trainer_n_tensors(trainer); i++)
        assert_null(strstr(tern_trainer_tensor_at(trainer, i)->name, "mlp"));
    steps(trainer, 1, 2, NULL);
    tern_trainer_close(trainer);
    p.lora.rank = 2;
    p.freeze = patterns;
    p.n_freeze = 1;
    trainer = test_trainer(test_backend_here(), m.model, &p);
    assert_int_equal(tern_trainer_n_tensors(trainer), 2 * 4);
    steps(trainer, 1, 2, NULL);
    tern_trainer_close(trainer);
    static const char *const all[] = {"*"}, *const none[] = {"blk.*"};
    p.lora.rank = 0;
    p.freeze = all;
    assert_int_equal(tern_trainer_open(&trainer, test_backend_here(), m.model, &p, &err), TERN_INVALID_ARGUMENT);
    assert_non_null(strstr(err.message, "nothing to train"));
    p.freeze = none;
    assert_int_equal(tern_trainer_open(&trainer, test_backend_here(), m.model, &p, &err), TERN_INVALID_ARGUMENT);
    assert_non_null(strstr(err.message, "blk.*"));
    close_micro(&m);
}

/* One batch, again and again, is learned. */
static void learns(void **state)
{
    (void)state;
    micro m = open_micro(32);
    static test_batch batch;
    test_batch_random(&batch, 1, 2, SEQ, N_VOCAB);
    uint32_t n_steps = test_quick() ? 20 : 60;
    for (size_t i = 0; i < N_WAYS; i++) {
        tern_trainer_params p = way_params(&ways[i]);
        tern_trainer *trainer = test_trainer(test_backend_here(), m.model, &p);
        double first = 0, last = 0;
        for (uint32_t k = 0; k < n_steps; k++) {
            tern_trainer_result r;
            assert_ok(tern_trainer_step(trainer, batch.rows, 2, &r, &err), err);
            if (k == 0) first = r.loss;
            last = r.loss;
            assert_true(r.norm > 0 && r.lr == p.lr && r.n_positions == 2 * SEQ);
            assert_int_equal(r.n_labels, batch.rows[0].n_labels + batch.rows[1].n_labels);
        }
        print_message("%s: %.3f to %.3f\n", ways[i].name, first, last);
        if (!(last < (test_quick() ? 0.85 : 0.6) * first)) fail_msg("%s: loss %g to %g", ways[i].name, first, last);
        assert_int_equal(tern_trainer_steps(trainer), n_steps);
        tern_trainer_close(trainer);
    }
    close_micro(&m);
}

/* From one trainer to another, as a checkpoint does it. */
static void copy_states(tern_trainer *from, tern_trainer *to)
{
    for (size_t i = 0; i < tern_trainer_n_tensors(from); i++)
        for (int s = 0; s < TERN_STATE_COUNT; s++) {
            size_t n;
            if (tern_trainer_tensor_at(from, i)->dtype[s] == TERN_DTYPE_U32) continue;
            uint8_t *bytes = test_trainer_bytes(from, i, (tern_state)s, &n);
            assert_ok(tern_trainer_write(to, i, (tern_state)s, bytes, &err), err);
            free(bytes);
        }
    assert_ok(tern_trainer_sync(to, tern_trainer_steps(from), &err), err);
}

/* Stopped after each of the first steps, a run goes on as if it had not been. */
static void resumes(void **state)
{
    (void)state;
    micro m = open_micro(0);
    for (size_t i = 0; i < N_WAYS; i++)
        for (uint32_t at = ways[i].sync_every; at < (test_quick() ? 4 : 9); at += ways[i].sync_every) {
            tern_trainer_params p = way_params(&ways[i]);
            tern_trainer *a = test_trainer(test_backend_here(), m.model, &p);
            tern_trainer *b = test_trainer(test_backend_here(), m.model, &p);
            double whole[4], resumed[4];
            steps(a, 0, at, NULL);
            steps(b, 100, 1, NULL); /* something else before */
            copy_states(a, b);
            steps(a, at, 4, whole);
            steps(b, at, 4, resumed);
            for (int k = 0; k < 4; k++)
                if (whole[k] != resumed[k])
                    fail_msg("%s, stopped after %u: loss %.9g, %.9g expected", ways[i].name, at, resumed[k], whole[k]);
            assert_same(a, b);
            tern_trainer_close(a);
            tern_trainer_close(b);
        }
    close_micro(&m);
}

static void checkpointing(void **state)
{
    (void)state;
    micro m = open_micro(32);
    for (size_t i = 0; i < N_WAYS; i++) {
        tern_trainer_params p = way_params(&ways[i]);
        tern_trainer *a = test_trainer(test_backend_here(), m.model, &p);
        p.checkpoint = true;
        tern_trainer *b = test_trainer(test_backend_here(), m.model, &p);
        double x[8], y[8];
        steps(a, 0, 8, x);
        steps(b, 0, 8, y);
        assert_memory_equal(x, y, sizeof x);
        assert_same(a, b);
        tern_trainer_close(a);
        tern_trainer_close(b);
    }
    close_micro(&m);
}

/* A step whose loss is no number changes nothing. */
static void not_finite(void **state)
{
    (void)state;
    micro m = open_micro(0);
    tern_trainer_params p = small_params();
    tern_trainer *a = test_trainer(test_backend_here(), m.model, &p);
    tern_trainer *b = test_trainer(test_backend_here(), m.model, &p);
    static test_batch batch;
    test_batch_random(&batch, 1, 2, SEQ, N_VOCAB);
    steps(a, 0, 2, NULL);
    steps(b, 0, 2, NULL);
    size_t norm = test_trainer_find(a, "model.norm.weight");
    float *norm_weights = test_trainer_floats(a, norm, TERN_STATE_MASTER), broken[16];
    memcpy(broken, norm_weights, sizeof broken);
    broken[3] = NAN;
    assert_ok(tern_trainer_write(a, norm, TERN_STATE_MASTER, broken, &err), err);
    tern_trainer_result r = {.loss = 7};
    assert_int_equal(tern_trainer_step(a, batch.rows, 2, &r, &err), TERN_INVALID_ARGUMENT);
    assert_non_null(strstr(err.message, "step 2"));
    assert_true(r.loss == 7 && tern_trainer_steps(a) == 2);
    assert_ok(tern_trainer_write(a, norm, TERN_STATE_MASTER, norm_weights, &err), err);
    assert_same(a, b);
    double x[3], y[3];
    steps(a, 2, 3, x);
    steps(b, 2, 3, y);
    assert_memory_equal(x, y, sizeof x);
    assert_same(a, b);
    free(norm_weights);
    tern_trainer_close(a);
    tern_trainer_close(b);
    close_micro(&m);
}

/* The plan is what is asked of the backend, to the byte, and all of it is given back. */
static void plans(void **state)
{
    (void)state;
    micro m = open_micro(32);
    for (size_t i = 0; i < N_WAYS; i++) {
        tern_trainer_params p = way_params(&ways[i]);
        tern_trainer_plan plan;
        test_counting counting;
        test_counting_open(&counting, test_backend_here());
        assert_ok(tern_trainer_make_plan(&plan, &counting.base, m.model, &p, &err), err);
        assert_int_equal(counting.n_live, 0);
        tern_trainer *trainer = test_trainer(&counting.base, m.model, &p);
        assert_int_equal(counting.buffer_bytes + counting.weight_bytes, plan.total);
        assert_int_equal(plan.total,
                         plan.weights + plan.masters + plan.gradients + plan.moments + plan.activations + plan.other);
        assert_memory_equal(&plan, tern_trainer_plan_of(trainer), sizeof plan);
        assert_true(plan.n_tokens == 2 * SEQ && plan.chunk == 2 * SEQ);
        tern_trainer_close(trainer);
        assert_int_equal(counting.n_live, 0);
    }
    close_micro(&m);
}

static void wrong_rows(void **state)
{
    (void)state;
    micro m = open_micro(0);
    tern_trainer_params p = small_params();
    tern_trainer *trainer = test_trainer(test_backend_here(), m.model, &p);
    tern_trainer_result r;
    static test_batch batch;
    for (int i = 0; i < 6; i++) {
        size_t n = 2;
        test_batch_random(&batch, 1, 3, SEQ, N_VOCAB);
        if (i == 0) batch.rows[1].ids[3] = N_VOCAB;
        if (i == 1) batch.rows[1].ids[3] = -1;
        if (i == 2) batch.rows[1].labels[3] = N_VOCAB;
        if (i == 3) batch.rows[1].starts[3] = 4;
        if (i == 4) n = 3;
        for (uint32_t k = 0; i == 5 && k < 3 * SEQ; k++) batch.labels[k] = -100;
        assert_int_equal(tern_trainer_step(trainer, batch.rows, n, &r, &err), TERN_INVALID_ARGUMENT);
        assert_non_null(strstr(err.message, "expected"));
    }
    assert_int_equal(tern_trainer_steps(trainer), 0);
    tern_trainer_close(trainer);
    close_micro(&m);
}

/* Rows one at a time, or all at once with a last batch that is not full. */
static void evaluation(void **state)
{
    (void)state;
    micro m = open_micro(0);
    tern_trainer_params p = small_params();
    tern_trainer *trainer = test_trainer(test_backend_here(), m.model, &p);
    static test_batch batch;
    double all, one, sum = 0;
    uint64_t n, n_one, n_sum = 0;
    test_batch_random(&batch, 1, 5, SEQ, N_VOCAB);
    assert_ok(tern_trainer_evaluate(trainer, batch.rows, 5, &all, &n, &err), err);
    for (size_t i = 0; i < 5; i++, sum += one, n_sum += n_one)
        assert_ok(tern_trainer_evaluate(trainer, batch.rows + i, 1, &one, &n_one, &err), err);
    assert_true(fabs(all - sum) <= 1e-6 * all && n == n_sum);
    tern_trainer_close(trainer);
    close_micro(&m);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(names_and_order), cmocka_unit_test(starts_from_codes),
    cmocka_unit_test(accumulation),    cmocka_unit_test(passes_begin_at_zero),
    cmocka_unit_test(freezing),        cmocka_unit_test(learns),
    cmocka_unit_test(resumes),         cmocka_unit_test(checkpointing),
    cmocka_unit_test(not_finite),      cmocka_unit_test(plans),
    cmocka_unit_test(wrong_rows),      cmocka_unit_test(evaluation),
};

TEST_GROUP(trainer, "backends long", tests);
