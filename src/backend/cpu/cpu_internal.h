/* Inside the CPU backend: its buffers, prepared graphs and steps. */
#ifndef TERN_BACKEND_CPU_CPU_INTERNAL_H
#define TERN_BACKEND_CPU_CPU_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>

#include "backend/cpu/candidates/layout_memory.h"
#include "backend/cpu/cpu.h"
#include "base/file.h"
#include "base/pool.h"
#include "ops/ref/experts.h"
#include "ranks/ranks.h"

/* What multiplies a ternary weight with a few tokens (candidates/candidates.h), and with which number. */
typedef struct tern_cpu__candidate tern_cpu__candidate;
typedef struct tern_cpu__choice {
    const tern_cpu__candidate *candidate;
    uint32_t n;
    uint32_t task_rows; /* 0: by their bytes */
} tern_cpu__choice;

/* The choice of one shape. */
typedef struct tern_cpu__shape_choice {
    const tern_encoding *encoding;
    uint32_t rows, cols;
    tern_cpu__choice choice;
} tern_cpu__shape_choice;

/* Whether what a squared ReLU makes irrelevant is read all the same (linear/sparse.h). */

typedef struct tern_cpu {
    tern_backend base;
    tern_pool *pool;
    tern_cpu_kernels kernels;
    tern_ffn_mode ffn;
    tern_cpu__choice choice;               /* of shapes that have none of their own */
    tern_cpu__shape_choice *shape_choices; /* [n_shape_choices] */
    size_t n_shape_choices;
    tern_cpu__layout_memory layouts;
    tern_ranks *ranks;       /* NULL: this process is the only one */
    pthread_mutex_t running; /* the pool serves one step at a time */
    tern_file_waits waits;   /* for experts in a mapped file */
    atomic_uint_least32_t n_buffers;
    tern_backend_counters counters;
    uint64_t op_runs[TERN_OP_COUNT + 1]; /* the last: the output head */
} tern_cpu;

/* Memory, or a weight. */
struct tern_buffer {
    uint8_t *data;
    uint64_t bytes;
    bool owned;
    const tern_weight *weight;
    size_t row_bytes;
    uint32_t cols;           /* of the weight; padded to whole blocks when it was repacked */
    tern_ternary_fn ternary; /* one of the two, by encoding */
    tern_dense_fn dense;
    bool decodes_first;              /* dense is the definition: decode, and the kernel of f32, are faster */
    tern_blocks_fn blocks;           /* beside `dense`: with int8 tokens; NULL: there is none */
    tern_decode_fn decode;           /* rows as floats; NULL: they are (f32) */
    uint32_t task_rows;              /* with a few tokens; 0: by their bytes */
    struct tern_cpu__layout *layout; /* for a few tokens; NULL: `ternary` serves them too */
    struct tern_screen *screen;      /* of an output table, once a graph has asked for it */
    struct tern_columns *columns;    /* of a sparse layer, likewise */
};

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
    case TERN_ACT_SWIGLU_OAI: kernels->swiglu_oai(gate, up, op->limit, n, y); break;
    case TERN_ACT_SWIGLU_CLAMPED: kernels->swiglu_clamped(gate, up, op->limit, n, y); break;
    }
}

/* Rows of a task of a weight that n_threads threads multiply one token with. */
uint32_t tern_cpu__task_rows(const tern_buffer *w, uint32_t n_threads);

/* Whether weights of this encoding are multiplied with int8 by blocks (tern_buffer.blocks). */
bool tern_cpu__multiplies_blocks(tern_encoding_id id);
tern_status tern_cpu__weight_create(tern_backend *b, const tern_weight *w, tern_buffer **out, tern_error *err);
tern_status tern_cpu__prepare(tern_backend *b, const tern_graph *graph, const tern_binding *bindings,
                              tern_prepared **out, tern_error *err);
void tern_cpu__prepared_free(tern_backend *b, tern_prepared *prepared);
tern_status tern_cpu__supports(tern_backend *b, const tern_graph *graph, const tern_op *op, tern_error *err);
/* Tries every chosen kernel once. */
tern_status tern_cpu__self_test(const tern_cpu_kernels *kernels, tern_error *err);

#endif
