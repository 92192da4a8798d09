/* What the tables of bench_rsr share: a product, its input and output, and products timed. */
#ifndef TERN_BENCH_RSR_PRODUCTS_H
#define TERN_BENCH_RSR_PRODUCTS_H

#include "backend/cpu/kernels.h"
#include "cold/cold.h"
#include "rsr/multipliers/slices_f32.h"
#include "rsr/multipliers/steps.h"

enum { TASKS = 64 };

typedef struct matrix {
    uint32_t rows, cols;
    int8_t *codes;
} matrix;

/* One way to multiply: everything a task needs. */
typedef struct job job;
struct job {
    void (*task)(const job *j, size_t copy, uint32_t first, uint32_t n, uint32_t thread); /* blocks or rows */
    uint32_t units;
    size_t bytes; /* of one copy */
    size_t n_copies, copy;
    tern_pool *pool;
    rsr_step_i8 *i8;
    rsr_step_f32 *f32;
    uint8_t *data;
    rsr_groups *groups;
    rsr_lists *lists;
    tern_rsr_slices *slices;
    tern_ternary_fn dot;
    uint32_t cols;
};

/* The input, and scratch and output of each thread. */
typedef struct workspace {
    tern_cpu_kernels kernels;
    rsr_f32_fn rsr_f32;
    _Alignas(64) int8_t x_i8[COLD_MAX_COLS + 512];
    _Alignas(64) float x_f32[COLD_MAX_COLS + 512];
    int32_t scratch[COLD_MAX_THREADS][COLD_MAX_COLS + 16], y[COLD_MAX_THREADS][COLD_MAX_ROWS + 16];
    int32_t x_sum;
} workspace;
extern workspace work;

/* The kernels of a CPU with these features. */
void choose_kernels(uint32_t features);

/* Codes of random digits; the caller's to free. */
matrix matrix_of(uint32_t rows, uint32_t cols);
tern_rsr_source matrix_source(const matrix *m);

/* Task `task` of TASKS of a job, as pools run it. */
void job_task(void *context, uint32_t task, uint32_t thread);
double job_time(job *j, const cold_options *o, int pool);

/* Microseconds on the first n_pools pools, and the bytes that one product reads. */
typedef struct timing {
    double us[2];
    size_t bytes;
} timing;

/* Blocks of slices, as tasks of a job. */
void slices_task(const job *j, size_t copy, uint32_t first, uint32_t n, uint32_t thread);
timing time_slices(const matrix *m, uint32_t k, bool floats, const cold_options *o, int n_pools);
/* i2_s, tq2_0 or t160; bytes 0: that the encoding does not have such rows. */
timing time_dot(const matrix *m, const char *encoding, const cold_options *o, int n_pools);
/* f32 inputs (W1.58A32): i2_s rows decoded and multiplied as f32, as the engine does it. */
timing time_decoded(const matrix *m, const cold_options *o, int n_pools);

/* The tables in files of their own. */
void print_steps(const matrix *m, uint32_t k, bool floats, const cold_options *o);
void print_siblings(const char *name, const uint32_t *rows, uint32_t n, uint32_t cols, const cold_options *o);

#endif
