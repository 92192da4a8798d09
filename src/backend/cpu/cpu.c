/* The CPU backend: opening, buffers, and running a prepared graph. */
#include "backend/cpu/cpu.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "backend/cpu/candidates/candidates.h"
#include "backend/cpu/linear/screen.h"
#include "backend/cpu/linear/sparse.h"
#include "backend/cpu/measure/measure.h"
#include "backend/cpu/ops.h"
#include "backend/range.h"
#include "base/alloc.h"
#include "base/cpu.h"
#include "ops/op.h"

static tern_cpu *self(tern_backend *b)
{
    return (tern_cpu *)b;
}

static void cpu_close(tern_backend *b)
{
    if (!b) return;
    tern_pool_close(self(b)->pool);
    tern_free(self(b)->shape_choices);
    tern_cpu__layout_memory_deinit(&self(b)->layouts);
    pthread_mutex_destroy(&self(b)->running);
    tern_free(b);
}

static tern_status buffer_create(tern_backend *b, uint64_t bytes, tern_buffer **out, tern_error *err)
{
    tern_buffer *buffer = tern_calloc(1, sizeof *buffer);
    if (!buffer) return tern_fail_alloc(err, sizeof *buffer);
    const uint32_t index = atomic_fetch_add_explicit(&self(b)->n_buffers, 1, memory_order_relaxed);
    buffer->data = bytes <= SIZE_MAX - 64 ? tern_alloc_spread((size_t)bytes, index) : NULL;
    if (!buffer->data) {
        tern_free(buffer);
        return tern_fail_alloc(err, bytes);
    }
    buffer->bytes = bytes;
    buffer->owned = true;
    *out = buffer;
    return TERN_OK;
}

static void buffer_free(tern_backend *b, tern_buffer *buffer)
{
    (void)b;
    if (!buffer) return;
    if (buffer->owned) tern_free_aligned(buffer->data);
    tern_screen__free(buffer->screen);
    tern_columns__free(buffer->columns);
    if (buffer->layout) buffer->layout->close(buffer->layout);
    tern_free(buffer);
}

static tern_status buffer_write(tern_backend *b, tern_buffer *buffer, uint64_t offset, const void *data, uint64_t bytes,
                                tern_error *err)
{
    (void)b;
    TERN_TRY(tern_backend_check_range(buffer->bytes, offset, bytes, err));
    if (bytes) memcpy(buffer->data + offset, data, (size_t)bytes);
    return TERN_OK;
}

static tern_status buffer_read(tern_backend *b, const tern_buffer *buffer, uint64_t offset, void *data, uint64_t bytes,
                               tern_error *err)
{
    (void)b;
    TERN_TRY(tern_backend_check_range(buffer->bytes, offset, bytes, err));
    if (bytes) memcpy(data, buffer->data + offset, (size_t)bytes);
    return TERN_OK;
}

static uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void run_whole(tern_cpu_step *step, const tern_cpu_op *op)
{
    if (tern_cpu__rows(step, op->op->rows) == 0) return;
    uint64_t start = now_ns();
    op->run(step, op);
    tern_backend_counters *c = &step->cpu->counters;
    bool head = op->op->kind == TERN_OP_LINEAR && op->op->rows == TERN_ROWS_OUTPUTS;
    *(head ? &c->head_ns : &c->op_ns[op->op->kind]) += now_ns() - start;
    step->cpu->op_runs[head ? TERN_OP_COUNT : op->op->kind]++;
}

/* From row `first` of its rows on. */
static void skip_rows(const tern_graph *g, tern_cpu_rows *rows, tern_view view, const tern_row_group *group)
{
    if (!rows->data) return;
    const uint32_t first =
        tern_rows_of(g->values[view.value].rows, group->first_token, group->first_output, g->n_routes);
    rows->data += first * rows->stride;
}

/* The op as one of its group's rows alone. */
static void run_group(tern_cpu_step *step, const tern_cpu_op *op)
{
    const tern_graph *g = step->prepared->graph;
    const tern_cpu_step whole = {.n_tokens = step->n_tokens, .n_outputs = step->n_outputs};
    tern_row_group group;
    memcpy(&group, step->prepared->params[TERN_PARAM_GROUPS] + (op->op->group - 1) * sizeof group, sizeof group);
    tern_cpu_op part = *op;
    for (uint32_t i = 0; i < op->op->n_in; i++) skip_rows(g, &part.in[i], op->op->in[i], &group);
    skip_rows(g, &part.out, op->op->out, &group);
    skip_rows(g, &part.residual, op->op->residual, &group);
    if (part.routes) part.routes += (size_t)group.first_token * g->n_routes;
    step->n_tokens = group.n_tokens;
    step->n_outputs = group.n_outputs;
    run_whole(step, &part);
    step->n_tokens = whole.n_tokens;
    step->n_outputs = whole.n_outputs;
}

/* The weights of a step are known before its numbers are: while threads wait, they ask for those of the next linear op.
 */
static void look_ahead(tern_cpu_step *step, size_t i)
{
    const struct tern_prepared *p = step->prepared;
    for (i++; i < p->graph->n_ops && p->graph->ops[i].kind != TERN_OP_LINEAR; i++) {}
    step->ahead = i < p->graph->n_ops ? &p->ops[i] : NULL;
    tern_pool_ahead(step->cpu->pool, step->ahead ? tern_cpu__linear_ahead : NULL, step);
}

static void run_op(tern_cpu_step *step, const tern_cpu_op *op)
{
    if (op->op->group) run_group(step, op);
    else run_whole(step, op);
}

static void count_weights(tern_backend_counters *c, tern_cpu_step *step)
{
    c->weight_bytes += step->weight_bytes - atomic_load(&step->skipped_bytes);
    c->ffn_rows += step->ffn_rows;
    c->ffn_columns += step->ffn_columns;
    c->ffn_rows_read += step->ffn_rows - atomic_load(&step->skipped_rows);
    c->ffn_columns_read += step->ffn_columns - atomic_load(&step->skipped_columns);
}

static tern_status run(tern_backend *b, tern_prepared *prepared, uint32_t n_steps, tern_error *err)
{
    tern_cpu *cpu = self(b);
    if (n_steps != 1) return tern_fail(err, TERN_INVALID_ARGUMENT, "run of %u steps: the CPU takes 1", n_steps);
    const uint8_t *counts = prepared->params[TERN_PARAM_COUNTS];
    tern_cpu_step step = {.cpu = cpu, .prepared = prepared, .err = err};
    memcpy(&step.n_tokens, counts, 4);
    memcpy(&step.n_outputs, counts + 4, 4);
    memcpy(&step.n_top, counts + 8, 4);
    const tern_graph *g = prepared->graph;
    if (step.n_tokens == 0 || step.n_tokens > g->max_tokens || step.n_outputs > g->max_outputs)
        return tern_fail(err, TERN_INVALID_ARGUMENT,
                         "step of %u tokens and %u outputs: 1 to %u and at most %u expected", step.n_tokens,
                         step.n_outputs, g->max_tokens, g->max_outputs);
    pthread_mutex_lock(&cpu->running);
    for (size_t i = 0; i < g->n_ops && step.status == TERN_OK; i++) {
        look_ahead(&step, i);
        run_op(&step, &prepared->ops[i]);
    }
    tern_pool_ahead(cpu->pool, NULL, NULL);
    cpu->counters.runs++;
    cpu->counters.ops += g->n_ops;
    count_weights(&cpu->counters, &step);
    pthread_mutex_unlock(&cpu->running);
    return step.status;
}

static tern_status wait(tern_backend *b, tern_error *err)
{
    (void)b;
    (void)err;
    return TERN_OK;
}

static void counters(const tern_backend *b, tern_backend_counters *out)
{
    tern_cpu *cpu = (tern_cpu *)(uintptr_t)b;
    pthread_mutex_lock(&cpu->running); /* sessions of other threads count too */
    *out = cpu->counters;
    pthread_mutex_unlock(&cpu->running);
}

static size_t profile(const tern_backend *b, tern_profile_row *rows, size_t cap)
{
    tern_cpu *cpu = (tern_cpu *)(uintptr_t)b;
    size_t n = 0;
    pthread_mutex_lock(&cpu->running);
    for (uint32_t kind = 0; kind <= TERN_OP_COUNT; kind++) {
        bool head = kind == TERN_OP_COUNT;
        if (cpu->op_runs[kind] == 0 || n++ >= cap) continue;
        tern_profile_row *row = &rows[n - 1];
        *row = (tern_profile_row){
            .pipeline = "cpu", .n = cpu->op_runs[kind], .ns = head ? cpu->counters.head_ns : cpu->counters.op_ns[kind]};
        snprintf(row->name, sizeof row->name, "%s", head ? "head" : tern_op_name((tern_op_kind)kind));
    }
    pthread_mutex_unlock(&cpu->running);
    return n;
}

static uint64_t memory_free(const tern_backend *b)
{
    (void)b;
    return tern_cpu_memory_free();
}

/* Read where it lies: a file's pages, which are not there yet, count; memory of the model's is taken already. */
static tern_status weight_bytes(const tern_backend *b, const tern_weight *w, uint64_t *bytes, tern_error *err)
{
    (void)b, (void)err;
    *bytes = w->data && !w->mapped ? 0 : w->bytes;
    return TERN_OK;
}

tern_status tern_cpu_kernel_check(const char *kernel, tern_error *err)
{
    tern_cpu__choice ignored;
    return tern_cpu__choice_parse(kernel, &ignored, err);
}

uint32_t tern_cpu_n_threads(const tern_backend *backend)
{
    return tern_pool_threads(((const tern_cpu *)backend)->pool);
}

const tern_cpu_kernels *tern_cpu_kernels_of(const tern_backend *backend)
{
    return &((const tern_cpu *)backend)->kernels;
}

tern_status tern_cpu_open(tern_backend **backend, const tern_cpu_options *options, tern_error *err)
{
    *backend = NULL;
    tern_cpu *cpu = tern_calloc(1, sizeof *cpu);
    if (!cpu) return tern_fail_alloc(err, sizeof *cpu);
    pthread_mutex_init(&cpu->running, NULL);
    tern_cpu__layout_memory_init(&cpu->layouts);
    cpu->base = (tern_backend){.info.name = "cpu",
                               .info.memory = tern_cpu_memory(),
                               .info.fusions = TERN_FUSION_IN_PLACE,
                               .info.max_steps = 1,
                               .info.unified = true,
                               .info.cache_blocks = TERN_CACHE_BLOCK,
                               .info.mixes_caches = true,
                               .info.screens = true,
                               .info.int8_blocks = true,
                               .info.batch_invariant = true,
                               .info.groups_rows = true,
                               .close = cpu_close,
                               .buffer_create = buffer_create,
                               .weight_create = tern_cpu__weight_create,
                               .buffer_free = buffer_free,
                               .buffer_write = buffer_write,
                               .buffer_read = buffer_read,
                               .supports = tern_cpu__supports,
                               .prepare = tern_cpu__prepare,
                               .prepared_free = tern_cpu__prepared_free,
                               .run = run,
                               .wait = wait,
                               .memory_free = memory_free,
                               .weight_bytes = weight_bytes,
                               .counters = counters,
                               .measure = tern_cpu__measure,
                               .profile = profile};
    cpu->ranks = options->ranks;
    cpu->ffn = options->ffn;
    tern_cpu_kernels_choose(options->features_set ? options->features : tern_cpu_features(), &cpu->kernels);
    tern_status status = tern_cpu__choice_parse(options->kernel, &cpu->choice, err);
    if (status == TERN_OK) status = tern_cpu__self_test(&cpu->kernels, err);
    if (status == TERN_OK) status = tern_pool_open(&cpu->pool, options->n_threads, options->pin, err);
    cpu->base.info.pool = cpu->pool;
    if (status == TERN_OK && !options->kernel)
        status = tern_cpu__choices_take(cpu, options->choices, options->n_choices, err);
    if (status == TERN_OK) *backend = &cpu->base;
    else cpu_close(&cpu->base);
    return status;
}
