/* Writing a model as GGUF: what the plan of a tensor says to the code that converts it. */
#ifndef TERN_MODEL_EXPORT_INTERNAL_H
#define TERN_MODEL_EXPORT_INTERNAL_H

#include "base/pool.h"
#include "model/model_internal.h"

/* How one tensor will be stored. */
typedef struct tern_export_plan {
    const tern_weight *weight;
    const tern_encoding *encoding;
    uint32_t permuted_heads; /* of a Q or K matrix whose rows go from split halves to adjacent pairs; else 0 */
    bool ternarise;          /* a dense weight into a ternary encoding */
    float scale;             /* for the encoding's own place; not known yet when `ternarise` */
    uint32_t rsr_rows;       /* rows of a block of the RSR section beside it; 0: it gets none */
    tern_pool *pool;         /* sorts it */
    uint32_t n_scales;       /* values in the tensor of scales beside this one; 0: there is none */
} tern_export_plan;

/* Errors: INVALID_ARGUMENT (the encoding does not fit the role or the shape), UNSUPPORTED (not trained for it). Each
 * names the tensor. The weight is looked at, not its data. */
tern_status tern_export__plan(const tern_config *config, const tern_export_options *options, tern_role role,
                              const tern_weight *weight, tern_export_plan *plan, tern_error *err);
/* Writes the tensor's data, then those of its tensor of scales and of its RSR section. */
tern_status tern_export__write(const tern_export_plan *plan, tern_gguf_writer *w, tern_error *err);

/* The codes [rows][cols] of a tensor that keeps ternary ones or gets them; the caller's to tern_free. */
tern_status tern_export__codes(const tern_export_plan *plan, int8_t **codes, tern_error *err);
/* Adds the section's tensor; writes its data. origin: tern_rsr_origin of the tensor's data. */
tern_status tern_export__rsr_tensor(const tern_export_plan *plan, const char *weight_name, tern_gguf_writer *w,
                                    tern_error *err);
tern_status tern_export__rsr_write(const tern_export_plan *plan, const int8_t *codes, uint64_t origin,
                                   tern_gguf_writer *w, tern_error *err);

/* general.file_type for layers in this encoding. */
uint32_t tern_export__file_type(const tern_encoding *e);
/* All metadata that a configuration gives, general.* included. */
tern_status tern_export__config(const tern_config *config, const tern_encoding *linear, tern_gguf_writer *w,
                                tern_error *err);
/* Name and shape of a role's tensor. */
tern_status tern_export__tensor(tern_gguf_writer *w, tern_role role, uint32_t layer, const tern_config *config,
                                const tern_encoding *e, tern_error *err);

#endif
