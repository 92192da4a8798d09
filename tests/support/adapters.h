/* Adapters made up for a test. */
#ifndef TERN_TESTS_SUPPORT_ADAPTERS_H
#define TERN_TESTS_SUPPORT_ADAPTERS_H

#include "infer/engine/lora.h"

/* An adapter beside every linear layer of the model, its experts too, of numbers that follow from the seed; with
 * `coarse` such as bf16 holds. Its scale is 2, and B A about a tenth of a weight. The caller's to close. */
tern_adapter *test_adapter(const tern_model *model, uint32_t rank, uint64_t seed, bool coarse);
/* The same on an engine. */
tern_lora *test_lora(tern_engine *engine, uint32_t rank, uint64_t seed, bool coarse);
/* The adapter of these files on an engine; fails the test on error. */
tern_lora *test_lora_load(tern_engine *engine, const char *path);

#endif
