/* What WebGPU asks of the dispatches of whole graphs, of generation and of training: with its default limits, bindings
 * of one dispatch do not overlap where one can be written, and no buffer is bound both to be read only and to be
 * written. */
#include "backend/gpu/program.h"
#include "graph/fusions.h"
#include "infer/engine/engine.h"
#include "infer/session/runner.h"
#include "ops/op.h"
#include "support/places.h"
#include "support/trainer_case.h"

static const tern_gpu_caps devices[] = {
    {.workgroup_bytes = 16384, .workgroup_invocations = 128},
    {.workgroup_bytes = 16384, .workgroup_invocations = 256},
    {.workgroup_bytes = 32768, .workgroup_invocations = 256, .subgroup_min = 4, .subgroup_max = 4},
    {.workgroup_bytes = 32768, .workgroup_invocations = 1024, .subgroup_min = 8, .subgroup_max = 32},
    {.workgroup_bytes = 49152, .workgroup_invocations = 1024, .subgroup_min = 32, .subgroup_max = 32},
};
enum { N_DEVICES = sizeof devices / sizeof *devices };

static uint32_t n_checked;

/* One storage binding as the device sees it. */
typedef struct bound {
    const tern_buffer *buffer;
    uint64_t offset, bytes;
    char access;
} bound;

static bool overlap(const bound *a, const bound *b)
{
    if (a->buffer != b->buffer || (a->access == 'r' && b->access == 'r')) return false;
    if (a->access != b->access) return true;
    return a->offset < b->offset + b->bytes && b->offset < a->offset + a->bytes;
}

/* The checker itself. */
static void what_overlaps(void **state)
{
    (void)state;
    static const char storage[2];
    const tern_buffer *x = (const tern_buffer *)(const void *)&storage[0];
    const tern_buffer *y = (const tern_buffer *)(const void *)&storage[1];
    const bound a = {x, 256, 512, 'w'};
    assert_true(overlap(&a, &(bound){x, 0, 257, 'w'}) && overlap(&a, &(bound){x, 767, 1, 'w'}));
    assert_true(overlap(&a, &(bound){x, 1024, 256, 'r'}) && overlap(&(bound){x, 1024, 256, 'r'}, &a));
    assert_false(overlap(&a, &(bound){x, 0, 256, 'w'}) || overlap(&a, &(bound){x, 768, 256, 'w'}));
    assert_false(overlap(&a, &(bound){y, 256, 512, 'w'}) || overlap(&a, &(bound){y, 256, 512, 'r'}));
    assert_false(overlap(&(bound){x, 0, 256, 'r'}, &(bound){x, 0, 256, 'r'}));
}

/* Scratch memory and what nobody reads are buffers of their own: any addresses that are nobody else's. */
static bound place(const tern_graph *g, const tern_binding *bindings, const tern_gpu_range *r, uint32_t i, char access)
{
    static const char scratch, nothing[TERN_GPU_MAX_BINDINGS];
    bound at = {.offset = r->offset, .bytes = r->bytes, .access = access};
    if (r->value == TERN_GPU_SCRATCH) at.buffer = (const tern_buffer *)(const void *)&scratch;
    else if (r->value == TERN_GPU_NOTHING) at.buffer = (const tern_buffer *)(const void *)&nothing[i];
    else if (r->value == TERN_GPU_PARAMS) at.buffer = bindings[g->params[TERN_PARAM_COUNTS]].buffer;
    else {
        at.buffer = bindings[r->value].buffer;
        at.offset += bindings[r->value].offset;
    }
    return at;
}

static void check_dispatch(const tern_graph *g, const tern_binding *bindings, const tern_gpu_caps *caps,
                           const tern_gpu_dispatch *d)
{
    const tern_gpu_pipeline_info *info = &tern_gpu_pipelines[d->pipeline];
    bound at[TERN_GPU_MAX_BINDINGS];
    assert_true(d->n_bindings <= 8 && d->n_bindings == info->n_bindings);
    assert_true(tern_gpu_pipeline_fits(d->pipeline, caps) && info->invocations <= caps->workgroup_invocations);
    for (uint32_t i = 0; i < 3; i++) assert_in_range(d->groups[i], 1, caps->max_groups);
    for (uint32_t i = 0; i < d->n_bindings; i++) {
        at[i] = place(g, bindings, &d->bindings[i], i, info->signature[i]);
        assert_non_null(at[i].buffer);
        assert_true(at[i].offset % 256 == 0 && at[i].bytes > 0 && at[i].bytes <= caps->max_binding);
        for (uint32_t k = 0; k < i; k++)
            if (overlap(&at[i], &at[k]))
                fail_msg("op %s, %s: bindings %u and %u overlap", tern_op_name(g->ops[d->op].kind), info->name, k, i);
    }
    n_checked++;
}

static void check_graph(const tern_graph *g, const tern_binding *bindings)
{
    for (size_t i = 0; i < N_DEVICES; i++) {
        tern_error err = {0};
        tern_gpu_caps caps = devices[i];
        tern_gpu_program p;
        caps.max_groups = 65535;
        caps.max_binding = 128 << 20;
        caps.binding_alignment = 256;
        assert_ok(tern_gpu_lower(&p, g, &caps, &err), err);
        for (size_t k = 0; k < p.n; k++) check_dispatch(g, bindings, &caps, &p.dispatches[k]);
        tern_gpu_program_deinit(&p);
    }
}

static tern_status prepare(tern_backend *b, const tern_graph *graph, const tern_binding *bindings, tern_prepared **out,
                           tern_error *err)
{
    (void)b, (void)err;
    check_graph(graph, bindings);
    *out = NULL;
    return TERN_OK;
}

static void prepared_free(tern_backend *b, tern_prepared *prepared)
{
    (void)b, (void)prepared;
}

static tern_status run(tern_backend *b, tern_prepared *prepared, uint32_t n_steps, tern_error *err)
{
    (void)b, (void)prepared, (void)n_steps, (void)err;
    return TERN_OK;
}

static tern_status supports(tern_backend *b, const tern_graph *graph, const tern_op *op, tern_error *err)
{
    (void)b;
    tern_gpu_caps caps = devices[0];
    caps.max_groups = 65535;
    caps.max_binding = 128 << 20;
    caps.binding_alignment = 256;
    return tern_gpu_supports(graph, op, &caps, err);
}

/* A CPU backend, of which graphs are made as of the GPU's and checked in place of being prepared. */
static void make_checking(tern_backend *cpu, uint32_t fusions)
{
    cpu->info.fusions = fusions;
    cpu->info.max_steps = TERN_SAMPLE_MAX_STEPS;
    cpu->supports = supports;
    cpu->prepare = prepare;
    cpu->prepared_free = prepared_free;
    cpu->run = run;
}

static const uint32_t fusions[] = {0, TERN_FUSION_LINEAR_NORM | TERN_FUSION_ROPE_ATTENTION};

static tern_engine *open_engine(const char *path, const tern_engine_params *how)
{
    tern_error err = {0};
    tern_model *model;
    tern_engine *engine;
    assert_ok(tern_model_open(&model, path, &(tern_model_options){.no_tokenizer = true}, &err), err);
    assert_ok(tern_engine_open(&engine, model, how, &err), err);
    return engine;
}

static void check_inference(const char *path, bool f32_activations)
{
    tern_error err = {0};
    const tern_engine_params how = {.backend = {.n_threads = 1}, .f32_activations = f32_activations};
    tern_engine *engine = open_engine(path, &how);
    for (uint32_t i = 0; i < 16; i++) {
        make_checking(tern_engine_backend(engine), fusions[i & 1]);
        const tern_dtype kv = i & 4 ? TERN_DTYPE_F32 : TERN_DTYPE_F16;
        const tern_runner_params params = {.n_ctx = 96,
                                           .n_batch = i & 2 ? 7 : 64,
                                           .max_outputs = i & 2 ? 3 : 1,
                                           .kv = {kv, kv},
                                           .unfused = i & 8,
                                           .keep_hidden = i & 2,
                                           .keep_all = i & 8,
                                           .steps = !(i & 2)};
        tern_runner runner;
        assert_ok(tern_runner_open(&runner, engine, &params, &err), err);
        tern_runner_deinit(&runner);
    }
    tern_engine_close(engine);
}

static void bundled(void **state)
{
    (void)state;
    check_inference(TERN_SOURCE_DIR "/models/stories.gguf", false);
    check_inference(TERN_SOURCE_DIR "/models/stories.gguf", true);
}

static void families(void **state)
{
    (void)state;
    check_inference(test_fixture("bitnet"), false);
    check_inference(test_fixture("llama"), false);
}

/* Without each pass of fusion alone, which leaves ops beside what the others have joined. */
static void check_without(const char *path, uint32_t pass)
{
    tern_error err = {0};
    const tern_engine_params how = {.backend = {.n_threads = 1}, .no_fusion = 1u << pass};
    tern_engine *engine = open_engine(path, &how);
    for (uint32_t i = 0; i < 2; i++) {
        make_checking(tern_engine_backend(engine), fusions[1]);
        const tern_runner_params params = {.n_ctx = 96, .n_batch = i ? 64 : 1, .max_outputs = 1, .steps = true};
        tern_runner runner;
        assert_ok(tern_runner_open(&runner, engine, &params, &err), err);
        tern_runner_deinit(&runner);
    }
    tern_engine_close(engine);
}

static void passes(void **state)
{
    (void)state;
    tern_fusion_pass row;
    for (uint32_t pass = 0; tern_graph_fusion_at(pass, &row); pass++) {
        check_without(TERN_SOURCE_DIR "/models/stories.gguf", pass);
        check_without(test_fixture("llama"), pass);
        check_without(test_fixture("gpt-oss"), pass); /* biases: its gates are ops of their own */
    }
}

static void check_training(const char *path, const tern_trainer_params *params)
{
    tern_error err = {0};
    tern_model *model;
    tern_backend *cpu;
    assert_ok(tern_model_open(&model, path, &(tern_model_options){.no_tokenizer = true}, &err), err);
    assert_ok(tern_backend_open(&cpu, &(tern_backend_options){.n_threads = 1}, &err), err);
    make_checking(cpu, fusions[1]);
    tern_trainer_close(test_trainer(cpu, model, params));
    cpu->close(cpu);
    tern_model_close(model);
}

static void training(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 8; i++) {
        tern_trainer_params p = tern_trainer_defaults();
        p.batch = 2;
        p.seq = 48;
        p.checkpoint = i & 2;
        p.f32_activations = i & 4;
        if (i & 1) p.lora = (tern_trainer_lora){.rank = 4, .alpha = 8, .dropout = i & 2 ? 0.1f : 0};
        check_training(TERN_SOURCE_DIR "/models/stories.gguf", &p);
    }
}

/* All weights, and adapters beside experts too. */
static void training_of_experts(void **state)
{
    (void)state;
    static const char *const targets[] = {"q_proj", "gate_proj", "down_proj"};
    for (uint32_t i = 0; i < 4; i++) {
        tern_trainer_params p = tern_trainer_defaults();
        p.batch = 2;
        p.seq = 48;
        p.checkpoint = i & 2;
        if (i & 1) p.lora = (tern_trainer_lora){.rank = 4, .alpha = 8, .targets = targets, .n_targets = 3};
        check_training(test_fixture(i & 2 ? "gpt-oss" : "mixtral"), &p);
    }
}

static void every_graph_was_seen(void **state)
{
    (void)state;
    assert_true(n_checked > 10000);
}

static const struct CMUnitTest tests[] = {cmocka_unit_test(what_overlaps),
                                          cmocka_unit_test(bundled),
                                          cmocka_unit_test(families),
                                          cmocka_unit_test(passes),
                                          cmocka_unit_test(training),
                                          cmocka_unit_test(training_of_experts),
                                          cmocka_unit_test(every_graph_was_seen)};

TEST_GROUP(webgpu_rules, "", tests);
