/* Writing a model as GGUF: what the plan of a tensor says to the code that converts it. */
#ifndef TERN_MODEL_WRITE_EXPORT_INTERNAL_H
#define TERN_MODEL_WRITE_EXPORT_INTERNAL_H

#include "model/model_internal.h"

/* How one tensor will be stored. */
typedef struct tern_export_plan {
    const tern_weight *weight;
    const tern_encoding *encoding, *asked; /* the same, or `asked` does not fit the columns */
    uint32_t permuted_heads; /* of Q, K and their biases, whose rows go from split halves to adjacent pairs; else 0 */
    tern_head_order heads;   /* of the layers that recur */
    bool joined;             /* stored in one tensor with others */
    bool ternarise;          /* a dense weight into a ternary encoding */
    float *signs;        /* of a weight whose numbers are ternary already: [rows] scales; tern_export__drop frees it */
    bool one_sign_scale; /* they are all the same */
    float scale;         /* the weight's; not known yet when `ternarise` into an encoding with a tail */
    uint32_t rsr_rows;   /* rows of a block of the RSR section beside it; 0: it gets none */
    tern_pool *pool;     /* encodes the tensor and sorts that section */
    uint32_t n_scales;   /* values in the tensor of scales beside this one, its own place having 1; 0: there is none */
    uint32_t n_experts;  /* of whose matrices the rows are, one after the other; 1: none */
    float *importance;   /* [n_experts][cols] of a matrix that is encoded anew and has one, or NULL; tern_export__drop
                          * frees it */
    bool unweighted;     /* it is encoded anew and the imatrix has no entry for it */
    uint32_t n_exact;    /* scales that metadata hold exactly, its own place having them rounded; 0: none */
} tern_export_plan;

/* Errors: INVALID_ARGUMENT (the encoding does not fit the role or the shape), UNSUPPORTED (not trained for it). Each
 * names the tensor. The weight is looked at, its data only where its scale is not known yet. */
tern_status tern_export__plan(const tern_config *config, const tern_export_options *options, tern_role role,
                              uint32_t layer, const tern_weight *weight, tern_export_plan *plan, tern_error *err);
/* Fills in importance and unweighted of a plan whose encoding is there. Errors: those of tern_imatrix_mean, prefixed.
 */
tern_status tern_export__find_importance(const tern_export_options *options, tern_role role, uint32_t layer,
                                         tern_export_plan *plan, tern_error *err);
/* llama.cpp's keys about the imatrix that a file was made with. */
tern_status tern_export__imatrix(const struct tern_imatrix *imatrix, tern_gguf_writer *w, tern_error *err);
/* Frees what a plan owns. */
void tern_export__drop(tern_export_plan *plan);
/* Adds what is to be said of one tensor. */
void tern_export__note(tern_export_report *report, const tern_export_plan *plan);
/* Bits 1 << TERN_OWN_... of the architecture. */
uint32_t tern_export__own_architecture(const tern_config *config);
/* Writes the tensor's data, then those of its tensor of scales and of its RSR section. */
tern_status tern_export__write(const tern_export_plan *plan, tern_gguf_writer *w, tern_error *err);

/* Where row `row` of the output comes from: another row where heads are permuted. */
uint32_t tern_export__source_row(const tern_export_plan *plan, uint32_t row);
/* The scale that the ternarised weight will have. Errors: OUT_OF_MEMORY, MALFORMED (it is not finite). */
tern_status tern_export__ternarised_scale(const tern_export_plan *plan, float *scale, tern_error *err);

/* Fills in `signs` where each row of a dense weight has one magnitude beside 0; where only each block of q2_0 has, that
 * is the encoding (regroup.c). Errors: OUT_OF_MEMORY, those of decoding. */
tern_status tern_export__find_signs(tern_export_plan *plan, tern_error *err);
/* The codes of n such numbers. */
void tern_export__take_signs(const float *values, size_t n, int8_t *codes);
/* Whether rows have scales of their own. */
bool tern_export__by_row(const tern_export_plan *plan);

/* Fills in scale, n_scales and n_exact of a plan for a ternary encoding. Errors: as ternarised_scale. */
tern_status tern_export__plan_scales(tern_export_plan *plan, tern_error *err);
/* That of an output row. */
float tern_export__scale(const tern_export_plan *plan, uint32_t row);
/* The data of the tensor of scales, if the plan has one; `scale` is the weight's where rows have none of their own. */
tern_status tern_export__write_scales(const tern_export_plan *plan, float scale, tern_gguf_writer *w, tern_error *err);

/* The exact scales of a file, gathered while its tensors are listed. Zero-initialised is empty. */
typedef struct tern_export_exact {
    struct {
        char text[TERN_MODEL__NAME_BYTES];
    } * names;
    size_t n, cap;
    tern_buf counts, values; /* u32 and f32, little-endian */
} tern_export_exact;

/* Those of one plan; nothing where it has none. */
tern_status tern_export_exact_add(tern_export_exact *exact, const tern_export_plan *plan, const char *name,
                                  tern_error *err);
/* Three arrays of metadata (TERN_MODEL__EXACT_TENSORS, ...), or nothing when there are none. */
tern_status tern_export_exact_write(const tern_export_exact *exact, tern_gguf_writer *w, tern_error *err);
void tern_export_exact_deinit(tern_export_exact *exact);

/* The codes [rows][cols] of a tensor that keeps ternary ones or gets them; the caller's to tern_free. */
tern_status tern_export__codes(const tern_export_plan *plan, int8_t **codes, tern_error *err);
/* Adds the section's tensor; writes its data. origin: tern_rsr_origin of the tensor's data. */
tern_status tern_export__rsr_tensor(const tern_export_plan *plan, const char *weight_name, tern_gguf_writer *w,
                                    tern_error *err);
tern_status tern_export__rsr_write(const tern_export_plan *plan, const int8_t *codes, uint64_t origin,
                                   tern_gguf_writer *w, tern_error *err);

/* general.file_type of what was asked for; where nothing was, of layers in `kept`. */
uint32_t tern_export__file_type(const tern_export_options *options, const tern_encoding *kept);
/* All metadata that a configuration gives, general.* included. */
tern_status tern_export__config(const tern_config *config, uint32_t file_type, tern_gguf_writer *w, tern_error *err);
/* Name and shape of a role's tensor; `joined`: of the one that it is stored in with others, with the first of them. */
tern_status tern_export__tensor(tern_gguf_writer *w, tern_role role, uint32_t layer, const tern_config *config,
                                const tern_encoding *e, bool joined, tern_error *err);

#endif
