/* Trainers of small models on any backend: what a step is made of, what is kept, refused and planned. A test program
 * defines backend() and lists them. */
#ifndef TERN_TESTS_TRAIN_TRAINER_CASES_H
#define TERN_TESTS_TRAIN_TRAINER_CASES_H

#include <math.h>
#include <unistd.h>

#include "base/file.h"
#include "model/init.h"
#include "support/micro_model.h"
#include "support/op_case.h"
#include "support/trainer_case.h"

enum { SEQ = 16, N_VOCAB = 8 };

static tern_error err;

static tern_backend *backend(void);

typedef struct micro {
    tern_buf bytes;
    tern_model *model;
} micro;

static micro open_micro(uint32_t width)
{
    micro m = {.bytes = micro_model(&(micro_change){.seed = 5, .width = width})};
    assert_ok(tern_model_open_memory(&m.model, m.bytes.data, m.bytes.size, NULL, &err), err);
    return m;
}

static void close_micro(micro *m)
{
    tern_model_close(m->model);
    tern_buf_deinit(&m->bytes);
}

static tern_trainer_params small_params(void)
{
    tern_trainer_params p = tern_trainer_defaults();
    p.batch = 2;
    p.seq = SEQ;
    p.lr = 3e-3;
    p.schedule = TERN_SCHEDULE_CONSTANT;
    return p;
}

static void steps(tern_trainer *trainer, uint64_t first, uint32_t n, double *losses)
{
    static test_batch batch;
    const tern_trainer_params *p = tern_trainer_params_of(trainer);
    for (uint32_t i = 0; i < n; i++) {
        tern_trainer_result r;
        test_batch_random(&batch, first + i, p->batch * p->accumulate, SEQ, N_VOCAB);
        assert_ok(tern_trainer_step(trainer, batch.rows, p->batch * p->accumulate, &r, &err), err);
        if (losses) losses[i] = r.loss;
    }
}

static void assert_same(tern_trainer *a, tern_trainer *b)
{
    char what[128];
    if (!test_trainer_same(a, b, what)) fail_msg("%s", what);
}

static void names_and_order(void **state)
{
    (void)state;
    micro m = open_micro(0);
    tern_trainer_params p = small_params();
    tern_trainer *trainer = test_trainer(backend(), m.model, &p);
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
    tern_trainer *trainer = test_trainer(backend(), m.model, &p);
    assert_ok(tern_trainer_evaluate(trainer, batch.rows, 3, &tuned, &n_labels, &err), err);
    tern_trainer_close(trainer);
    p.lora = (tern_trainer_lora){.rank = 2, .alpha = 4, .dropout = 0.5f};
    trainer = test_trainer(backend(), m.model, &p); /* B is zero */
    assert_ok(tern_trainer_evaluate(trainer, batch.rows, 3, &adapted, &n_labels, &err), err);
    assert_true(fabs(tuned - adapted) <= 1e-5 * adapted && adapted > 0);
    assert_int_equal(n_labels, batch.rows[0].n_labels + batch.rows[1].n_labels + batch.rows[2].n_labels);
    tern_trainer_close(trainer);
    close_micro(&m);
}

/* Within rounding. */
static void assert_same_gradients(tern_trainer *a, tern_trainer *b)
{
    for (size_t i = 0; i < tern_trainer_n_tensors(a); i++) {
        const tern_trainer_tensor *t = tern_trainer_tensor_at(a, i);
        float *x = test_trainer_floats(a, i, TERN_STATE_GRADIENT), *y = test_trainer_floats(b, i, TERN_STATE_GRADIENT);
        double error = 0, size = 0;
        for (size_t k = 0; k < (size_t)t->rows * t->cols; k++) {
            error += ((double)x[k] - (double)y[k]) * ((double)x[k] - (double)y[k]);
            size += (double)x[k] * (double)x[k];
        }
        if (!(size > 0 && error <= 1e-10 * size)) fail_msg("%s: %g of %g", t->name, sqrt(error), sqrt(size));
        free(x);
        free(y);
    }
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
    tern_trainer *a = test_trainer(backend(), m.model, &p);
    p.batch = 1;
    p.accumulate = 2;
    tern_trainer *b = test_trainer(backend(), m.model, &p);
    assert_ok(tern_trainer_backward(a, batch.rows, 2, &at_once, &err), err);
    assert_ok(tern_trainer_backward(b, batch.rows, 2, &in_turn, &err), err);
    assert_true(fabs(at_once - in_turn) <= 1e-6 * at_once);
    assert_same_gradients(a, b);
    tern_trainer_close(a);
    tern_trainer_close(b);
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
    tern_trainer *trainer = test_trainer(backend(), m.model, &p);
    assert_int_equal(tern_trainer_n_tensors(trainer), 13 - 1 - 4);
    for (size_t i = 0; i < tern_trainer_n_tensors(trainer); i++)
        assert_null(strstr(tern_trainer_tensor_at(trainer, i)->name, "mlp"));
    steps(trainer, 1, 2, NULL);
    tern_trainer_close(trainer);
    p.lora.rank = 2;
    p.freeze = patterns;
    p.n_freeze = 1;
    trainer = test_trainer(backend(), m.model, &p);
    assert_int_equal(tern_trainer_n_tensors(trainer), 2 * 4);
    steps(trainer, 1, 2, NULL);
    tern_trainer_close(trainer);
    static const char *const all[] = {"*"}, *const none[] = {"blk.*"};
    p.lora.rank = 0;
    p.freeze = all;
    assert_int_equal(tern_trainer_open(&trainer, backend(), m.model, &p, &err), TERN_INVALID_ARGUMENT);
    assert_non_null(strstr(err.message, "nothing to train"));
    p.freeze = none;
    assert_int_equal(tern_trainer_open(&trainer, backend(), m.model, &p, &err), TERN_INVALID_ARGUMENT);
    assert_non_null(strstr(err.message, "blk.*"));
    close_micro(&m);
}

/* Ways to train, for what must hold for all of them. */
static const struct way {
    const char *name;
    tern_dtype master, m, v;
    bool sgd, blend, lora, cut;
    uint32_t sync_every;
} ways[] = {
    {.name = "f32", .master = TERN_DTYPE_F32, .m = TERN_DTYPE_F32, .v = TERN_DTYPE_F32, .sync_every = 1},
    {.name = "bf16", .master = TERN_DTYPE_BF16, .m = TERN_DTYPE_BF16, .v = TERN_DTYPE_BF16, .sync_every = 1},
    {.name = "8 bit", .master = TERN_DTYPE_F32, .m = TERN_DTYPE_M8, .v = TERN_DTYPE_V8, .sync_every = 1},
    {.name = "sgd", .m = TERN_DTYPE_F32, .v = TERN_DTYPE_F32, .sgd = true, .sync_every = 1},
    {.name = "blend", .m = TERN_DTYPE_F32, .v = TERN_DTYPE_F32, .blend = true, .sync_every = 1},
    {.name = "threshold", .m = TERN_DTYPE_F32, .v = TERN_DTYPE_F32, .cut = true, .sync_every = 1},
    {.name = "every 3", .m = TERN_DTYPE_F32, .v = TERN_DTYPE_F32, .sync_every = 3},
    {.name = "lora", .m = TERN_DTYPE_F32, .v = TERN_DTYPE_F32, .lora = true, .sync_every = 1},
};
enum { N_WAYS = sizeof ways / sizeof *ways };

static tern_trainer_params way_params(const struct way *way)
{
    tern_trainer_params p = small_params();
    p.master = way->master;
    p.m = way->m;
    p.v = way->v;
    p.sync_every = way->sync_every;
    if (way->sgd) p.optimizer = TERN_OPTIMIZER_SGD, p.lr = 0.05;
    if (way->blend) p.blend_steps = 6;
    if (way->cut) p.threshold = 0.6f, p.clamp = 1.5f;
    if (way->lora) p.lora = (tern_trainer_lora){.rank = 4, .alpha = 8, .dropout = 0.1f}, p.lr = 2e-2;
    return p;
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
        tern_trainer *trainer = test_trainer(backend(), m.model, &p);
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
            tern_trainer *a = test_trainer(backend(), m.model, &p);
            tern_trainer *b = test_trainer(backend(), m.model, &p);
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
        tern_trainer *a = test_trainer(backend(), m.model, &p);
        p.checkpoint = true;
        tern_trainer *b = test_trainer(backend(), m.model, &p);
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
    tern_trainer *a = test_trainer(backend(), m.model, &p);
    tern_trainer *b = test_trainer(backend(), m.model, &p);
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
        test_counting_open(&counting, backend());
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
    tern_trainer *trainer = test_trainer(backend(), m.model, &p);
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
    tern_trainer *trainer = test_trainer(backend(), m.model, &p);
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

static double largest(const float *x, size_t n)
{
    double most = 0;
    for (size_t i = 0; i < n; i++) most = fabs((double)x[i]) > most ? fabs((double)x[i]) : most;
    return most;
}

/* Made, learned, handed out, and gone on from. */
static void adapters(void **state)
{
    (void)state;
    micro m = open_micro(32);
    static const char *const targets[] = {"q_proj", "down_proj"};
    tern_trainer_params p = small_params();
    p.lora = (tern_trainer_lora){.rank = 4, .alpha = 6, .dropout = 0.25f, .targets = targets, .n_targets = 2};
    tern_trainer *trainer = test_trainer(backend(), m.model, &p);
    tern_adapter *adapter = NULL, *again = NULL;
    assert_int_equal(tern_trainer_n_tensors(trainer), 4);
    assert_string_equal(tern_trainer_tensor_at(trainer, 0)->name,
                        "base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight");
    float *a = test_trainer_floats(trainer, 0, TERN_STATE_MASTER),
          *b = test_trainer_floats(trainer, 1, TERN_STATE_MASTER);
    double bound = 1 / sqrt(32), most = largest(a, 4 * 32);
    assert_true(most <= bound && most > 0.8 * bound && largest(b, 4 * 32) == 0);
    steps(trainer, 0, 3, NULL);
    assert_ok(tern_trainer_adapter(trainer, &adapter, &err), err);
    const tern_adapter_info *info = tern_adapter_describe(adapter);
    assert_true(info->rank == 4 && info->scale == 1.5f && info->dropout == 0.25f && info->n_pairs == 2);
    const tern_adapter_pair *pair = tern_adapter_find(adapter, TERN_ROLE_ATTN_Q, 0);
    assert_true(memcmp(pair->a, a, 4 * 32 * sizeof *a) != 0 && largest(pair->b, 4 * 32) > 0);
    static const char *const frozen[] = {"*down_proj*"};
    p.lora = (tern_trainer_lora){.start = adapter};
    p.freeze = frozen;
    p.n_freeze = 1;
    tern_trainer *next = test_trainer(backend(), m.model, &p);
    assert_int_equal(tern_trainer_n_tensors(next), 2);
    double x, y;
    uint64_t n;
    static test_batch batch;
    test_batch_random(&batch, 1, 2, SEQ, N_VOCAB);
    assert_ok(tern_trainer_evaluate(trainer, batch.rows, 2, &x, &n, &err), err);
    assert_ok(tern_trainer_evaluate(next, batch.rows, 2, &y, &n, &err), err);
    assert_true(x == y); /* the half that is frozen counts as well */
    steps(next, 0, 2, NULL);
    assert_ok(tern_trainer_adapter(next, &again, &err), err);
    assert_memory_equal(tern_adapter_find(again, TERN_ROLE_FFN_DOWN, 0)->b,
                        tern_adapter_find(adapter, TERN_ROLE_FFN_DOWN, 0)->b, 4 * 32 * sizeof(float));
    assert_true(memcmp(tern_adapter_find(again, TERN_ROLE_ATTN_Q, 0)->b, pair->b, 4 * 32 * sizeof(float)) != 0);
    free(a);
    free(b);
    tern_adapter_close(again);
    tern_trainer_close(next);
    tern_adapter_close(adapter);
    tern_trainer_close(trainer);
    close_micro(&m);
}

/* A rank that is rounded up is still that rank. */
static void odd_rank(void **state)
{
    (void)state;
    micro m = open_micro(32);
    tern_trainer_params p = small_params();
    p.lora = (tern_trainer_lora){.rank = 3, .alpha = 6};
    tern_trainer *trainer = test_trainer(backend(), m.model, &p);
    tern_adapter *adapter = NULL;
    steps(trainer, 0, 3, NULL);
    assert_int_equal(tern_trainer_n_tensors(trainer), 14);
    for (size_t i = 0; i < 14; i++) {
        const tern_trainer_tensor *t = tern_trainer_tensor_at(trainer, i);
        bool is_b = t->cols == 4;
        float *w = test_trainer_floats(trainer, i, TERN_STATE_MASTER);
        assert_true(is_b || t->rows == 4);
        for (uint32_t k = 0; k < (is_b ? t->rows : t->cols); k++)
            assert_true(w[is_b ? k * 4 + 3 : 3 * t->cols + k] == 0 && w[is_b ? k * 4 + 2 : 2 * t->cols + k] != 0);
        free(w);
    }
    assert_ok(tern_trainer_adapter(trainer, &adapter, &err), err);
    const tern_adapter_pair *pair = tern_adapter_find(adapter, TERN_ROLE_FFN_UP, 0);
    float *b = test_trainer_floats(
        trainer, test_trainer_find(trainer, "base_model.model.model.layers.0.mlp.up_proj.lora_B.weight"),
        TERN_STATE_MASTER);
    for (uint32_t k = 0; k < 32 * 3; k++) assert_true(pair->b[k] == b[k / 3 * 4 + k % 3]);
    assert_true(tern_adapter_describe(adapter)->rank == 3 && tern_adapter_describe(adapter)->scale == 2);
    free(b);
    tern_adapter_close(adapter);
    tern_trainer_close(trainer);
    close_micro(&m);
}

/* A model with a large vocabulary: the logits of 520 rows take two chunks, and 120 rows to spare. */
static tern_model *open_wide(void)
{
    static const char config[] = "{\"architectures\": [\"BitNetForCausalLM\"], \"hidden_size\": 32, "
                                 "\"intermediate_size\": 32, \"num_hidden_layers\": 1, \"num_attention_heads\": 2, "
                                 "\"vocab_size\": 32768}";
    tern_init init = {0};
    tern_model *model = NULL;
    char file[48], folder[48]; /* other programs run at the same time */
    snprintf(file, sizeof file, "wide-%d.json", (int)getpid());
    snprintf(folder, sizeof folder, "wide-%d", (int)getpid());
    test_write_text(test_scratch(file), config);
    assert_ok(tern_init_read(&init, test_scratch(file), &err), err);
    tern_master_source source = tern_init_source(&init);
    assert_ok(tern_hf_write(test_scratch(folder), &init.config, NULL, &source, NULL, &err), err);
    assert_ok(tern_model_open(&model, test_scratch(folder), NULL, &err), err);
    test_remove_folder(test_scratch(folder));
    unlink(test_scratch(file));
    return model;
}

/* Two documents in one row of two chunks, or in two rows of one chunk. */
static void padded_chunks(void **state)
{
    (void)state;
    enum { LONG = 520, SHORT = LONG / 2 };
    tern_model *model = open_wide();
    static test_batch row, halves;
    double one, two;
    tern_trainer_params p = small_params();
    test_batch_random(&halves, 1, 2, SHORT, 32768);
    test_batch_fill(&row, halves.ids, halves.labels, 1, LONG);
    for (uint32_t i = 0; i < LONG; i++) row.starts[i] = i < SHORT ? 0 : SHORT;
    memset(halves.starts, 0, sizeof halves.starts);
    p.batch = 1;
    p.seq = LONG;
    tern_trainer *a = test_trainer(backend(), model, &p);
    const tern_trainer_plan *plan = tern_trainer_plan_of(a);
    assert_true(plan->n_tokens == 640 && plan->chunk == 320);
    p.seq = SHORT;
    p.accumulate = 2;
    tern_trainer *b = test_trainer(backend(), model, &p);
    assert_true(tern_trainer_plan_of(b)->n_tokens == SHORT);
    assert_ok(tern_trainer_backward(a, row.rows, 1, &one, &err), err);
    assert_ok(tern_trainer_backward(b, halves.rows, 2, &two, &err), err);
    assert_true(fabs(one - two) <= 1e-6 * one && fabs(one - log(32768)) < 1);
    assert_same_gradients(a, b);
    tern_trainer_close(a);
    tern_trainer_close(b);
    tern_model_close(model);
}

/* A dense model (llama) becomes a ternary one. */
static void from_dense_to_ternary(void **state)
{
    (void)state;
    tern_model *model = NULL;
    const tern_model_options options = {.no_tokenizer = true};
    assert_ok(tern_model_open(&model, test_fixture("llama"), &options, &err), err);
    static test_batch batch;
    tern_trainer_params p = small_params();
    test_batch_random(&batch, 1, 2, SEQ, 256);
    double dense, start, last = 0, after;
    tern_trainer_result r = {0};
    uint32_t n_steps = test_quick() ? 18 : 60;
    uint64_t n;
    tern_trainer *trainer = test_trainer(backend(), model, &p);
    assert_ok(tern_trainer_evaluate(trainer, batch.rows, 2, &dense, &n, &err), err);
    for (uint32_t i = 0; i < n_steps / 6; i++) assert_ok(tern_trainer_step(trainer, batch.rows, 2, &r, &err), err);
    assert_true(r.loss < 0.6 * dense / (double)n); /* dense it learns, too */
    tern_trainer_close(trainer);
    p.blend_steps = n_steps / 3;
    trainer = test_trainer(backend(), model, &p);
    size_t q = test_trainer_find(trainer, "model.layers.0.self_attn.q_proj.weight");
    assert_true(tern_trainer_tensor_at(trainer, q)->ternary);
    assert_ok(tern_trainer_evaluate(trainer, batch.rows, 2, &start, &n, &err), err);
    assert_true(fabs(start - dense) <= 1e-5 * dense); /* nothing is quantised yet */
    for (uint32_t i = 0; i < n_steps; i++) assert_ok(tern_trainer_step(trainer, batch.rows, 2, &r, &err), err);
    last = r.loss;
    assert_ok(tern_trainer_evaluate(trainer, batch.rows, 2, &after, &n, &err), err);
    print_message("llama: %.3f dense, %.3f after %u steps, ternary\n", dense / (double)n, last, n_steps);
    assert_true(last < 0.6 * dense / (double)n && after < last * (double)n * 1.2 + 0.5);
    tern_trainer_close(trainer);
    tern_model_close(model);
}

#endif
