/* Adapters for tests, written piece by piece. */
#ifndef TERN_TESTS_MODEL_ADAPTER_CASES_H
#define TERN_TESTS_MODEL_ADAPTER_CASES_H

#include <math.h>
#include <sys/stat.h>

#include "base/file.h"
#include "format/gguf.h"
#include "format/safetensors.h"
#include "model/adapter/adapter.h"
#include "model/support.h"
#include "support/micro_model.h"

enum { MAX_TENSORS = 8, RANK = 2 };

extern tern_error adapter_err;

tern_adapter *adapter_open_adapter(const char *path, const tern_model *model);
/* All numbers and matrices of two adapters, to the bit. */
void adapter_assert_same(const tern_adapter *a, const tern_adapter *b);

/* ---- made-up adapters of the micro model: width 16, K 8 rows, rank 2 */

typedef struct folder {
    const char *config; /* all of adapter_config.json */
    tern_st_tensor tensors[MAX_TENSORS];
    char names[MAX_TENSORS][128];
    size_t n;
    float values[MAX_TENSORS][64];
} folder;

void adapter_add(folder *f, const char *name, uint32_t rows, uint32_t cols);

#define PLAIN "{\"peft_type\": \"LORA\", \"r\": 2, \"lora_alpha\": 3"

#define Q_A "base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight"

#define Q_B "base_model.model.model.layers.0.self_attn.q_proj.lora_B.weight"

folder adapter_sound(const char *config);

const char *adapter_write_made(folder *f);

tern_model *adapter_open_micro(const char *architecture, tern_buf *bytes);

#endif
