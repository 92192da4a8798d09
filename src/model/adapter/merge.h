/* Adapters merged into the weights of a model, and what that changed. */
#ifndef TERN_MODEL_ADAPTER_MERGE_H
#define TERN_MODEL_ADAPTER_MERGE_H

#include "model/adapter/adapter.h"
#include "model/derive.h"

typedef struct tern_merge_item {
    const tern_adapter *adapter; /* opened with the base model */
    float scale;                 /* times the adapter's own */
} tern_merge_item;

/* W + sum of scale_i B_i A_i: what a model is derived from, with the merge as the context of `has` and of the source. W
 * are the masters (tern_model_master), with tern_derived_source's rule for weights that are only codes: the mean
 * magnitude of what is merged into is the scale of the codes. All borrowed. */
typedef struct tern_merge {
    const tern_model *base;
    const tern_merge_item *items;
    size_t n_items;
    bool bf16;                    /* what is merged is rounded to bf16, as a folder keeps it (tern_hf_write) */
    tern_derived_masters masters; /* of the base; set by tern_merge_source */
} tern_merge;

bool tern_merge_has(const void *merge, tern_role role, uint32_t layer);
tern_master_source tern_merge_source(tern_merge *merge);

/* The effect of a merge on one weight, as the model computes with it. Norms are Frobenius'. */
typedef struct tern_merge_change {
    tern_role role;
    uint32_t layer;
    bool ternary;
    uint64_t n, n_changed;           /* elements; codes that are others, of dense weights values */
    float scale_before, scale_after; /* ternary */
    double weight;                   /* |W|, of the values before */
    double wanted, achieved;         /* |sum of s B A|; |W' - W| */
    double kept;                     /* cosine between the two: 1, all of the adapter is in the weights; 0, nothing */
} tern_merge_change;

/* Looks at one weight of the model that was derived by this merge. Errors: INVALID_ARGUMENT (no adapter has it),
 * OUT_OF_MEMORY. */
tern_status tern_merge_look(const tern_merge *merge, const tern_model *merged, tern_role role, uint32_t layer,
                            tern_merge_change *change, tern_error *err);

#endif
