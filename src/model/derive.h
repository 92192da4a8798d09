/* A model with other weights: what training has made of it. */
#ifndef TERN_MODEL_DERIVE_H
#define TERN_MODEL_DERIVE_H

#include "model/write/hf.h"

/* Which weights are others, and how they are made. */
typedef struct tern_derivation {
    bool (*has)(const void *context, tern_role role, uint32_t layer); /* whether `source` has the weight; NULL: all */
    const void *context;
    const tern_master_source *source; /* NULL: no weight is another */
    float threshold; /* of masters that become ternary. 0: absmean, round(w / scale); else +-1 where |w| > it * scale */
    bool all_ternary; /* linear layers that `source` has become ternary, and all their inputs int8 */
    bool (*progress)(void *context, float done); /* false: CANCELLED; may be NULL */
    void *progress_context;
} tern_derivation;

/* The model with these weights in memory of its own: ternary ones ternarised, other matrices F32 where they were that
 * and else BF16. The rest, and the tokenizer, are those of `base`, which must outlive the derived model. Close it.
 * Takes four bytes more for each element of the largest matrix that is made. Errors: INVALID_ARGUMENT (a value that is
 * not finite, with the tensor), OUT_OF_MEMORY, CANCELLED, those of the source. */
tern_status tern_model_derive(tern_model **model, const tern_model *base, const tern_derivation *how, tern_error *err);

/* Masters for all weights of `base`: those of `how` where it has them, else the base's own; of ternary weights that are
 * only codes, larger ones, so that their mean magnitude is their scale. For tern_hf_write; both must outlive the
 * source, which one thread at a time may ask. */
typedef struct tern_derived_masters {
    const tern_model *base;
    const tern_derivation *how;
    /* The last weight that was read, and the factor of its codes: rows are read slice by slice. */
    const tern_weight *weight;
    float growth;
} tern_derived_masters;

tern_master_source tern_derived_source(tern_derived_masters *masters);

#endif
