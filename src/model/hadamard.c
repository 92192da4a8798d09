/* Weights in a rotated basis: what a file's metadata say of them, checked against its tensors. */
#include "model/hadamard.h"

#include <string.h>

#include "base/alloc.h"
#include "base/map.h"
#include "base/show.h"
#include "format/gguf.h"
#include "model/model_internal.h"

#define PREFIX "prism.hadamard."

/* The state of opening. */
typedef struct reading {
    tern_model *model;
    const tern_gguf *gguf;
    tern_hadamard *out;
    bool *inputs;
    const tern_gguf_kv *names;
    tern_map map; /* of names to their places */
    bool *read;   /* [names->count]: a role has it */
} reading;

const tern_hadamard *tern_model_hadamard(const tern_model *model)
{
    return model->hadamard;
}

bool tern_hadamard_rotates(const tern_hadamard *h, tern_role role, uint32_t layer)
{
    return h && h->inputs[(size_t)layer * TERN_ROLE_COUNT + role];
}

const float *tern_hadamard_signs_of(const tern_hadamard *h, uint32_t width)
{
    for (uint32_t i = 0; i < h->n_widths; i++)
        if (h->signs[i].width == width) return h->signs[i].values;
    return NULL;
}

tern_status tern_hadamard_refuse(const tern_hadamard *h, tern_error *err)
{
    if (!h) return TERN_OK;
    return tern_fail(err, TERN_UNSUPPORTED,
                     PREFIX "weight_names: %u weights in a rotated basis found, none expected: such a model runs "
                            "and is converted, and is not trained",
                     h->n_inputs);
}

tern_status tern_hadamard_write(const tern_hadamard *h, tern_gguf_writer *w, tern_error *err)
{
    for (uint32_t i = 0; h && i < h->n_kvs; i++) TERN_TRY(tern_gguf_add_kv(w, &h->kvs[i], err));
    return TERN_OK;
}

static bool is_ours(const tern_gguf_kv *kv)
{
    return kv->key.size > strlen(PREFIX) && memcmp(kv->key.data, PREFIX, strlen(PREFIX)) == 0;
}

static tern_status expect(const tern_gguf *g, const char *key, const char *expected, tern_error *err)
{
    tern_span found = {0};
    TERN_TRY(tern_gguf_get_string(g, key, &found, err));
    if (tern_model__says(found, expected)) return TERN_OK;
    return tern_fail(err, TERN_UNSUPPORTED, "%s: %s found, %s expected", key, tern_show(found).text, expected);
}

static tern_status read_block(reading *r, tern_error *err)
{
    uint32_t version = 0, block = 0;
    TERN_TRY(tern_gguf_get_u32(r->gguf, PREFIX "version", &version, err));
    if (version != 1) return tern_fail(err, TERN_UNSUPPORTED, PREFIX "version: %u found, 1 expected", version);
    TERN_TRY(expect(r->gguf, PREFIX "transform", "normalized-sylvester-walsh-hadamard", err));
    TERN_TRY(expect(r->gguf, PREFIX "axis", "input-last-dimension", err));
    TERN_TRY(tern_gguf_get_u32(r->gguf, PREFIX "block_size", &block, err));
    if (block == 0 || (block & (block - 1)) != 0)
        return tern_fail(err, TERN_MALFORMED, PREFIX "block_size: %u found, a power of two expected", block);
    TERN_TRY_OPTIONAL(tern_gguf_get_bool(r->gguf, PREFIX "gdn_v_grouped", &r->out->grouped_heads, err));
    r->out->block = block;
    return TERN_OK;
}

static tern_status integers(const tern_gguf *g, const char *key, const tern_gguf_kv **out, tern_error *err)
{
    const tern_gguf_kv *kv = tern_gguf_find(g, key);
    if (!kv) return tern_fail(err, TERN_NOT_FOUND, "%s: not found", key);
    if (kv->kind == TERN_GGUF_ARRAY && (kv->element == TERN_GGUF_I32 || kv->element == TERN_GGUF_U32)) {
        *out = kv;
        return TERN_OK;
    }
    return tern_fail(err, TERN_MALFORMED, "%s: %s found, an array of i32 expected", key,
                     tern_gguf_kind_name(kv->kind == TERN_GGUF_ARRAY ? kv->element : kv->kind));
}

/* The widths, and how many signs they have together. */
static tern_status read_widths(const reading *r, const tern_gguf_kv *widths, tern_hadamard_signs *out,
                               uint64_t *n_signs, tern_error *err)
{
    *n_signs = 0;
    for (uint64_t i = 0; i < widths->count; i++) {
        const int64_t width = tern_gguf_array_int(widths, i);
        if (width <= 0 || width > TERN_MODEL__MAX_DIM || width % r->out->block)
            return tern_fail(err, TERN_MALFORMED,
                             PREFIX "sign_widths: %lld found, a multiple of " PREFIX
                                    "block_size, which is %u, expected",
                             (long long)width, r->out->block);
        for (uint64_t k = 0; k < i; k++)
            if (out[k].width == (uint32_t)width)
                return tern_fail(err, TERN_MALFORMED, PREFIX "sign_widths: %lld found twice", (long long)width);
        out[i].width = (uint32_t)width;
        *n_signs += (uint64_t)width;
    }
    return TERN_OK;
}

static tern_status read_values(const tern_gguf_kv *kv, uint64_t n, float *out, tern_error *err)
{
    for (uint64_t i = 0; i < n; i++) {
        const int64_t sign = tern_gguf_array_int(kv, i);
        if (sign != 1 && sign != -1)
            return tern_fail(err, TERN_MALFORMED, PREFIX "sign_values: %lld found at %llu, 1 or -1 expected",
                             (long long)sign, (unsigned long long)i);
        out[i] = (float)sign;
    }
    return TERN_OK;
}

static tern_status read_signs(reading *r, tern_error *err)
{
    enum { MAX_WIDTHS = 64 };
    const tern_gguf_kv *widths = NULL, *values = NULL;
    void *signs, *memory;
    uint64_t n = 0;
    TERN_TRY(integers(r->gguf, PREFIX "sign_widths", &widths, err));
    TERN_TRY(integers(r->gguf, PREFIX "sign_values", &values, err));
    if (widths->count == 0 || widths->count > MAX_WIDTHS)
        return tern_fail(err, TERN_MALFORMED, PREFIX "sign_widths: %llu found, 1 to %d expected",
                         (unsigned long long)widths->count, MAX_WIDTHS);
    TERN_TRY(tern_model__own(r->model, (size_t)widths->count * sizeof(tern_hadamard_signs), &signs, err));
    tern_hadamard_signs *out = signs;
    TERN_TRY(read_widths(r, widths, out, &n, err));
    if (values->count != n)
        return tern_fail(err, TERN_MALFORMED, PREFIX "sign_values: %llu found, %llu expected",
                         (unsigned long long)values->count, (unsigned long long)n);
    TERN_TRY(tern_model__own(r->model, (size_t)n * sizeof(float), &memory, err));
    float *at = memory;
    TERN_TRY(read_values(values, n, at, err));
    r->out->signs = out;
    r->out->n_widths = (uint32_t)widths->count;
    for (uint32_t i = 0; i < r->out->n_widths; at += out[i].width, i++) out[i].values = at;
    return TERN_OK;
}

static tern_status read_sign_mode(reading *r, tern_error *err)
{
    tern_span mode = {0};
    TERN_TRY(tern_gguf_get_string(r->gguf, PREFIX "sign_mode", &mode, err));
    if (tern_model__says(mode, "identity")) return TERN_OK;
    if (tern_model__says(mode, "explicit")) return read_signs(r, err);
    return tern_fail(err, TERN_UNSUPPORTED, PREFIX "sign_mode: %s found, identity or explicit expected",
                     tern_show(mode).text);
}

static tern_status read_names(reading *r, tern_error *err)
{
    TERN_TRY(tern_gguf_get_array(r->gguf, PREFIX "weight_names", TERN_GGUF_STRING, &r->names, err));
    if (r->names->count == 0) return tern_fail(err, TERN_MALFORMED, PREFIX "weight_names: none found, one expected");
    r->read = tern_calloc(tern_size_of(r->names->count), sizeof *r->read);
    if (!r->read) return tern_fail_alloc(err, tern_size_of(r->names->count));
    tern_cursor c = tern_cursor_open(r->names->value.data, r->names->value.size);
    for (uint32_t i = 0; i < r->names->count; i++) {
        bool added;
        const tern_span name = tern_gguf_next_string(&c);
        TERN_TRY(tern_map_add(&r->map, name, i, &added, err));
        if (!added) return tern_fail(err, TERN_MALFORMED, PREFIX "weight_names: %s found twice", tern_show(name).text);
    }
    return TERN_OK;
}

/* A matrix whose input is rotated has signs for it, and whole blocks. */
static tern_status check_input(const reading *r, tern_role role, uint32_t layer, const char *name, tern_error *err)
{
    uint32_t rows, cols;
    if (!tern_role_is_matrix(role) && role != TERN_ROLE_OUTPUT)
        return tern_fail(err, TERN_UNSUPPORTED,
                         PREFIX "weight_names: %s found, matrices of linear layers or the head's expected", name);
    tern_role__shape(role, layer, &r->model->config, &rows, &cols);
    if (cols % r->out->block)
        return tern_fail(err, TERN_MALFORMED,
                         PREFIX "weight_names: %s has %u columns, a multiple of " PREFIX
                                "block_size, which is %u, expected",
                         name, cols, r->out->block);
    if (r->out->n_widths && !tern_hadamard_signs_of(r->out, cols))
        return tern_fail(err, TERN_MALFORMED, PREFIX "sign_widths: none of %u columns found, those of %s expected",
                         cols, name);
    return TERN_OK;
}

static tern_status find_roles(reading *r, tern_error *err)
{
    tern_role_walk walk = {0};
    while (tern_role__next(&walk, &r->model->config)) {
        uint32_t i;
        char name[TERN_MODEL__NAME_BYTES];
        tern_role__gguf_name(&r->model->config, walk.role, walk.layer, name);
        if (!tern_map_find(&r->map, (tern_span){(const uint8_t *)name, strlen(name)}, &i)) continue;
        if (!tern_gguf_find_tensor(r->gguf, name)) continue;
        TERN_TRY(check_input(r, walk.role, walk.layer, name, err));
        r->inputs[(size_t)walk.layer * TERN_ROLE_COUNT + walk.role] = true;
        r->read[i] = true;
        r->out->n_inputs++;
    }
    if (r->model->trunk) r->inputs[TERN_ROLE_OUTPUT] = r->model->trunk->hadamard->inputs[TERN_ROLE_OUTPUT];
    return TERN_OK;
}

/* A tensor that another model has: a block that drafts tokens is read by itself, or not at all. */
static bool is_of_other(const tern_model *model, tern_span name)
{
    char prefix[24];
    const uint32_t block = model->trunk ? model->config.mtp_at : model->config.n_layers;
    const size_t n = (size_t)snprintf(prefix, sizeof prefix, "blk.%u.", block);
    const bool in_block = name.size > n && memcmp(name.data, prefix, n) == 0;
    if (model->trunk) return !in_block;
    return in_block && tern_family__find(model->config.architecture)->recurs;
}

static tern_status check_names(const reading *r, tern_error *err)
{
    tern_cursor c = tern_cursor_open(r->names->value.data, r->names->value.size);
    for (uint64_t i = 0; i < r->names->count; i++) {
        const tern_span name = tern_gguf_next_string(&c);
        if (!r->read[i] && !is_of_other(r->model, name))
            return tern_fail(err, TERN_UNSUPPORTED,
                             PREFIX "weight_names: %s found, tensors that the file has and this model reads expected",
                             tern_show(name).text);
    }
    return TERN_OK;
}

static tern_status read_inverse(reading *r, tern_error *err)
{
    const tern_gguf_kv *names = NULL;
    if (!tern_gguf_find(r->gguf, PREFIX "inverse_weight_names")) return TERN_OK;
    TERN_TRY(tern_gguf_get_array(r->gguf, PREFIX "inverse_weight_names", TERN_GGUF_STRING, &names, err));
    tern_cursor c = tern_cursor_open(names->value.data, names->value.size);
    for (uint64_t i = 0; i < names->count; i++) {
        const tern_span name = tern_gguf_next_string(&c);
        if (r->out->embedding || !tern_model__says(name, "token_embd.weight"))
            return tern_fail(err, TERN_UNSUPPORTED,
                             PREFIX "inverse_weight_names: %s found, token_embd.weight once expected",
                             tern_show(name).text);
        r->out->embedding = true;
    }
    const uint32_t cols = r->model->config.n_embd;
    if (r->out->embedding && (cols % r->out->block || (r->out->n_widths && !tern_hadamard_signs_of(r->out, cols))))
        return tern_fail(err, TERN_MALFORMED,
                         PREFIX "inverse_weight_names: rows of %u columns found, whole blocks of %u and signs expected",
                         cols, r->out->block);
    if (r->out->embedding && r->model->config.tied_head)
        return tern_fail(err, TERN_UNSUPPORTED,
                         PREFIX "inverse_weight_names: token_embd.weight found, and no output.weight, which version "
                                "1 expects");
    return TERN_OK;
}

static tern_status copy_span(tern_model *model, tern_span *span, tern_error *err)
{
    void *block;
    TERN_TRY(tern_model__own(model, span->size ? span->size : 1, &block, err));
    memcpy(block, span->data, span->size);
    span->data = block;
    return TERN_OK;
}

/* As they stand in the file, whose bytes may go. */
static tern_status copy_kvs(reading *r, tern_error *err)
{
    uint32_t n = 0;
    void *block;
    const size_t all = tern_gguf_n_kv(r->gguf);
    for (size_t i = 0; i < all; i++) n += is_ours(tern_gguf_kv_at(r->gguf, i));
    TERN_TRY(tern_model__own(r->model, n * sizeof(tern_gguf_kv), &block, err));
    tern_gguf_kv *kvs = r->out->kvs = block;
    for (size_t i = 0; i < all; i++) {
        if (!is_ours(tern_gguf_kv_at(r->gguf, i))) continue;
        tern_gguf_kv *kv = &kvs[r->out->n_kvs++];
        *kv = *tern_gguf_kv_at(r->gguf, i);
        TERN_TRY(copy_span(r->model, &kv->key, err));
        TERN_TRY(copy_span(r->model, &kv->value, err));
    }
    return TERN_OK;
}

static tern_status read_all(reading *r, tern_error *err)
{
    void *block;
    TERN_TRY(tern_model__own(r->model, sizeof *r->out, &block, err));
    r->out = block;
    TERN_TRY(
        tern_model__own(r->model, (size_t)r->model->config.n_layers * TERN_ROLE_COUNT * sizeof(bool), &block, err));
    r->out->inputs = r->inputs = block;
    TERN_TRY(read_block(r, err));
    TERN_TRY(read_sign_mode(r, err));
    TERN_TRY(read_names(r, err));
    TERN_TRY(find_roles(r, err));
    TERN_TRY(check_names(r, err));
    TERN_TRY(read_inverse(r, err));
    TERN_TRY(copy_kvs(r, err));
    r->model->hadamard = r->out;
    return TERN_OK;
}

tern_status tern_model__read_hadamard(tern_model *model, const tern_gguf *g, tern_error *err)
{
    bool any = false;
    for (size_t i = 0; i < tern_gguf_n_kv(g); i++) any = any || is_ours(tern_gguf_kv_at(g, i));
    if (!any) return TERN_OK;
    reading r = {.model = model, .gguf = g};
    const tern_status status = read_all(&r, err);
    tern_map_deinit(&r.map);
    tern_free(r.read);
    return status;
}
