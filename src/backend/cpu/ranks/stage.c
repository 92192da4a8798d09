/* The rows of a step, from stage to stage. */
#include "backend/cpu/ops.h"
#include "ops/crossing.h"
#include "ops/operands.h"
#include "ranks/ranks.h"

/* The rank of that stage that has this one's part of it. */
static uint32_t rank_of(const tern_ranks *ranks, uint32_t stage)
{
    return stage * ranks->n + ranks->rank;
}

static bool has_ranks(tern_cpu_step *step)
{
    if (step->cpu->ranks) return true;
    step->status = tern_fail(step->err, TERN_INVALID_ARGUMENT, "a graph of %u stages: run by one process",
                             step->prepared->graph->n_stages);
    return false;
}

static size_t bytes_of(const tern_cpu_step *step, uint32_t value)
{
    return (size_t)tern_crossing_bytes(step->prepared->graph, value, step->n_tokens, step->n_outputs);
}

void tern_cpu__send(tern_cpu_step *step, const tern_cpu_op *op)
{
    tern_ranks *ranks = step->cpu->ranks;
    const uint32_t value = op->op->in[TERN_SEND_X].value;
    if (!has_ranks(step)) return;
    step->status =
        ranks->send(ranks, rank_of(ranks, op->op->peer), op->base[TERN_SEND_X], bytes_of(step, value), step->err);
}

void tern_cpu__receive(tern_cpu_step *step, const tern_cpu_op *op)
{
    tern_ranks *ranks = step->cpu->ranks;
    if (!has_ranks(step)) return;
    step->status =
        ranks->receive(ranks, rank_of(ranks, op->op->peer), op->out_base, bytes_of(step, op->op->out.value), step->err);
}
