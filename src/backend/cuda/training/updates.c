/* Ops of the optimiser that follow each other: those of one kind are one launch, over a table on the device. */
#include <string.h>

#include "backend/cuda/cuda_internal.h"
#include "base/alloc.h"
#include "ops/op.h"
#include "ops/ref/update.h"

_Static_assert((int)TERN_CUDA_RUN == (int)TERN_NORM_CHUNK, "a block of threads has a run");

/* In the order in which those of one tensor follow each other. */
static const tern_op_kind kinds[] = {TERN_OP_SUM_SQUARES, TERN_OP_UPDATE, TERN_OP_REQUANTIZE};
enum { KINDS = sizeof kinds / sizeof *kinds };

static bool is_update(const tern_cuda_launch *l)
{
    for (int k = 0; k < KINDS; k++)
        if (l->op->kind == kinds[k]) return true;
    return false;
}

/* Words of scratch. */
static size_t totals_of(const tern_cuda_launch *l)
{
    if (l->op->kind == TERN_OP_SUM_SQUARES) return (size_t)(l->params.update.n / TERN_CUDA_RUN + 8) * 2;
    return l->op->kind == TERN_OP_REQUANTIZE ? TERN_CUDA_TOTALS : 0;
}

static uint32_t blocks_of(uint64_t n, uint32_t each)
{
    return (uint32_t)((n + each - 1) / each);
}

static const void *tensor_of(const tern_cuda_launch *l)
{
    return l->op->kind == TERN_OP_REQUANTIZE ? l->params.update.w : (const void *)l->params.update.g;
}

/* Launches that may change their order: none but those of the optimiser, and no two of a kind with one tensor. */
static size_t find_end(const tern_cuda_launch *all, size_t n, size_t first)
{
    size_t end = first;
    for (; end < n && is_update(&all[end]); end++)
        for (size_t i = first; i < end; i++)
            if (all[i].op->kind == all[end].op->kind && tensor_of(&all[i]) == tensor_of(&all[end])) return end;
    return end;
}

/* The source of a table. */
typedef struct maker {
    tern_cuda_update *table; /* the host's, until it is written */
    size_t n;
    size_t n_totals;
    tern_prepared *p;
} maker;

/* Adds one to the table and to the launch that it becomes a part of. */
static void add(maker *m, const tern_cuda_launch *from, tern_cuda_launch *to)
{
    tern_cuda_updates *all = &to->params.updates;
    tern_cuda_update u = from->params.update;
    u.totals = m->p->updates.totals + m->n_totals;
    u.first = all->blocks;
    u.first_codes = all->code_blocks;
    if (all->n == 0) all->totals = u.totals;
    all->n++;
    all->blocks += blocks_of(u.n, all->each);
    all->code_blocks += blocks_of(u.ternary ? (uint64_t)u.rows * u.row_bytes : u.n, TERN_CUDA_CODES);
    m->n_totals += totals_of(from);
    m->table[m->n++] = u;
}

static uint32_t each_of(tern_op_kind kind, bool alone)
{
    if (kind == TERN_OP_SUM_SQUARES) return TERN_CUDA_RUN;
    return alone ? TERN_CUDA_SMALL_PART : TERN_CUDA_PART;
}

/* The launches of one kind among n that follow each other become one. */
static void join_kind(maker *m, const tern_cuda_launch *from, size_t n, tern_op_kind kind, size_t *n_out)
{
    tern_cuda_launch *out = NULL;
    size_t n_kind = 0;
    for (size_t i = 0; i < n; i++) n_kind += from[i].op->kind == kind;
    for (size_t i = 0; i < n; i++) {
        if (from[i].op->kind != kind) continue;
        if (!out) {
            out = &m->p->launches[(*n_out)++];
            *out = (tern_cuda_launch){.run = from[i].run, .op = from[i].op, .kernel = from[i].kernel};
            out->params.updates.all = m->p->updates.table + m->n;
            out->params.updates.each = each_of(kind, n_kind == 1);
        }
        out->n_ops += from[i].n_ops;
        out->weight_bytes += from[i].weight_bytes;
        add(m, &from[i], out);
    }
}

static tern_status allocate(const tern_cuda_launch *all, size_t n, maker *m, tern_error *err)
{
    size_t n_updates = 0, n_totals = 0;
    void *table = NULL, *totals = NULL;
    for (size_t i = 0; i < n; i++) {
        n_updates += is_update(&all[i]);
        n_totals += is_update(&all[i]) ? totals_of(&all[i]) : 0;
    }
    if (n_updates == 0) return TERN_OK;
    m->table = tern_calloc(n_updates, sizeof *m->table);
    if (!m->table) return tern_fail_alloc(err, n_updates * sizeof *m->table);
    if (!m->p->cuda) return TERN_OK;
    TERN_TRY(tern_cuda__status(cudaMalloc(&table, n_updates * sizeof *m->table), "a table of updates", err));
    m->p->updates.table = table;
    TERN_TRY(tern_cuda__status(cudaMalloc(&totals, (n_totals + 1) * sizeof(uint32_t)), "scratch memory", err));
    m->p->updates.totals = totals;
    return TERN_OK;
}

/* A copy of the launches; they get fewer. */
static void join_all(maker *m, const tern_cuda_launch *from, size_t n, bool alone)
{
    tern_prepared *p = m->p;
    size_t n_out = 0;
    for (size_t i = 0, end; i < n; i = end) {
        end = find_end(from, n, i);
        if (end > i && alone) end = i + 1;
        for (int k = 0; k < KINDS && end > i; k++) join_kind(m, from + i, end - i, kinds[k], &n_out);
        if (end == i) p->launches[n_out++] = from[end++];
    }
    p->n_launches = n_out;
}

tern_status tern_cuda__join_updates(tern_prepared *p, bool alone, tern_error *err)
{
    const size_t n = p->n_launches;
    maker m = {.p = p};
    tern_status status = allocate(p->launches, n, &m, err);
    tern_cuda_launch *from = status == TERN_OK && m.table ? tern_calloc(n, sizeof *from) : NULL;
    if (status == TERN_OK && m.table && !from) status = tern_fail_alloc(err, n * sizeof *from);
    if (from) {
        memcpy(from, p->launches, n * sizeof *from);
        join_all(&m, from, n, alone);
        if (p->cuda)
            status = tern_cuda__status(
                cudaMemcpy(p->updates.table, m.table, m.n * sizeof *m.table, cudaMemcpyHostToDevice), "writing", err);
    }
    tern_free(from);
    tern_free(m.table);
    return status;
}

void tern_cuda__updates_free(tern_cuda_update_table *updates)
{
    cudaFree(updates->table);
    cudaFree(updates->totals);
}
