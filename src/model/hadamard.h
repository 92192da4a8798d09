/* Weights that lie in a rotated basis, as Bonsai 2 has them: the input of such a matrix is multiplied by signs and
 * transformed in blocks (ops/ref/rotated/hadamard.h) before it is rounded to int8; rows of the embedding table are
 * transformed back. Source: PrismML's llama.cpp, prism.hadamard.* in src/llama-model.cpp. */
#ifndef TERN_MODEL_HADAMARD_H
#define TERN_MODEL_HADAMARD_H

#include "model/model.h"

typedef struct tern_gguf_writer tern_gguf_writer; /* format/gguf.h */

/* The signs of inputs of one width: [width], each 1 or -1. */
typedef struct tern_hadamard_signs {
    uint32_t width;
    const float *values;
} tern_hadamard_signs;

typedef struct tern_hadamard {
    uint32_t block;                   /* columns that are transformed together: a power of two that divides them all */
    const tern_hadamard_signs *signs; /* [n_widths]; 0: all signs are 1 */
    uint32_t n_widths;
    const bool *inputs; /* [n_layers][TERN_ROLE_COUNT], roles outside the layers in row 0: whose input is rotated */
    bool embedding;     /* rows of the embedding table are rotated */
    /* The heads in the input of ssm_out are to be in the order of their groups first: head h of n goes to place
     * h % n_groups * (n / n_groups) + h / n_groups. */
    bool grouped_heads;
    uint32_t n_inputs;        /* how many are rotated */
    struct tern_gguf_kv *kvs; /* the metadata as they were found */
    uint32_t n_kvs;
} tern_hadamard;

/* NULL: no weight of the model lies in a rotated basis. */
const tern_hadamard *tern_model_hadamard(const tern_model *model);
/* Whether the input of this role's matrix is rotated; false for NULL. */
bool tern_hadamard_rotates(const tern_hadamard *h, tern_role role, uint32_t layer);
/* The signs of rows of this width; NULL: all are 1. */
const float *tern_hadamard_signs_of(const tern_hadamard *h, uint32_t width);
/* For what takes every input as it is. Errors: UNSUPPORTED, unless h is NULL. */
tern_status tern_hadamard_refuse(const tern_hadamard *h, tern_error *err);
/* The metadata, as they were found; nothing for NULL. */
tern_status tern_hadamard_write(const tern_hadamard *h, tern_gguf_writer *w, tern_error *err);

#endif
