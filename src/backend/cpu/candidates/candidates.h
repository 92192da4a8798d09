/* The kernels that can serve a ternary weight: a weight finds its own here when it is created.
 *
 * Products with many tokens, backward passes and whatever else reads the weight take its packed bytes (weight.c). With
 * a few tokens, the product may take another kernel: a candidate rearranges the weight (its layout), and from then on
 * multiplies rows of it with int8 tokens. All of them give the same integers. Adding one is a row of the list in
 * candidates.c; docs/architecture.md, 5. */
#ifndef TERN_BACKEND_CPU_CANDIDATES_CANDIDATES_H
#define TERN_BACKEND_CPU_CANDIDATES_CANDIDATES_H

#include "backend/cpu/cpu_internal.h"

enum { TERN_CPU__LAYOUT_TOKENS = 8, TERN_CPU__LAYOUT_SCRATCH = 128 };

typedef struct tern_cpu__layout tern_cpu__layout;

/* Values that some candidates compute of the tokens before they multiply. Every thread makes its own, once for an op,
 * for all weights of the op with the same: making them together takes as long as fetching them from the other cores. */
typedef struct tern_cpu__tables {
    uint32_t cols; /* of one table */
    size_t bytes;  /* of one table; a multiple of 64 */
    /* The tables of one token; nothing past its n columns is read. */
    void (*make)(const tern_cpu_kernels *k, const int8_t *x, uint32_t n, void *out);
} tern_cpu__tables;

/* Bytes of the tables of one token. */
static inline size_t tern_cpu__tables_bytes(const tern_cpu__tables *t, uint32_t cols)
{
    return ((size_t)cols + t->cols - 1) / t->cols * t->bytes;
}

/* A weight as a candidate wants it. The first member of what the candidate keeps. */
struct tern_cpu__layout {
    uint32_t row_step;   /* tasks begin at multiples of so many rows; other ranges are right, but cost more */
    uint32_t max_tokens; /* of a product, at most TERN_CPU__LAYOUT_TOKENS */
    uint64_t bytes;      /* that one product reads */
    bool stored;         /* the file has it: what it multiplies is compared with the weight when that is created */
    /* dots[t * stride + r] = row first + r times token t, for at most max_tokens tokens; scratch: 4 * columns +
     * TERN_CPU__LAYOUT_SCRATCH bytes of the thread's own, 64-byte aligned. */
    const tern_cpu__tables
        *tables; /* NULL: none. Otherwise scratch holds them, token after token, and is not written */
    void (*multiply)(const tern_cpu__layout *l, uint32_t first, uint32_t n_rows, const tern_q8_rows *x, void *scratch,
                     int32_t *dots, size_t stride);
    void (*close)(tern_cpu__layout *l);
    /* A copy in memory of its own; NULL: has to be made again. */
    tern_status (*copy)(const tern_cpu__layout *l, tern_cpu__layout **out, tern_error *err);
};

struct tern_cpu__candidate {
    const char *name;            /* as in --kernel NAME */
    const char *parameter;       /* NAME:N; NULL: it has none */
    uint32_t min, max;           /* of N */
    uint32_t gap;                /* between them, but there is no such N; 0: all are there */
    uint32_t tune_min, tune_max; /* those that are worth measuring */
    /* N 0: as it thinks best for the weight. *out NULL: the packed bytes are multiplied where they lie, as with make
     * NULL. Errors: INVALID_ARGUMENT (an N that there is not), UNSUPPORTED (this weight). */
    tern_status (*make)(tern_cpu *cpu, const tern_weight *w, uint32_t n, tern_cpu__layout **out, tern_error *err);
};

/* Reads "rsr" or "rsr:6"; NULL: "dot". Errors: INVALID_ARGUMENT, with all names. */
tern_status tern_cpu__choice_parse(const char *text, tern_cpu__choice *out, tern_error *err);
/* The candidates in their order, the default first; NULL at the end. */
const tern_cpu__candidate *tern_cpu__candidate_at(size_t i);
/* Keeps those of the backend's number of threads. Errors: INVALID_ARGUMENT (a kernel that there is not, task_rows),
 * OUT_OF_MEMORY. */
tern_status tern_cpu__choices_take(tern_cpu *cpu, const tern_kernel_choice *choices, size_t n, tern_error *err);
/* The layout of a weight: the choice for its shape, else the one that the backend was opened with. Trained weights have
 * the default. */
tern_cpu__choice tern_cpu__choose(const tern_cpu *cpu, const tern_weight *w);

/* Whether a weight's stored layout is that of the weight: four vectors of int8, times both. A row that differs in one
 * place passes where four random bytes are 0, by chance once in 2^32. Errors: MALFORMED (the row), OUT_OF_MEMORY. */
tern_status tern_cpu__layout_check(const tern_buffer *buffer, tern_error *err);

tern_status tern_cpu__t160_make(tern_cpu *cpu, const tern_weight *w, uint32_t n, tern_cpu__layout **out,
                                tern_error *err);
tern_status tern_cpu__rsr_make(tern_cpu *cpu, const tern_weight *w, uint32_t k, tern_cpu__layout **out,
                               tern_error *err);
tern_status tern_cpu__lut_make(tern_cpu *cpu, const tern_weight *w, uint32_t width, tern_cpu__layout **out,
                               tern_error *err);

#endif
