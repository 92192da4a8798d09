/* How each tensor of a model is to be stored in a GGUF file. */
#include "base/half.h"
#include "model/export_internal.h"
#include "quant/rsr.h"

static const tern_encoding *target_of(const tern_export_options *o, tern_role role, const tern_weight *w)
{
    switch (tern_role__kind(role)) {
    case TERN_KIND_L: return o->linear ? o->linear : w->encoding;
    case TERN_KIND_T: return o->head ? o->head : w->encoding;
    default: return tern_encoding_find(TERN_ENC_F32);
    }
}

static tern_status check_target(const tern_export_options *o, tern_role role, const tern_weight *w,
                                const tern_encoding *e, tern_error *err)
{
    size_t bytes;
    if (tern_role__kind(role) == TERN_KIND_T && e->ternary)
        return tern_fail(err, TERN_INVALID_ARGUMENT, "%s: %s asked for, an encoding that is not ternary expected",
                         w->name, e->name);
    if (e->ternary && !w->encoding->ternary && !o->force)
        return tern_fail(err, TERN_UNSUPPORTED, "%s: %s weights into %s: the model was not trained for it", w->name,
                         w->encoding->name, e->name);
    if (tern_encoding_bytes(e, w->rows, w->cols, &bytes, err) == TERN_OK) return TERN_OK;
    tern_error why = err ? *err : (tern_error){0};
    return tern_fail(err, why.code, "%s: %s; %s takes any shape", w->name, why.message, e->ternary ? "t160" : "f16");
}

static void plan_scale(tern_export_plan *p)
{
    const tern_weight *w = p->weight;
    bool blocks = p->encoding->tail_bytes == 0;
    p->scale = w->row_scales ? 1.0f : w->scale;
    if (w->row_scales) p->n_scales = w->rows;
    else if (blocks && (p->ternarise || tern_f16_to_f32(tern_f32_to_f16(w->scale)) != w->scale)) p->n_scales = 1;
    if (p->n_scales) p->scale = 1.0f;
}

tern_status tern_export__plan(const tern_config *config, const tern_export_options *options, tern_role role,
                              const tern_weight *weight, tern_export_plan *plan, tern_error *err)
{
    const tern_config *c = config;
    const tern_weight *w = weight;
    tern_export_plan p = {.weight = w, .encoding = target_of(options, role, w)};
    TERN_TRY(check_target(options, role, w, p.encoding, err));
    p.ternarise = p.encoding->ternary && !w->encoding->ternary;
    if (p.encoding->ternary) plan_scale(&p);
    bool permute = tern_family__find(c->architecture)->rope_adjacent && !c->rope_adjacent;
    if (permute && role == TERN_ROLE_ATTN_Q) p.permuted_heads = c->n_heads;
    if (permute && role == TERN_ROLE_ATTN_K) p.permuted_heads = c->n_kv_heads;
    if (options->rsr && p.encoding->ternary)
        p.rsr_rows = options->rsr_rows ? options->rsr_rows : tern_rsr_default_k(w->cols);
    *plan = p;
    return TERN_OK;
}
