/* The graph, the buffers and the clock of a benchmark. */
#include "chain.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "backend/counters.h"
#include "ops/op.h"

void chain_check(const chain *c, tern_status status)
{
    if (status == TERN_OK) return;
    fprintf(stderr, "%s: %s\n", c->program, c->err.message);
    exit(1);
}

tern_gpu_caps chain_caps(chain *c, const char *device)
{
    tern_vulkan_device devices[8] = {0};
    size_t n, which = (size_t)atoi(device);
    chain_check(c, tern_vulkan_devices(devices, 8, &n, &c->err));
    if (which >= n) chain_check(c, tern_fail(&c->err, TERN_NOT_FOUND, "device %zu: %zu found", which, n));
    const tern_vulkan_device *d = &devices[which];
    printf("%s, %s, subgroups of %u to %u\n", d->name, d->driver, d->subgroup_min, d->subgroup_max);
    return (tern_gpu_caps){.subgroup_min = d->subgroup_min,
                           .subgroup_max = d->subgroup_max,
                           .workgroup_bytes = d->workgroup_bytes,
                           .workgroup_invocations = d->workgroup_invocations,
                           .max_groups = 65535,
                           .max_binding = d->max_binding,
                           .f16 = d->f16};
}

void chain_open(chain *c, uint64_t param_bytes)
{
    c->graph = (tern_graph){.max_tokens = c->tokens,
                            .max_outputs = c->tokens,
                            .n_sequences = 1,
                            .max_pages = 1,
                            .logits = TERN_NO_VALUE,
                            .tokens = TERN_NO_VALUE,
                            .losses = TERN_NO_VALUE,
                            .norms = TERN_NO_VALUE,
                            .param_bytes = TERN_PARAM_COUNT * param_bytes};
    tern_buffer *params;
    chain_check(c, c->gpu->buffer_create(c->gpu, c->graph.param_bytes, &params, &c->err));
    for (uint32_t i = 0; i < TERN_PARAM_COUNT; i++) {
        const tern_value value = {
            .kind = TERN_VALUE_PARAM, .dtype = TERN_DTYPE_U32, .bytes = param_bytes, .offset = i * param_bytes};
        chain_check(c, tern_graph__add_value(&c->graph, value, &c->graph.params[i], &c->err));
        c->bindings[c->graph.params[i]] = (tern_binding){.buffer = params, .offset = value.offset};
    }
    const uint32_t n[3] = {c->tokens, c->tokens, 0};
    chain_write_param(c, TERN_PARAM_COUNTS, n, sizeof n);
}

void chain_close(chain *c)
{
    for (size_t i = TERN_PARAM_COUNT - 1; i < c->graph.n_values; i++) /* the parameters share one */
        c->gpu->buffer_free(c->gpu, c->bindings[i].buffer);
    memset(c->bindings, 0, sizeof c->bindings);
    tern_graph_deinit(&c->graph);
}

tern_view chain_add(chain *c, tern_value value)
{
    uint32_t id;
    if (c->graph.n_values == CHAIN_MAX_VALUES)
        chain_check(c, tern_fail(&c->err, TERN_LIMIT, "more than %d values", CHAIN_MAX_VALUES));
    chain_check(c, tern_graph__add_value(&c->graph, value, &id, &c->err));
    tern_buffer **buffer = &c->bindings[id].buffer;
    if (value.kind == TERN_VALUE_WEIGHT) chain_check(c, c->gpu->weight_create(c->gpu, value.weight, buffer, &c->err));
    else chain_check(c, c->gpu->buffer_create(c->gpu, value.bytes, buffer, &c->err));
    return (tern_view){.value = id, .cols = value.cols};
}

tern_view chain_rows(chain *c, tern_dtype dtype, uint32_t cols, float low)
{
    const uint64_t bytes = tern_row_bytes(dtype, cols, c->tokens);
    tern_view view =
        chain_add(c, (tern_value){.kind = TERN_VALUE_OUTPUT, .dtype = dtype, .cols = cols, .bytes = bytes});
    float *x = malloc(bytes);
    for (size_t i = 0; i < bytes / sizeof *x; i++) x[i] = (float)(i * 2654435761u % 1000) * 0.001f + low;
    chain_check(c, c->gpu->buffer_write(c->gpu, c->bindings[view.value].buffer, 0, x, bytes, &c->err));
    free(x);
    return view;
}

void chain_op(chain *c, const tern_op *op)
{
    chain_check(c, tern_graph__add_op(&c->graph, op, &c->err));
}

void chain_write_param(chain *c, tern_param which, const void *data, uint64_t bytes)
{
    const tern_binding at = c->bindings[c->graph.params[which]];
    chain_check(c, c->gpu->buffer_write(c->gpu, at.buffer, at.offset, data, bytes, &c->err));
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static double seconds_of_run(chain *c, tern_prepared *prepared)
{
    const double start = now();
    chain_check(c, c->gpu->run(c->gpu, prepared, 1, &c->err));
    chain_check(c, c->gpu->wait(c->gpu, &c->err));
    return now() - start;
}

double chain_seconds(chain *c, double at_least)
{
    tern_prepared *prepared;
    chain_check(c, c->gpu->prepare(c->gpu, &c->graph, c->bindings, &prepared, &c->err));
    double best = 1e9, start = now();
    seconds_of_run(c, prepared);
    for (int i = 0; i < 2 || now() - start < at_least; i++) {
        const double t = seconds_of_run(c, prepared);
        if (t < best) best = t;
    }
    c->gpu->prepared_free(c->gpu, prepared);
    return best / (double)c->graph.n_ops;
}

chain_profile chain_profile_now(chain *c)
{
    chain_profile p;
    const size_t most = sizeof p.rows / sizeof *p.rows, n = c->gpu->profile(c->gpu, p.rows, most);
    p.n = n < most ? n : most;
    return p;
}

void chain_print_profile(chain *c, const chain_profile *before)
{
    const chain_profile p = chain_profile_now(c);
    for (size_t i = 0; i < p.n; i++) {
        const tern_profile_row none = {0}, *old = i < before->n ? &before->rows[i] : &none;
        const uint64_t runs = p.rows[i].n - old->n, ns = p.rows[i].ns - old->ns;
        if (runs) printf("    %-32s %9.2f us\n", p.rows[i].pipeline, (double)ns / (double)runs * 1e-3);
    }
}
