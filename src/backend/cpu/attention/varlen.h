/* Declarations that the forward and the backward of attention over rows share. Both are products of matrices over one
 * KV head: rows are (token, query head of the group) in this order, columns are keys, 64 in a panel. */
#ifndef TERN_BACKEND_CPU_ATTENTION_VARLEN_H
#define TERN_BACKEND_CPU_ATTENTION_VARLEN_H

#include "backend/cpu/rows/rows.h"

enum {
    TERN_PANEL = 64,     /* keys */
    TERN_BLOCK_ROWS = 64 /* of one pass over the keys, or one token's if they are more */
};

/* From first to end - 1. */
typedef struct tern_range {
    uint32_t first, end;
} tern_range;

typedef struct tern_attention_job {
    tern_cpu_step *step;
    const tern_cpu_op *op;
    uint32_t n, group, dim, n_heads, n_kv_heads;
    uint32_t n_panels;
    uint32_t block_tokens; /* of TERN_BLOCK_ROWS */
    float scale;
    const float *sinks; /* [n_heads] or NULL */
    /* in the shared scratch, so that a head's keys lie together: */
    float *k_panels, *v_panels; /* [kv heads][panels][dim][64], zeros after the last key */
    float *k_rows, *v_rows;     /* [kv heads][panels * 64][dim] */
    const uint32_t *starts;
} tern_attention_job;

/* n floats of a thread's or the shared scratch, aligned to 64 bytes; *memory moves behind them. */
static inline float *tern_varlen_attention__lend(float **memory, size_t n)
{
    float *lent = *memory;
    *memory += (n + 15) / 16 * 16;
    return lent;
}

tern_attention_job tern_varlen_attention__job(tern_cpu_step *step, const tern_cpu_op *op);

static inline uint32_t tern_varlen_attention__panels(uint32_t n)
{
    return (n + TERN_PANEL - 1) / TERN_PANEL;
}

/* Tokens of TERN_BLOCK_ROWS, and the rows that a block can have. */
uint32_t tern_varlen_attention__block_tokens(const tern_op *op);
size_t tern_varlen_attention__block_rows(const tern_op *op);
/* Floats of all panels of K for n tokens, or of all its rows. */
size_t tern_varlen_attention__kv_floats(uint32_t n, const tern_op *op);

/* The first key that a token sees. */
static inline uint32_t tern_varlen_attention__first_key(const tern_attention_job *j, uint32_t t)
{
    const uint32_t start = j->starts[t];
    return start + tern_op_first_seen(j->op->op, t - start);
}

/* The first key that any of these tokens sees. */
uint32_t tern_varlen_attention__first_seen(const tern_attention_job *j, tern_range tokens);

/* Numbers that are factors of products of the op: rounded to bf16 in place where it has halves. */
void tern_varlen_attention__round(const tern_attention_job *j, float *x, size_t n);

/* Input TERN_VARLEN_ATTENTION_K or _V to panels and to rows, each if it is not NULL, in parallel; rounded. */
void tern_varlen_attention__pack(const tern_attention_job *j, uint32_t input, float *panels, float *rows);

/* The row of a key of one head, in k_rows and the like. */
static inline float *tern_varlen_attention__key(const tern_attention_job *j, float *rows, uint32_t kv_head,
                                                uint32_t key)
{
    return rows + ((size_t)kv_head * j->n_panels * TERN_PANEL + key) * j->dim;
}

/* The query heads of one KV head to rows of dim; and back, a residual added where there is one. */
void tern_varlen_attention__gather(const tern_attention_job *j, const tern_cpu_rows *from, uint32_t kv_head,
                                   tern_range tokens, float *to);
void tern_varlen_attention__scatter(const tern_attention_job *j, const float *from, uint32_t kv_head, tern_range tokens,
                                    const tern_cpu_rows *residual, const tern_cpu_rows *to);

/* rows x panel: scores of all rows with the keys of a panel. `panels`: of K or V. c has c_row floats a row. */
void tern_varlen_attention__scores(const tern_attention_job *j, const float *rows, uint32_t n_rows, const float *panels,
                                   uint32_t kv_head, uint32_t panel, float *c, size_t c_row);

/* A product that adds, where row i has only the steps of ranges[i]; empty ranges are allowed. */
void tern_varlen_attention__ragged(const tern_attention_job *j, const tern_product_args *args,
                                   const tern_range *ranges);

#endif
