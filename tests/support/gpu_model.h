/* Whole models on the GPU, compared with the CPU and with golden files.
 *
 * Integers are exact on a GPU and floats within a budget, so an activation that lies on a rounding boundary may become
 * another int8 than on the CPU. What the GPU computes must therefore be, within the budget, what the CPU computes with
 * a few such ties rounded the other way (support/flips.h), or without any. */
#ifndef TERN_TESTS_SUPPORT_GPU_MODEL_H
#define TERN_TESTS_SUPPORT_GPU_MODEL_H

#include "support/golden.h"

/* The model's last layers that run on the GPU; test_all_layers: the whole model, without the CPU. */
enum { test_all_layers = 1000 };

/* Opens an engine on the GPU. Where there is none the calling test is skipped, under CI=true failed. `how`: all but the
 * backend; NULL: the defaults. */
tern_engine *test_gpu_engine(const char *path, uint32_t gpu_layers, const tern_engine_params *how);

/* One model on both. */
typedef struct test_pair {
    tern_engine *gpu_engine, *cpu_engine;
    tern_session *gpu, *cpu; /* f32 cache, all logits, hidden states */
    double max_rms;          /* the budget: fixtures/README */
    uint32_t n_flips;        /* ties that had to be flipped so far */
    double worst;            /* relative rms error so far, ties flipped */
    const char *what;        /* for messages */
} test_pair;

void test_pair_open(test_pair *pair, const char *path, uint32_t gpu_layers, const tern_engine_params *how,
                    double max_rms);
/* Prints what was found. */
void test_pair_close(test_pair *pair);

/* Whether `got`, the GPU's logits of n tokens from position 0 on, are right: near the CPU's. Fails the test when not.
 * Returns the number of flips; the CPU's session keeps what matched. */
uint32_t test_pair_check(test_pair *pair, const int32_t *ids, uint32_t n, const float *got);
/* The same for every input of a golden file, evaluated in one step and (up to n_single of their tokens) one by one, and
 * against the golden numbers; hidden states; the greedy text where the file has it. */
void test_pair_check_golden(test_pair *pair, const char *golden_path, uint32_t n_single);

#endif
