/* Inside the writing of Hugging Face folders. */
#ifndef TERN_MODEL_WRITE_HF_INTERNAL_H
#define TERN_MODEL_WRITE_HF_INTERNAL_H

#include "format/safetensors.h"
#include "model/write/hf.h"

typedef struct tern_hf_tensor {
    tern_role role;
    uint32_t layer, rows, cols;
    uint32_t first;     /* the role's first row; of an expert's own tensor */
    uint32_t parts;     /* all experts, with rows of so many roles taking turns, this one and those after it; else 0 */
    bool transposed;    /* of such: [n_experts][cols][rows * parts] */
    bool mixed;         /* rows of two roles by head of keys (tern_role__mixed_row) */
    bool joins;         /* its rows follow those of the one before, in the same tensor */
    bool from_adjacent; /* rows are reordered from adjacent pairs to split halves */
    char name[TERN_ROLE_NAME_BYTES];
} tern_hf_tensor;

/* A tensor being written. */
typedef struct tern_hf__writing {
    const tern_config *config;
    const tern_master_source *source;
    const tern_hf_options *options;
    tern_safetensors_writer file;
    float *rows; /* of the tensor at hand: room for twice those that are taken at a time */
    uint16_t *half;
    uint64_t done, total; /* elements */
} tern_hf__writing;

/* Adds n of w->rows to the file, counts them, and reports progress. Errors: CANCELLED. */
tern_status tern_hf__put(tern_hf__writing *w, size_t n, tern_error *err);
/* The tensors of a role of all experts, at out, which has room for n_experts of them; their number. */
size_t tern_hf__list_experts(const tern_config *config, tern_role role, uint32_t layer, tern_hf_tensor *out);
/* A tensor that has parts. */
tern_status tern_hf__write_parts(tern_hf__writing *w, const tern_hf_tensor *t, tern_error *err);
/* Shape of a tensor as it is written; its number of dimensions. */
uint32_t tern_hf__dims(const tern_hf_tensor *t, const tern_config *config, uint64_t dims[3]);
/* config.json. */
tern_status tern_hf__write_config(const char *dir, const tern_config *config, const tern_tokenizer *tokenizer, bool f32,
                                  tern_error *err);

#endif
