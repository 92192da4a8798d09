/* The one decoder builder, driven by the model's configuration. */
#include <stdio.h>

#include "graph/builder.h"
#include "model/hadamard.h"

tern_view tern_build__add(tern_builder *b, const char *name, tern_view a, tern_view c)
{
    tern_view y = tern_build__activation(b, name, TERN_DTYPE_F32, TERN_ROWS_TOKENS, a.cols);
    tern_build__op(b, (tern_op){.kind = TERN_OP_ADD, .in = {[TERN_ADD_A] = a, [TERN_ADD_B] = c}}, TERN_ROWS_TOKENS,
                   TERN_ADD_INPUTS, y);
    return y;
}

tern_view tern_build__gate(tern_builder *b, const char *name, tern_view gate, tern_view up, tern_activation activation)
{
    const tern_rows rows = tern_build__rows_of(b, up);
    tern_view out = tern_build__activation(b, name, TERN_DTYPE_F32, rows, up.cols);
    tern_op op = {.kind = TERN_OP_GATE,
                  .in = {[TERN_GATE_GATE] = gate, [TERN_GATE_UP] = up},
                  .activation = activation,
                  .limit = b->config->ffn_limit};
    tern_build__op(b, op, rows, TERN_GATE_INPUTS, out);
    return out;
}

tern_view tern_build__split(tern_builder *b, const char *first_name, const char *second_name, tern_view x, uint32_t dim,
                            tern_view *second)
{
    tern_view first = tern_build__activation(b, first_name, TERN_DTYPE_F32, TERN_ROWS_TOKENS, x.cols / 2);
    *second = tern_build__activation(b, second_name, TERN_DTYPE_F32, TERN_ROWS_TOKENS, x.cols / 2);
    tern_op op = {.kind = TERN_OP_SPLIT, .in = {[TERN_SPLIT_X] = x, [TERN_SPLIT_GATE] = *second}, .head_dim = dim};
    tern_build__op(b, op, TERN_ROWS_TOKENS, TERN_SPLIT_INPUTS, first);
    return first;
}

static void rope(tern_builder *b, tern_view x)
{
    if (tern_config_layer(b->config, b->layer).plain) return;
    tern_op op = {.kind = TERN_OP_ROPE,
                  .n_heads = x.cols / b->config->head_dim,
                  .head_dim = b->config->head_dim,
                  .rope_adjacent = b->config->rope_adjacent,
                  .rope_dim = b->config->rope_dim,
                  .in = {[TERN_ROPE_X] = x,
                         [TERN_ROPE_POSITIONS] = tern_build__param(b, TERN_PARAM_POSITIONS),
                         [TERN_ROPE_TABLE] = b->rope_tables[tern_config_layer(b->config, b->layer).rope]}};
    tern_build__op(b, op, TERN_ROWS_TOKENS, TERN_ROPE_INPUTS, x);
}

/* Whether the layer keeps no more than its window and what a step adds. */
static bool is_ring(const tern_builder *b)
{
    return b->options->n_ring_pages && tern_config_layer(b->config, b->layer).window;
}

static tern_view cache(tern_builder *b, const char *name, tern_dtype type, uint32_t cols)
{
    const tern_graph_options *o = b->options;
    uint64_t pages = is_ring(b) ? (uint64_t)o->n_ring_pages * o->n_sequences : o->n_pages;
    tern_value value = {.kind = TERN_VALUE_CACHE,
                        .dtype = type,
                        .cols = cols,
                        .bytes = tern_row_bytes(type, cols, pages * TERN_PAGE_SIZE)};
    return tern_build__value(b, value, name);
}

/* How this layer's scores are made. */
static void score(tern_builder *b, tern_op *op)
{
    if (b->config->attn_sinks) op->sinks = tern_build__weight(b, tern_build__weight_at(b, TERN_ROLE_ATTN_SINKS));
    op->scale = b->config->score_scale;
    op->softcap = b->config->score_softcap;
    op->window = tern_config_layer(b->config, b->layer).window;
}

/* Over the pages of a session. */
static void attend_cache(tern_builder *b, tern_op op, tern_view q, tern_view k, tern_view v, tern_view out)
{
    tern_view positions = tern_build__param(b, TERN_PARAM_POSITIONS);
    tern_view sequences = tern_build__param(b, TERN_PARAM_SEQUENCES);
    tern_view pages = tern_build__param(b, is_ring(b) ? TERN_PARAM_RING_PAGES : TERN_PARAM_PAGES);
    tern_view k_cache = cache(b, "k_cache", b->options->kv.k, k.cols);
    tern_view v_cache = cache(b, "v_cache", b->options->kv.v, v.cols);
    tern_op write = op;
    write.kind = TERN_OP_KV_WRITE;
    write.in[TERN_KV_WRITE_K] = k;
    write.in[TERN_KV_WRITE_V] = v;
    write.in[TERN_KV_WRITE_K_CACHE] = k_cache;
    write.in[TERN_KV_WRITE_V_CACHE] = v_cache;
    write.in[TERN_KV_WRITE_POSITIONS] = positions;
    write.in[TERN_KV_WRITE_SEQUENCES] = sequences;
    write.in[TERN_KV_WRITE_PAGES] = pages;
    tern_build__op(b, write, TERN_ROWS_TOKENS, TERN_KV_WRITE_INPUTS, tern_build__no_view());
    score(b, &op);
    op.kind = TERN_OP_ATTENTION;
    op.in[TERN_ATTENTION_Q] = q;
    op.in[TERN_ATTENTION_K_CACHE] = k_cache;
    op.in[TERN_ATTENTION_V_CACHE] = v_cache;
    op.in[TERN_ATTENTION_POSITIONS] = positions;
    op.in[TERN_ATTENTION_SEQUENCES] = sequences;
    op.in[TERN_ATTENTION_PAGES] = pages;
    tern_build__op(b, op, TERN_ROWS_TOKENS, TERN_ATTENTION_INPUTS, out);
}

/* Over the rows of the step itself. */
static void attend_rows(tern_builder *b, tern_op op, tern_view q, tern_view k, tern_view v, tern_view out)
{
    enum { WIDEST = 128 };
    score(b, &op);
    op.kind = TERN_OP_VARLEN_ATTENTION;
    op.halves = b->options->halves && op.head_dim <= WIDEST ? TERN_HALVES_BF16 : TERN_HALVES_NONE;
    op.in[TERN_VARLEN_ATTENTION_Q] = q;
    op.in[TERN_VARLEN_ATTENTION_K] = k;
    op.in[TERN_VARLEN_ATTENTION_V] = v;
    op.in[TERN_VARLEN_ATTENTION_STARTS] = tern_build__param(b, TERN_PARAM_SEQ_STARTS);
    op.in[TERN_VARLEN_ATTENTION_STATISTICS] =
        tern_build__activation(b, "attn_statistics", TERN_DTYPE_F32, TERN_ROWS_TOKENS, 2 * op.n_heads);
    tern_build__op(b, op, TERN_ROWS_TOKENS, TERN_VARLEN_ATTENTION_INPUTS, out);
}

/* gate: what the result is gated by; no columns: nothing. */
static tern_view attention(tern_builder *b, tern_view q, tern_view k, tern_view v, tern_view gate)
{
    const uint32_t dim = b->config->head_dim;
    tern_op op = {.n_heads = q.cols / dim, .n_kv_heads = k.cols / dim, .head_dim = dim};
    tern_view out = tern_build__activation(b, "attn_out", TERN_DTYPE_F32, TERN_ROWS_TOKENS, q.cols);
    if (b->options->training) attend_rows(b, op, q, k, v, out);
    else attend_cache(b, op, q, k, v, out);
    if (gate.cols) out = tern_build__gate(b, "attn_gated", gate, out, TERN_ACT_SIGMOID);
    return tern_build__all_gather(b, "attn_out_all", out, TERN_ROLE_ATTN_Q_BIAS);
}

/* Each head by itself; in place, unless training needs what was there. */
static void norm_heads(tern_builder *b, const char *name, tern_view *x, tern_role role)
{
    if (!b->config->qk_norm) return;
    *x = b->options->training ? tern_build__rms_norm(b, name, *x, role) : tern_build__rms_norm_at(b, *x, role, *x);
}

/* The result of a block, added to x. */
static tern_view block_sum(tern_builder *b, const char *name, tern_view x, tern_view made, tern_role post_norm)
{
    static const char *const names[] = {
        [TERN_ROLE_ATTN_POST_NORM] = "attn_post_norm", [TERN_ROLE_FFN_POST_NORM] = "ffn_post_norm"};
    static const char *const scaled[] = {
        [TERN_ROLE_ATTN_POST_NORM] = "attn_scaled", [TERN_ROLE_FFN_POST_NORM] = "ffn_scaled"};
    if (b->config->post_norms) made = tern_build__rms_norm(b, names[post_norm], made, post_norm);
    if (b->config->residual_scale > 0)
        made = tern_build__scale(b, scaled[post_norm], made, b->config->residual_scale, 0);
    return tern_build__add(b, name, x, made);
}

static tern_view attend(tern_builder *b, tern_view x)
{
    tern_build_input in = {.x = x};
    tern_build_linear qkv[] = {{"q", TERN_ROLE_ATTN_Q, TERN_ROLE_ATTN_Q_BIAS, .norm = TERN_ROLE_ATTN_Q_IN_NORM},
                               {"k", TERN_ROLE_ATTN_K, TERN_ROLE_ATTN_K_BIAS, .norm = TERN_ROLE_ATTN_K_IN_NORM},
                               {"v", TERN_ROLE_ATTN_V, TERN_ROLE_ATTN_V_BIAS, .norm = TERN_ROLE_ATTN_V_IN_NORM}};
    tern_build__linears(b, &in, qkv, 3);
    tern_view gate = {0};
    if (b->config->q_gate) qkv[0].out = tern_build__split(b, "q_own", "q_gate", qkv[0].out, b->config->head_dim, &gate);
    norm_heads(b, "q_norm", &qkv[0].out, TERN_ROLE_ATTN_Q_NORM);
    norm_heads(b, "k_norm", &qkv[1].out, TERN_ROLE_ATTN_K_NORM);
    rope(b, qkv[0].out);
    rope(b, qkv[1].out);
    tern_build_input sub = {.x = attention(b, qkv[0].out, qkv[1].out, qkv[2].out, gate)};
    if (b->config->sub_norms) sub.x = tern_build__rms_norm(b, "attn_sub_norm", sub.x, TERN_ROLE_ATTN_SUB_NORM);
    tern_build_linear o = {"attn_o", TERN_ROLE_ATTN_OUTPUT, TERN_ROLE_ATTN_OUTPUT_BIAS, .gathered = true,
                           .norm = TERN_ROLE_ATTN_OUTPUT_IN_NORM};
    tern_build__linears(b, &sub, &o, 1);
    return o.out;
}

/* Attention, or what stands in its place. */
static tern_view mixing_block(tern_builder *b, tern_view x)
{
    const tern_view normed = tern_build__rms_norm(b, "attn_norm", x, TERN_ROLE_ATTN_NORM);
    const bool recurs = tern_config_layer(b->config, b->layer).recurs;
    const tern_view made = recurs ? tern_build__recurrent(b, normed) : attend(b, normed);
    return block_sum(b, "ffn_inp", x, made, TERN_ROLE_ATTN_POST_NORM);
}

/* The experts of each token, by the router's logits. */
static tern_view route(tern_builder *b, tern_view x)
{
    tern_build_input in = {.x = x, .plain = true};
    tern_build_linear router = {.name = "ffn_logits", .role = TERN_ROLE_ROUTER, .bias = TERN_ROLE_ROUTER_BIAS};
    tern_build__linears(b, &in, &router, 1);
    tern_view routes = tern_build__activation(b, "ffn_routes", TERN_DTYPE_U32, TERN_ROWS_ROUTED, 2);
    tern_op op = {.kind = TERN_OP_ROUTE,
                  .in = {[TERN_ROUTE_LOGITS] = router.out},
                  .n_experts = b->config->n_experts,
                  .route_rule = b->config->route_rule};
    tern_build__op(b, op, TERN_ROWS_TOKENS, TERN_ROUTE_INPUTS, routes);
    return routes;
}

/* The results of each token's experts, times their weights. */
static tern_view combine(tern_builder *b, tern_view made, tern_view routes)
{
    tern_view y = tern_build__activation(b, "ffn_out", TERN_DTYPE_F32, TERN_ROWS_TOKENS, made.cols);
    tern_op op = {.kind = TERN_OP_COMBINE, .in = {[TERN_COMBINE_Y] = made, [TERN_COMBINE_ROUTES] = routes}};
    tern_build__op(b, op, TERN_ROWS_TOKENS, TERN_COMBINE_INPUTS, y);
    return y;
}

/* gate and up, what they make together, and down. `in` and the result have `rows`. */
static tern_view feed_forward(tern_builder *b, tern_build_input *in, tern_build_linear pair[2], tern_build_linear *down,
                              const char *act)
{
    tern_build__linears(b, in, pair, 2);
    char name[48];
    tern_view h = tern_build__gate(b, act, pair[0].out, pair[1].out, b->config->activation);
    snprintf(name, sizeof name, "%s_all", act);
    h = tern_build__all_gather(b, name, h, pair[0].role);
    tern_build_input sub = {.x = h, .rows = in->rows, .route = in->route};
    if (b->config->sub_norms) sub.x = tern_build__rms_norm(b, "ffn_sub_norm", h, TERN_ROLE_FFN_SUB_NORM);
    tern_build__linears(b, &sub, down, 1);
    return down->out;
}

/* The results of each token's experts from x. */
static tern_view experts(tern_builder *b, tern_view x)
{
    tern_build_input in = {.x = x, .rows = TERN_ROWS_ROUTED, .route = route(b, x)};
    tern_build_linear pair[] = {
        {.name = "ffn_gate", .role = TERN_ROLE_FFN_GATE_EXPS, .bias = TERN_ROLE_FFN_GATE_EXPS_BIAS},
        {.name = "ffn_up", .role = TERN_ROLE_FFN_UP_EXPS, .bias = TERN_ROLE_FFN_UP_EXPS_BIAS}};
    tern_build_linear down = {
        .name = "ffn_down", .role = TERN_ROLE_FFN_DOWN_EXPS, .bias = TERN_ROLE_FFN_DOWN_EXPS_BIAS};
    tern_view out = combine(b, feed_forward(b, &in, pair, &down, "ffn_act"), in.route);
    return tern_build__all_gather(b, "ffn_out_all", out, down.role);
}

/* The expert of all tokens, by as much as its own gate says. */
static tern_view shared_expert(tern_builder *b, tern_view x)
{
    tern_build_input in = {.x = x}, plain = {.x = x, .plain = true};
    tern_build_linear pair[] = {{.name = "ffn_gate_shexp", .role = TERN_ROLE_FFN_GATE_SHEXP},
                                {.name = "ffn_up_shexp", .role = TERN_ROLE_FFN_UP_SHEXP}};
    tern_build_linear down = {.name = "ffn_down_shexp", .role = TERN_ROLE_FFN_DOWN_SHEXP};
    tern_build_linear gate = {.name = "shexp_gate", .role = TERN_ROLE_ROUTER_SHEXP};
    tern_build__linears(b, &plain, &gate, 1);
    const tern_view made = feed_forward(b, &in, pair, &down, "ffn_act_shexp");
    return tern_build__gate(b, "ffn_shexp", gate.out, made, TERN_ACT_SIGMOID);
}

static tern_view dense_feed_forward(tern_builder *b, tern_view x)
{
    tern_build_input in = {.x = x};
    tern_build_linear pair[] = {{.name = "ffn_gate", .role = TERN_ROLE_FFN_GATE, .norm = TERN_ROLE_FFN_GATE_IN_NORM},
                                {.name = "ffn_up", .role = TERN_ROLE_FFN_UP, .norm = TERN_ROLE_FFN_UP_IN_NORM}};
    tern_build_linear down = {
        .name = "ffn_down", .role = TERN_ROLE_FFN_DOWN, .norm = TERN_ROLE_FFN_DOWN_IN_NORM, .gathered = true};
    return feed_forward(b, &in, pair, &down, "ffn_act");
}

/* One network for all tokens, or experts, whose rows are those of their tokens. */
static tern_view ffn_block(tern_builder *b, tern_view x)
{
    const tern_view normed = tern_build__rms_norm(b, "ffn_norm", x, TERN_ROLE_FFN_NORM);
    tern_view made = b->config->n_experts ? experts(b, normed) : dense_feed_forward(b, normed);
    if (b->config->n_ff_shared) made = tern_build__add(b, "ffn_all", made, shared_expert(b, normed));
    return block_sum(b, "l_out", x, made, TERN_ROLE_FFN_POST_NORM);
}

/* Whether layers keep states from step to step: in training each step begins with zeros. */
static bool keeps_states(const tern_builder *b)
{
    return b->config->recurrence.n_heads && !b->options->training;
}

static void add_params(tern_builder *b)
{
    static const char *const names[TERN_PARAM_COUNT] = {"counts",     "ids",     "positions", "sequences", "outputs",
                                                        "pages",      "sampler", "starts",    "labels",    "training",
                                                        "ring_pages", "groups",  "wanted",    "states",    "hidden"};
    tern_graph *g = b->graph;
    uint64_t n = g->max_tokens, pages = (uint64_t)g->max_pages * g->n_sequences;
    uint64_t sampler = b->options->sampler || b->options->sampler_rows ? sizeof(tern_sample_params) / 4 : 0;
    if (b->options->sampler_rows) sampler += sizeof(tern_sample_row) / 4 * g->max_outputs;
    uint64_t rows = b->options->training ? n : 0, factors = b->options->training ? sizeof(tern_train_params) / 4 : 0;
    const uint64_t items[TERN_PARAM_COUNT] = {3,
                                              n,
                                              n,
                                              n,
                                              n,
                                              pages,
                                              sampler,
                                              rows,
                                              rows,
                                              factors,
                                              g->n_ring_pages ? pages : 0,
                                              (uint64_t)g->n_groups * (sizeof(tern_row_group) / 4),
                                              b->options->screened_head ? sizeof(tern_wanted) / 4 : 0,
                                              keeps_states(b) ? g->n_sequences + n : 0,
                                              b->config->mtp_at ? n * b->config->n_embd : 0};
    for (uint32_t i = 0; i < TERN_PARAM_COUNT; i++) {
        g->params[i] = TERN_NO_VALUE;
        if (items[i] == 0) continue;
        tern_value value = {
            .kind = TERN_VALUE_PARAM, .dtype = TERN_DTYPE_U32, .bytes = items[i] * 4, .offset = g->param_bytes};
        if (i == TERN_PARAM_HIDDEN) value.dtype = TERN_DTYPE_F32, value.cols = b->config->n_embd;
        g->params[i] = tern_build__value(b, value, names[i]).value;
        g->param_bytes += (value.bytes + TERN_PARAM_ALIGNMENT - 1) / TERN_PARAM_ALIGNMENT * TERN_PARAM_ALIGNMENT;
    }
}

static void add_rope_table(tern_builder *b, uint32_t which)
{
    static const char *const names[TERN_MAX_ROPES] = {"rope_table", "rope_table_window"};
    const uint32_t head_dim = b->config->head_dim;
    float *numbers = tern_arena_alloc(&b->graph->arena, head_dim, sizeof(float));
    if (!numbers) {
        if (b->status == TERN_OK) b->status = tern_fail_alloc(b->err, head_dim * sizeof(float));
        return;
    }
    float *frequencies = numbers, *sizes = numbers + head_dim / 2;
    tern_rope_pairs(b->config, which, b->options->n_ctx, frequencies, sizes);
    tern_value table = {.kind = TERN_VALUE_CONSTANT,
                        .frequencies = frequencies,
                        .sizes = sizes,
                        .dtype = TERN_DTYPE_F32,
                        .cols = head_dim,
                        .bytes = (uint64_t)b->graph->max_pages * TERN_PAGE_SIZE * head_dim * 4};
    b->rope_tables[which] = tern_build__value(b, table, names[which]);
}

/* The input of a block that drafts tokens: the next token's embedding and the hidden state of the token before it, both
 * normed, side by side, times one matrix (Qwen3-Next, vLLM's qwen3_next_mtp). */
static tern_view mtp_input(tern_builder *b, tern_view embedded)
{
    const uint32_t n = b->config->n_embd;
    tern_view hidden = tern_build__param(b, TERN_PARAM_HIDDEN);
    hidden.cols = n;
    b->layer = 0;
    tern_build_input in = {.x = tern_build__activation(b, "mtp_pair", TERN_DTYPE_F32, TERN_ROWS_TOKENS, 2 * n)};
    const tern_view first = {.value = in.x.value, .cols = n}, second = {in.x.value, .first_col = n, .cols = n};
    tern_build__rms_norm_at(b, embedded, TERN_ROLE_MTP_EMBD_NORM, first);
    tern_build__rms_norm_at(b, hidden, TERN_ROLE_MTP_HIDDEN_NORM, second);
    tern_build_linear fc = {.name = "mtp_input", .role = TERN_ROLE_MTP_INPUT};
    tern_build__linears(b, &in, &fc, 1);
    return fc.out;
}

static void build(tern_builder *b)
{
    const tern_config *c = b->config;
    b->layer = UINT32_MAX;
    add_params(b);
    for (uint32_t i = 0; i < TERN_MAX_ROPES; i++)
        if (i == 0 || c->rope[i].base > 0) add_rope_table(b, i);
    if (c->recurrence.n_heads) tern_build__recurrent_constants(b);
    tern_view x = tern_build__activation(b, "embd", TERN_DTYPE_F32, TERN_ROWS_TOKENS, c->n_embd);
    tern_view table = tern_build__weight(b, tern_build__weight_at(b, TERN_ROLE_TOKEN_EMBD));
    tern_op embed = {.kind = TERN_OP_EMBED,
                     .in = {[TERN_EMBED_TABLE] = table, [TERN_EMBED_IDS] = tern_build__param(b, TERN_PARAM_IDS)}};
    tern_build__op(b, embed, TERN_ROWS_TOKENS, TERN_EMBED_INPUTS, x);
    const tern_hadamard *h = tern_model_hadamard(b->model);
    if (h && h->embedding) x = tern_build__rotate(b, x, TERN_ROLE_TOKEN_EMBD, true);
    if (c->embd_scale > 0) x = tern_build__scale(b, "embd_scaled", x, c->embd_scale, 0);
    tern_build__mark_hidden(b, x, 0);
    if (c->mtp_at) x = mtp_input(b, x);
    for (b->layer = 0; b->layer < c->n_layers; b->layer++) {
        x = ffn_block(b, mixing_block(b, x));
        if (b->layer + 1 < c->n_layers) tern_build__mark_hidden(b, x, b->layer + 1);
    }
    b->layer = UINT32_MAX;
    tern_build__head(b, x);
}

static tern_status check_training(const tern_graph_options *o, tern_error *err)
{
    if (!o->max_tokens || !o->max_outputs || !o->n_ctx || o->max_tokens % o->max_outputs ||
        (o->max_outputs < o->max_tokens && o->max_outputs % TERN_ROW_ALIGNMENT))
        return tern_fail(err, TERN_INVALID_ARGUMENT,
                         "training graph of %u tokens, %u outputs, context %u: each must be at least 1, outputs must "
                         "divide the tokens and, if less, be a multiple of %d",
                         o->max_tokens, o->max_outputs, o->n_ctx, TERN_ROW_ALIGNMENT);
    if (o->sampler || o->screened_head)
        return tern_fail(err, TERN_INVALID_ARGUMENT, "training graph with a %s: none expected",
                         o->sampler ? "sampler" : "screened head");
    return TERN_OK;
}

static tern_status check_options(const tern_graph_options *o, tern_error *err)
{
    if (o->training) return check_training(o, err);
    if (!o->max_tokens || !o->max_outputs || o->max_outputs > o->max_tokens || !o->n_ctx || !o->n_sequences ||
        !o->n_pages)
        return tern_fail(err, TERN_INVALID_ARGUMENT,
                         "graph of %u tokens, %u outputs, context %u, %u sequences, %u pages: each must be at least 1, "
                         "outputs at most tokens",
                         o->max_tokens, o->max_outputs, o->n_ctx, o->n_sequences, o->n_pages);
    return TERN_OK;
}

tern_status tern_graph_build(tern_graph *graph, const tern_model *model, const tern_graph_options *options,
                             tern_error *err)
{
    *graph =
        (tern_graph){.max_tokens = options->max_tokens,
                     .kernel_rows = options->kernel_rows,
                     .usual_tokens = options->usual_tokens,
                     .no_fusion = options->no_fusion,
                     .max_outputs = options->max_outputs,
                     .n_routes = tern_model_config(model)->n_experts ? tern_model_config(model)->n_experts_used : 0,
                     .n_sequences = options->n_sequences,
                     .n_ring_pages = options->training ? 0 : options->n_ring_pages,
                     .n_groups = options->n_groups,
                     .logits = TERN_NO_VALUE,
                     .tokens = TERN_NO_VALUE,
                     .row_tokens = TERN_NO_VALUE,
                     .states = TERN_NO_VALUE,
                     .losses = TERN_NO_VALUE,
                     .norms = TERN_NO_VALUE,
                     .n_layers = tern_model_config(model)->n_layers};
    graph->max_pages = (uint32_t)(((uint64_t)options->n_ctx + TERN_PAGE_SIZE - 1) / TERN_PAGE_SIZE);
    TERN_TRY(check_options(options, err));
    if (options->screened_head && tern_model_config(model)->logit_softcap > 0)
        return tern_fail(err, TERN_UNSUPPORTED,
                         "head \"exact\" where logits have a soft cap of %g: an encoding such as q6_k expected",
                         (double)tern_model_config(model)->logit_softcap);
    if (tern_model_config(model)->recurrence.n_heads && !options->training && !options->n_states)
        return tern_fail(err, TERN_INVALID_ARGUMENT, "graph of 0 states: at least 1 expected of a model that has them");
    if (options->training && graph->n_sequences == 0) graph->n_sequences = 1; /* PAGES is there, and never read */
    tern_builder b = {
        .graph = graph, .model = model, .config = tern_model_config(model), .options = options, .err = err};
    build(&b);
    if (b.status != TERN_OK) tern_graph_deinit(graph);
    return b.status;
}
