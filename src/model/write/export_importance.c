/* The importance of the columns of a matrix that is encoded again. */
#include <string.h>

#include "base/alloc.h"
#include "format/gguf.h"
#include "model/imatrix.h"
#include "model/write/export_internal.h"
#include "quant/encoding.h"

void tern_export__drop(tern_export_plan *plan)
{
    tern_free(plan->importance);
    tern_free(plan->signs);
    plan->signs = NULL;
    plan->importance = NULL;
}

/* Embeddings are not multiplied: they have no importance. */
tern_status tern_export__find_importance(const tern_export_options *o, tern_role role, uint32_t layer,
                                         tern_export_plan *p, tern_error *err)
{
    char name[TERN_MODEL__NAME_BYTES];
    bool found;
    if (!o->imatrix || p->encoding == p->weight->encoding || !p->encoding->pack_weighted) return TERN_OK;
    if (role == TERN_ROLE_TOKEN_EMBD) return TERN_OK;
    const uint32_t cols = p->weight->cols;
    tern_role__gguf_name(NULL, role, layer, name);
    p->importance = tern_calloc((size_t)p->n_experts * cols, sizeof *p->importance);
    if (!p->importance) return tern_fail_alloc(err, (size_t)p->n_experts * cols * sizeof *p->importance);
    const tern_status status = tern_imatrix_mean(o->imatrix, name, p->n_experts, cols, p->importance, &found, err);
    if (status != TERN_OK || !found) tern_export__drop(p);
    p->unweighted = status == TERN_OK && !found;
    return status == TERN_OK ? TERN_OK : tern_error_prefix(err, "imatrix");
}

/* llama.cpp's keys. */
tern_status tern_export__imatrix(const tern_imatrix *m, tern_gguf_writer *w, tern_error *err)
{
    const char *name = tern_imatrix_name(m);
    TERN_TRY(tern_gguf_add_string(w, "quantize.imatrix.file", name, strlen(name), err));
    TERN_TRY(tern_gguf_add_u32(w, "quantize.imatrix.entries_count", tern_imatrix_entries(m), err));
    return tern_gguf_add_u32(w, "quantize.imatrix.chunks_count", tern_imatrix_chunks(m), err);
}
