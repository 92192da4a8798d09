/* A trainer on every backend against PyTorch: every gradient, 30 losses of AdamW, the parameters after them. */
#include <math.h>

#include "support/op_case.h"
#include "train/golden_trainer.h"

static tern_error err;

static const float *golden_gradient(const tern_safetensors *golden, const char *name, size_t n)
{
    char full[160];
    snprintf(full, sizeof full, "grad.%s", name);
    return data_of(golden, full, n);
}

static double gradient_error(void *context)
{
    const target *aim = context;
    ref_zero_grads(&model);
    ref_forward(&model, aim->ids);
    ref_loss(&model, aim->labels);
    ref_backward(&model, aim->ids);
    double error = 0;
    for (uint32_t i = 0; i < REF_PARAMS; i++)
        error += distance(model.params[i].grad, aim->gradients[i], model.params[i].n) / REF_PARAMS;
    return error;
}

static double loss_error(void *context)
{
    const target *aim = context;
    ref_forward(&model, aim->ids);
    return fabs(ref_loss(&model, aim->labels) / aim->loss - 1);
}

/* Takes back what was changed of the norms' weights. */
static void restore_gains(tern_trainer *trainer, float *const before[REF_PARAMS])
{
    for (uint32_t i = 0; i < REF_PARAMS; i++) {
        const ref_param *p = &model.params[i];
        if (!p->is_norm) continue;
        size_t at = test_trainer_find(trainer, p->name);
        float *w = test_trainer_floats(trainer, at, TERN_STATE_MASTER);
        for (size_t c = 0; c < p->n; c++) w[c] += before[i][c] - p->w[c];
        assert_ok(tern_trainer_write(trainer, at, TERN_STATE_MASTER, w, &err), err);
        free(w);
    }
}

/* To the definitions; the caller's to free. */
static void read_masters(tern_trainer *trainer, float *masters[REF_PARAMS])
{
    for (uint32_t i = 0; i < REF_PARAMS; i++) {
        ref_param *p = &model.params[i];
        masters[i] = test_trainer_floats(trainer, test_trainer_find(trainer, p->name), TERN_STATE_MASTER);
        memcpy(p->w, masters[i], p->n * sizeof *p->w);
    }
    ref_requantise(&model);
}

static tern_model *open_model(void)
{
    tern_model *opened = NULL;
    const tern_model_options options = {.no_tokenizer = true};
    assert_ok(tern_model_open(&opened, test_fixture("bitnet-train"), &options, &err), err);
    ref_open(&model, test_fixture("bitnet-train/model.safetensors"));
    return opened;
}

static double worst_gradient(const target *got, const target *want)
{
    double worst = 0;
    for (uint32_t i = 0; i < REF_PARAMS; i++) {
        double d = distance(got->gradients[i], want->gradients[i], model.params[i].n);
        if (!(d <= worst)) worst = d;
    }
    return worst;
}

/* Gradients of the trainer at the norm_weights of the definitions; to be freed. */
static double run_backward(tern_trainer *trainer, target *own)
{
    double loss;
    write_gains(trainer);
    assert_ok(tern_trainer_clear(trainer, &err), err);
    assert_ok(tern_trainer_backward(trainer, batch.rows, 2, &loss, &err), err);
    for (uint32_t i = 0; i < REF_PARAMS; i++)
        own->gradients[i] =
            test_trainer_floats(trainer, test_trainer_find(trainer, model.params[i].name), TERN_STATE_GRADIENT);
    return loss;
}

static void free_gradients(target *own)
{
    for (uint32_t i = 0; i < REF_PARAMS; i++) free((void *)(uintptr_t)own->gradients[i]);
}

static void gradients(void **state)
{
    (void)state;
    tern_safetensors *golden = open_file("bitnet-train/golden_train.safetensors");
    tern_model *opened = open_model();
    tern_trainer_params params = golden_params();
    tern_trainer *trainer = test_trainer(test_backend_here(), opened, &params);
    target aim = golden_target(golden), own = aim;
    for (uint32_t i = 0; i < REF_PARAMS; i++)
        aim.gradients[i] = golden_gradient(golden, model.params[i].name, model.params[i].n);
    double loss = run_backward(trainer, &own), plain = worst_gradient(&own, &aim), worst = 1;
    ref_flip_towards(&model, exact() ? REF_TIE_WIDTH : own_nudges().width, gradient_error, &own, exact() ? 1e-6 : 1e-5);
    check("the definitions", gradient_error(&own), exact() ? 1e-6 : 1e-5);
    print_message("%u elements rounded otherwise than by the definitions\n", model.ties.n_flipped);
    assert_true(!exact() || model.ties.n_flipped == 0);
    free_gradients(&own);

    ref_nudges nudges = golden_nudges(), away = own_nudges();
    for (int round = 0; round < MOST_ROUNDS; round++) {
        ref_nudge_towards(&model, &nudges, gradient_error, &aim, 1e-5);
        loss = run_backward(trainer, &own);
        worst = worst_gradient(&own, &aim);
        uint32_t n = exact() ? 0 : ref_nudge_away(&model, &away, gradient_error, &own, 1e-5);
        free_gradients(&own);
        if (n == 0) break;
    }
    print_message("gradients within %.2g as the file is, %.2g with %u norm_weights changed by up to %.1g\n", plain,
                  worst, nudges.n + away.n, fmax(nudges.largest, away.largest));
    check("gradients", worst, golden_most().gradients);
    assert_true(plain < 0.1 && nudges.largest < 1e-3 && away.largest < 1e-3);
    const float *losses = data_of(golden, "adamw.losses", 30);
    check("loss", fabs(loss / (double)losses[0] - 1), golden_most().loss);
    tern_trainer_close(trainer);
    tern_model_close(opened);
    ref_free(&model);
    tern_safetensors_close(golden);
}

static void check_parameters(tern_trainer *trainer, const tern_safetensors *golden)
{
    uint32_t n_checked = 0;
    for (uint32_t i = 0; i < REF_PARAMS; i++) {
        char name[128];
        const ref_param *p = &model.params[i];
        snprintf(name, sizeof name, "adamw.final.%s", p->name);
        if (!tern_safetensors_find(golden, name)) continue;
        float *got = test_trainer_floats(trainer, test_trainer_find(trainer, p->name), TERN_STATE_MASTER);
        check(name, distance(got, data_of(golden, name, p->n), p->n), golden_most().parameters);
        free(got);
        n_checked++;
    }
    assert_int_equal(n_checked, 4);
}

/* Gains at which the trainer rounds as PyTorch did. */
static void settle(tern_trainer *trainer, target *aim, ref_nudges *nudges, ref_nudges *away)
{
    target own = *aim;
    for (int round = 0; round < MOST_ROUNDS; round++) {
        uint64_t n;
        ref_nudge_towards(&model, nudges, loss_error, aim, 1e-6);
        write_gains(trainer);
        if (exact()) break;
        assert_ok(tern_trainer_evaluate(trainer, batch.rows, 2, &own.loss, &n, &err), err);
        own.loss /= (double)n;
        if (fabs(own.loss / aim->loss - 1) <= 1e-5) break;
        if (ref_nudge_away(&model, away, loss_error, &own, 2e-6) == 0) break;
    }
}

static void adamw(void **state)
{
    (void)state;
    tern_safetensors *golden = open_file("bitnet-train/golden_train.safetensors");
    tern_model *opened = open_model();
    tern_trainer_params params = golden_params();
    tern_trainer *trainer = test_trainer(test_backend_here(), opened, &params);
    target aim = golden_target(golden);
    const float *want = data_of(golden, "adamw.losses", 30), *norm = data_of(golden, "grad_norm", 1);
    ref_nudges nudges = golden_nudges(), away = own_nudges();
    double worst = 0;
    uint32_t n_steps = test_quick() ? 4 : 30;
    for (uint32_t i = 0; i < n_steps; i++) {
        tern_trainer_result result;
        float *before[REF_PARAMS];
        read_masters(trainer, before);
        aim.loss = (double)want[i];
        settle(trainer, &aim, &nudges, &away);
        assert_ok(tern_trainer_step(trainer, batch.rows, 2, &result, &err), err);
        restore_gains(trainer, before);
        for (uint32_t k = 0; k < REF_PARAMS; k++) free(before[k]);
        double e = fabs(result.loss / (double)want[i] - 1);
        if (!(e <= worst)) worst = e;
        if (i == 0) check("norm", fabs(result.norm / (double)*norm - 1), golden_most().norm);
    }
    print_message("%u steps: losses within %.2g; %u norm_weights changed by up to %.1g\n", n_steps, worst,
                  nudges.n + away.n, fmax(nudges.largest, away.largest));
    check("losses", worst, golden_most().losses);
    assert_true(nudges.largest < 1e-3 && away.largest < 1e-3);
    if (n_steps == 30) check_parameters(trainer, golden);
    tern_trainer_close(trainer);
    tern_model_close(opened);
    ref_free(&model);
    tern_safetensors_close(golden);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(gradients),
    cmocka_unit_test(adamw),
};

TEST_GROUP(trainer_goldens, "shared backends long", tests);
