/* The parts of measuring kernels: copies of a weight as a kernel needs it, one product, one measurement. */
#ifndef TERN_BACKEND_CPU_TUNE_TUNE_INTERNAL_H
#define TERN_BACKEND_CPU_TUNE_TUNE_INTERNAL_H

#include "backend/cpu/candidates/candidates.h"
#include "backend/cpu/tune/tune.h"

/* A candidate with one of its numbers, and copies of the weight as it needs them. */
typedef struct tern_tune__kernel {
    char name[TERN_KERNEL_NAME_BYTES];
    tern_buffer **copies; /* [n_copies]; after an error the last ones may be NULL */
    size_t n_copies, next;
    uint64_t bytes;       /* that one product reads */
    tern_weight *weights; /* dot: one for each copy, with bytes of its own */
    uint8_t *packed;
} tern_tune__kernel;

/* n 0: the candidate's own number. Errors: UNSUPPORTED, INVALID_ARGUMENT (the candidate does not serve this weight so),
 * OUT_OF_MEMORY, those of the candidate. Close it also after an error. */
tern_status tern_tune__kernel_open(tern_tune__kernel *kernel, tern_cpu *cpu, const tern_weight *w,
                                   const tern_cpu__candidate *candidate, uint32_t n, uint64_t cold_bytes,
                                   tern_error *err);
void tern_tune__kernel_close(tern_tune__kernel *kernel, tern_cpu *cpu);

enum { TERN_TUNE__MAX_TIMES = 1 << 14 };

/* One weight that is measured. */
typedef struct tern_tune__job {
    const tern_weight *w;
    const tern_tune_options *o;
    tern_tune_result *out;
    uint8_t *input; /* one token, as Q8 */
    int32_t *dots, *expected;
    uint8_t *scratch; /* scratch_bytes for each thread */
    size_t scratch_bytes;
    double *times; /* [TERN_TUNE__MAX_TIMES] */
    /* of the product that runs */
    const tern_buffer *buffer;
    uint32_t task_rows;
    uint8_t *tables; /* tables_bytes bytes for each thread, of layouts that need some */
    size_t tables_bytes;
    uint64_t *made; /* [n_threads]: the product that a thread's tables are of */
    uint64_t n_products;
    uint32_t n_threads; /* of the backend that has most */
} tern_tune__job;

static inline tern_cpu *tern_tune__cpu(const tern_tune__job *t, uint32_t backend)
{
    return (tern_cpu *)t->o->backends[backend];
}

/* ---- product.c */

/* Memory, a token, and the integers that all kernels have to give. Close it also after an error. */
tern_status tern_tune__open(tern_tune__job *t, tern_error *err);
void tern_tune__close(tern_tune__job *t);
/* Memory for the tables of a kernel's layouts. */
tern_status tern_tune__tables_alloc(tern_tune__job *t, const tern_tune__kernel *kernel, tern_error *err);
/* The kernel's next copy times the token, into t->dots; the caller holds cpu->running. */
void tern_tune__multiply(tern_tune__job *t, tern_cpu *cpu, tern_tune__kernel *kernel, uint32_t task_rows);
/* INTERNAL, with the row, when t->dots are others than the default's. */
tern_status tern_tune__check(const tern_tune__job *t, const tern_tune__kernel *kernel, tern_error *err);

/* ---- measure.c */

/* Seconds of one product: the fastest fiftieth of those in `seconds` ends there, for others may run beside this
 * program. */
double tern_tune__measure(tern_tune__job *t, tern_cpu *cpu, tern_tune__kernel *kernel, const tern_tune_row *row,
                          double seconds);
/* Every candidate with its numbers and row splits, on every backend, into t->out. */
tern_status tern_tune__measure_all(tern_tune__job *t, tern_error *err);

#endif
