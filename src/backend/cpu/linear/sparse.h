/* Skips the weights that a squared ReLU makes irrelevant: rows of `up` whose gate is closed, columns of `down` whose
 * input is 0. The result has the same bits (docs/decisions/0038-sparse-ffn.md). */
#ifndef TERN_BACKEND_CPU_LINEAR_SPARSE_H
#define TERN_BACKEND_CPU_LINEAR_SPARSE_H

#include "backend/cpu/linear/linear_internal.h"
#include "base/pool.h"

/* A ternary weight by columns (ops/ref/columns.h): panels lie two and two, both halves of a column side by side. */
typedef struct tern_columns {
    tern_cpu__layout_memory *memory;
    tern_cpu__layout_block block;
    uint32_t rows, cols;
} tern_columns;

/* Builds the columns of a ternary weight on the backend's threads. Errors: OUT_OF_MEMORY, MALFORMED (its codes). */
tern_status tern_columns__build(tern_cpu *cpu, const tern_buffer *buffer, tern_columns **out, tern_error *err);
void tern_columns__free(tern_columns *columns);

/* Whether a weight is large enough: smaller ones stay in the caches, where reading them costs less than choosing. */
static inline bool tern_sparse__worth(const tern_cpu *cpu, const tern_buffer *w)
{
    enum { LEAST = 256 << 10 };
    return cpu->ffn == TERN_FFN_SPARSE || (cpu->ffn == TERN_FFN_AUTO && w->bytes >= LEAST);
}

/* Whether n of `all` are so few that reading them alone is quicker: up to `percent` with up to 4 threads, half of that
 * with more. More threads reach the speed of the memory when they read everything in order. */
static inline bool tern_sparse__pays(const tern_cpu *cpu, uint32_t n, uint32_t all, uint32_t percent)
{
    enum { FEW_THREADS = 4 };
    const uint32_t most = tern_pool_threads(cpu->pool) > FEW_THREADS ? percent / 2 : percent;
    return cpu->ffn == TERN_FFN_SPARSE || (uint64_t)n * 100 <= (uint64_t)all * most;
}

/* Whether an op multiplies by columns where its input has few numbers that are not 0; asked when it is bound. */
bool tern_sparse__wants_columns(const tern_cpu *cpu, const tern_cpu_op *op);
/* Memory that all threads share for one product by columns. */
size_t tern_sparse__columns_bytes(const tern_graph *graph, const tern_op *op);
/* Runs a product of one token by columns; false: too much of its input is not 0. */
bool tern_sparse__columns(const tern_linear__job *job);

/* Memory of each thread for rows that are brought together. */
size_t tern_sparse__rows_bytes(const tern_graph *graph, const tern_op *op);
/* up[t][r] for the rows first + r of part 1 of which one of the job's tokens has gate[t][r] > 0, +0 for the others;
 * false: it is quicker to read all of them. */
bool tern_sparse__up(const tern_linear__job *job, uint32_t first, uint32_t n_rows, uint32_t thread, const float *gate,
                     float *up);

#endif
