/* The RSR section of a ternary weight: sorted column patterns beside the packed weight, so that serving need not sort.
 */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "format/gguf.h"
#include "model/export_internal.h"
#include "quant/rsr.h"

typedef struct matrix {
    const int8_t *codes;
    size_t cols;
} matrix;

static tern_status read_codes(void *context, uint32_t first, uint32_t n, int8_t *codes, tern_error *err)
{
    (void)err;
    const matrix *m = context;
    memcpy(codes, m->codes + first * m->cols, n * m->cols);
    return TERN_OK;
}

static tern_status build(const tern_export_plan *p, const int8_t *codes, uint64_t origin, tern_rsr_slices *out,
                         tern_error *err)
{
    const tern_weight *w = p->weight;
    matrix m = {codes, w->cols};
    const tern_rsr_source source = {.read = read_codes, .context = &m, .rows = w->rows, .cols = w->cols};
    const tern_rsr_options options = {.k = p->rsr_rows, .pool = p->pool};
    if (tern_rsr_slices_build(out, &source, &options, origin, err) == TERN_OK) return TERN_OK;
    return tern_error_prefix(err, "%s", w->name);
}

tern_status tern_export__rsr_write(const tern_export_plan *p, const int8_t *codes, uint64_t origin,
                                   tern_gguf_writer *out, tern_error *err)
{
    tern_rsr_slices slices;
    TERN_TRY(build(p, codes, origin, &slices, err));
    const tern_status status = tern_gguf_writer_data(out, slices.bytes, slices.n_bytes, err);
    tern_rsr_slices_deinit(&slices);
    return status;
}

/* The section is sorted twice, here for its size alone: a file's header comes before its data. */
tern_status tern_export__rsr_tensor(const tern_export_plan *p, const char *weight_name, tern_gguf_writer *out,
                                    tern_error *err)
{
    char name[TERN_MODEL__NAME_BYTES + 8];
    tern_rsr_slices slices;
    int8_t *codes;
    TERN_TRY(tern_export__codes(p, &codes, err));
    tern_status status = build(p, codes, 0, &slices, err);
    tern_free(codes);
    if (status != TERN_OK) return status;
    const uint64_t dims[1] = {slices.n_bytes};
    tern_rsr_slices_deinit(&slices);
    tern_role__rsr_name(weight_name, name, sizeof name);
    return tern_gguf_add_tensor(out, name, TERN_MODEL__I8, dims, 1, err);
}
