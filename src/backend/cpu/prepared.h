/* A prepared graph of the CPU backend: its ops with their operands, and one run of them. */
#ifndef TERN_BACKEND_CPU_PREPARED_H
#define TERN_BACKEND_CPU_PREPARED_H

#include <stdatomic.h>

#include "backend/cpu/cpu_internal.h"
#include "ops/graph.h"
#include "ops/op.h"
#include "ops/ref/experts.h"

/* Rows of an f32 value: row t starts at data + t * stride. */
typedef struct tern_cpu_rows {
    float *data;
    size_t stride;
} tern_cpu_rows;

typedef struct tern_cpu_op tern_cpu_op;
typedef struct tern_cpu_step tern_cpu_step;

/* An op and its operands; numbers of inputs have names (ops/operands.h). */
struct tern_cpu_op {
    void (*run)(tern_cpu_step *step, const tern_cpu_op *op);
    const tern_op *op;
    uint8_t *base[TERN_OP_MAX_INPUTS]; /* each input's memory (its first column for rows) */
    const tern_buffer *weight[TERN_OP_MAX_INPUTS];
    tern_cpu_rows in[TERN_OP_MAX_INPUTS];
    tern_cpu_rows out, residual;
    const float *bias[TERN_LINEAR_MAX_PARTS], *sinks; /* NULL: none */
    const tern_route *routes;                         /* LINEAR with a route; else NULL */
    uint8_t *out_base;
    tern_buffer *out_weight;    /* REQUANTIZE */
    uint32_t in_cols, max_rows; /* of the first input */
    bool in_q8;
    uint64_t weight_bytes; /* LINEAR: read by one run */
};

struct tern_prepared {
    const tern_graph *graph;
    tern_cpu_op *ops;
    const uint8_t *params[TERN_PARAM_COUNT];
    uint8_t *scratch; /* scratch_bytes for each thread, of the op that runs */
    size_t scratch_bytes;
    float *shared;   /* what all threads share, of the op that runs */
    uint8_t *tables; /* tables_bytes for each thread: of the linear op that it works at, whose layouts need some
                        (candidates/candidates.h) */
    size_t tables_bytes;
    uint64_t n_linear; /* linear ops that have begun, over all runs */
};

/* One run: what the ops need beside their operands. */
struct tern_cpu_step {
    tern_cpu *cpu;
    struct tern_prepared *prepared;
    tern_status status; /* of what the others have to do with it; after a failure no op runs */
    tern_error *err;
    const tern_cpu_op *ahead; /* the next linear op behind the one that runs; NULL: there is none */
    uint32_t n_tokens, n_outputs;
    uint32_t n_top;                 /* how many of the highest logits are needed; 0: all */
    uint64_t weight_bytes;          /* read so far in this run, without what was skipped */
    uint64_t ffn_rows, ffn_columns; /* of sparse layers; and how many of them were not read */
    atomic_uint_least64_t skipped_rows, skipped_columns, skipped_bytes;
};

static inline uint32_t tern_cpu__rows(const tern_cpu_step *step, tern_rows rows)
{
    return tern_rows_of(rows, step->n_tokens, step->n_outputs, step->prepared->graph->n_routes);
}

static inline uint8_t *tern_cpu__scratch(const tern_cpu_step *step, uint32_t thread)
{
    return step->prepared->scratch + thread * step->prepared->scratch_bytes;
}

/* y = the op's activation of n values of both halves. */
static inline void tern_cpu__activate(const tern_cpu_kernels *kernels, const tern_op *op, const float *gate,
                                      const float *up, size_t n, float *y)
{
    switch (op->activation) {
    case TERN_ACT_RELU2: kernels->relu2(gate, up, n, y); break;
    case TERN_ACT_SILU: kernels->silu(gate, up, n, y); break;
    case TERN_ACT_GELU: kernels->gelu(gate, up, n, y); break;
    case TERN_ACT_SIGMOID: kernels->sigmoid(gate, up, n, y); break;
    case TERN_ACT_SWIGLU_OAI: kernels->swiglu_oai(gate, up, op->limit, n, y); break;
    case TERN_ACT_SWIGLU_CLAMPED: kernels->swiglu_clamped(gate, up, op->limit, n, y); break;
    }
}

tern_status tern_cpu__prepare(tern_backend *b, const tern_graph *graph, const tern_binding *bindings,
                              tern_prepared **out, tern_error *err);
void tern_cpu__prepared_free(tern_backend *b, tern_prepared *prepared);
tern_status tern_cpu__supports(tern_backend *b, const tern_graph *graph, const tern_op *op, tern_error *err);

#endif
