/* Writing an adapter: as a PEFT folder and as a GGUF file. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "base/show.h"
#include "format/gguf.h"
#include "model/adapter/internal.h"
#include "quant/encoding_id.h"

enum { NAME_BYTES = TERN_MODEL__NAME_BYTES + 32 };

/* The tensors that are written of one half. */
typedef struct piece {
    char name[NAME_BYTES];
    uint32_t rows, cols;
    uint32_t n_experts; /* of which each has so many rows; 0: a tensor without that dimension */
    const float *values;
    float *ordered; /* values, where the file wants its rows in another order; else NULL */
} piece;

typedef struct pieces {
    piece *items;
    size_t n;
} pieces;

static void free_pieces(pieces *p)
{
    for (size_t i = 0; i < p->n; i++) tern_free(p->items[i].ordered);
    tern_free(p->items);
}

static void name_in_peft(piece *p, const char *name, bool is_b)
{
    snprintf(p->name, sizeof p->name, "base_model.model.%.*s.lora_%c.weight", (int)(strlen(name) - strlen(".weight")),
             name, is_b ? 'B' : 'A');
}

static void name_piece(piece *p, tern_role role, uint32_t layer, bool is_b, bool gguf)
{
    char name[TERN_MODEL__NAME_BYTES];
    if (gguf) {
        tern_role__gguf_name(NULL, role, layer, name);
        snprintf(p->name, sizeof p->name, "%s.lora_%c", name, is_b ? 'b' : 'a');
        return;
    }
    tern_role__hf_name(NULL, role, layer, 0, name);
    name_in_peft(p, name, is_b);
}

static tern_status order_piece(const tern_adapter *ad, piece *p, tern_role role, bool is_b, tern_adapter_form form,
                               tern_error *err)
{
    const tern_adapter_half_order order = {
        .role = role, .is_b = is_b, .to_file = true, .form = form, .rows = p->rows, .cols = p->cols};
    TERN_TRY(tern_adapter__reorder(ad, &order, p->values, &p->ordered, err));
    if (p->ordered) p->values = p->ordered;
    return TERN_OK;
}

tern_status tern_adapter_check_peft(const tern_config *config, tern_role role, tern_error *err)
{
    tern_hf_experts named;
    if (!tern_role__of_experts(role) || (tern_role__hf_experts(config, role, 0, 0, false, &named) && named.single))
        return TERN_OK;
    return tern_fail(err, TERN_UNSUPPORTED,
                     "an adapter of experts of %s has no name in a PEFT folder, where they are one tensor: a GGUF file "
                     "expected",
                     config->architecture);
}

/* PEFT has a pair for each expert, as their matrices are linear layers of their own. */
static void add_experts(const tern_adapter *ad, const tern_adapter_pair *pair, tern_role role, uint32_t layer,
                        pieces *out)
{
    const uint32_t rank = ad->info.rank, rows = pair->out / pair->n_experts;
    for (uint32_t e = 0; e < pair->n_experts; e++) {
        tern_hf_experts named;
        tern_role__hf_experts(&ad->config, role, layer, e, false, &named);
        piece *a = &out->items[out->n++], *b = &out->items[out->n++];
        *a = (piece){.rows = rank, .cols = pair->in, .values = pair->a + (size_t)e * rank * pair->in};
        *b = (piece){.rows = rows, .cols = rank, .values = pair->b + (size_t)e * rows * rank};
        name_in_peft(a, named.name, false);
        name_in_peft(b, named.name, true);
    }
}

static bool shares_a(const tern_adapter *ad, uint32_t layer)
{
    const tern_adapter_pair *qkv = tern_adapter_find(ad, TERN_ROLE_SSM_QKV, layer),
                            *gate = tern_adapter_find(ad, TERN_ROLE_SSM_GATE, layer);
    return !qkv || !gate || memcmp(qkv->a, gate->a, (size_t)ad->info.rank * qkv->in * sizeof *qkv->a) == 0;
}

uint32_t tern_adapter__mixed_rank(const tern_adapter *ad)
{
    bool shared = true;
    for (uint32_t layer = 0; layer < ad->info.n_layers; layer++) shared = shared && shares_a(ad, layer);
    return shared ? ad->info.rank : 2 * ad->info.rank;
}

/* The pairs of both roles as one, whose B has the rows in the order of the folder's matrix. A is theirs where they have
 * the same everywhere, else one A is below the other, and each row of B has zeros for the other one. */
static tern_status add_mixed(const tern_adapter *ad, uint32_t layer, pieces *out, tern_error *err)
{
    const tern_adapter_pair *const pairs[2] = {tern_adapter_find(ad, TERN_ROLE_SSM_QKV, layer),
                                               tern_adapter_find(ad, TERN_ROLE_SSM_GATE, layer)};
    const uint32_t rank = tern_adapter__mixed_rank(ad), own = ad->info.rank;
    uint32_t rows, more, cols, row;
    char name[TERN_MODEL__NAME_BYTES];
    tern_role role;
    tern_role__shape(TERN_ROLE_SSM_QKV, layer, &ad->config, &rows, &cols);
    tern_role__shape(TERN_ROLE_SSM_GATE, layer, &ad->config, &more, &cols);
    rows += more;
    if (rank > TERN_ADAPTER_MAX_RANK)
        return tern_fail(err, TERN_LIMIT, "in_proj_qkvz of layer %u: two adapters of rank %u as one found, %d expected",
                         layer, own, TERN_ADAPTER_MAX_RANK);
    piece *a = &out->items[out->n++], *b = &out->items[out->n++];
    *a = (piece){.rows = rank, .cols = cols, .ordered = tern_calloc((size_t)rank * cols, sizeof(float))};
    *b = (piece){.rows = rows, .cols = rank, .ordered = tern_calloc((size_t)rows * rank, sizeof(float))};
    if (!a->ordered || !b->ordered) return tern_fail_alloc(err, ((uint64_t)rows + cols) * rank * sizeof(float));
    a->values = a->ordered;
    b->values = b->ordered;
    tern_role__hf_name(&ad->config, TERN_ROLE_SSM_QKV, layer, 0, name);
    name_in_peft(a, name, false);
    name_in_peft(b, name, true);
    for (size_t i = 0; i < 2; i++) {
        const size_t first = rank > own ? i * own : 0;
        if (pairs[i]) memcpy(a->ordered + first * cols, pairs[i]->a, (size_t)own * cols * sizeof(float));
    }
    for (uint32_t i = 0; i < rows; i++) {
        tern_role__mixed_row(&ad->config, i, &role, &row);
        const size_t of = role == TERN_ROLE_SSM_GATE, first = rank > own ? of * own : 0;
        if (pairs[of])
            memcpy(b->ordered + (size_t)i * rank + first, pairs[of]->b + (size_t)row * own, own * sizeof(float));
    }
    return TERN_OK;
}

bool tern_adapter__is_mixed(const tern_adapter *ad, tern_role role)
{
    return ad->config.recurrence.joint_rates && (role == TERN_ROLE_SSM_QKV || role == TERN_ROLE_SSM_GATE);
}

static tern_status add_pair(const tern_adapter *ad, tern_role role, uint32_t layer, bool gguf, pieces *out,
                            tern_error *err)
{
    const tern_adapter_pair *pair = tern_adapter_find(ad, role, layer);
    if (!pair) return TERN_OK;
    if (!gguf && tern_adapter__is_mixed(ad, role)) {
        const bool first = role == TERN_ROLE_SSM_QKV || !tern_adapter_find(ad, TERN_ROLE_SSM_QKV, layer);
        return first ? add_mixed(ad, layer, out, err) : TERN_OK;
    }
    const bool experts = tern_role__of_experts(role);
    const tern_family *family = tern_family__find(ad->config.architecture);
    const tern_adapter_form form = {.adjacent = gguf && family->rope_adjacent, .tiled = gguf && family->tiled_heads};
    if (!gguf) TERN_TRY(tern_adapter_check_peft(&ad->config, role, err));
    if (experts && !gguf) {
        add_experts(ad, pair, role, layer, out);
        return TERN_OK;
    }
    piece *a = &out->items[out->n++], *b = &out->items[out->n++];
    *a = (piece){.rows = ad->info.rank, .cols = pair->in, .values = pair->a};
    *b = (piece){.rows = pair->out / pair->n_experts, .cols = ad->info.rank, .values = pair->b};
    a->n_experts = b->n_experts = experts ? pair->n_experts : 0;
    name_piece(a, role, layer, false, gguf);
    name_piece(b, role, layer, true, gguf);
    TERN_TRY(order_piece(ad, a, role, false, form, err));
    return order_piece(ad, b, role, true, form, err);
}

static size_t count_pieces(const tern_adapter *ad)
{
    size_t n = 0;
    for (size_t i = 0; i < (size_t)ad->info.n_layers * TERN_ROLE_COUNT; i++)
        if (ad->pairs[i].a) n += 2 * (size_t)ad->pairs[i].n_experts;
    return n;
}

/* All halves, layer by layer. The caller frees them in any case. */
static tern_status collect(const tern_adapter *ad, bool gguf, pieces *out, tern_error *err)
{
    if (!ad->has_model)
        return tern_fail(err, TERN_INVALID_ARGUMENT, "the adapter was opened without a model, one is expected");
    size_t n = count_pieces(ad);
    out->items = tern_calloc(n, sizeof *out->items);
    if (!out->items) return tern_fail_alloc(err, n * sizeof *out->items);
    for (uint32_t layer = 0; layer < ad->info.n_layers; layer++)
        for (int role = 0; role < TERN_ROLE_COUNT; role++)
            TERN_TRY(add_pair(ad, (tern_role)role, layer, gguf, out, err));
    return TERN_OK;
}

/* ---- GGUF */

static tern_status add_keys(const tern_adapter_info *info, tern_gguf_writer *w, tern_error *err)
{
    double alpha = (double)info->alpha * (info->rslora ? sqrt((double)info->rank) : 1.0);
    const char *arch = info->architecture;
    TERN_TRY(tern_gguf_add_string(w, "general.architecture", arch, strlen(arch), err));
    TERN_TRY(tern_gguf_add_string(w, "general.type", "adapter", 7, err));
    TERN_TRY(tern_gguf_add_string(w, "adapter.type", "lora", 4, err));
    TERN_TRY(tern_gguf_add_f32(w, "adapter.lora.alpha", (float)alpha, err));
    if (info->rslora) TERN_TRY(tern_gguf_add_f32(w, "tern.lora.rslora_alpha", info->alpha, err));
    if (info->dropout > 0.0f) TERN_TRY(tern_gguf_add_f32(w, "tern.lora.dropout", info->dropout, err));
    if (!*info->base) return TERN_OK;
    TERN_TRY(tern_gguf_add_u32(w, "general.base_model.count", 1, err));
    return tern_gguf_add_string(w, "general.base_model.0.name", info->base, strlen(info->base), err);
}

static tern_status write_pieces(const tern_adapter *ad, const pieces *p, tern_gguf_writer *w, tern_error *err)
{
    TERN_TRY(add_keys(&ad->info, w, err));
    for (size_t i = 0; i < p->n; i++) {
        const piece *one = &p->items[i];
        uint64_t dims[3] = {one->cols, one->rows, one->n_experts};
        TERN_TRY(tern_gguf_add_tensor(w, one->name, TERN_ENC_F32, dims, one->n_experts ? 3 : 2, err));
    }
    TERN_TRY(tern_gguf_writer_begin_data(w, err));
    for (size_t i = 0; i < p->n; i++) {
        const piece *one = &p->items[i];
        const size_t n = (size_t)one->rows * one->cols * (one->n_experts ? one->n_experts : 1);
        TERN_TRY(tern_gguf_writer_data(w, one->values, n * sizeof(float), err));
    }
    return TERN_OK;
}

/* path NULL: to `out`. */
static tern_status write_gguf(const tern_adapter *adapter, const char *path, tern_buf *out, tern_error *err)
{
    pieces p = {0};
    tern_gguf_writer *w = NULL;
    tern_status status;
    TERN_GOTO(collect(adapter, true, &p, err));
    TERN_GOTO(path ? tern_gguf_writer_open(&w, path, err) : tern_gguf_writer_open_memory(&w, out, err));
    TERN_GOTO(write_pieces(adapter, &p, w, err));
    status = tern_gguf_writer_commit(w, err);
    w = NULL;
fail:
    tern_gguf_writer_abort(w);
    free_pieces(&p);
    return status;
}

tern_status tern_adapter_write_gguf(const tern_adapter *adapter, const char *path, tern_error *err)
{
    return write_gguf(adapter, path, NULL, err);
}

tern_status tern_adapter_write_gguf_memory(const tern_adapter *adapter, tern_buf *out, tern_error *err)
{
    return write_gguf(adapter, NULL, out, err);
}

/* ---- PEFT */

static tern_status write_tensors(const pieces *p, const char *path, tern_error *err)
{
    static const char *const metadata[] = {"format", "pt", NULL};
    tern_st_tensor *tensors = tern_calloc(p->n, sizeof *tensors);
    if (!tensors) return tern_fail_alloc(err, p->n * sizeof *tensors);
    for (size_t i = 0; i < p->n; i++) {
        const piece *one = &p->items[i];
        uint64_t n = (uint64_t)one->rows * one->cols;
        tensors[i] = (tern_st_tensor){.name = one->name,
                                      .dtype = TERN_ST_F32,
                                      .n_dims = 2,
                                      .dims = {one->rows, one->cols},
                                      .n_elements = n,
                                      .data = (const uint8_t *)one->values,
                                      .bytes = (size_t)n * sizeof(float)};
    }
    tern_status status = tern_safetensors_write(path, tensors, p->n, metadata, err);
    tern_free(tensors);
    return status;
}

static tern_status write_config(const tern_adapter *ad, const char *path, tern_error *err)
{
    tern_buf text = {0};
    tern_status status;
    TERN_GOTO(tern_adapter__add_peft_config(ad, &text, err));
    TERN_GOTO(tern_file_write(path, text.data, text.size, err));
fail:
    tern_buf_deinit(&text);
    return status;
}

static tern_status write_folder(const tern_adapter *ad, const pieces *p, const char *dir, tern_error *err)
{
    if (mkdir(dir, 0777) != 0 && !tern_file_is_dir(dir))
        return tern_fail(err, TERN_IO, "%s: %s", tern_show_z(dir).text, strerror(errno));
    char *weights = tern_path_join(dir, "adapter_model.safetensors"),
         *config = tern_path_join(dir, "adapter_config.json");
    tern_status status;
    TERN_GOTO(weights && config ? write_tensors(p, weights, err) : tern_fail_alloc(err, strlen(dir) + 32));
    TERN_GOTO(write_config(ad, config, err));
fail:
    tern_free(weights);
    tern_free(config);
    return status;
}

tern_status tern_adapter_write_peft(const tern_adapter *adapter, const char *dir, tern_error *err)
{
    pieces p = {0};
    tern_status status;
    TERN_GOTO(collect(adapter, false, &p, err));
    TERN_GOTO(write_folder(adapter, &p, dir, err));
fail:
    free_pieces(&p);
    return status;
}
