/* Layers that keep a state: the gated delta rule between two projections (Gated DeltaNet, arXiv:2412.06464;
 * transformers modeling_qwen3_next, modeling_qwen3_5). */
#include <math.h>

#include "graph/builder.h"
#include "ops/ref/recurrent/recurrent.h"
#include "quant/weight.h"

#define L2_EPS 1e-6f /* transformers modeling_qwen3_next, l2norm */

/* x / sqrt(sum x^2 + eps) is an RMS norm with eps / n and the weight 1 / sqrt(n); q is scaled by 1 / sqrt(n) besides.
 */
void tern_build__recurrent_constants(tern_builder *b)
{
    static const char *const names[] = {"q_l2_weight", "k_l2_weight"};
    const uint32_t n = b->config->recurrence.key_dim;
    for (int i = 0; i < 2; i++) {
        const float fill = 1.0f / (i ? sqrtf((float)n) : (float)n);
        tern_value value = {
            .kind = TERN_VALUE_CONSTANT, .dtype = TERN_DTYPE_F32, .cols = n, .bytes = (uint64_t)n * 4, .fill = fill};
        b->head_scales[i] = tern_build__value(b, value, names[i]);
    }
}

static tern_view rows(tern_builder *b, const char *name, uint32_t cols)
{
    return tern_build__activation(b, name, TERN_DTYPE_F32, TERN_ROWS_TOKENS, cols);
}

/* Each head of x has length 1 (times a scale); in place, unless training needs what was there. */
static tern_view unit_heads(tern_builder *b, const char *name, tern_view x, tern_view weight)
{
    tern_view y = b->options->training ? rows(b, name, x.cols) : x;
    tern_op op = {.kind = TERN_OP_RMS_NORM,
                  .in = {[TERN_NORM_X] = x, [TERN_NORM_WEIGHT] = weight},
                  .eps = L2_EPS / (float)b->config->recurrence.key_dim};
    tern_build__op(b, op, TERN_ROWS_TOKENS, TERN_NORM_INPUTS, y);
    return y;
}

static tern_view weight_of(tern_builder *b, tern_role role)
{
    return tern_build__weight(b, tern_build__weight_at(b, role));
}

/* The state that the layer keeps of each sequence. */
static tern_view state(tern_builder *b, const char *name, uint32_t cols)
{
    tern_value value = {.kind = TERN_VALUE_RECURRENT,
                        .dtype = TERN_DTYPE_F32,
                        .cols = cols,
                        .bytes = (uint64_t)b->options->n_states * cols * 4};
    return tern_build__value(b, value, name);
}

static tern_view convolve(tern_builder *b, tern_view x)
{
    const tern_view weight = weight_of(b, TERN_ROLE_SSM_CONV), out = rows(b, "ssm_conv", x.cols);
    tern_op op = {.kind = TERN_OP_VARLEN_CONV, .in = {[TERN_CONV_X] = x, [TERN_CONV_WEIGHT] = weight}};
    if (b->options->training) {
        op.in[TERN_VARLEN_CONV_STARTS] = tern_build__param(b, TERN_PARAM_SEQ_STARTS);
        tern_build__op(b, op, TERN_ROWS_TOKENS, TERN_VARLEN_CONV_INPUTS, out);
        return out;
    }
    op.kind = TERN_OP_CONV;
    op.in[TERN_CONV_POSITIONS] = tern_build__param(b, TERN_PARAM_POSITIONS);
    op.in[TERN_CONV_SEQUENCES] = tern_build__param(b, TERN_PARAM_SEQUENCES);
    op.in[TERN_CONV_STATES] = tern_build__param(b, TERN_PARAM_STATES);
    op.in[TERN_CONV_STATE] = state(b, "conv_state", (b->config->recurrence.n_taps - 1) * x.cols);
    tern_build__op(b, op, TERN_ROWS_TOKENS, TERN_CONV_INPUTS, out);
    return out;
}

/* A token's effect on the state: its rates by head, a of the decay and b of the update. */
typedef struct rates {
    tern_view a, b;
} rates;

static void recur_over_cache(tern_builder *b, tern_op op, tern_view mixed, rates r, tern_view out)
{
    const tern_recurrence *c = &b->config->recurrence;
    op.kind = TERN_OP_GATED_DELTA;
    op.in[TERN_GATED_DELTA_QKV] = mixed;
    op.in[TERN_GATED_DELTA_A] = r.a;
    op.in[TERN_GATED_DELTA_B] = r.b;
    op.in[TERN_GATED_DELTA_DECAY] = weight_of(b, TERN_ROLE_SSM_DECAY);
    op.in[TERN_GATED_DELTA_DT] = weight_of(b, TERN_ROLE_SSM_DT);
    op.in[TERN_GATED_DELTA_POSITIONS] = tern_build__param(b, TERN_PARAM_POSITIONS);
    op.in[TERN_GATED_DELTA_SEQUENCES] = tern_build__param(b, TERN_PARAM_SEQUENCES);
    op.in[TERN_GATED_DELTA_STATES] = tern_build__param(b, TERN_PARAM_STATES);
    op.in[TERN_GATED_DELTA_STATE] = state(b, "delta_state", c->n_heads * c->key_dim * c->value_dim);
    tern_build__op(b, op, TERN_ROWS_TOKENS, TERN_GATED_DELTA_INPUTS, out);
}

static void recur_over_rows(tern_builder *b, tern_op op, const tern_view qkv[3], rates r, tern_view out)
{
    const tern_recurrence *c = &b->config->recurrence;
    const uint32_t numbers = c->n_heads * c->key_dim * c->value_dim;
    op.kind = TERN_OP_VARLEN_GATED_DELTA;
    op.in[TERN_VARLEN_GATED_DELTA_Q] = qkv[0];
    op.in[TERN_VARLEN_GATED_DELTA_K] = qkv[1];
    op.in[TERN_VARLEN_GATED_DELTA_V] = qkv[2];
    op.in[TERN_VARLEN_GATED_DELTA_A] = r.a;
    op.in[TERN_VARLEN_GATED_DELTA_B] = r.b;
    op.in[TERN_VARLEN_GATED_DELTA_DECAY] = weight_of(b, TERN_ROLE_SSM_DECAY);
    op.log_decay = tern_build__weight_at(b, TERN_ROLE_SSM_DECAY)->trained;
    op.in[TERN_VARLEN_GATED_DELTA_DT] = weight_of(b, TERN_ROLE_SSM_DT);
    op.in[TERN_VARLEN_GATED_DELTA_STARTS] = tern_build__param(b, TERN_PARAM_SEQ_STARTS);
    op.in[TERN_VARLEN_GATED_DELTA_STATES] =
        rows(b, "delta_states", (numbers + TERN_DELTA_CHUNK - 1) / TERN_DELTA_CHUNK);
    tern_build__op(b, op, TERN_ROWS_TOKENS, TERN_VARLEN_GATED_DELTA_INPUTS, out);
}

static tern_view recur(tern_builder *b, tern_view mixed, rates r)
{
    const tern_recurrence *c = &b->config->recurrence;
    const uint32_t keys = c->n_key_heads * c->key_dim, values = c->n_heads * c->value_dim;
    tern_view qkv[3] = {{.value = mixed.value, .cols = keys},
                        {.value = mixed.value, .first_col = keys, .cols = keys},
                        {.value = mixed.value, .first_col = 2 * keys, .cols = values}};
    qkv[0] = unit_heads(b, "ssm_q", qkv[0], b->head_scales[0]);
    qkv[1] = unit_heads(b, "ssm_k", qkv[1], b->head_scales[1]);
    const tern_op op = {
        .n_heads = c->n_heads, .n_kv_heads = c->n_key_heads, .head_dim = c->key_dim, .tiled_heads = c->tiled};
    const tern_view out = rows(b, "ssm_recurred", values);
    if (b->options->training) recur_over_rows(b, op, qkv, r, out);
    else recur_over_cache(b, op, mixed, r, out);
    return out;
}

/* Files with one matrix for both have, of each head of keys, first the update's rates, then the decay's. */
static rates rates_of(tern_builder *b, tern_build_input *in)
{
    const tern_recurrence *c = &b->config->recurrence;
    rates r;
    if (c->joint_rates) {
        tern_build_linear both = {.name = "ssm_ba", .role = TERN_ROLE_SSM_BETA_ALPHA};
        tern_build__linears(b, in, &both, 1);
        r.b = tern_build__split(b, "ssm_beta", "ssm_alpha", both.out, c->n_heads / c->n_key_heads, &r.a);
        return r;
    }
    tern_build_linear each[] = {{.name = "ssm_alpha", .role = TERN_ROLE_SSM_ALPHA},
                                {.name = "ssm_beta", .role = TERN_ROLE_SSM_BETA}};
    tern_build__linears(b, in, each, 2);
    return (rates){.a = each[0].out, .b = each[1].out};
}

tern_view tern_build__recurrent(tern_builder *b, tern_view x)
{
    tern_build_input in = {.x = x};
    tern_build_linear mix[] = {{.name = "ssm_qkv", .role = TERN_ROLE_SSM_QKV},
                               {.name = "ssm_z", .role = TERN_ROLE_SSM_GATE}};
    tern_build__linears(b, &in, mix, 2);
    const rates r = rates_of(b, &in);
    tern_view y = recur(b, convolve(b, mix[0].out), r);
    y = tern_build__rms_norm(b, "ssm_norm", y, TERN_ROLE_SSM_NORM);
    tern_build_input out = {.x = tern_build__gate(b, "ssm_gated", mix[1].out, y, TERN_ACT_SILU)};
    tern_build_linear o = {.name = "ssm_out", .role = TERN_ROLE_SSM_OUT};
    tern_build__linears(b, &out, &o, 1);
    return o.out;
}
