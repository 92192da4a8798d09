/* The one decoder builder: BitNet and LLaMA, driven by the model's configuration. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "graph/graph.h"

typedef struct builder {
    tern_graph *graph;
    const tern_model *model;
    const tern_config *config;
    const tern_graph_options *options;
    tern_error *err;
    tern_status status; /* sticky: after the first failure every step does nothing */
    uint32_t layer;
    uint32_t k_cache, v_cache;
} builder;

static const tern_view no_view = {.value = TERN_NO_VALUE};

static tern_view add_value(builder *b, tern_value value, const char *name)
{
    uint32_t id = 0;
    if (b->layer == UINT32_MAX) snprintf(value.name, sizeof value.name, "%s", name);
    else snprintf(value.name, sizeof value.name, "%s-%u", name, b->layer);
    if (b->status == TERN_OK) b->status = tern_graph__add_value(b->graph, value, &id, b->err);
    return (tern_view){.value = id, .cols = value.cols};
}

static tern_view activation(builder *b, const char *name, tern_dtype dtype, tern_rows rows, uint32_t cols)
{
    uint64_t n = rows == TERN_ROWS_TOKENS ? b->options->max_tokens : b->options->max_outputs;
    tern_value value = {.kind = TERN_VALUE_ACTIVATION, .dtype = dtype, .rows = rows, .cols = cols,
                        .bytes = tern_row_bytes(dtype, cols, n)};
    return add_value(b, value, name);
}

static tern_view weight_of(builder *b, const tern_weight *w)
{
    tern_value value = {.kind = TERN_VALUE_WEIGHT, .weight = w, .cols = w->cols, .bytes = w->bytes};
    uint32_t layer = b->layer;
    b->layer = UINT32_MAX;
    tern_view view = add_value(b, value, w->name);
    b->layer = layer;
    return view;
}

static tern_view weight(builder *b, tern_role role)
{
    return weight_of(b, tern_model_weight(b->model, role, b->layer == UINT32_MAX ? 0 : b->layer));
}

static tern_view param(builder *b, tern_param which)
{
    return (tern_view){.value = b->graph->params[which]};
}

static void add_op(builder *b, tern_op op, tern_rows rows, uint32_t n_in, tern_view out)
{
    op.rows = rows;
    op.layer = b->layer;
    op.n_in = n_in;
    op.out = out;
    if (op.residual.cols == 0) op.residual = no_view;
    if (op.gain.cols == 0) op.gain = no_view;
    if (b->status == TERN_OK) b->status = tern_graph__add_op(b->graph, &op, b->err);
}

static tern_rows rows_of(builder *b, tern_view x)
{
    return b->graph->values ? b->graph->values[x.value].rows : TERN_ROWS_TOKENS;
}

static tern_view rms_norm(builder *b, const char *name, tern_view x, tern_role role)
{
    tern_view y = activation(b, name, TERN_DTYPE_F32, rows_of(b, x), x.cols);
    add_op(b, (tern_op){.kind = TERN_OP_RMS_NORM, .in = {x, weight(b, role)}, .eps = b->config->rms_eps}, rows_of(b, x), 2, y);
    return y;
}

/* What a weight multiplies: the f32 rows, or their int8 form, made once for all weights that share x. */
typedef struct linear_input {
    tern_view x, quantized;
} linear_input;

/* "attn_norm_q8" for "attn_norm-3". */
static void name_quantized(const builder *b, uint32_t value, char out[48])
{
    const char *name = b->graph->values ? b->graph->values[value].name : "";
    const char *suffix = b->layer == UINT32_MAX ? NULL : strrchr(name, '-');
    snprintf(out, 48, "%.*s_q8", suffix && suffix - name < 40 ? (int)(suffix - name) : 40, name);
}

static tern_view quantized(builder *b, linear_input *in)
{
    if (in->quantized.cols == 0) {
        tern_rows rows = rows_of(b, in->x);
        char name[48];
        name_quantized(b, in->x.value, name);
        in->quantized = activation(b, name, TERN_DTYPE_Q8, rows, in->x.cols);
        add_op(b, (tern_op){.kind = TERN_OP_QUANTIZE, .in = {in->x}}, rows, 1, in->quantized);
    }
    return in->quantized;
}

static tern_view linear_of(builder *b, const char *name, tern_view x, const tern_weight *w)
{
    tern_view y = activation(b, name, TERN_DTYPE_F32, rows_of(b, x), w->rows);
    add_op(b, (tern_op){.kind = TERN_OP_LINEAR, .in = {x, weight_of(b, w)}, .n_parts = 1}, rows_of(b, x), 2, y);
    return y;
}

static tern_view linear(builder *b, const char *name, linear_input *in, tern_role role)
{
    const tern_weight *w = tern_model_weight(b->model, role, b->layer);
    bool int8 = (w->encoding->ternary || b->config->bit_linear) && !b->options->f32_activations;
    return linear_of(b, name, int8 ? quantized(b, in) : in->x, w);
}

static tern_view add(builder *b, const char *name, tern_view a, tern_view c)
{
    tern_view y = activation(b, name, TERN_DTYPE_F32, TERN_ROWS_TOKENS, a.cols);
    add_op(b, (tern_op){.kind = TERN_OP_ADD, .in = {a, c}}, TERN_ROWS_TOKENS, 2, y);
    return y;
}

static void rope(builder *b, tern_view x, uint32_t n_heads)
{
    tern_op op = {.kind = TERN_OP_ROPE, .n_heads = n_heads, .head_dim = b->config->head_dim,
                  .rope_adjacent = b->config->rope_adjacent,
                  .in = {x, param(b, TERN_PARAM_POSITIONS), {.value = b->graph->rope_table}}};
    add_op(b, op, TERN_ROWS_TOKENS, 3, x);
}

static tern_view cache(builder *b, const char *name)
{
    const tern_config *c = b->config;
    uint64_t elements = (uint64_t)b->options->n_pages * TERN_PAGE_SIZE * c->n_kv_heads * c->head_dim;
    tern_value value = {.kind = TERN_VALUE_CACHE, .dtype = b->options->kv_f32 ? TERN_DTYPE_F32 : TERN_DTYPE_F16,
                        .cols = c->n_kv_heads * c->head_dim, .bytes = elements * (b->options->kv_f32 ? 4 : 2)};
    return add_value(b, value, name);
}

static tern_view attention(builder *b, tern_view q, tern_view k, tern_view v)
{
    const tern_config *c = b->config;
    tern_view positions = param(b, TERN_PARAM_POSITIONS), sequences = param(b, TERN_PARAM_SEQUENCES);
    tern_view pages = param(b, TERN_PARAM_PAGES), k_cache = cache(b, "k_cache"), v_cache = cache(b, "v_cache");
    tern_op op = {.n_heads = c->n_heads, .n_kv_heads = c->n_kv_heads, .head_dim = c->head_dim};
    op.kind = TERN_OP_KV_WRITE;
    memcpy(op.in, (tern_view[]){k, v, k_cache, v_cache, positions, sequences, pages}, 7 * sizeof k);
    add_op(b, op, TERN_ROWS_TOKENS, 7, no_view);
    tern_view out = activation(b, "attn_out", TERN_DTYPE_F32, TERN_ROWS_TOKENS, c->n_heads * c->head_dim);
    op.kind = TERN_OP_ATTENTION;
    memcpy(op.in, (tern_view[]){q, k_cache, v_cache, positions, sequences, pages}, 6 * sizeof q);
    add_op(b, op, TERN_ROWS_TOKENS, 6, out);
    return out;
}

static tern_view attention_block(builder *b, tern_view x)
{
    linear_input in = {.x = rms_norm(b, "attn_norm", x, TERN_ROLE_ATTN_NORM)};
    tern_view q = linear(b, "q", &in, TERN_ROLE_ATTN_Q);
    tern_view k = linear(b, "k", &in, TERN_ROLE_ATTN_K);
    tern_view v = linear(b, "v", &in, TERN_ROLE_ATTN_V);
    rope(b, q, b->config->n_heads);
    rope(b, k, b->config->n_kv_heads);
    linear_input out = {.x = attention(b, q, k, v)};
    if (b->config->sub_norms) out.x = rms_norm(b, "attn_sub_norm", out.x, TERN_ROLE_ATTN_SUB_NORM);
    return add(b, "ffn_inp", x, linear(b, "attn_o", &out, TERN_ROLE_ATTN_OUTPUT));
}

static tern_view ffn_block(builder *b, tern_view x)
{
    linear_input in = {.x = rms_norm(b, "ffn_norm", x, TERN_ROLE_FFN_NORM)};
    tern_view gate = linear(b, "ffn_gate", &in, TERN_ROLE_FFN_GATE);
    tern_view up = linear(b, "ffn_up", &in, TERN_ROLE_FFN_UP);
    tern_view h = activation(b, "ffn_act", TERN_DTYPE_F32, TERN_ROWS_TOKENS, b->config->n_ff);
    add_op(b, (tern_op){.kind = TERN_OP_GATE, .in = {gate, up}, .activation = b->config->activation}, TERN_ROWS_TOKENS, 2, h);
    linear_input out = {.x = h};
    if (b->config->sub_norms) out.x = rms_norm(b, "ffn_sub_norm", h, TERN_ROLE_FFN_SUB_NORM);
    return add(b, "l_out", x, linear(b, "ffn_down", &out, TERN_ROLE_FFN_DOWN));
}

static void mark_hidden(builder *b, tern_view x, uint32_t index)
{
    if (!b->options->keep_hidden || b->status != TERN_OK) return;
    tern_value *value = &b->graph->values[x.value];
    value->kind = TERN_VALUE_OUTPUT;
    snprintf(value->name, sizeof value->name, "hidden-%u", index);
}

static void add_params(builder *b)
{
    static const char *const names[] = {"counts", "ids", "positions", "sequences", "outputs", "pages", "sampler", "starts", "labels", "training"};
    tern_graph *g = b->graph;
    uint64_t pages = (uint64_t)g->max_pages * g->n_sequences, sampler = b->options->sampler ? sizeof(tern_sample_params) / 4 : 0;
    uint64_t rows = b->options->training ? g->max_tokens : 0, training = rows ? sizeof(tern_train_params) / 4 : 0;
    uint64_t items[TERN_PARAM_COUNT] = {3, g->max_tokens, g->max_tokens, g->max_tokens, g->max_tokens, pages, sampler, rows, rows, training};
    for (uint32_t i = 0; i < TERN_PARAM_COUNT; i++) {
        g->params[i] = TERN_NO_VALUE;
        if (items[i] == 0) continue;
        tern_value value = {.kind = TERN_VALUE_PARAM, .dtype = TERN_DTYPE_U32, .bytes = items[i] * 4, .offset = g->param_bytes};
        g->params[i] = add_value(b, value, names[i]).value;
        g->param_bytes += (value.bytes + TERN_PARAM_ALIGNMENT - 1) / TERN_PARAM_ALIGNMENT * TERN_PARAM_ALIGNMENT;
    }
    tern_value table = {.kind = TERN_VALUE_CONSTANT, .dtype = TERN_DTYPE_F32, .cols = b->config->head_dim,
                        .bytes = (uint64_t)g->max_pages * TERN_PAGE_SIZE * b->config->head_dim * 4};
    g->rope_table = add_value(b, table, "rope_table").value;
}

static void sample(builder *b)
{
    tern_value tokens = {.kind = TERN_VALUE_OUTPUT, .dtype = TERN_DTYPE_U32, .rows = TERN_ROWS_OUTPUTS, .cols = 1 + TERN_SAMPLE_MAX_STEPS,
                         .bytes = (1 + TERN_SAMPLE_MAX_STEPS) * 4};
    tern_view out = add_value(b, tokens, "tokens"), logits = {.value = b->graph->logits, .cols = b->config->n_vocab};
    tern_op op = {.kind = TERN_OP_SAMPLE,
                  .in = {logits, param(b, TERN_PARAM_COUNTS), param(b, TERN_PARAM_IDS), param(b, TERN_PARAM_POSITIONS),
                         param(b, TERN_PARAM_SAMPLER)}};
    add_op(b, op, TERN_ROWS_OUTPUTS, 5, out);
    b->graph->tokens = out.value;
}

static void build(builder *b)
{
    const tern_config *c = b->config;
    b->layer = UINT32_MAX;
    add_params(b);
    tern_view x = activation(b, "embd", TERN_DTYPE_F32, TERN_ROWS_TOKENS, c->n_embd);
    add_op(b, (tern_op){.kind = TERN_OP_EMBED, .in = {weight(b, TERN_ROLE_TOKEN_EMBD), param(b, TERN_PARAM_IDS)}},
           TERN_ROWS_TOKENS, 2, x);
    mark_hidden(b, x, 0);
    for (b->layer = 0; b->layer < c->n_layers; b->layer++) {
        x = ffn_block(b, attention_block(b, x));
        if (b->layer + 1 < c->n_layers) mark_hidden(b, x, b->layer + 1);
    }
    b->layer = UINT32_MAX;
    tern_view last = activation(b, "last", TERN_DTYPE_F32, TERN_ROWS_OUTPUTS, c->n_embd);
    add_op(b, (tern_op){.kind = TERN_OP_GATHER, .in = {x, param(b, TERN_PARAM_OUTPUTS)}}, TERN_ROWS_OUTPUTS, 2, last);
    linear_input in = {.x = rms_norm(b, "result_norm", last, TERN_ROLE_OUTPUT_NORM)};
    mark_hidden(b, in.x, c->n_layers);
    const tern_weight *head = b->options->head ? b->options->head : tern_model_weight(b->model, TERN_ROLE_OUTPUT, 0);
    b->graph->logits = linear_of(b, "logits", in.x, head).value;
    if (b->status != TERN_OK) return;
    b->graph->values[b->graph->logits].kind = TERN_VALUE_OUTPUT;
    b->graph->ops[b->graph->n_ops - 1].screened = b->options->screened_head;
    if (b->options->sampler) sample(b);
}

tern_status tern_graph_build(tern_graph *graph, const tern_model *model, const tern_graph_options *options, tern_error *err)
{
    *graph = (tern_graph){.max_tokens = options->max_tokens, .max_outputs = options->max_outputs,
                          .n_sequences = options->n_sequences, .tokens = TERN_NO_VALUE, .losses = TERN_NO_VALUE, .norms = TERN_NO_VALUE, .config = tern_model_config(model)};
    graph->max_pages = (uint32_t)(((uint64_t)options->n_ctx + TERN_PAGE_SIZE - 1) / TERN_PAGE_SIZE);
    if (!options->max_tokens || !options->max_outputs || options->max_outputs > options->max_tokens || !options->n_ctx ||
        !options->n_sequences || !options->n_pages)
        return tern_fail(err, TERN_INVALID_ARGUMENT,
                         "graph of %u tokens, %u outputs, context %u, %u sequences, %u pages: each must be at least 1, outputs at most tokens",
                         options->max_tokens, options->max_outputs, options->n_ctx, options->n_sequences, options->n_pages);
    builder b = {.graph = graph, .model = model, .config = graph->config, .options = options, .err = err};
    build(&b);
    if (b.status != TERN_OK) tern_graph_deinit(graph);
    return b.status;
}
