/* Whole runs on a GPU: the same losses as on the CPU within its budget, dispatches to show for it, and stopped runs
 * that go on bit for bit. */
#include "support/op_case.h"
#include "train/run_support.h"

static run_path model, data;
static const char *data_list[1];

static int make_files(void **state)
{
    (void)state;
    model = put_model("gpu-run-model");
    snprintf(data.text, sizeof data.text, "%s", put_sequences("gpu-run.jsonl", 40, 21));
    data_list[0] = data.text;
    return 0;
}

static tern_backend_kind backend(void)
{
    uint32_t kind;
    tern_error err = {0};
    assert_ok(tern_choice_parse(TERN_CHOICE_BACKEND, test_gpu_name(), &kind, &err), err);
    return (tern_backend_kind)kind;
}

static tern_finetune_options options(const char *output, uint32_t lora)
{
    tern_finetune_options o = run_options(model.text, data_list, output);
    o.steps = 6;
    o.validation_split = 0.2;
    o.evaluate_every = 3;
    o.lora_rank = lora;
    return o;
}

static void the_gpu_learns_what_the_cpu_learns(void **state)
{
    (void)state;
    test_gpu_backend();
    for (uint32_t lora = 0; lora <= 4; lora += 4) {
        tern_error err = {0};
        tern_finetune_result cpu = {.size = sizeof cpu}, gpu = {.size = sizeof gpu};
        tern_finetune_options o = options(scratch("gpu-learns").text, lora);
        assert_ok(tern_finetune(&o, &cpu, &err), err);
        o.backend = backend();
        assert_ok(tern_finetune(&o, &gpu, &err), err);
        assert_true(cpu.dispatches == 0 && gpu.dispatches > 1000);
        const double before = fabs(gpu.first_validation - cpu.first_validation), after = fabs(gpu.loss - cpu.loss);
        if (!(before <= 2e-3 * cpu.first_validation) || !(after <= 1e-2 * cpu.loss))
            fail_msg("rank %u: %g and %g on the CPU, %g and %g on the GPU", lora, cpu.first_validation, cpu.loss,
                     gpu.first_validation, gpu.loss);
    }
}

typedef struct stopper {
    uint64_t n_steps, stop_at;
} stopper;

static void count_event(void *context, const tern_finetune_event *e)
{
    ((stopper *)context)->n_steps += e->kind == TERN_FINETUNE_STEP;
}

static bool go_on(void *context)
{
    const stopper *s = context;
    return s->n_steps < s->stop_at;
}

static void stopped_runs_go_on(void **state)
{
    static const char *const names[] = {"loss.csv", "checkpoint/state.safetensors", "model.safetensors"};
    (void)state;
    test_gpu_backend();
    tern_error err = {0};
    const run_path whole = scratch("gpu-whole"), parts = scratch("gpu-parts");
    tern_finetune_options o = options(whole.text, 0);
    o.backend = backend();
    assert_ok(tern_finetune(&o, NULL, &err), err);
    o.output = parts.text;
    stopper s = {.stop_at = 2};
    o.on_event = count_event;
    o.go_on = go_on;
    o.context = &s;
    assert_int_equal(tern_finetune(&o, NULL, &err), TERN_CANCELLED);
    s.stop_at = 100;
    o.overwrite = false;
    o.resume = true;
    assert_ok(tern_finetune(&o, NULL, &err), err);
    for (size_t i = 0; i < 3; i++) {
        const run_path x = inside(whole.text, names[i]), y = inside(parts.text, names[i]);
        assert_same_files(x.text, y.text);
    }
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(the_gpu_learns_what_the_cpu_learns),
    cmocka_unit_test(stopped_runs_go_on),
};

TEST_GROUP(run_gpu, "devices long", tests, .setup = make_files);
