/* Inside the CPU backend: its buffers, prepared ops, and how each op is run. */
#ifndef TERN_BACKEND_CPU_EXEC_H
#define TERN_BACKEND_CPU_EXEC_H

#include <pthread.h>

#include "backend/cpu/candidates/layout_memory.h"
#include "backend/cpu/cpu.h"
#include "base/pool.h"

/* Which way a ternary weight is multiplied with a few tokens (candidates/candidates.h), and with which number. */
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

typedef struct tern_cpu {
    tern_backend base;
    tern_pool *pool;
    tern_cpu_kernels kernels;
    tern_cpu__choice choice;               /* of shapes that have none of their own */
    tern_cpu__shape_choice *shape_choices; /* [n_shape_choices] */
    size_t n_shape_choices;
    tern_cpu__layout_memory layouts;
    pthread_mutex_t running; /* the pool serves one step at a time */
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
    tern_decode_fn decode;           /* rows as floats; NULL: they are (f32) */
    uint32_t task_rows;              /* with a few tokens; 0: by their bytes */
    struct tern_cpu__layout *layout; /* for a few tokens; NULL: `ternary` serves them too */
    struct tern_screen *screen;      /* of an output table, once a graph has asked for it */
};

/* Rows of an f32 value: row t starts at data + t * stride. */
typedef struct tern_cpu_rows {
    float *data;
    size_t stride;
} tern_cpu_rows;

typedef struct tern_cpu_op tern_cpu_op;
typedef struct tern_cpu_step tern_cpu_step;

struct tern_cpu_op {
    void (*exec)(tern_cpu_step *step, const tern_cpu_op *op);
    const tern_op *op;
    uint8_t *base[TERN_OP_MAX_INPUTS]; /* each input's memory (its first column for rows) */
    const tern_buffer *weight[TERN_OP_MAX_INPUTS];
    tern_cpu_rows in[TERN_OP_MAX_INPUTS];
    tern_cpu_rows out, residual;
    uint8_t *out_base;
    tern_buffer *out_weight;    /* REQUANTIZE */
    uint32_t in_cols, max_rows; /* of in[0] */
    bool in_q8;
    uint64_t weight_bytes; /* LINEAR: read by one run */
};

struct tern_prepared {
    const tern_graph *graph;
    tern_cpu_op *ops;
    const uint8_t *params[TERN_PARAM_COUNT];
    uint8_t *scratch; /* scratch_bytes for each thread */
    size_t scratch_bytes;
    float *partials; /* decode attention: [heads][chunks] of (m, l, acc) */
    uint8_t *screen_memory;
    float *shared;   /* what the threads of one training op share */
    uint8_t *tables; /* tables_bytes for each thread: of the linear op that it works at, whose layouts want some
                        (candidates/candidates.h) */
    size_t tables_bytes;
    uint64_t n_linear; /* linear ops that have begun, over all runs */
    float *widened;    /* int8 rows as f32, for dense weights that multiply them */
};

/* One run: what the ops need beside their operands. */
struct tern_cpu_step {
    tern_cpu *cpu;
    struct tern_prepared *prepared;
    uint32_t n_tokens, n_outputs;
    uint32_t n_wanted;     /* the highest logits that are wanted; 0: all */
    uint64_t weight_bytes; /* read so far in this run */
};

static inline uint32_t tern_cpu__rows(const tern_cpu_step *step, tern_rows rows)
{
    return rows == TERN_ROWS_TOKENS ? step->n_tokens : step->n_outputs;
}

static inline uint8_t *tern_cpu__scratch(const tern_cpu_step *step, uint32_t thread)
{
    return step->prepared->scratch + thread * step->prepared->scratch_bytes;
}

static inline tern_gate_fn tern_cpu__gate_kernel(const tern_cpu_kernels *kernels, tern_activation activation)
{
    switch (activation) {
    case TERN_ACT_RELU2: return kernels->relu2;
    case TERN_ACT_SILU: return kernels->silu;
    case TERN_ACT_GELU: break;
    }
    return kernels->gelu;
}

/* Runs fn for each row; few rows stay on the calling thread. */
void tern_cpu__for_rows(tern_cpu_step *step, uint32_t n_rows, tern_task_fn fn, void *context);

void tern_cpu__embed(tern_cpu_step *step, const tern_cpu_op *op);
void tern_cpu__rms_norm(tern_cpu_step *step, const tern_cpu_op *op);
void tern_cpu__quantize(tern_cpu_step *step, const tern_cpu_op *op);
void tern_cpu__norm_quant(tern_cpu_step *step, const tern_cpu_op *op);
void tern_cpu__gate(tern_cpu_step *step, const tern_cpu_op *op);
void tern_cpu__add(tern_cpu_step *step, const tern_cpu_op *op);
void tern_cpu__gather(tern_cpu_step *step, const tern_cpu_op *op);
void tern_cpu__rope(tern_cpu_step *step, const tern_cpu_op *op);
void tern_cpu__kv_write(tern_cpu_step *step, const tern_cpu_op *op);
void tern_cpu__rope_kv(tern_cpu_step *step, const tern_cpu_op *op);
/* Rows of a task of a weight that one token is multiplied with. */
uint32_t tern_cpu__task_rows(const tern_buffer *w);
void tern_cpu__linear(tern_cpu_step *step, const tern_cpu_op *op);
/* A screened LINEAR (linear/screen.h) when a number of logits is wanted; false: it has to be run in full. */
bool tern_cpu__screened(tern_cpu_step *step, const tern_cpu_op *op);
void tern_cpu__attention(tern_cpu_step *step, const tern_cpu_op *op);

/* The ops of training; NULL for others. Those of each file: */
void (*tern_cpu__training_exec(tern_op_kind kind))(tern_cpu_step *, const tern_cpu_op *);
void (*tern_cpu__gradient_exec(tern_op_kind kind))(tern_cpu_step *, const tern_cpu_op *); /* LINEAR_DX, LINEAR_DW */
void (*tern_cpu__backward_exec(tern_op_kind kind))(tern_cpu_step *, const tern_cpu_op *); /* the others of a step */
void (*tern_cpu__update_exec(tern_op_kind kind))(tern_cpu_step *,
                                                 const tern_cpu_op *); /* SUM_SQUARES, UPDATE, REQUANTIZE */

/* Bytes of scratch that one thread needs for an op of this graph. */
size_t tern_cpu__linear_scratch(const tern_graph *graph, const tern_op *op);
size_t tern_cpu__linear_tables(const tern_cpu_op *op);                         /* 0: it has no tables */
size_t tern_cpu__gradient_scratch(const tern_graph *graph, const tern_op *op); /* 0 for ops of other files */
size_t tern_cpu__attention_scratch(const tern_graph *graph, const tern_op *op);
size_t tern_cpu__attention_partials(const tern_graph *graph, const tern_op *op);
size_t tern_cpu__backward_scratch(const tern_graph *graph, const tern_op *op);
/* Bytes that its threads share; 0 for ops that are not of training. */
size_t tern_cpu__backward_shared(const tern_graph *graph, const tern_op *op);
size_t tern_cpu__update_shared(const tern_graph *graph, const tern_op *op);

tern_status tern_cpu__weight_create(tern_backend *b, const tern_weight *w, tern_buffer **out, tern_error *err);
tern_status tern_cpu__prepare(tern_backend *b, const tern_graph *graph, const tern_binding *bindings,
                              tern_prepared **out, tern_error *err);
void tern_cpu__prepared_free(tern_backend *b, tern_prepared *prepared);
tern_status tern_cpu__supports(tern_backend *b, const tern_graph *graph, const tern_op *op, tern_error *err);
/* Tries every chosen kernel once. */
tern_status tern_cpu__self_test(const tern_cpu_kernels *kernels, tern_error *err);

#endif
