/* Trying one op on two backends. */
#include "graph/trial/trial_internal.h"

#include <string.h>

#include "base/alloc.h"
#include "quant/encoding.h"

enum { MOST_TOKENS = 19, MOST_OUTPUTS = 3 };

tern_status tern_trial__open(tern_trial *t, const tern_graph *graph, const tern_op *op, bool few, tern_error *err)
{
    size_t n = graph->n_values + 2;
    *t = (tern_trial){.from = graph, .graph = *graph, .made = TERN_NO_VALUE, .rng = {.state = 20250501}};
    t->n_tokens = graph->max_tokens < MOST_TOKENS ? graph->max_tokens : MOST_TOKENS;
    t->n_outputs = graph->max_outputs < MOST_OUTPUTS ? graph->max_outputs : MOST_OUTPUTS;
    if (t->n_outputs > t->n_tokens) t->n_outputs = t->n_tokens;
    t->values = tern_calloc(n, sizeof *t->values);
    t->contents = tern_calloc(n, sizeof *t->contents);
    if (!t->values || !t->contents) return tern_fail_alloc(err, n * sizeof *t->values);
    memcpy(t->values, graph->values, graph->n_values * sizeof *t->values);
    for (size_t i = 0; i < graph->n_values; i++) { /* each has a buffer of its own: no sum takes its addend's place */
        tern_value *v = &t->values[i];
        if (v->kind == TERN_VALUE_ACTIVATION) v->kind = TERN_VALUE_OUTPUT;
        if (v->kind == TERN_VALUE_CONSTANT) v->frequencies = NULL; /* made up as well */
        if (v->kind != TERN_VALUE_PARAM) v->offset = i + 1;
    }
    if (op->norm_weight.value != TERN_NO_VALUE) { /* between the norm and the rest, where they are two ops */
        uint32_t cols = op->in[TERN_LINEAR_X].cols;
        tern_dtype dtype = op->norm_f32 ? TERN_DTYPE_F32 : TERN_DTYPE_Q8;
        t->values[graph->n_values] = (tern_value){.kind = TERN_VALUE_OUTPUT,
                                                  .dtype = dtype,
                                                  .rows = op->rows,
                                                  .cols = cols,
                                                  .bytes = tern_row_bytes(dtype, cols, graph->max_tokens)};
    }
    t->graph.values = t->values;
    t->graph.n_values = n;
    TERN_TRY(tern_trial__shrink(t, op, few, err));
    return tern_trial__inputs(t, err);
}

void tern_trial__close(tern_trial *t)
{
    for (size_t i = 0; t->contents && i < t->graph.n_values; i++) tern_free(t->contents[i]);
    tern_free(t->contents);
    tern_free(t->values);
    tern_free(t->params);
    tern_free(t->weight_data);
    tern_free(t->weight_scales);
    for (size_t i = 0; i < t->n_fetched; i++) tern_free_aligned((void *)(uintptr_t)t->fetched[i].data);
}

/* A look at the weight that the op has made: rows of a dense one, to the bit; int8 times ternary codes. */
static tern_op look(const tern_trial *t)
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

/* A norm of the op's own weight `weight`, from x to out. */
static tern_op norm_before(const tern_op *op, tern_op_kind kind, tern_view x, tern_view weight, tern_view out)
{
    return (tern_op){.kind = kind,
                     .rows = op->rows,
                     .layer = op->layer,
                     .n_in = TERN_NORM_INPUTS,
                     .in = {x, weight},
                     .out = out,
                     .eps = op->eps,
                     .residual = {.value = TERN_NO_VALUE},
                     .norm_weight = {.value = TERN_NO_VALUE}};
}

/* ROPE_KV with norms of heads: these in place, then the rest. */
static void take_head_norms_apart(tern_trial_side *s, const tern_op *op)
{
    tern_view q = op->in[TERN_ROPE_KV_QKV], k = q;
    q.cols = op->n_heads * op->head_dim;
    k.first_col += q.cols;
    k.cols = op->n_kv_heads * op->head_dim;
    s->ops[0] = norm_before(op, TERN_OP_RMS_NORM, q, op->head_norms[0], q);
    s->ops[1] = norm_before(op, TERN_OP_RMS_NORM, k, op->head_norms[1], k);
    s->ops[2] = *op;
    for (int i = 0; i < 2; i++) s->ops[2].head_norms[i] = (tern_view){.value = TERN_NO_VALUE};
    s->graph.n_ops = 3;
}

/* The op itself, or those that it was made of; after one that makes a weight, a look at it. */
static void choose_ops(const tern_trial *t, tern_trial_side *s)
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
        s->ops[0] = norm_before(op, op->norm_f32 ? TERN_OP_RMS_NORM : TERN_OP_NORM_QUANT, op->in[TERN_LINEAR_X],
                                op->norm_weight, between);
        s->ops[1].in[TERN_LINEAR_X] = between;
        s->ops[1].norm_weight = (tern_view){.value = TERN_NO_VALUE};
        s->ops[1].norm_f32 = false;
        s->graph.n_ops = 2;
    }
    if (op->kind == TERN_OP_ROPE_KV && op->head_norms[0].cols) take_head_norms_apart(s, op);
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

/* Weights lie where the graph has them, except for one that the op makes; all else is the trial's. */
typedef struct places {
    const tern_trial *trial;
    const tern_trial_side *side;
} places;

static tern_status find(void *context, const tern_graph *graph, uint32_t value, tern_binding *out, tern_error *err)
{
    (void)err;
    const places *p = context;
    bool weight = graph->values[value].kind == TERN_VALUE_WEIGHT && value != p->trial->made;
    if (weight && p->side->weights) *out = p->side->weights[value];
    return TERN_OK;
}

static tern_status write_contents(const tern_trial *t, tern_trial_side *s, tern_error *err)
{
    memcpy(s->bound.staging, t->params, tern_size_of(t->graph.param_bytes));
    for (uint32_t i = 0; i < t->graph.n_values; i++)
        if (t->contents[i] && s->bound.bindings[i].buffer)
            TERN_TRY(tern_bound_write(&s->bound, i, t->contents[i], tern_trial__bytes(t, &t->values[i]), err));
    return TERN_OK;
}

static tern_status read_results(const tern_trial *t, tern_trial_side *s, tern_error *err)
{
    s->results = tern_calloc(t->graph.n_values, sizeof(uint8_t *));
    if (!s->results) return tern_fail_alloc(err, t->graph.n_values * sizeof(uint8_t *));
    for (uint32_t i = 0; i <= t->from->n_values; i++) {
        const tern_value *v = &t->values[i];
        if (!tern_trial__writes(t, i)) continue;
        uint64_t bytes = t->op.kind == TERN_OP_SAMPLE ? v->bytes : tern_trial__bytes(t, v);
        s->results[i] = tern_alloc(tern_size_of(bytes));
        if (!s->results[i]) return tern_fail_alloc(err, bytes);
        TERN_TRY(tern_bound_read(&s->bound, i, s->results[i], bytes, err));
    }
    return TERN_OK;
}

static tern_status run_side(const tern_trial *t, tern_trial_side *s, tern_error *err)
{
    tern_backend *b = s->backend;
    places p = {.trial = t, .side = s};
    tern_trial__restore(t);
    choose_ops(t, s);
    for (size_t k = 0; k < s->graph.n_ops; k++) TERN_TRY(b->supports(b, &s->graph, &s->ops[k], err));
    TERN_TRY(tern_bound_open(&s->bound, b, &s->graph, &(tern_bound_options){.find = find, .context = &p}, err));
    TERN_TRY(write_contents(t, s, err));
    TERN_TRY(tern_bound__prepare_untried(&s->bound, err));
    TERN_TRY(tern_bound_start(&s->bound, 1, err));
    TERN_TRY(b->wait(b, err));
    return read_results(t, s, err);
}

void tern_trial__close_side(const tern_trial *t, tern_trial_side *s)
{
    tern_bound_close(&s->bound);
    for (size_t i = 0; s->results && i < t->graph.n_values; i++) tern_free(s->results[i]);
    tern_free(s->results);
    s->results = NULL;
}

/* The expected result of SAMPLE on these logits: the place of the largest. */
static tern_status expect_sample(const tern_trial *t, tern_trial_side *s, tern_error *err)
{
    const tern_op *op = &t->op;
    const float *logits = (const float *)(const void *)t->contents[op->in[TERN_SAMPLE_LOGITS].value];
    uint32_t *tokens, best = 0;
    s->results = tern_calloc(t->graph.n_values, sizeof(uint8_t *));
    tokens = tern_calloc(tern_size_of(t->values[op->out.value].bytes), 1);
    if (!s->results || !tokens) {
        tern_free(tokens);
        return tern_fail_alloc(err, t->values[op->out.value].bytes);
    }
    const uint32_t n_vocab = t->values[op->in[TERN_SAMPLE_LOGITS].value].cols;
    for (uint32_t row = 0; row < (op->each_row ? t->n_outputs : 1); row++, logits += n_vocab) {
        best = 0;
        for (uint32_t i = 1; i < n_vocab; i++)
            if (logits[i] > logits[best]) best = i;
        tokens[op->each_row ? row : 1] = best;
    }
    if (!op->each_row) tokens[0] = 1;
    s->results[op->out.value] = (uint8_t *)tokens;
    return TERN_OK;
}

/* The op's weights that have no data get some from the device, for the host. */
static tern_status fetch_weights(tern_trial *t, const tern_trial_side *device, tern_error *err)
{
    tern_backend *b = device->backend;
    for (uint32_t i = 0; i < t->op.n_in; i++) {
        if (t->op.in[i].value == TERN_NO_VALUE) continue;
        tern_value *v = &t->values[t->op.in[i].value];
        if (v->kind != TERN_VALUE_WEIGHT || v->weight->data || !device->weights) continue;
        tern_weight *w = &t->fetched[t->n_fetched];
        TERN_TRY(b->trial->weight_read(b, device->weights[t->op.in[i].value].buffer, v->weight, w, err));
        t->n_fetched++;
        v->weight = w;
    }
    return TERN_OK;
}

tern_status tern_trial__run(tern_trial *t, tern_trial_side *device, tern_trial_side *host, char *what, size_t n_what,
                            tern_error *err)
{
    TERN_TRY(run_side(t, device, err)); /* first: the host works on weights where they lie */
    TERN_TRY(fetch_weights(t, device, err));
    TERN_TRY(t->op.kind == TERN_OP_SAMPLE ? expect_sample(t, host, err) : run_side(t, host, err));
    return tern_trial__compare(t, device->results, host->results, what, n_what, err);
}
