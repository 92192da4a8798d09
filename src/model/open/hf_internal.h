/* Inside the opening of a Hugging Face folder: one tensor on its way. */
#ifndef TERN_MODEL_OPEN_HF_INTERNAL_H
#define TERN_MODEL_OPEN_HF_INTERNAL_H

#include "model/model_internal.h"

/* The state of adding one tensor. */
typedef struct tern_hf__source {
    tern_model *model;
    tern_hf_layout layout;
    tern_role role;
    uint32_t layer;
    const tern_st_tensor *tensor;
    tern_weight *weight;
    uint64_t lsb_stride; /* of packed codes: bytes of a row with four neighbours in a byte; 0: four rows in a byte */
    const tern_joint *joint; /* what the tensor is; NULL: the role's own */
} tern_hf__source;

/* NULL for integers. */
const tern_encoding *tern_hf__float_encoding(tern_st_dtype dtype);
/* Rows and columns of a tensor of one or two dimensions; more have the product of all but the last as rows. */
void tern_hf__shape(const tern_st_tensor *t, uint64_t *rows, uint64_t *cols);
/* The tensor "<name>_scale", or NULL. */
const tern_st_tensor *tern_hf__scale_tensor(const tern_hf__source *s);
/* A matrix of floats, made ternary. Errors: MALFORMED (a value that is not finite), OUT_OF_MEMORY. */
tern_status tern_hf__add_master(const tern_hf__source *s, tern_error *err);
/* A matrix of packed codes with its scales. Errors: UNSUPPORTED, MALFORMED, OUT_OF_MEMORY. */
tern_status tern_hf__add_uint8(tern_hf__source *s, tern_error *err);
/* A role of all experts: their tensors, one after the other. Errors: MALFORMED (a tensor is missing, or has another
 * shape), UNSUPPORTED, OUT_OF_MEMORY. */
tern_status tern_hf__add_experts(tern_hf__source *s, tern_error *err);

#endif
