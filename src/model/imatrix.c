/* Reading and writing importance matrices. Source: llama.cpp's tools/imatrix/imatrix.cpp. */
#include "model/imatrix.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/map.h"
#include "format/gguf.h"
#include "model/model_internal.h"
#include "quant/encoding.h"

#define KEY_TYPE       "general.type"
#define TYPE           "imatrix"
#define KEY_DATASETS   "imatrix.datasets"
#define KEY_CHUNKS     "imatrix.chunk_count"
#define KEY_CHUNK_SIZE "imatrix.chunk_size"

enum { ENDING_BYTES = 16 };

/* ---- sums */

/* Tables and routers have no entry. */
static bool has_sums(tern_role role)
{
    return tern_role_is_matrix(role);
}

static size_t count_matrices(const tern_config *c)
{
    size_t n = 0;
    tern_role_walk walk = {0};
    while (tern_role__next(&walk, c)) n += has_sums(walk.role);
    return n;
}

static tern_status make_sums(tern_imatrix_sums *s, const tern_model *model, const tern_role_walk *at, tern_error *err)
{
    const tern_config *c = tern_model_config(model);
    tern_role__gguf_name(c, at->role, at->layer, s->name);
    s->weight = tern_model_weight(model, at->role, at->layer);
    s->cols = s->weight->cols;
    s->n_experts = tern_role__of_experts(at->role) ? c->n_experts : 1;
    const size_t n = (size_t)s->n_experts * s->cols;
    s->squares = tern_calloc(n, sizeof *s->squares);
    s->counts = tern_calloc(s->n_experts, sizeof *s->counts);
    return s->squares && s->counts ? TERN_OK : tern_fail_alloc(err, n * sizeof *s->squares);
}

tern_status tern_imatrix_sums_make(tern_imatrix_sums **out, size_t *n_out, const tern_model *model, tern_error *err)
{
    const tern_config *c = tern_model_config(model);
    const size_t n = count_matrices(c);
    tern_role_walk walk = {0};
    tern_imatrix_sums *sums = tern_calloc(n, sizeof *sums), *s = sums;
    if (!sums) return tern_fail_alloc(err, n * sizeof *sums);
    tern_status status = TERN_OK;
    while (status == TERN_OK && tern_role__next(&walk, c))
        if (has_sums(walk.role)) status = make_sums(s++, model, &walk, err);
    if (status == TERN_OK) *out = sums, *n_out = n;
    else tern_imatrix_sums_free(sums, n);
    return status;
}

void tern_imatrix_sums_free(tern_imatrix_sums *sums, size_t n)
{
    for (size_t i = 0; sums && i < n; i++) {
        tern_free(sums[i].squares);
        tern_free(sums[i].counts);
    }
    tern_free(sums);
}

/* ---- writing */

static tern_status add_about(tern_gguf_writer *w, const tern_imatrix_about *about, tern_error *err)
{
    const tern_span dataset = {(const uint8_t *)about->dataset, strlen(about->dataset)};
    TERN_TRY(tern_gguf_add_string(w, KEY_TYPE, TYPE, strlen(TYPE), err));
    TERN_TRY(tern_gguf_add_array(w, KEY_DATASETS, TERN_GGUF_STRING, &dataset, 1, err));
    TERN_TRY(tern_gguf_add_u32(w, KEY_CHUNKS, about->n_chunks, err));
    return tern_gguf_add_u32(w, KEY_CHUNK_SIZE, about->chunk_size, err);
}

static tern_status add_tensor(tern_gguf_writer *w, const tern_imatrix_sums *s, const char *ending, uint32_t cols,
                              tern_error *err)
{
    char name[TERN_ROLE_NAME_BYTES + ENDING_BYTES];
    const uint64_t dims[2] = {cols, s->n_experts};
    snprintf(name, sizeof name, "%s%s", s->name, ending);
    return tern_gguf_add_tensor(w, name, TERN_ENC_F32, dims, 2, err);
}

static tern_status put(tern_gguf_writer *w, double value, tern_error *err)
{
    uint8_t bytes[4];
    tern_store_f32(bytes, (float)value);
    return tern_gguf_writer_data(w, bytes, sizeof bytes, err);
}

static tern_status write_all(tern_gguf_writer *w, const tern_imatrix_sums *sums, size_t n,
                             const tern_imatrix_about *about, tern_error *err)
{
    TERN_TRY(add_about(w, about, err));
    for (size_t i = 0; i < n; i++) {
        TERN_TRY(add_tensor(w, &sums[i], ".in_sum2", sums[i].cols, err));
        TERN_TRY(add_tensor(w, &sums[i], ".counts", 1, err));
    }
    TERN_TRY(tern_gguf_writer_begin_data(w, err));
    for (size_t i = 0; i < n; i++) {
        const tern_imatrix_sums *one = &sums[i];
        for (size_t k = 0; k < (size_t)one->n_experts * one->cols; k++) TERN_TRY(put(w, one->squares[k], err));
        for (uint32_t e = 0; e < one->n_experts; e++) TERN_TRY(put(w, (double)one->counts[e], err));
    }
    return TERN_OK;
}

tern_status tern_imatrix_write(const char *path, const tern_imatrix_sums *sums, size_t n,
                               const tern_imatrix_about *about, tern_error *err)
{
    tern_gguf_writer *w;
    TERN_TRY(tern_gguf_writer_open(&w, path, err));
    const tern_status status = write_all(w, sums, n, about, err);
    if (status == TERN_OK) return tern_gguf_writer_commit(w, err);
    tern_gguf_writer_abort(w);
    return status;
}

/* ---- reading */

struct tern_imatrix {
    tern_file_map map;
    tern_gguf *gguf;
    uint32_t n_entries, n_chunks;
    char name[128];
};

static bool ends_in(tern_span name, const char *ending)
{
    const size_t n = strlen(ending);
    return name.size >= n && memcmp(name.data + name.size - n, ending, n) == 0;
}

static tern_status look(tern_imatrix *m, tern_error *err)
{
    tern_error none = {0};
    tern_span type = {0};
    for (size_t i = 0; i < tern_gguf_n_tensors(m->gguf); i++)
        m->n_entries += ends_in(tern_gguf_tensor_at(m->gguf, i)->name, ".in_sum2");
    if (tern_gguf_find(m->gguf, KEY_TYPE)) TERN_TRY(tern_gguf_get_string(m->gguf, KEY_TYPE, &type, err));
    if (type.size != strlen(TYPE) || memcmp(type.data, TYPE, type.size) != 0 || m->n_entries == 0)
        return tern_fail(err, TERN_MALFORMED,
                         "no importance matrix found: " KEY_TYPE " " TYPE " and tensors named ....in_sum2 expected");
    if (tern_gguf_get_u32(m->gguf, KEY_CHUNKS, &m->n_chunks, &none) != TERN_OK) m->n_chunks = 0;
    return TERN_OK;
}

static tern_status read_file(tern_imatrix *m, const void *data, size_t size, tern_error *err)
{
    TERN_TRY(tern_gguf_parse(&m->gguf, data, size, err));
    return look(m, err);
}

tern_status tern_imatrix_open_memory(tern_imatrix **out, const void *data, size_t size, tern_error *err)
{
    *out = NULL;
    tern_imatrix *m = tern_calloc(1, sizeof *m);
    if (!m) return tern_fail_alloc(err, sizeof *m);
    const tern_status status = read_file(m, data, size, err);
    if (status == TERN_OK) *out = m;
    else tern_imatrix_close(m);
    return status;
}

static tern_status open_file(tern_imatrix *m, const char *path, tern_error *err)
{
    const char *slash = strrchr(path, '/');
    snprintf(m->name, sizeof m->name, "%s", slash ? slash + 1 : path);
    TERN_TRY(tern_file_map_open(&m->map, path, err));
    if (read_file(m, m->map.data, m->map.size, err) == TERN_OK) return TERN_OK;
    return tern_error_prefix(err, "%s", path);
}

tern_status tern_imatrix_open(tern_imatrix **out, const char *path, tern_error *err)
{
    tern_error local = {0};
    *out = NULL;
    tern_imatrix *m = tern_calloc(1, sizeof *m);
    if (!m) return tern_fail_alloc(err, sizeof *m);
    const tern_status status = open_file(m, path, err ? err : &local);
    if (status == TERN_OK) *out = m;
    else tern_imatrix_close(m);
    return status;
}

void tern_imatrix_close(tern_imatrix *m)
{
    if (!m) return;
    tern_gguf_close(m->gguf);
    tern_file_map_close(&m->map);
    tern_free(m);
}

uint32_t tern_imatrix_entries(const tern_imatrix *m)
{
    return m->n_entries;
}

uint32_t tern_imatrix_chunks(const tern_imatrix *m)
{
    return m->n_chunks;
}

const char *tern_imatrix_name(const tern_imatrix *m)
{
    return m->name;
}

static const tern_gguf_tensor *find(const tern_imatrix *m, const char *name, const char *ending, char *full, size_t n)
{
    snprintf(full, n, "%s%s", name, ending);
    return tern_gguf_find_tensor(m->gguf, full);
}

static tern_status check(const tern_gguf_tensor *t, const char *name, uint32_t rows, uint32_t cols, tern_error *err)
{
    if (t && t->type == TERN_ENC_F32 && t->rows == rows && t->cols == cols) return TERN_OK;
    if (!t) return tern_fail(err, TERN_MALFORMED, "%s: no such tensor found, one expected", name);
    return tern_fail(err, TERN_MALFORMED, "%s: %llu x %llu of %s found, %u x %u of f32 expected", name,
                     (unsigned long long)t->rows, (unsigned long long)t->cols, tern_gguf_type_name(t->type), rows,
                     cols);
}

/* The entry of one expert, or of a matrix without; an expert that nothing was routed to has counts of 0. */
static tern_status find_means(const char *name, const uint8_t *sums, float count, uint32_t cols, float *mean,
                              tern_error *err)
{
    for (uint32_t c = 0; c < cols; c++) {
        const float sum = tern_load_f32(sums + c * sizeof sum);
        if (!(sum >= 0 && isfinite(sum)))
            return tern_fail(err, TERN_MALFORMED, "%s.in_sum2: %g found at column %u, a sum of squares expected", name,
                             (double)sum, c);
        mean[c] = count > 0 ? sum / count : 1;
    }
    return TERN_OK;
}

static tern_status check_counts(const tern_gguf_tensor *counts, const char *name, uint32_t n, tern_error *err)
{
    float most = 0;
    for (uint32_t e = 0; e < n; e++) {
        const float count = tern_load_f32(counts->data + e * sizeof count);
        if (!(count >= 0 && isfinite(count)) || (n == 1 && count == 0))
            return tern_fail(err, TERN_MALFORMED, "%s: %g found, a positive number expected", name, (double)count);
        if (count > most) most = count;
    }
    if (most > 0) return TERN_OK;
    return tern_fail(err, TERN_MALFORMED, "%s: 0 found for all of %u experts, a positive number expected", name, n);
}

tern_status tern_imatrix_mean(const tern_imatrix *m, const char *name, uint32_t n_experts, uint32_t cols, float *mean,
                              bool *found, tern_error *err)
{
    char full[TERN_ROLE_NAME_BYTES + ENDING_BYTES];
    const tern_gguf_tensor *sums = find(m, name, ".in_sum2", full, sizeof full);
    *found = sums != NULL;
    if (!sums) return TERN_OK;
    TERN_TRY(check(sums, full, n_experts, cols, err));
    const tern_gguf_tensor *counts = find(m, name, ".counts", full, sizeof full);
    TERN_TRY(check(counts, full, n_experts, 1, err));
    TERN_TRY(check_counts(counts, full, n_experts, err));
    for (uint32_t e = 0; e < n_experts; e++) {
        const size_t at = (size_t)e * cols;
        const float count = tern_load_f32(counts->data + e * sizeof count);
        TERN_TRY(find_means(name, sums->data + at * sizeof(float), count, cols, mean + at, err));
    }
    return TERN_OK;
}
