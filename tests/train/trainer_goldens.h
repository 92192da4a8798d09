/* A trainer on any backend against PyTorch: every gradient, 30 losses of AdamW, the parameters after them, and adapters
 * (fixtures: README). A test program defines backend() and how near to a boundary its own floats may not be trusted.
 *
 * The int8 quantiser is a step function: two or three elements of a forward lie so near to a step that PyTorch, which
 * adds its floats in another order, rounds them the other way, and each moves gradients of so small a model by 1 %. So
 * the model of the definitions is asked which ones (support/reference_flips.h), and the norm_weights of the norms
 * before them are changed by some 1e-6, so that these elements fall on PyTorch's side; and, where the backend's own
 * floats differ from the definitions, those that it rounds otherwise a little further. What is compared is then the
 * trainer itself.
 */
#ifndef TERN_TESTS_TRAIN_TRAINER_GOLDENS_H
#define TERN_TESTS_TRAIN_TRAINER_GOLDENS_H

#include <math.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "format/safetensors.h"
#include "infer/lora.h"
#include "support/golden.h"
#include "support/logits.h"
#include "support/op_case.h"
#include "support/reference_flips.h"
#include "support/trainer_case.h"
#include "train/goldens.h"

static ref_model model;
static tern_error err;
static test_batch batch;

static tern_backend *backend(void);
/* Whether the backend's floats are those of the definitions to the bit. */
static const bool exact;

/* How far from a boundary elements are put, and how near to one they may go either way. */
static ref_nudges golden_nudges(void)
{
    return (ref_nudges){.width = REF_TIE_WIDTH, .margin = exact ? 2e-6f : 1e-4f};
}

static ref_nudges own_nudges(void)
{
    return (ref_nudges){.width = 2e-4f, .margin = 2e-4f};
}

enum { MOST_ROUNDS = 6 };

/* Of |difference| / |golden| for gradients; of the losses. */
#define MOST      1e-4
#define MOST_LOSS 5e-3

static void check(const char *name, double found, double most)
{
    if (!(found <= most)) fail_msg("%s: relative distance %g, at most %g expected", name, found, most);
}

/* What the run of the definitions is held against: a golden file, or a trainer. */
typedef struct target {
    const tern_safetensors *golden;
    const float *logits;
    const int32_t *ids, *labels;
    double loss;
    const float *gradients[REF_PARAMS];
} target;

static target golden_target(const tern_safetensors *golden)
{
    target aim = {.golden = golden,
                  .ids = data_of(golden, "input_ids", REF_TOKENS),
                  .labels = data_of(golden, "labels", REF_TOKENS)};
    test_batch_fill(&batch, aim.ids, aim.labels, 2, REF_SEQUENCE);
    return aim;
}

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

/* The norm_weights as the definitions have them; afterwards, what was changed of them is taken back. */
static void write_gains(tern_trainer *trainer)
{
    for (uint32_t i = 0; i < REF_PARAMS; i++) {
        const ref_param *p = &model.params[i];
        if (!p->is_norm) continue;
        size_t at = test_trainer_find(trainer, p->name);
        assert_ok(tern_trainer_write(trainer, at, TERN_STATE_MASTER, p->w, &err), err);
    }
}

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

/* What the golden files were made with. */
static tern_trainer_params golden_params(void)
{
    tern_trainer_params p = tern_trainer_defaults();
    p.batch = 2;
    p.seq = REF_SEQUENCE;
    p.lr = 1e-3;
    p.schedule = TERN_SCHEDULE_CONSTANT;
    p.n_steps = 30;
    return p;
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
    tern_trainer *trainer = test_trainer(backend(), opened, &params);
    target aim = golden_target(golden), own = aim;
    for (uint32_t i = 0; i < REF_PARAMS; i++)
        aim.gradients[i] = golden_gradient(golden, model.params[i].name, model.params[i].n);
    double loss = run_backward(trainer, &own), plain = worst_gradient(&own, &aim), worst = 1;
    ref_flip_towards(&model, exact ? REF_TIE_WIDTH : own_nudges().width, gradient_error, &own, exact ? 1e-6 : 1e-5);
    check("the definitions", gradient_error(&own), exact ? 1e-6 : 1e-5);
    print_message("%u elements rounded otherwise than by the definitions\n", model.ties.n_flipped);
    assert_true(!exact || model.ties.n_flipped == 0);
    free_gradients(&own);

    ref_nudges nudges = golden_nudges(), away = own_nudges();
    for (int round = 0; round < MOST_ROUNDS; round++) {
        ref_nudge_towards(&model, &nudges, gradient_error, &aim, 1e-5);
        loss = run_backward(trainer, &own);
        worst = worst_gradient(&own, &aim);
        uint32_t n = exact ? 0 : ref_nudge_away(&model, &away, gradient_error, &own, 1e-5);
        free_gradients(&own);
        if (n == 0) break;
    }
    print_message("gradients within %.2g as the file is, %.2g with %u norm_weights changed by up to %.1g\n", plain,
                  worst, nudges.n + away.n, fmax(nudges.largest, away.largest));
    check("gradients", worst, MOST);
    assert_true(plain < 0.1 && nudges.largest < 1e-3 && away.largest < 1e-3);
    const float *losses = data_of(golden, "adamw.losses", 30);
    check("loss", fabs(loss / (double)losses[0] - 1), 1e-5);
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
        check(name, distance(got, data_of(golden, name, p->n), p->n), MOST);
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
        if (exact) break;
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
    tern_trainer *trainer = test_trainer(backend(), opened, &params);
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
        if (i == 0) check("norm", fabs(result.norm / (double)*norm - 1), 1e-4);
    }
    print_message("%u steps: losses within %.2g; %u norm_weights changed by up to %.1g\n", n_steps, worst,
                  nudges.n + away.n, fmax(nudges.largest, away.largest));
    check("losses", worst, MOST_LOSS);
    assert_true(nudges.largest < 1e-3 && away.largest < 1e-3);
    if (n_steps == 30) check_parameters(trainer, golden);
    tern_trainer_close(trainer);
    tern_model_close(opened);
    ref_free(&model);
    tern_safetensors_close(golden);
}

static double logits_error(void *context)
{
    const target *aim = context;
    size_t n = REF_TOKENS * REF_VOCAB;
    ref_forward(&model, aim->ids);
    return distance(model.logits, aim->logits, n);
}

/* The folder of the model with the norm_weights of the definitions, as f32; to be removed. */
static const char *write_folder(void)
{
    static tern_st_tensor tensors[REF_PARAMS];
    char own[48]; /* other programs run at the same time */
    snprintf(own, sizeof own, "nudged-model-%d", (int)getpid());
    const char *folder = test_scratch(own), *name = "bitnet-train/config.json";
    tern_safetensors *st = open_file("bitnet-train/model.safetensors");
    char path[512];
    tern_buf config = {0};
    assert_int_equal(tern_safetensors_count(st), REF_PARAMS);
    for (uint32_t i = 0; i < REF_PARAMS; i++) {
        const ref_param *p = &model.params[i];
        const tern_st_tensor *t = tern_safetensors_find(st, p->name);
        assert_non_null(t);
        tensors[i] = *t;
        if (!p->is_norm) continue;
        tensors[i].dtype = TERN_ST_F32;
        tensors[i].data = (const uint8_t *)p->w;
        tensors[i].bytes = p->n * sizeof *p->w;
    }
    mkdir(folder, 0777);
    snprintf(path, sizeof path, "%s/model.safetensors", folder);
    assert_ok(tern_safetensors_write(path, tensors, REF_PARAMS, NULL, &err), err);
    assert_ok(tern_file_read(&config, test_fixture(name), 1 << 20, &err), err);
    snprintf(path, sizeof path, "%s/config.json", folder);
    test_write_file(path, config.data, config.size);
    tern_buf_deinit(&config);
    tern_safetensors_close(st);
    return folder;
}

/* The largest distance of a gradient of an adapter from the golden one, or (golden NULL) from the definitions. */
static double worst_half(tern_trainer *trainer, const tern_safetensors *golden)
{
    double worst = 0;
    for (uint32_t i = 0; i < REF_PARAMS; i++) {
        const ref_param *p = &model.params[i];
        for (int b = 0; p->packed && b < 2; b++) {
            size_t at = test_trainer_find(trainer, half_name(p, "", b ? "lora_B" : "lora_A"));
            const char *name = half_name(p, "grad.", b ? "lora_B.default" : "lora_A.default");
            size_t n = RANK * (size_t)(b ? p->rows : p->cols);
            float *got = test_trainer_floats(trainer, at, TERN_STATE_GRADIENT);
            double d = distance(got, golden ? data_of(golden, name, n) : b ? p->lora.db : p->lora.da, n);
            if (!(d <= worst)) worst = d;
            free(got);
        }
    }
    assert_int_equal(tern_trainer_n_tensors(trainer), 2 * 7 * REF_LAYERS);
    return worst;
}

typedef struct half_target {
    target aim;
    tern_trainer *trainer;
} half_target;

static double half_error(void *context)
{
    half_target *own = context;
    ref_zero_grads(&model);
    ref_forward(&model, own->aim.ids);
    ref_loss(&model, own->aim.labels);
    ref_backward(&model, own->aim.ids);
    return worst_half(own->trainer, NULL);
}

/* A trainer of the adapter on the model with the norm_weights of the definitions; *loss of its gradients. */
typedef struct adapted {
    tern_model *model;
    tern_adapter *adapter;
    tern_trainer *trainer;
    double loss;
} adapted;

static adapted open_adapted(void)
{
    adapted a = {0};
    const char *folder = write_folder();
    assert_ok(tern_model_open(&a.model, folder, NULL, &err), err);
    test_remove_folder(folder);
    assert_ok(tern_adapter_open(&a.adapter, test_fixture("bitnet-train/lora"), a.model, &err), err);
    tern_trainer_params params = golden_params();
    params.lora.start = a.adapter;
    a.trainer = test_trainer(backend(), a.model, &params);
    assert_ok(tern_trainer_backward(a.trainer, batch.rows, 2, &a.loss, &err), err);
    return a;
}

static void close_adapted(adapted *a)
{
    tern_trainer_close(a->trainer);
    tern_adapter_close(a->adapter);
    tern_model_close(a->model);
}

/* The model of the definitions with the adapter of the fixture. */
static target open_with_adapter(tern_safetensors **golden, tern_safetensors **halves)
{
    *golden = open_file("bitnet-train/golden_lora.safetensors");
    *halves = open_file("bitnet-train/lora/adapter_model.safetensors");
    ref_open(&model, test_fixture("bitnet-train/model.safetensors"));
    for (uint32_t i = 0; i < REF_PARAMS; i++)
        if (model.params[i].packed) attach(&model, &model.params[i], *halves);
    target aim = golden_target(*golden);
    aim.logits = data_of(*golden, "logits", (size_t)REF_TOKENS * REF_VOCAB);
    return aim;
}

static void golden_adapter(void **state)
{
    (void)state;
    tern_safetensors *golden, *halves;
    target aim = open_with_adapter(&golden, &halves);
    ref_nudges nudges = golden_nudges(), away = own_nudges();
    double worst = 1, loss = 0;
    for (int round = 0; round < MOST_ROUNDS; round++) {
        ref_nudge_towards(&model, &nudges, logits_error, &aim, 1e-5);
        adapted a = open_adapted();
        half_target own = {aim, a.trainer};
        loss = a.loss;
        worst = worst_half(a.trainer, golden);
        uint32_t n = exact ? 0 : ref_nudge_away(&model, &away, half_error, &own, 1e-5);
        close_adapted(&a);
        if (n == 0) break;
    }
    const float *want = data_of(golden, "loss", 1);
    print_message("gradients within %.2g; %u norm_weights changed by up to %.1g\n", worst, nudges.n + away.n,
                  fmax(nudges.largest, away.largest));
    check("loss", fabs(loss / (double)*want - 1), 1e-5);
    check("gradients", worst, MOST);
    ref_free(&model);
    tern_safetensors_close(halves);
    tern_safetensors_close(golden);
}

/* An engine on the backend, for the logits of sessions. */
static tern_engine *engine_of(const char *path);

static void run_sessions(const int32_t *ids, float *logits)
{
    const char *folder = write_folder();
    tern_engine *engine = engine_of(folder);
    test_remove_folder(folder);
    tern_session *session = test_session(engine, false);
    tern_lora *lora = NULL;
    assert_ok(tern_lora_load(&lora, engine, test_fixture("bitnet-train/lora"), &err), err);
    assert_ok(tern_session_set_loras(session, &(tern_lora_use){lora, 1}, 1, &err), err);
    for (uint32_t s = 0; s < 2; s++) {
        size_t n = (size_t)REF_SEQUENCE * REF_VOCAB;
        tern_session_truncate(session, 0);
        assert_ok(tern_session_append_all(session, ids + s * REF_SEQUENCE, REF_SEQUENCE, &err), err);
        memcpy(logits + s * n, test_logits(session, 0), n * sizeof *logits);
    }
    tern_session_close(session);
    tern_lora_close(lora);
    tern_engine_close(engine);
}

/* An adapter at run time: the logits of PEFT. */
static void golden_logits(void **state)
{
    (void)state;
    static float logits[REF_TOKENS * REF_VOCAB];
    tern_safetensors *golden, *halves;
    target aim = open_with_adapter(&golden, &halves), own = aim;
    ref_nudges nudges = golden_nudges(), away = own_nudges();
    own.logits = logits;
    for (int round = 0; round < MOST_ROUNDS; round++) {
        ref_nudge_towards(&model, &nudges, logits_error, &aim, 1e-5);
        run_sessions(aim.ids, logits);
        if (ref_nudge_away(&model, &away, logits_error, &own, 1e-5) == 0) break;
    }
    double d = distance(logits, aim.logits, REF_TOKENS * REF_VOCAB);
    print_message("logits within %.2g; %u norm_weights changed by up to %.1g\n", d, nudges.n + away.n,
                  fmax(nudges.largest, away.largest));
    check("logits", d, MOST);
    ref_free(&model);
    tern_safetensors_close(halves);
    tern_safetensors_close(golden);
}

#endif
