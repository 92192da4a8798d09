/* Opening a Hugging Face folder: dense matrices in place, ternary ones packed in memory. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/show.h"
#include "model/open/hf_internal.h"
#include "quant/encoding.h"
#include "text/tokenizer/tokenizer.h"

enum { MAX_CONFIG_BYTES = 1 << 24 };

static tern_status add_vector(const tern_hf__source *s, const tern_encoding *e, tern_error *err)
{
    tern_weight *w = s->weight;
    TERN_TRY(tern_model__set_vector(s->model, w, e, s->tensor->data, err));
    float *values = (float *)(uintptr_t)w->data;
    for (uint32_t i = 0; w->rows == 1 && i < w->cols; i++)
        values[i] = tern_role__from_hf(&s->model->config, s->role, values[i]);
    return TERN_OK;
}

/* The role's rows of a joint matrix. */
static tern_status add_slice(const tern_hf__source *s, const tern_encoding *e, tern_error *err)
{
    tern_weight *w = s->weight;
    uint64_t rows, cols;
    size_t offset;
    tern_role__shape(s->role, s->layer, &s->model->config, &w->rows, &w->cols);
    tern_hf__shape(s->tensor, &rows, &cols);
    if (rows != s->joint->rows || cols != w->cols)
        return tern_fail(err, TERN_MALFORMED, "%s: %llu rows of %llu found, %u rows of %u expected", s->joint->hf,
                         (unsigned long long)rows, (unsigned long long)cols, s->joint->rows, w->cols);
    if (s->layout.ternary)
        return tern_fail(err, TERN_UNSUPPORTED, "%s: several matrices in one found in a ternary model, %s expected",
                         s->joint->hf, w->name);
    TERN_TRY(tern_joint__slice(s->joint, e, w->cols, &offset, err));
    TERN_TRY(tern_encoding_bytes(e, w->rows, w->cols, &w->bytes, err));
    w->scale = 1.0f;
    w->encoding = e;
    w->data = s->tensor->data + offset;
    w->mapped = true;
    return TERN_OK;
}

/* The role's rows of a matrix that has those of two roles by head of keys, put together in memory. */
static tern_status add_mixed(const tern_hf__source *s, const tern_encoding *e, tern_error *err)
{
    tern_weight *w = s->weight;
    const tern_config *c = &s->model->config;
    uint64_t rows, cols;
    uint32_t all = 0, other, row;
    size_t row_bytes;
    tern_role role;
    void *block = NULL;
    tern_role__shape(TERN_ROLE_SSM_QKV, s->layer, c, &all, &w->cols);
    tern_role__shape(TERN_ROLE_SSM_GATE, s->layer, c, &other, &w->cols);
    w->rows = s->role == TERN_ROLE_SSM_QKV ? all : other;
    all += other;
    tern_hf__shape(s->tensor, &rows, &cols);
    if (rows != all || cols != w->cols)
        return tern_fail(err, TERN_MALFORMED, "%s: %llu rows of %llu found, %u rows of %u expected", w->name,
                         (unsigned long long)rows, (unsigned long long)cols, all, w->cols);
    if (s->layout.ternary)
        return tern_fail(err, TERN_UNSUPPORTED, "%s: several matrices in one found in a ternary model, none expected",
                         w->name);
    TERN_TRY(tern_encoding_bytes(e, w->rows, w->cols, &w->bytes, err));
    TERN_TRY(tern_encoding_row_bytes(e, w->cols, &row_bytes, err));
    TERN_TRY(tern_model__own(s->model, w->bytes, &block, err));
    for (uint32_t i = 0; i < all; i++) {
        tern_role__mixed_row(c, i, &role, &row);
        if (role == s->role) memcpy((uint8_t *)block + row * row_bytes, s->tensor->data + i * row_bytes, row_bytes);
    }
    w->scale = 1.0f;
    w->encoding = e;
    w->data = block;
    w->mapped = false;
    return TERN_OK;
}

static tern_status add_float(const tern_hf__source *s, const tern_encoding *e, tern_error *err)
{
    tern_weight *w = s->weight;
    uint64_t rows, cols;
    tern_hf__shape(s->tensor, &rows, &cols);
    if (s->joint) return add_slice(s, e, err);
    if (s->model->config.recurrence.joint_rates && (s->role == TERN_ROLE_SSM_QKV || s->role == TERN_ROLE_SSM_GATE))
        return add_mixed(s, e, err);
    TERN_TRY(tern_model__check_shape(&s->model->config, s->role, s->layer, w->name, rows, cols, err));
    w->rows = (uint32_t)rows;
    w->cols = (uint32_t)cols;
    w->scale = 1.0f;
    if (tern_role_is_vector(s->role)) return add_vector(s, e, err);
    if (tern_role__kind(s->role) == TERN_KIND_L && tern_hf__scale_tensor(s))
        return tern_fail(err, TERN_UNSUPPORTED, "%s: %s found beside a weight_scale, U8 expected", w->name,
                         tern_st_dtype_name(s->tensor->dtype));
    if (tern_role__kind(s->role) == TERN_KIND_L && s->layout.ternary) return tern_hf__add_master(s, err);
    w->encoding = e;
    w->data = s->tensor->data;
    w->bytes = s->tensor->bytes;
    w->mapped = true;
    return TERN_OK;
}

static tern_status add_tensor(tern_hf__source *s, tern_error *err)
{
    const tern_encoding *e = tern_hf__float_encoding(s->tensor->dtype);
    if (s->tensor->dtype == TERN_ST_U8) TERN_TRY(tern_hf__add_uint8(s, err));
    else if (e) TERN_TRY(add_float(s, e, err));
    else
        return tern_fail(err, TERN_UNSUPPORTED, "%s: %s found, F32, F16, BF16 or packed U8 expected", s->weight->name,
                         tern_st_dtype_name(s->tensor->dtype));
    TERN_TRY(tern_model__check_data(s->model, s->weight, err));
    return tern_model__added(s->model, s->weight, err);
}

/* The tensor of a role under any of its names, which is left in `name`; NULL, with the first name, when it has none. */
static const tern_st_tensor *find_tensor(const tern_model *model, tern_role role, uint32_t layer, char *name)
{
    char own[TERN_MODEL__NAME_BYTES];
    for (unsigned i = 0; tern_role__hf_name(&model->config, role, layer, i, own); i++) {
        tern_role__spell(model->spelling, own, name);
        const tern_st_tensor *t = tern_safetensors_find(model->safetensors, name);
        if (t) return t;
    }
    tern_role__hf_name(&model->config, role, layer, 0, own);
    tern_role__spell(model->spelling, own, name);
    return NULL;
}

static tern_status add_role(tern_model *model, tern_hf_layout layout, tern_role role, uint32_t layer, tern_error *err)
{
    if (tern_role__may_lack(role, layer, &model->config)) return TERN_OK;
    char name[TERN_MODEL__NAME_BYTES];
    tern_joint joint;
    tern_hf__source s = {.model = model, .layout = layout, .role = role, .layer = layer};
    s.weight = tern_model__slot(model, role, layer);
    if (tern_role__of_experts(role)) return tern_hf__add_experts(&s, err);
    s.tensor = find_tensor(model, role, layer, s.weight->name);
    if (!s.tensor && tern_role__joint(&model->config, role, layer, &joint)) {
        tern_role__spell(model->spelling, joint.hf, name);
        s.tensor = tern_safetensors_find(model->safetensors, name);
        s.joint = &joint;
    }
    if (!s.tensor) return tern_fail(err, TERN_MALFORMED, "%s: no such tensor found, one expected", s.weight->name);
    return add_tensor(&s, err);
}

static tern_status add_roles(tern_model *model, tern_hf_layout layout, tern_error *err)
{
    tern_role_walk walk = {0};
    while (tern_role__next(&walk, &model->config)) TERN_TRY(add_role(model, layout, walk.role, walk.layer, err));
    return TERN_OK;
}

/* The spelling under which there is an embedding table. */
static tern_hf_spelling find_spelling(tern_model *model)
{
    char name[TERN_MODEL__NAME_BYTES];
    for (unsigned i = 0; i < TERN_HF_SPELLINGS; i++) {
        model->spelling = (tern_hf_spelling)i;
        if (find_tensor(model, TERN_ROLE_TOKEN_EMBD, 0, name)) return model->spelling;
    }
    return TERN_HF_ALONE;
}

/* Whether the first layer has gate and up of all its experts in one tensor. */
static bool has_halves(const tern_model *model)
{
    tern_hf_experts at;
    char name[TERN_MODEL__NAME_BYTES];
    if (!tern_role__hf_experts(&model->config, TERN_ROLE_FFN_GATE_EXPS, 0, 0, true, &at)) return false;
    tern_role__spell(model->spelling, at.name, name);
    return tern_safetensors_find(model->safetensors, name) != NULL;
}

/* Facts that only the list of tensors tells. */
static void look_at_tensors(tern_model *model, tern_hf_layout *layout)
{
    char name[TERN_MODEL__NAME_BYTES];
    const tern_safetensors *st = model->safetensors;
    tern_config *c = &model->config;
    for (size_t i = 0; i < tern_safetensors_count(st); i++) {
        const tern_st_tensor *t = tern_safetensors_at(st, i);
        model->bytes_expected += t->bytes;
    }
    model->spelling = find_spelling(model);
    model->halves = c->n_experts && has_halves(model);
    c->tied_head = c->tied_head || !find_tensor(model, TERN_ROLE_OUTPUT, 0, name);
    c->linear_norms = layout->norms || find_tensor(model, TERN_ROLE_ATTN_Q_IN_NORM, 0, name);
    if (c->linear_norms) layout->ternary = layout->packed = true; /* only BitLinear has such norms */
    c->bit_linear = layout->ternary;
    c->sub_norms =
        tern_family__find(c->architecture)->needs_sub_norms || find_tensor(model, TERN_ROLE_ATTN_SUB_NORM, 0, name);
}

static tern_status look_for(const char *dir, const char *name, bool *found, tern_error *err)
{
    char *path = tern_path_join(dir, name);
    if (!path) return tern_fail_alloc(err, strlen(dir) + strlen(name) + 2);
    *found = *found || tern_file_exists(path);
    tern_free(path);
    return TERN_OK;
}

static tern_status open_tokenizer(tern_model *model, const char *dir, tern_error *err)
{
    bool found = false;
    if (model->options->no_tokenizer) return TERN_OK;
    TERN_TRY(look_for(dir, "tokenizer.json", &found, err));
    TERN_TRY(look_for(dir, "tokenizer.model", &found, err));
    if (!found) return TERN_OK;
    TERN_TRY(tern_tokenizer_open_hf(&model->tokenizer, dir, err)); /* its messages name the files */
    if (tern_model__check_tokenizer(model, err) == TERN_OK) return TERN_OK;
    return tern_error_prefix(err, "%s", dir);
}

/* The last part of a path, trailing slashes aside. */
static void folder_name(const char *dir, char *out, size_t out_bytes)
{
    size_t end = strlen(dir), start;
    while (end > 0 && dir[end - 1] == '/') end--;
    for (start = end; start > 0 && dir[start - 1] != '/';) start--;
    snprintf(out, out_bytes, "%.*s", (int)(end - start), dir + start);
    if (strcmp(out, "") == 0 || strcmp(out, ".") == 0 || strcmp(out, "..") == 0) snprintf(out, out_bytes, "model");
}

static tern_status read_config(tern_model *model, const char *dir, tern_hf_layout *layout, tern_error *err)
{
    char name[256];
    json_t *root = NULL;
    folder_name(dir, name, sizeof name);
    TERN_TRY(tern_json_read_last_in(&root, dir, "config.json", MAX_CONFIG_BYTES, err));
    tern_status status = tern_config__from_hf(&model->config, layout, root, name, err);
    tern_json_free(root);
    if (status != TERN_OK) return tern_error_prefix(err, "%s: config.json", dir);
    return tern_config__pooling_from_hf(&model->config, dir, err);
}

static tern_status read_tensors(tern_model *model, tern_hf_layout layout, tern_error *err)
{
    look_at_tensors(model, &layout);
    TERN_TRY(tern_model__init_weights(model, err));
    TERN_TRY(tern_model__find_mtp_hf(model, err));
    TERN_TRY(tern_model__note_unused_hf(model, err));
    TERN_TRY(add_roles(model, layout, err));
    if (!model->mtp) return TERN_OK;
    model->mtp->halves = model->config.n_experts && has_halves(model->mtp);
    TERN_TRY(add_roles(model->mtp, layout, err));
    tern_model__count_mtp(model);
    return TERN_OK;
}

tern_status tern_model__open_hf(tern_model *model, const char *dir, const char *weights, tern_error *err)
{
    tern_hf_layout layout = {0};
    TERN_TRY(read_config(model, dir, &layout, err));
    TERN_TRY(tern_safetensors_open(&model->safetensors, weights, err));
    if (read_tensors(model, layout, err) != TERN_OK) return tern_error_prefix(err, "%s", dir);
    return open_tokenizer(model, dir, err);
}
