/* Types of `tern bench --kernels`: shapes, results, the limits of the machine. */
#ifndef TERN_APPS_BENCH_KERNELS_H
#define TERN_APPS_BENCH_KERNELS_H

#include "apps/bench/bench.h"
#include "apps/tune/tune.h"
#include "tern/bytes.h"

enum { TERN_BENCH_MAX_SHAPES = 32, TERN_BENCH_MAX_SIDE = 1 << 16 };

typedef struct tern_bench_shape {
    uint32_t rows, cols;
} tern_bench_shape;

/* A kernel on a shape. */
typedef struct tern_bench_point {
    char name[72];           /* "dot i2_s", "rsr" */
    uint32_t shape, backend; /* their numbers in the job */
    double operations;       /* of one product: 2 for each weight */
    uint64_t bytes;          /* that it reads */
    double seconds;
} tern_bench_point;

typedef struct tern_bench_roof {
    double read, operations; /* bytes and operations a second */
} tern_bench_roof;

/* One run; from _measure to _close. */
typedef struct tern_bench_job {
    const tern_options *options;
    tern_app_backends backends;
    tern_bench_shape shapes[TERN_BENCH_MAX_SHAPES];
    uint32_t n_shapes;
    tern_bench_roof roofs[TERN_TUNE_MAX_BACKENDS];
    tern_bench_point *points; /* [n]; by shapes, then kernels, then backends */
    size_t n, cap;
    uint32_t done, total; /* of the progress bar */
    tern_progress progress;
} tern_bench_job;

/* Shapes from --shapes, or the usual ones. Errors: INVALID_ARGUMENT (words, a shape that no ternary encoding has, or
 * that needs more memory than this machine has). */
tern_status tern_bench_shapes_read(tern_bench_job *job, tern_error *err);
/* Why no weight of this shape is in this encoding; false: there are such. */
bool tern_bench_left_out(const tern_encoding *e, tern_bench_shape s, tern_error *why);
/* Opens the backends, measures roofs and points. Errors: CANCELLED, OUT_OF_MEMORY, those of the backends. */
tern_status tern_bench_kernels_measure(tern_bench_job *job, tern_error *err);

/* Operations a second: those of the point, and those that the roofline allows it. */
double tern_bench_rate(const tern_bench_point *p);
double tern_bench_intensity(const tern_bench_point *p);
double tern_bench_most(const tern_bench_roof *r, double operations_per_byte);

void tern_bench_kernels_print(const tern_bench_job *job);
tern_status tern_bench_kernels_print_json(const tern_bench_job *job, tern_error *err);
/* For each number of threads: kernels over shapes, and over operations a byte under the roofline. Appends SVG. */
tern_status tern_bench_kernels_draw(const tern_bench_job *job, tern_buf *svg, tern_error *err);

#endif
