/* The exact scales of ternary weights whose blocks have room for an f16 alone (tq1_0, tq2_0): metadata of the file, so
 * that other programs, which count tensors, find no more of them than they know. */
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/half.h"
#include "base/map.h"
#include "format/gguf.h"
#include "model/model_internal.h"

/* The three arrays, and where the values of each tensor begin. */
typedef struct table {
    const tern_gguf_kv *names, *counts, *values;
    uint64_t *starts; /* [names + 1] */
    tern_map map;     /* name to its place */
} table;

static tern_status read_counts(table *t, tern_error *err)
{
    uint64_t at = 0;
    for (uint64_t i = 0; i < t->names->count; i++) {
        t->starts[i] = at;
        at += tern_load_u32(t->counts->value.data + i * sizeof(uint32_t));
    }
    t->starts[t->names->count] = at;
    if (at == t->values->count) return TERN_OK;
    return tern_fail(err, TERN_MALFORMED, TERN_MODEL__EXACT_VALUES ": %llu values found, %llu expected",
                     (unsigned long long)t->values->count, (unsigned long long)at);
}

static tern_status read_names(table *t, tern_error *err)
{
    tern_cursor c = tern_cursor_open(t->names->value.data, t->names->value.size);
    for (uint32_t i = 0; i < t->names->count; i++) {
        bool added;
        TERN_TRY(tern_map_add(&t->map, tern_gguf_next_string(&c), i, &added, err));
        if (!added) return tern_fail(err, TERN_MALFORMED, TERN_MODEL__EXACT_TENSORS ": a name found twice at %u", i);
    }
    return TERN_OK;
}

static tern_status read_table(table *t, const tern_gguf *g, tern_error *err)
{
    TERN_TRY(tern_gguf_get_array(g, TERN_MODEL__EXACT_TENSORS, TERN_GGUF_STRING, &t->names, err));
    TERN_TRY(tern_gguf_get_array(g, TERN_MODEL__EXACT_COUNTS, TERN_GGUF_U32, &t->counts, err));
    TERN_TRY(tern_gguf_get_array(g, TERN_MODEL__EXACT_VALUES, TERN_GGUF_F32, &t->values, err));
    if (t->counts->count != t->names->count)
        return tern_fail(err, TERN_MALFORMED, TERN_MODEL__EXACT_COUNTS ": %llu values found, %llu expected",
                         (unsigned long long)t->counts->count, (unsigned long long)t->names->count);
    t->starts = tern_calloc(tern_size_of(t->names->count) + 1, sizeof *t->starts);
    if (!t->starts) return tern_fail_alloc(err, tern_size_of(t->names->count) * sizeof *t->starts);
    TERN_TRY(read_counts(t, err));
    return read_names(t, err);
}

/* A copy, since the bytes of a header that comes first may go. */
static tern_status copy_values(tern_model *model, const table *t, const float **values, tern_error *err)
{
    void *storage;
    TERN_TRY(tern_model__own(model, tern_size_of(t->values->count) * sizeof(float), &storage, err));
    float *out = storage;
    for (uint64_t i = 0; i < t->values->count; i++) {
        out[i] = tern_load_f32(t->values->value.data + i * sizeof(float));
        if (!(out[i] >= 0 && isfinite(out[i])))
            return tern_fail(err, TERN_MALFORMED, TERN_MODEL__EXACT_VALUES ": %g found at %llu, a scale expected",
                             (double)out[i], (unsigned long long)i);
    }
    *values = out;
    return TERN_OK;
}

static tern_status give_out(tern_model *model, const table *t, tern_error *err)
{
    void *storage;
    const float *values = NULL;
    tern_role_walk walk = {0};
    TERN_TRY(copy_values(model, t, &values, err));
    TERN_TRY(
        tern_model__own(model, (size_t)model->config.n_layers * TERN_ROLE_COUNT * sizeof *model->exact, &storage, err));
    model->exact = storage;
    while (tern_role__next(&walk, &model->config)) {
        uint32_t i;
        char name[TERN_MODEL__NAME_BYTES];
        tern_role__gguf_name(&model->config, walk.role, walk.layer, name);
        if (!tern_map_find(&t->map, (tern_span){(const uint8_t *)name, strlen(name)}, &i)) continue;
        model->exact[(size_t)walk.layer * TERN_ROLE_COUNT + walk.role] =
            (tern_exact_scale){values + t->starts[i], t->starts[i + 1] - t->starts[i]};
    }
    return TERN_OK;
}

tern_status tern_model__read_exact_scales(tern_model *model, const tern_gguf *g, tern_error *err)
{
    table t = {0};
    if (!tern_gguf_find(g, TERN_MODEL__EXACT_TENSORS)) return TERN_OK;
    tern_status status;
    TERN_GOTO(read_table(&t, g, err));
    TERN_GOTO(give_out(model, &t, err));
fail:
    tern_map_deinit(&t.map);
    tern_free(t.starts);
    return status;
}

static tern_exact_scale exact_of(const tern_model *model, const tern_weight *w)
{
    return model->exact ? model->exact[w - model->weights] : (tern_exact_scale){0};
}

tern_status tern_model__check_exact_scales(const tern_model *model, const tern_weight *w, tern_error *err)
{
    const uint64_t n = exact_of(model, w).n;
    if (n <= 1 || n == w->rows) return TERN_OK;
    return tern_fail(err, TERN_MALFORMED,
                     TERN_MODEL__EXACT_COUNTS ": %llu values for %s found, 1 or one for each of %u rows expected",
                     (unsigned long long)n, w->name, w->rows);
}

void tern_model__refine_scales(const tern_model *model, const tern_weight *w, float *scales)
{
    const tern_exact_scale exact = exact_of(model, w);
    for (uint32_t r = 0; exact.n && r < w->rows; r++) {
        const float value = exact.values[exact.n == 1 ? 0 : r];
        if (tern_f16_to_f32(tern_f32_to_f16(value)) == scales[r]) scales[r] = value;
    }
}
