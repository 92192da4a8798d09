/* Preparing a graph: a launch for each op, recorded as a CUDA graph when it first runs, and replayed. */
#include <stdio.h>
#include <string.h>

#include "backend/counters.h"
#include "backend/cuda/cuda_internal.h"
#include "base/alloc.h"
#include "ops/graph.h"
#include "ops/op.h"

/* Kernels of these ops read where their rows begin. */
static bool takes_group(const tern_graph *graph, const tern_op *op)
{
    if (op->kind == TERN_OP_SCALE || op->kind == TERN_OP_ADD) return true;
    return op->kind == TERN_OP_LINEAR && !op->norm_weight.cols &&
           (op->route.cols || !tern_cuda__is_q8(graph, op->in[TERN_LINEAR_X]));
}

tern_status tern_cuda__supports(tern_backend *b, const tern_graph *graph, const tern_op *op, tern_error *err)
{
    const tern_cuda_op_row *row = &tern_cuda__ops[op->kind];
    if (op->group > graph->n_groups || (op->group && !takes_group(graph, op)))
        return tern_fail(err, TERN_UNSUPPORTED, "cuda: op %s of a group of rows, with these operands",
                         tern_op_name(op->kind));
    if (op->kind == TERN_OP_ROPE_ATTENTION || (op->kind == TERN_OP_LINEAR && op->norm_weight.cols)) {
        if (tern_cuda__walks((const tern_cuda *)b, graph, op)) return TERN_OK;
        return tern_fail(err, TERN_UNSUPPORTED, "cuda: op %s with what it is fused with, at this shape",
                         tern_op_name(op->kind));
    }
    if (op->kind == TERN_OP_ALL_GATHER) return tern_cuda__all_gather_supports((const tern_cuda *)b, op, err);
    if (!row->lower) return tern_fail(err, TERN_UNSUPPORTED, "cuda: op %s", tern_op_name(op->kind));
    return row->supports ? row->supports(graph, op, err) : TERN_OK;
}

static size_t scratch_bytes(const tern_graph *graph, const tern_op *op)
{
    const size_t recurrent = tern_cuda__recurrent_scratch(graph, op);
    if (recurrent) return recurrent;
    if (op->kind == TERN_OP_SAMPLE) return tern_cuda__sample_scratch(graph, op);
    if (op->kind == TERN_OP_ALL_GATHER) return tern_cuda__all_gather_scratch(graph, op);
    if (op->screened && !tern_cuda__is_head(graph, op)) return tern_cuda__screen_scratch(op);
    if (op->kind == TERN_OP_LINEAR && op->route.cols) return tern_cuda__group_scratch(graph, op);
    if (op->kind == TERN_OP_LINEAR && op->halves) return tern_cuda__rounded_scratch(graph, op);
    const size_t partials = tern_cuda__attention_partials(graph, op) * sizeof(float);
    return partials ? partials : tern_cuda__training_scratch(graph, op);
}

static tern_status allocate(tern_cuda *cuda, tern_prepared *p, tern_error *err)
{
    size_t scratch = 0;
    for (size_t i = 0; i < p->graph->n_ops; i++) {
        const size_t n = scratch_bytes(p->graph, &p->graph->ops[i]);
        if (n > scratch) scratch = n;
    }
    p->launches = tern_calloc(p->graph->n_ops, sizeof *p->launches);
    if (!p->launches) return tern_fail_alloc(err, p->graph->n_ops * sizeof *p->launches);
    if (scratch) TERN_TRY(tern_cuda__status(cudaMalloc(&p->scratch, scratch), "scratch memory", err));
    TERN_TRY(tern_cuda__screens_make(cuda, p, err));
    TERN_TRY(tern_cuda__walking_make(cuda, p, err));
    if (!cuda->profile) return TERN_OK;
    p->profile_rows = tern_calloc(p->graph->n_ops, sizeof *p->profile_rows);
    p->events = tern_calloc(p->graph->n_ops + 1, sizeof *p->events);
    if (!p->profile_rows || !p->events) return tern_fail_alloc(err, p->graph->n_ops * sizeof *p->events);
    for (size_t i = 0; i <= p->graph->n_ops; i++)
        TERN_TRY(tern_cuda__status(cudaEventCreate(&p->events[i]), "an event", err));
    return TERN_OK;
}

static tern_status launch_all(tern_cuda *cuda, const tern_prepared *p, tern_error *err)
{
    for (size_t i = 0; i < p->n_launches; i++) {
        const cudaError_t e = p->launches[i].run(&p->launches[i].params, cuda->stream);
        if (e != cudaSuccess) return tern_cuda__status(e, tern_op_name(p->launches[i].op->kind), err);
        if (p->events) TERN_TRY(tern_cuda__status(cudaEventRecord(p->events[i + 1], cuda->stream), "an event", err));
    }
    return TERN_OK;
}

static tern_status record(tern_cuda *cuda, tern_prepared *p, tern_error *err)
{
    cudaGraph_t graph = NULL;
    TERN_TRY(
        tern_cuda__status(cudaStreamBeginCapture(cuda->stream, cudaStreamCaptureModeThreadLocal), "recording", err));
    tern_status status = launch_all(cuda, p, err);
    const cudaError_t ended = cudaStreamEndCapture(cuda->stream, &graph);
    if (status == TERN_OK) status = tern_cuda__status(ended, "recording", err);
    if (status == TERN_OK) status = tern_cuda__status(cudaGraphInstantiate(&p->exec, graph, 0), "a CUDA graph", err);
    if (graph) cudaGraphDestroy(graph);
    return status;
}

/* The row of the profile for the value that the op makes, in whatever layer. */
static tern_status find_row(tern_cuda *cuda, const tern_prepared *p, size_t i, size_t *row, tern_error *err)
{
    const tern_op *op = p->launches[i].op;
    const tern_kernel_choice *product = &p->launches[i].product;
    char name[sizeof cuda->rows->name];
    const char *made = op->out.value == TERN_NO_VALUE ? tern_op_name(op->kind) : p->graph->values[op->out.value].name;
    snprintf(name, sizeof name, "%.*s", (int)strcspn(made, "-"), made);
    for (size_t k = 0; k < cuda->n_rows; k++)
        if (strcmp(cuda->rows[k].name, name) == 0 && cuda->rows[k].pipeline == p->launches[i].kernel &&
            cuda->rows[k].rows == product->rows && cuda->rows[k].cols == product->cols &&
            cuda->rows[k].tokens == product->tokens) {
            *row = k;
            return TERN_OK;
        }
    if (cuda->n_rows == cuda->cap_rows) {
        const size_t cap = cuda->cap_rows ? 2 * cuda->cap_rows : 64;
        tern_profile_row *rows = tern_calloc(cap, sizeof *rows);
        if (!rows) return tern_fail_alloc(err, cap * sizeof *rows);
        if (cuda->n_rows) memcpy(rows, cuda->rows, cuda->n_rows * sizeof *rows);
        tern_free(cuda->rows);
        cuda->rows = rows;
        cuda->cap_rows = cap;
    }
    *row = cuda->n_rows++;
    cuda->rows[*row] = (tern_profile_row){.pipeline = p->launches[i].kernel,
                                          .encoding = product->encoding,
                                          .rows = product->rows,
                                          .cols = product->cols,
                                          .tokens = product->tokens};
    memcpy(cuda->rows[*row].name, name, sizeof name);
    return TERN_OK;
}

/* A launch for each op, or, in a graph of one token, for as many neighbours as one walk can take; of a backend that
 * takes times, each op has its own. */
static tern_status lower(tern_cuda *cuda, tern_prepared *p, tern_error *err)
{
    const tern_cuda_launch *walk = NULL;
    for (size_t i = 0; i < p->graph->n_ops; i++) {
        const tern_op *op = &p->graph->ops[i];
        const bool walks = !op->group && tern_cuda__walks(cuda, p->graph, op),
                   goes_on = walks && walk && !cuda->profile;
        tern_cuda_launch *launch = &p->launches[goes_on ? p->n_launches - 1 : p->n_launches++];
        walk = walks ? launch : NULL;
        if (!launch->op) *launch = (tern_cuda_launch){.op = op, .kernel = tern_op_name(op->kind)};
        launch->n_ops++;
        if (walks) tern_cuda__walk_on(cuda, p, op, launch);
        else tern_cuda__ops[op->kind].lower(p, op, launch);
        if (cuda->profile) TERN_TRY(find_row(cuda, p, i, &p->profile_rows[i], err));
    }
    for (size_t i = 1; i < p->n_launches; i++) tern_cuda__join_norm(&p->launches[i - 1], &p->launches[i]);
    TERN_TRY(tern_cuda__join_updates(p, cuda->profile, err));
    for (size_t i = 0; i < p->n_launches; i++) p->weight_bytes += p->launches[i].weight_bytes;
    return tern_cuda__walking_write(cuda, p, err);
}

tern_status tern_cuda__prepare(tern_cuda *cuda, const tern_graph *graph, const tern_binding *bindings,
                               tern_prepared **out, tern_error *err)
{
    for (size_t i = 0; i < graph->n_ops; i++) TERN_TRY(tern_cuda__supports(&cuda->base, graph, &graph->ops[i], err));
    tern_prepared *p = tern_calloc(1, sizeof *p);
    if (!p) return tern_fail_alloc(err, sizeof *p);
    p->device = &cuda->limits;
    p->cuda = cuda;
    p->graph = graph;
    p->bindings = bindings;
    tern_status status = allocate(cuda, p, err);
    if (status == TERN_OK) status = lower(cuda, p, err);
    if (status == TERN_OK) *out = p;
    else tern_cuda__prepared_free(p);
    return status;
}

void tern_cuda__prepared_free(tern_prepared *p)
{
    if (!p) return;
    if (p->exec) cudaGraphExecDestroy(p->exec);
    for (size_t i = 0; p->events && i <= p->graph->n_ops; i++)
        if (p->events[i]) cudaEventDestroy(p->events[i]);
    cudaFree(p->scratch);
    tern_cuda__walking_free(&p->walking);
    tern_cuda__updates_free(&p->updates);
    tern_free(p->events);
    tern_free(p->profile_rows);
    tern_free(p->launches);
    tern_free(p);
}

static tern_status run_timed(tern_cuda *cuda, tern_prepared *p, tern_error *err)
{
    TERN_TRY(tern_cuda__status(cudaEventRecord(p->events[0], cuda->stream), "an event", err));
    TERN_TRY(launch_all(cuda, p, err));
    TERN_TRY(tern_cuda__status(cudaStreamSynchronize(cuda->stream), "the device", err));
    for (size_t i = 0; i < p->n_launches; i++) {
        float ms = 0;
        cudaEventElapsedTime(&ms, p->events[i], p->events[i + 1]);
        const uint64_t ns = (uint64_t)((double)ms * 1e6);
        tern_profile_row *row = &cuda->rows[p->profile_rows[i]];
        row->n++;
        row->ns += ns;
        row->weight_bytes += p->launches[i].weight_bytes;
        cuda->counters.op_ns[p->launches[i].op->kind] += ns;
    }
    return TERN_OK;
}

/* A graph that is one walk takes all its steps in one launch. */
static tern_status run_walk(tern_cuda *cuda, const tern_prepared *p, uint32_t n_steps, tern_error *err)
{
    tern_cuda_walk walk = p->launches[0].params.walk;
    walk.times = n_steps;
    return tern_cuda__status(tern_cuda_run_walk(&walk, cuda->stream), "a run", err);
}

tern_status tern_cuda__run(tern_cuda *cuda, tern_prepared *p, uint32_t n_steps, tern_error *err)
{
    TERN_TRY(tern_cuda__join(cuda, err));
    const bool is_walk = !cuda->profile && p->n_launches == 1 && p->walking.n_steps;
    if (!cuda->profile && !is_walk && !p->exec) TERN_TRY(record(cuda, p, err));
    if (is_walk) TERN_TRY(run_walk(cuda, p, n_steps, err));
    for (uint32_t i = 0; i < n_steps && !is_walk; i++) {
        if (p->exec) TERN_TRY(tern_cuda__status(cudaGraphLaunch(p->exec, cuda->stream), "a run", err));
        else TERN_TRY(run_timed(cuda, p, err));
    }
    cuda->counters.runs += n_steps;
    cuda->counters.submits += n_steps;
    cuda->counters.ops += (uint64_t)n_steps * p->graph->n_ops;
    cuda->counters.dispatches += (uint64_t)n_steps * p->n_launches;
    cuda->counters.weight_bytes += n_steps * p->weight_bytes;
    return tern_cuda__note_run(cuda, err);
}
