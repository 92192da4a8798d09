/* Trying one op on two backends. */
#include "backend/vulkan/trial.h"

#include <string.h>

#include "backend/vulkan/device.h"
#include "base/alloc.h"

enum { MOST_TOKENS = 19, MOST_OUTPUTS = 3 };

static tern_status trial_open(tern_vulkan_trial *t, const tern_gpu_caps *caps, const tern_graph *graph,
                              const tern_op *op, tern_error *err)
{
    size_t n = graph->n_values + 2;
    *t = (tern_vulkan_trial){
        .from = graph, .caps = caps, .graph = *graph, .made = TERN_NO_VALUE, .rng = {.state = 20250501}};
    t->n_tokens = graph->max_tokens < MOST_TOKENS ? graph->max_tokens : MOST_TOKENS;
    t->n_outputs = graph->max_outputs < MOST_OUTPUTS ? graph->max_outputs : MOST_OUTPUTS;
    if (t->n_outputs > t->n_tokens) t->n_outputs = t->n_tokens;
    t->values = tern_calloc(n, sizeof *t->values);
    t->contents = tern_calloc(n, sizeof *t->contents);
    if (!t->values || !t->contents) return tern_fail_alloc(err, n * sizeof *t->values);
    memcpy(t->values, graph->values, graph->n_values * sizeof *t->values);
    for (size_t i = 0; i < graph->n_values; i++) /* each has a buffer of its own: no sum takes its addend's place */
        if (t->values[i].kind != TERN_VALUE_PARAM) t->values[i].offset = i + 1;
    if (op->norm_weight.value != TERN_NO_VALUE) { /* between the norm and the rest, where they are two ops */
        uint32_t cols = op->in[TERN_LINEAR_X].cols;
        t->values[graph->n_values] = (tern_value){.kind = TERN_VALUE_ACTIVATION,
                                                  .dtype = TERN_DTYPE_Q8,
                                                  .rows = op->rows,
                                                  .cols = cols,
                                                  .bytes = tern_row_bytes(TERN_DTYPE_Q8, cols, graph->max_tokens)};
    }
    t->graph.values = t->values;
    t->graph.n_values = n;
    TERN_TRY(tern_vulkan__trial_shrink(t, op, err));
    return tern_vulkan__trial_inputs(t, err);
}

static void trial_deinit(tern_vulkan_trial *t)
{
    for (size_t i = 0; t->contents && i < t->graph.n_values; i++) tern_free(t->contents[i]);
    tern_free(t->contents);
    tern_free(t->values);
    tern_free(t->params);
    tern_free(t->weight_data);
    tern_free(t->weight_scales);
    tern_vulkan__trial_drop(t);
}

/* A look at the weight that the op has made: rows of a dense one, to the bit; int8 times ternary codes. */
static tern_op look(const tern_vulkan_trial *t)
{
    uint32_t n = (uint32_t)t->from->n_values;
    bool ternary = t->weight.encoding->ternary;
    tern_view weight = {.value = t->made, .cols = t->weight.cols}, out = {.value = n, .cols = t->values[n].cols};
    tern_op op = {.kind = ternary ? TERN_OP_LINEAR : TERN_OP_EMBED,
                  .layer = t->op.layer,
                  .n_in = 2,
                  .in = {weight, {.value = t->from->params[TERN_PARAM_IDS]}},
                  .n_parts = 1,
                  .out = out,
                  .residual = {.value = TERN_NO_VALUE},
                  .norm_weight = {.value = TERN_NO_VALUE}};
    if (!ternary) return op;
    op.in[TERN_LINEAR_X] = (tern_view){.value = n + 1, .cols = t->weight.cols};
    op.in[TERN_LINEAR_W] = weight;
    return op;
}

/* The op itself, or the two that it was made of; after one that makes a weight, a look at it. */
static void choose_ops(const tern_vulkan_trial *t, tern_vulkan_side *s)
{
    const tern_op *op = &t->op;
    s->ops[0] = *op;
    s->graph = t->graph;
    s->graph.ops = s->ops;
    s->graph.n_ops = 1;
    if (t->made != TERN_NO_VALUE) {
        s->ops[1] = look(t);
        s->graph.n_ops = 2;
    }
    if (!s->apart) return;
    if (op->kind == TERN_OP_LINEAR && op->norm_weight.value != TERN_NO_VALUE) {
        tern_view between = {.value = (uint32_t)t->from->n_values, .cols = op->in[TERN_LINEAR_X].cols};
        s->ops[1] = *op;
        s->ops[0] = (tern_op){.kind = TERN_OP_NORM_QUANT,
                              .rows = op->rows,
                              .layer = op->layer,
                              .n_in = 2,
                              .in = {op->in[TERN_LINEAR_X], op->norm_weight},
                              .out = between,
                              .eps = op->eps,
                              .residual = {.value = TERN_NO_VALUE},
                              .norm_weight = {.value = TERN_NO_VALUE}};
        s->ops[1].in[TERN_LINEAR_X] = between;
        s->ops[1].norm_weight = (tern_view){.value = TERN_NO_VALUE};
        s->graph.n_ops = 2;
    }
    if (op->kind == TERN_OP_ROPE_ATTENTION) {
        tern_view q = op->in[TERN_ROPE_KV_QKV];
        q.cols = op->n_heads * op->head_dim;
        s->ops[1] = *op;
        s->ops[0].kind = TERN_OP_ROPE_KV;
        s->ops[0].out = op->in[TERN_ROPE_KV_QKV];
        s->ops[1].kind = TERN_OP_ATTENTION;
        const tern_view inputs[] = {[TERN_ATTENTION_Q] = q,
                                    [TERN_ATTENTION_K_CACHE] = op->in[TERN_ROPE_KV_K_CACHE],
                                    [TERN_ATTENTION_V_CACHE] = op->in[TERN_ROPE_KV_V_CACHE],
                                    [TERN_ATTENTION_POSITIONS] = op->in[TERN_ROPE_KV_POSITIONS],
                                    [TERN_ATTENTION_SEQUENCES] = op->in[TERN_ROPE_KV_SEQUENCES],
                                    [TERN_ATTENTION_PAGES] = op->in[TERN_ROPE_KV_PAGES]};
        memcpy(s->ops[1].in, inputs, sizeof inputs);
        s->ops[1].n_in = TERN_ATTENTION_INPUTS;
        s->graph.n_ops = 2;
    }
}

static tern_status make(const tern_vulkan_trial *t, tern_vulkan_side *s, uint32_t i, tern_error *err)
{
    tern_backend *b = s->backend;
    const tern_value *v = &t->values[i];
    if (s->bindings[i].buffer || v->kind == TERN_VALUE_PARAM) return TERN_OK;
    if (v->kind == TERN_VALUE_WEIGHT && s->weights && i != t->made) {
        s->bindings[i] = s->weights[i];
        return TERN_OK;
    }
    if (v->kind == TERN_VALUE_WEIGHT) TERN_TRY(b->weight_create(b, v->weight, &s->owned[i], err));
    else TERN_TRY(b->buffer_create(b, v->bytes, &s->owned[i], err));
    s->bindings[i].buffer = s->owned[i];
    if (!t->contents[i]) return TERN_OK;
    return b->buffer_write(b, s->owned[i], 0, t->contents[i], tern_vulkan__trial_bytes(t, v), err);
}

static tern_status make_params(const tern_vulkan_trial *t, tern_vulkan_side *s, tern_error *err)
{
    size_t n = t->from->n_values;
    tern_backend *b = s->backend;
    TERN_TRY(b->buffer_create(b, t->graph.param_bytes, &s->owned[n + 2], err));
    TERN_TRY(b->buffer_write(b, s->owned[n + 2], 0, t->params, t->graph.param_bytes, err));
    for (size_t i = 0; i < n; i++)
        if (t->values[i].kind == TERN_VALUE_PARAM)
            s->bindings[i] = (tern_binding){.buffer = s->owned[n + 2], .offset = t->values[i].offset};
    return TERN_OK;
}

static tern_status make_values(const tern_vulkan_trial *t, tern_vulkan_side *s, tern_error *err)
{
    size_t n = t->from->n_values;
    s->bindings = tern_calloc(n + 2, sizeof *s->bindings);
    s->owned = tern_calloc(n + 3, sizeof(tern_buffer *));
    s->results = tern_calloc(n + 2, sizeof(uint8_t *));
    if (!s->bindings || !s->owned || !s->results) return tern_fail_alloc(err, n * sizeof *s->bindings);
    for (size_t k = 0; k < s->graph.n_ops; k++) {
        const tern_op *op = &s->ops[k];
        for (uint32_t i = 0; i < op->n_in; i++) TERN_TRY(make(t, s, op->in[i].value, err));
        const uint32_t more[] = {op->out.value, op->residual.value, op->norm_weight.value};
        for (size_t i = 0; i < sizeof more / sizeof *more; i++)
            if (more[i] != TERN_NO_VALUE) TERN_TRY(make(t, s, more[i], err));
    }
    return make_params(t, s, err);
}

static tern_status read_results(const tern_vulkan_trial *t, tern_vulkan_side *s, tern_error *err)
{
    for (uint32_t i = 0; i <= t->from->n_values; i++) {
        const tern_value *v = &t->values[i];
        if (!tern_vulkan__trial_writes(t, i)) continue;
        uint64_t bytes = t->op.kind == TERN_OP_SAMPLE ? v->bytes : tern_vulkan__trial_bytes(t, v);
        s->results[i] = tern_alloc(bytes);
        if (!s->results[i]) return tern_fail_alloc(err, bytes);
        TERN_TRY(s->backend->buffer_read(s->backend, s->bindings[i].buffer, 0, s->results[i], bytes, err));
    }
    return TERN_OK;
}

static tern_status run_side(const tern_vulkan_trial *t, tern_vulkan_side *s, tern_error *err)
{
    tern_backend *b = s->backend;
    tern_vulkan__trial_restore(t);
    choose_ops(t, s);
    for (size_t k = 0; k < s->graph.n_ops; k++) TERN_TRY(b->supports(b, &s->graph, &s->ops[k], err));
    TERN_TRY(make_values(t, s, err));
    TERN_TRY(s->prepare(b, &s->graph, s->bindings, &s->prepared, err));
    if (s->used) tern_vulkan__pipelines_of(s->prepared, s->used);
    TERN_TRY(b->run(b, s->prepared, 1, err));
    TERN_TRY(b->wait(b, err));
    return read_results(t, s, err);
}

static void close_side(const tern_vulkan_trial *t, tern_vulkan_side *s)
{
    tern_backend *b = s->backend;
    if (s->prepared) b->prepared_free(b, s->prepared);
    for (size_t i = 0; s->owned && i < t->from->n_values + 3; i++)
        if (s->owned[i]) b->buffer_free(b, s->owned[i]);
    for (size_t i = 0; s->results && i <= t->from->n_values; i++) tern_free(s->results[i]);
    tern_free(s->owned);
    tern_free(s->bindings);
    tern_free(s->results);
}

/* What SAMPLE must give on these logits: the place of the largest. */
static tern_status expect_sample(const tern_vulkan_trial *t, tern_vulkan_side *s, tern_error *err)
{
    const tern_op *op = &t->op;
    const float *logits = (const float *)(const void *)t->contents[op->in[TERN_SAMPLE_LOGITS].value];
    uint32_t *tokens, best = 0;
    s->results = tern_calloc(t->from->n_values + 1, sizeof(uint8_t *));
    tokens = tern_calloc(t->values[op->out.value].bytes, 1);
    if (!s->results || !tokens) {
        tern_free(tokens);
        return tern_fail_alloc(err, t->values[op->out.value].bytes);
    }
    for (uint32_t i = 1; i < t->values[op->in[TERN_SAMPLE_LOGITS].value].cols; i++)
        if (logits[i] > logits[best]) best = i;
    tokens[0] = 1;
    tokens[1] = best;
    s->results[op->out.value] = (uint8_t *)tokens;
    return TERN_OK;
}

tern_status tern_vulkan__try_op(const tern_graph *graph, const tern_op *op, tern_vulkan_side *device,
                                tern_vulkan_side *host, char *what, size_t n_what, tern_error *err)
{
    tern_vulkan_trial t;
    tern_status status = trial_open(&t, &tern_vulkan__self(device->backend)->caps, graph, op, err);
    if (status == TERN_OK) status = run_side(&t, device, err); /* first: the host works on weights where they lie */
    if (status == TERN_OK) status = tern_vulkan__trial_fetch(&t, device, err);
    if (status == TERN_OK) status = op->kind == TERN_OP_SAMPLE ? expect_sample(&t, host, err) : run_side(&t, host, err);
    if (status == TERN_OK) tern_vulkan__trial_compare(&t, device->results, host->results, what, n_what);
    close_side(&t, host);
    close_side(&t, device);
    trial_deinit(&t);
    return status;
}
