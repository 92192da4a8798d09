/* The end of the decoder: the last norm and the output table; a sample, or in training the losses. */
#include <stdio.h>

#include "graph/builder.h"

static void sample(tern_builder *b)
{
    const bool each_row = b->options->sampler_rows;
    const uint32_t n = each_row ? b->options->max_outputs : 1 + TERN_SAMPLE_MAX_STEPS;
    tern_value tokens = {.kind = TERN_VALUE_OUTPUT,
                         .dtype = TERN_DTYPE_U32,
                         .rows = TERN_ROWS_OUTPUTS,
                         .cols = each_row ? 1 : n,
                         .bytes = (uint64_t)n * 4};
    tern_view out = tern_build__value(b, tokens, "tokens");
    tern_view logits = {.value = b->graph->logits, .cols = b->config->n_vocab};
    tern_op op = {.kind = TERN_OP_SAMPLE,
                  .each_row = each_row,
                  .in = {[TERN_SAMPLE_LOGITS] = logits,
                         [TERN_SAMPLE_COUNTS] = tern_build__param(b, TERN_PARAM_COUNTS),
                         [TERN_SAMPLE_IDS] = tern_build__param(b, TERN_PARAM_IDS),
                         [TERN_SAMPLE_POSITIONS] = tern_build__param(b, TERN_PARAM_POSITIONS),
                         [TERN_SAMPLE_SAMPLER] = tern_build__param(b, TERN_PARAM_SAMPLER)}};
    tern_build__op(b, op, TERN_ROWS_OUTPUTS, TERN_SAMPLE_INPUTS, out);
    if (each_row) b->graph->row_tokens = out.value;
    else b->graph->tokens = out.value;
}

static tern_view logits_of(tern_builder *b, tern_build_input *in, const char *name)
{
    const float cap = b->config->logit_softcap, divisor = b->config->logit_scale;
    const bool scaled = cap > 0 || divisor > 0;
    tern_build_linear table = {.name = scaled ? "logits_plain" : name, .role = TERN_ROLE_OUTPUT, .gathered = true};
    tern_build__linears(b, in, &table, 1);
    return scaled ? tern_build__scale(b, name, table.out, divisor > 0 ? 1.0f / divisor : 1.0f, cap) : table.out;
}

/* A block that drafts tokens has one of its own. */
static tern_role last_norm(const tern_builder *b)
{
    return b->config->mtp_at ? TERN_ROLE_MTP_NORM : TERN_ROLE_OUTPUT_NORM;
}

/* The hidden states of all tokens, for those who want vectors. */
static void all_states(tern_builder *b, tern_view x)
{
    if (!b->options->keep_states) return;
    tern_view states = tern_build__rms_norm(b, "states", x, last_norm(b));
    if (b->status != TERN_OK) return;
    b->graph->states = states.value;
    b->graph->values[states.value].kind = TERN_VALUE_OUTPUT;
}

/* The logits of the rows whose outputs are wanted. */
static void wanted_rows(tern_builder *b, tern_view x)
{
    all_states(b, x);
    tern_view last = tern_build__activation(b, "last", TERN_DTYPE_F32, TERN_ROWS_OUTPUTS, b->config->n_embd);
    tern_op gather = {.kind = TERN_OP_GATHER,
                      .in = {[TERN_GATHER_X] = x, [TERN_GATHER_OUTPUTS] = tern_build__param(b, TERN_PARAM_OUTPUTS)}};
    tern_build__op(b, gather, TERN_ROWS_OUTPUTS, TERN_GATHER_INPUTS, last);
    tern_build_input in = {.rows = TERN_ROWS_OUTPUTS, .table = true};
    in.x = tern_build__rms_norm(b, "result_norm", last, last_norm(b));
    tern_build__mark_hidden(b, in.x, b->config->n_layers);
    size_t first = b->graph->n_ops;
    tern_view logits = logits_of(b, &in, "logits");
    if (b->status != TERN_OK) return;
    b->graph->logits = logits.value;
    b->graph->values[logits.value].kind = TERN_VALUE_OUTPUT;
    /* what an adapter adds would come too late for a screen */
    b->graph->ops[first].screened = b->options->screened_head && b->graph->n_ops == first + 1;
    if (b->options->sampler || b->options->sampler_rows) sample(b);
}

/* The losses of max_outputs rows after the other, so that only so many rows of logits are ever there. */
static void all_rows(tern_builder *b, tern_view x)
{
    const tern_graph_options *o = b->options;
    tern_value losses = {
        .kind = TERN_VALUE_OUTPUT, .dtype = TERN_DTYPE_F32, .cols = 1, .bytes = (uint64_t)o->max_tokens * 4};
    tern_view out = tern_build__value(b, losses, "losses"), labels = tern_build__param(b, TERN_PARAM_LABELS);
    tern_view normed = tern_build__rms_norm(b, "result_norm", x, TERN_ROLE_OUTPUT_NORM);
    tern_build__mark_hidden(b, normed, b->config->n_layers);
    b->graph->losses = out.value;
    for (uint32_t row = 0; row < o->max_tokens; row += o->max_outputs) {
        tern_build_input in = {.x = normed, .rows = TERN_ROWS_OUTPUTS, .table = true};
        in.x.first_row = labels.first_row = out.first_row = row;
        tern_view logits = logits_of(b, &in, "logits"), training = tern_build__param(b, TERN_PARAM_TRAINING);
        tern_op op = {.kind = TERN_OP_CROSS_ENTROPY,
                      .in = {[TERN_CROSS_ENTROPY_LOGITS] = logits,
                             [TERN_CROSS_ENTROPY_LABELS] = labels,
                             [TERN_CROSS_ENTROPY_TRAINING] = training}};
        tern_build__op(b, op, TERN_ROWS_OUTPUTS, TERN_CROSS_ENTROPY_INPUTS, out);
    }
}

void tern_build__head(tern_builder *b, tern_view x)
{
    if (b->options->training) all_rows(b, x);
    else wanted_rows(b, x);
}
