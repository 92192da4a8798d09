/* Small Hugging Face folders, written for tests. */
#ifndef TERN_TESTS_MODEL_HF_CASES_H
#define TERN_TESTS_MODEL_HF_CASES_H

#include <math.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/half.h"
#include "format/safetensors.h"
#include "model/support.h"

enum { N_VOCAB = 8, MAX_TENSORS = 32, ROOM = 1 << 16 };

#define BITNET                                                                                                         \
    "\"architectures\": [\"BitNetForCausalLM\"], \"hidden_act\": \"relu2\", \"vocab_size\": 8, "                       \
    "\"num_hidden_layers\": 1, "                                                                                       \
    "\"max_position_embeddings\": 64, \"tie_word_embeddings\": true, "

#define LLAMA                                                                                                          \
    "\"architectures\": [\"LlamaForCausalLM\"], \"hidden_act\": \"silu\", \"vocab_size\": 8, \"num_hidden_layers\": "  \
    "1, "                                                                                                              \
    "\"max_position_embeddings\": 64, \"tie_word_embeddings\": true, "

#define MISTRAL                                                                                                        \
    "\"architectures\": [\"MistralForCausalLM\"], \"hidden_act\": \"silu\", \"vocab_size\": 8, "                       \
    "\"num_hidden_layers\": 1, \"max_position_embeddings\": 64, \"tie_word_embeddings\": true, "

#define SMALL                                                                                                          \
    "\"hidden_size\": 16, \"intermediate_size\": 16, "                                                                 \
    "\"num_attention_heads\": 2, \"num_key_value_heads\": 1"

#define PACKED(linear) ", \"quantization_config\": {\"quant_method\": \"bitnet\"" linear "}"

#define AUTO ", \"linear_class\": \"autobitlinear\", \"quantization_mode\": \"offline\""

/* A folder while it is made. */
typedef struct folder {
    uint32_t n_embd, n_ff, n_kv; /* n_kv: rows of K and V */
    bool packed, sub_norms, older_names;
    bool lsb;           /* packed as [rows][cols / 4], four neighbours in a byte */
    uint8_t first_byte; /* of packed q, unless 0 */
    uint32_t n_scales;
    const float *scale; /* NULL: 0.25 */
    tern_st_tensor tensors[MAX_TENSORS];
    char names[MAX_TENSORS][80];
    size_t n;
    uint8_t data[ROOM];
    size_t used;
} folder;

extern tern_error hf_err;

uint8_t *hf_add(folder *f, const char *name, tern_st_dtype dtype, uint32_t rows, uint32_t cols);

/* bf16 values 0.5, 1, ..., so that no two neighbours are the same. */
void hf_add_floats(folder *f, const char *name, uint32_t rows, uint32_t cols);

void hf_add_linear(folder *f, const char *name, uint32_t rows, uint32_t cols);

void hf_add_layer(folder *f);

const char *hf_write_folder(folder *f, const char *json);

tern_model *hf_open_folder(folder *f, const char *json);

const tern_weight *hf_q_of(const tern_model *model);

#endif
