/* Measuring every kernel that multiplies a ternary weight with one token: what `tern tune` and `tern bench --kernels`
 * print.
 */
#ifndef TERN_BACKEND_CPU_TUNE_TUNE_H
#define TERN_BACKEND_CPU_TUNE_TUNE_H

#include <stdbool.h>

#include "backend/backend.h"
#include "backend/kernel_choice.h"

enum { TERN_TUNE_MAX_BACKENDS = 16 };

/* One kernel, on one number of threads. */
typedef struct tern_tune_row {
    char kernel[TERN_KERNEL_NAME_BYTES]; /* as --kernel has it, with its number */
    uint32_t task_rows;                  /* 0: as without a choice */
    uint32_t n_threads;
    uint64_t bytes; /* that one product reads */
    double seconds; /* of one product: the fastest fiftieth of all ends there */
} tern_tune_row;

/* Zero-initialised fields have a meaning, except for the backends. */
typedef struct tern_tune_options {
    tern_backend *const *backends; /* "cpu", each opened with another number of threads and no kernel or choices */
    uint32_t n_backends;
    uint64_t cold_bytes; /* copies of the weight take so much memory and are used in turn, so that none is in a cache;
                            0: one copy */
    double seconds;      /* that a measurement takes at least, after which it ends; 0: one product */
    bool first_only;     /* the default kernel alone */
    bool defaults_only;  /* each kernel as --kernel NAME would have it, none of its other numbers and row splits */
    /* Seconds, rising; NULL: the time. `row` is what runs now. */
    double (*clock)(void *context, const tern_tune_row *row);
    /* Called before each row; false cancels. May be NULL. */
    bool (*progress)(void *context, const tern_tune_row *row);
    void *context;
} tern_tune_options;

typedef struct tern_tune_result {
    tern_tune_row *rows; /* [n]; by kernels, then backends, then row splits */
    size_t n, cap;
    /* For each backend: the default as measured first, and the row that is to be used (the default's own, unless
     * another was faster by TERN_TUNE_MARGIN, there and when both were measured once more in turns); what they took
     * then. */
    struct {
        size_t standard, best;
        double standard_seconds, best_seconds;
    } of[TERN_TUNE_MAX_BACKENDS];
} tern_tune_result;

/* A kernel has to be so much faster than the default to replace it. */
#define TERN_TUNE_MARGIN 0.03

/* Measures all candidates that can serve the weight, with the numbers and row splits that are worth it; splits only of
 * kernels that are not slower than the fastest before by a quarter. Each one's integers are compared with the
 * default's. The result depends on nothing but what the clock says. Memory: about cold_bytes. Free with
 * tern_tune_result_deinit, also after an error. Errors: INVALID_ARGUMENT (no ternary weight), INTERNAL (a kernel with
 * other integers), CANCELLED, OUT_OF_MEMORY; candidates, and their numbers, that do not serve the weight are left out.
 */
tern_status tern_cpu_tune(const tern_weight *w, const tern_tune_options *options, tern_tune_result *out,
                          tern_error *err);
void tern_tune_result_deinit(tern_tune_result *result);

#endif
