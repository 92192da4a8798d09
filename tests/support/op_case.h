/* A graph of one op or a few, made by hand and run on any backend through backend.h: how the kernels of a device are
 * compared with those of the CPU backend, which are bit-exact with ops/ref.
 *
 *     test_case c;
 *     test_case_open(&c, &rng, &(test_case_shape){.max_tokens = 5});
 *     tern_view x = test_case_rows(&c, "x", TERN_ROWS_TOKENS, 96, TEST_ORDINARY);
 *     tern_view w = test_case_weight(&c, "f16", 40, 96);
 *     tern_view y = test_case_output(&c, "y", TERN_ROWS_TOKENS, TERN_DTYPE_F32, 40);
 *     test_case_add(&c, (tern_op){.kind = TERN_OP_LINEAR, .n_in = 2, .in = {x, w}, .n_parts = 1, .out = y});
 *     test_case_compare(&c, test_gpu_backend(), 3, 3, (test_tolerance){.of_row = 1e-6});
 *     test_case_close(&c); */
#ifndef TERN_TESTS_SUPPORT_OP_CASE_H
#define TERN_TESTS_SUPPORT_OP_CASE_H

#include "backend/backend.h"
#include "ops/difference.h"
#include "ops/graph.h"
#include "ops/op.h"
#include "support/kernels.h"

enum { TEST_CASE_MAX_VALUES = 64 };
struct tern_gpu_caps;

/* The backend of this name, opened at the first call and kept; fails the test when it does not open. */
tern_backend *test_backend(const char *name);
/* What this build's GPU backend is called. */
#if TERN_WEBGPU
#define TEST_GPU "webgpu"
#else
#define TEST_GPU "vulkan"
#endif

/* The backend under test: what the program's --backend says, which CTest gives to groups with the label `backends` (all
 * of cmake's TERN_TEST_BACKENDS) or `devices` (all but the CPU); without it the CPU, and TEST_GPU for what wants a GPU.
 */
bool test_on_gpu(void);
const char *test_gpu_name(void);
tern_backend *test_backend_here(void);
void test_backend_choose(const char *name);

/* The GPU: test_gpu_name(), on the device that TERN_TEST_DEVICE names (VK_ICD_FILENAMES and the like are the loader's).
 * Where there is none the calling test is skipped, under CI=true failed. TERN_TEST_SIMULATE=N takes the simulated GPU
 * (simulated.h), with subgroups of N. */
tern_backend *test_gpu_backend(void);
/* The same GPU taken for less than it is, so that every variant of a kernel runs: as it is; without subgroups; with
 * what every device has (besides no subgroups, 128 invocations, 16 KiB of workgroup memory). */
typedef enum test_gpu_kind { TEST_GPU_WHOLE, TEST_GPU_NO_SUBGROUPS, TEST_GPU_LEAST, TEST_GPU_N_KINDS } test_gpu_kind;
tern_backend *test_gpu_backend_of(test_gpu_kind kind);
/* How many of them there are: of a backend that takes no limits (cuda) the first alone, which it is for the others. */
int test_gpu_kinds(void);
/* Opens the GPU anew, taken for no more than `limits` (cuda: as it is); the caller closes it. Fails the test where it
 * does not open. */
tern_backend *test_gpu_open(const struct tern_gpu_caps *limits);
/* Closes what these have opened: a group's teardown. Returns 0. */
int test_backends_close(void **state);

/* Zero: as the comments say. */
typedef struct test_case_shape {
    uint32_t max_tokens;  /* 1 */
    uint32_t max_outputs; /* max_tokens */
    uint32_t n_ctx;       /* 64 */
    uint32_t n_sequences; /* 1 */
    uint32_t n_routes;    /* 0 */
    uint32_t n_groups;    /* 0 */
    bool states;          /* with the parameter STATES: all go on from row 0, none is kept */
    bool sampler;         /* with the parameter SAMPLER */
    bool wanted;          /* with the parameter WANTED */
    bool training;        /* with SEQ_STARTS, LABELS and TRAINING, all 0 */
} test_case_shape;

typedef struct test_case {
    tern_graph graph;
    tern_rng *rng;
    uint8_t *params;                        /* of all parameters, written before each run */
    uint8_t *initial[TEST_CASE_MAX_VALUES]; /* what a value holds before each run; NULL: poison (NaN as floats) */
    tern_weight *weights[TEST_CASE_MAX_VALUES];
    uint32_t head_dim; /* of its caches */
} test_case;

/* What the values held after a run. */
typedef struct test_results {
    uint8_t *bytes[TEST_CASE_MAX_VALUES]; /* NULL for weights and constants; of a parameter: its own bytes */
} test_results;

/* Parameters are there already: ids 0, positions 0, 1, ..., sequences 0, outputs 0, 1, ..., pages 0, 1, ... row by row.
 */
void test_case_open(test_case *c, tern_rng *rng, const test_case_shape *shape);
void test_case_close(test_case *c);

uint32_t *test_case_param(test_case *c, tern_param which);
/* The whole parameter as an input of an op. */
tern_view test_case_param_view(const test_case *c, tern_param which);

/* f32 rows that an op reads; they lie with the other ones in one buffer. */
tern_view test_case_rows(test_case *c, const char *name, tern_rows rows, uint32_t cols, test_fill fill);
/* int8 rows: random values quantised, or, at random, all -128, all 127 or both in turn. */
tern_view test_case_q8(test_case *c, const char *name, tern_rows rows, uint32_t cols);
/* Rows that an op makes. */
tern_view test_case_output(test_case *c, const char *name, tern_rows rows, tern_dtype dtype, uint32_t cols);
/* Rows between two ops. */
tern_view test_case_activation(test_case *c, const char *name, tern_rows rows, tern_dtype dtype, uint32_t cols);
/* Random weights in an encoding, by its name; ternary ones at random all +1 or all -1 as well, with a scale in `scale`
 * of the weight. */
tern_view test_case_weight(test_case *c, const char *encoding, uint32_t rows, uint32_t cols);
/* One row of f32: a norm's norm_weight. */
tern_view test_case_norm_weight(test_case *c, uint32_t cols);
/* K or V of n_pages pages, f16 or f32, ordinary random values. */
tern_view test_case_cache(test_case *c, const char *name, tern_dtype dtype, uint32_t n_pages, uint32_t n_kv_heads,
                          uint32_t head_dim);
/* A state of n_rows rows (tern_value_kind), compared in full; of V the squares of the fill. */
tern_view test_case_state(test_case *c, const char *name, tern_state state, tern_dtype dtype, uint32_t n_rows,
                          uint32_t cols, test_fill fill);
/* RECURRENT, n_rows states, ordinary random values. */
tern_view test_case_recurrent(test_case *c, const char *name, uint32_t n_rows, uint32_t cols);
/* cos and sin of random angles for every position; also the graph's. */
tern_view test_case_rope_table(test_case *c, uint32_t head_dim);

/* What a value of rows holds before each run, to be changed. */
float *test_case_floats(test_case *c, tern_view view);
tern_weight *test_case_weight_of(test_case *c, tern_view view);
/* A run of columns. */
tern_view test_case_columns(tern_view view, uint32_t first_col, uint32_t cols);

/* Adds an op; what is optional of it is there where it has columns; `layer` is 0. */
void test_case_add(test_case *c, tern_op op);

/* Runs a step of n_tokens and n_outputs on fresh buffers, n_steps times in one run. Fails the test on any error. */
void test_case_run(test_case *c, tern_backend *backend, uint32_t n_tokens, uint32_t n_outputs, uint32_t n_steps,
                   test_results *results);
void test_results_free(test_results *results);
/* Floats of row t of a value. */
const float *test_results_row(const test_case *c, const test_results *results, tern_view view, uint32_t t);

typedef tern_tolerance test_tolerance;

/* Runs the case on `backend` and on the CPU and compares: all rows of the step of every value, every element of the
 * caches, and the parameters. What lies beyond the step's rows must be as before the run. Fails the test with value,
 * row, column and both numbers. NaN and infinities match nothing but themselves. */
void test_case_compare(test_case *c, tern_backend *backend, uint32_t n_tokens, uint32_t n_outputs,
                       test_tolerance tolerance);

/* The comparison, where the backend has all ops of the case; it refuses others by their names. */
void test_case_compare_if_supported(test_case *c, tern_backend *backend, uint32_t n_tokens, test_tolerance tolerance);

/* Its parts, which return what is wrong (static storage), or NULL: all values of two runs; the first n_rows rows of a
 * value (f32 or Q8); all bytes after them. */
const char *test_case_difference(const test_case *c, const uint32_t counts[2], const test_results *got,
                                 const test_results *want, test_tolerance tolerance);
const char *test_case_difference_of_rows(const test_case *c, uint32_t value, uint32_t n_rows, const test_results *got,
                                         const test_results *want, test_tolerance tolerance);
const char *test_case_touched(const test_case *c, uint32_t value, uint32_t n_rows, const test_results *got);
/* Whether `got` is within the tolerance of `want`; row_most is the largest finite magnitude of the row. */
bool test_near(float got, float want, double row_most, test_tolerance tolerance);

/* Shared by op_case*.c: bytes that are no number as floats. */
void test_poison(void *bytes, size_t n);

#endif
