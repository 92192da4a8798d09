/* What the tests of ternary layers on GPUs share. */
#ifndef TERN_TESTS_BACKEND_GPU_LINEAR_TERNARY_CASES_H
#define TERN_TESTS_BACKEND_GPU_LINEAR_TERNARY_CASES_H

#include <math.h>

#include "backend/gpu/pipelines.h"
#include "ops/operands.h"
#include "support/op_case.h"
#include "support/simulated.h"
#include "support/test.h"

typedef struct layer {
    const char *encoding;
    uint32_t cols, n_parts, rows[3];
    bool gated, residual, in_place, row_scales, f32, norm;
    tern_activation activation;
    uint32_t biases; /* a bit for each part that has one */
} layer;

enum { LINEAR_TERNARY_LAYERS = 17, LINEAR_TERNARY_IN_GROUPS = 8 };

/* Shapes of many kinds; those that kernels of whole groups of rows take. */
extern const layer linear_ternary_layers[LINEAR_TERNARY_LAYERS], linear_ternary_in_groups[LINEAR_TERNARY_IN_GROUPS];

typedef struct built {
    test_case c;
    tern_view norm_weight, quantized, x, out;
} built;

/* The device as it is, without subgroups and with the least of everything, and with bindings so small that weights come
 * in slices; the simulated GPU with subgroups of 32 and 64; with cooperative matrices, and with their large tiles. */
enum { WHOLE, LEAST, SLICED, SIMULATED_32, SIMULATED_64, SIMULATED_MATRICES, SIMULATED_LARGE_TILES, N_DEVICES };

extern tern_backend *linear_ternary_devices[N_DEVICES];

tern_backend *linear_ternary_simulated(uint32_t which);

tern_backend *linear_ternary_device(uint32_t which);

int linear_ternary_close_devices(void **state);

void linear_ternary_add_row_scales(test_case *c, tern_view view);

void linear_ternary_build(built *b, tern_rng *rng, const layer *l, uint32_t max_tokens);

void linear_ternary_close_built(built *b);

/* Two roundings of the product with the scale, one of the sum; exp of the device. */
test_tolerance linear_ternary_tolerance_of(const layer *l);

void linear_ternary_check_layer(tern_rng *rng, const layer *l, uint32_t which, uint32_t max_tokens, uint32_t n_tokens);

/* On the CPU as two ops; then the second with the norm of the first. */
void linear_ternary_run_with_norm(built *b, uint32_t which, test_results *got, test_results *want);

/* The op's norm joins it. On the CPU it stays an op of its own. Where an int8 value lies between two, the device may
 * round the other way: then every result of the row is off by a little; mostly none is. Returns whether all were as on
 * the CPU. */
bool linear_ternary_check_norm(tern_rng *rng, const layer *l, uint32_t which);

void linear_ternary_with_their_norm(const layer *list, size_t n_layers, const uint32_t which[], size_t n_devices,
                                    uint32_t repeats);

#endif
