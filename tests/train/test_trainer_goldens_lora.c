/* Adapters on every backend against PyTorch: gradients of a trainer, logits of sessions. */
#include <math.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "infer/engine/lora.h"
#include "support/gpu_model.h"
#include "support/logits.h"
#include "support/op_case.h"
#include "train/golden_trainer.h"

static tern_error err;

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
    a.trainer = test_trainer(test_backend_here(), a.model, &params);
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
        uint32_t n = exact() ? 0 : ref_nudge_away(&model, &away, half_error, &own, 1e-5);
        close_adapted(&a);
        if (n == 0) break;
    }
    const float *want = data_of(golden, "loss", 1);
    print_message("gradients within %.2g; %u norm_weights changed by up to %.1g\n", worst, nudges.n + away.n,
                  fmax(nudges.largest, away.largest));
    check("loss", fabs(loss / (double)*want - 1), golden_most().loss);
    check("gradients", worst, golden_most().gradients);
    ref_free(&model);
    tern_safetensors_close(halves);
    tern_safetensors_close(golden);
}

static void run_sessions(const int32_t *ids, float *logits)
{
    const char *folder = write_folder();
    tern_engine *engine = test_on_gpu() ? test_gpu_engine(folder, test_all_layers, NULL) : test_engine(folder, NULL);
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
    check("logits", d, golden_most().logits);
    ref_free(&model);
    tern_safetensors_close(halves);
    tern_safetensors_close(golden);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(golden_adapter),
    cmocka_unit_test(golden_logits),
};

TEST_GROUP(trainer_goldens_lora, "shared backends long", tests);
