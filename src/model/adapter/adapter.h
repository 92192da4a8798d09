/* LoRA adapters (Hu et al., 2021, arXiv:2106.09685): pairs of low-rank matrices beside the linear layers of a model,
 * read from PEFT folders and GGUF files and written as both. */
#ifndef TERN_MODEL_ADAPTER_ADAPTER_H
#define TERN_MODEL_ADAPTER_ADAPTER_H

#include "model/model.h"

typedef struct tern_buf tern_buf; /* tern/bytes.h */

enum { TERN_ADAPTER_MAX_RANK = 4096 };

/* The addend of one linear layer: y += scale * B (A x). Experts have a pair each, one after the other: expert e has
 * rows e * rank .. of A and rows e * out / n_experts .. of B. */
typedef struct tern_adapter_pair {
    uint32_t in, out;   /* columns and rows of the layer's weight, which is that of all experts */
    uint32_t n_experts; /* 1: none */
    float *a;           /* [n_experts][rank][in] */
    float *b;           /* [out][rank], rows in the order of the model's own (see tern_config.rope_adjacent) */
} tern_adapter_pair;

typedef struct tern_adapter_info {
    uint32_t rank;
    float alpha;   /* finite, not 0 */
    float dropout; /* 0 to 1, only kept: it acts in training */
    bool rslora;   /* scale = alpha / sqrt(rank) instead of alpha / rank */
    float scale;
    uint32_t n_layers; /* the model's; without a model one more than the highest found */
    uint32_t n_pairs;
    uint64_t parameters;
    const char *format;       /* "PEFT" or "GGUF" */
    const char *base;         /* what the file calls its base model; "" when it does not say */
    const char *architecture; /* the model's; without a model the file's GGUF word, "" when it does not say */
} tern_adapter_info;

typedef struct tern_adapter tern_adapter; /* immutable after opening; shared by threads */

/* Opens a GGUF adapter, or a PEFT folder (or the adapter_config.json or adapter_model.safetensors in it), F32, F16 or
 * BF16, or the package of either (model/package/package.h), which is checked. All values become f32 of our own: the
 * files may go. With a model every layer and shape is checked against it (it need not outlive the adapter); with NULL
 * the adapter is only described: pairs are as the file has them, and it cannot be written.
 *
 * Errors name the tensor or key, the value found and the value expected: MALFORMED (shapes, a missing half, values that
 * are not finite, targets without tensors); UNSUPPORTED (what is not plain LoRA of linear layers: DoRA, biases, whole
 * modules, ranks that differ; the package of a model); LIMIT, NOT_FOUND, IO, OUT_OF_MEMORY. */
tern_status tern_adapter_open(tern_adapter **adapter, const char *path, const tern_model *model, tern_error *err);
/* A file in memory; a path before its name does not count. */
typedef struct tern_adapter_file {
    const char *name;
    const void *data;
    size_t bytes;
} tern_adapter_file;

/* As above from one GGUF file, or both files of PEFT's. Errors: also INVALID_ARGUMENT (other numbers or names). */
tern_status tern_adapter_open_memory(tern_adapter **adapter, const tern_adapter_file *files, uint32_t n_files,
                                     const tern_model *model, tern_error *err);
/* An adapter in memory: pairs of zeros beside these weights, which the caller fills in through their pointers. The
 * rank, alpha, dropout, rslora and base of `info` count. Errors: INVALID_ARGUMENT (no pair, a role without a matrix),
 * MALFORMED and LIMIT (info), OUT_OF_MEMORY. */
typedef struct tern_adapter_layer {
    tern_role role;
    uint32_t layer;
} tern_adapter_layer;

tern_status tern_adapter_make(tern_adapter **adapter, const tern_model *model, const tern_adapter_info *info,
                              const tern_adapter_layer *targets, size_t n_targets, tern_error *err);
/* Safe on NULL. */
void tern_adapter_close(tern_adapter *adapter);

/* Lives as long as the adapter. */
const tern_adapter_info *tern_adapter_describe(const tern_adapter *adapter);
/* The pair of a linear layer; NULL where the adapter has none. */
const tern_adapter_pair *tern_adapter_find(const tern_adapter *adapter, tern_role role, uint32_t layer);
/* PEFT's word for a linear role, "q_proj"; of experts that for the matrix of a layer without, "gate_proj", and of the
 * expert of all tokens "shared_expert.gate_proj". NULL for the other roles. */
const char *tern_adapter_target(tern_role role);
/* Whether a name such as "gate_proj" means this role: PEFT's word for it, or the last part of the word. */
bool tern_adapter_targets(const char *word, tern_role role);

/* UNSUPPORTED where PEFT folders have no names for an adapter beside these layers: experts that are one tensor there,
 * and q, k, v and z of layers that recur, which Qwen3-Next has in one matrix. */
tern_status tern_adapter_check_peft(const tern_config *config, tern_role role, tern_error *err);

/* Write the adapter, F32. Each file appears whole or not at all; a PEFT folder is made where there is none and gets its
 * adapter_config.json last. Equal adapters give equal bytes. Errors: INVALID_ARGUMENT (opened without a model), IO,
 * OUT_OF_MEMORY. */
tern_status tern_adapter_write_peft(const tern_adapter *adapter, const char *dir, tern_error *err);
tern_status tern_adapter_write_gguf(const tern_adapter *adapter, const char *path, tern_error *err);
/* The bytes go to the end of a buffer, which a failure leaves as it was. */
tern_status tern_adapter_write_gguf_memory(const tern_adapter *adapter, tern_buf *out, tern_error *err);

#endif
