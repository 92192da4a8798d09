/* Writing a Hugging Face folder: the tensors. */
#include "model/write/hf.h"

#include <string.h>

#include "base/alloc.h"
#include "base/half.h"
#include "model/model_internal.h"
#include "model/write/hf_internal.h"
#include "text/tokenizer/tokenizer.h"

enum { CHUNK_BYTES = 1 << 20 };

static tern_status rows_of_model(void *context, tern_role role, uint32_t layer, uint32_t first, uint32_t n, float *out,
                                 tern_error *err)
{
    const tern_model *model = context;
    const bool mtp = model->mtp && layer == model->config.n_layers;
    return tern_model_master(mtp ? model->mtp : model, role, mtp ? 0 : layer, first, n, out, err);
}

tern_master_source tern_master_of_model(const tern_model *model)
{
    return (tern_master_source){rows_of_model, (void *)(uintptr_t)model};
}

/* Rows of Q and K in the order of split halves, a head at a time: row j < half of the head is row 2j of adjacent pairs,
 * the others follow as 2j + 1. */
static void to_halves(float *rows, uint32_t head_dim, uint32_t cols, float *scratch)
{
    uint32_t half = head_dim / 2;
    for (uint32_t j = 0; j < head_dim; j++)
        memcpy(scratch + (size_t)j * cols, rows + (size_t)(j < half ? 2 * j : 2 * (j - half) + 1) * cols,
               cols * sizeof *rows);
    memcpy(rows, scratch, (size_t)head_dim * cols * sizeof *rows);
}

/* Rows of the file: a row at a time where heads have other places. */
static tern_status source_rows(tern_hf__writing *w, const tern_hf_tensor *t, uint32_t first, uint32_t n,
                               tern_error *err)
{
    const tern_head_order order = tern_role__head_order(w->config, t->role, false);
    const bool by_row = t->mixed || (order.run && !order.columns && t->rows > 1);
    for (uint32_t i = 0; by_row && i < n; i++) {
        tern_role role = t->role;
        uint32_t row = tern_head_order_source(&order, first + i);
        if (t->mixed) tern_role__mixed_row(w->config, first + i, &role, &row);
        TERN_TRY(w->source->rows(w->source->context, role, t->layer, row, 1, w->rows + (size_t)i * t->cols, err));
    }
    if (by_row) return TERN_OK;
    TERN_TRY(w->source->rows(w->source->context, t->role, t->layer, t->first + first, n, w->rows, err));
    tern_head_order columns = order;
    columns.columns = columns.run > 0; /* of vectors the numbers */
    tern_head_order_columns(&columns, w->rows, n, t->cols, sizeof *w->rows, w->rows + (size_t)n * t->cols);
    return TERN_OK;
}

static tern_status read_rows(tern_hf__writing *w, const tern_hf_tensor *t, uint32_t first, uint32_t n, tern_error *err)
{
    TERN_TRY(source_rows(w, t, first, n, err));
    for (size_t i = 0; t->rows == 1 && i < (size_t)n * t->cols; i++)
        w->rows[i] = tern_role__to_hf(w->config, t->role, w->rows[i]);
    if (!t->from_adjacent) return TERN_OK;
    const bool bias = tern_role_is_vector(t->role); /* a number for each row of its matrix */
    const uint32_t head_dim = w->config->head_dim, rows = bias ? n * t->cols : n, cols = bias ? 1 : t->cols;
    float *scratch = w->rows + (size_t)n * t->cols;
    for (uint32_t h = 0; h < rows / head_dim; h++)
        to_halves(w->rows + (size_t)h * head_dim * cols, head_dim, cols, scratch);
    return TERN_OK;
}

static void add_rows(tern_hf__writing *w, size_t n)
{
    if (w->options->f32) {
        tern_safetensors_writer_add(&w->file, w->rows, n * sizeof *w->rows);
        return;
    }
    for (size_t i = 0; i < n; i++) w->half[i] = tern_f32_to_bf16(w->rows[i]);
    tern_safetensors_writer_add(&w->file, w->half, n * sizeof *w->half);
}

tern_status tern_hf__put(tern_hf__writing *w, size_t n, tern_error *err)
{
    const tern_hf_options *o = w->options;
    add_rows(w, n);
    w->done += n;
    if (!o->progress || o->progress(o->progress_context, (float)((double)w->done / (double)w->total))) return TERN_OK;
    return tern_fail(err, TERN_CANCELLED, "writing the model was cancelled");
}

/* How many rows are taken at a time; whole heads where they are reordered. */
static uint32_t chunk_of(const tern_hf__writing *w, const tern_hf_tensor *t)
{
    uint32_t n = CHUNK_BYTES / 4 / t->cols, unit = t->from_adjacent ? w->config->head_dim : 1;
    n = n / unit * unit;
    return n ? n : unit;
}

static tern_status write_tensor(tern_hf__writing *w, const tern_hf_tensor *t, tern_error *err)
{
    uint32_t chunk = t->parts ? t->rows / w->config->n_experts * t->parts : chunk_of(w, t);
    size_t room = ((size_t)chunk + (t->parts ? chunk : t->from_adjacent ? w->config->head_dim : 1)) * t->cols;
    w->rows = tern_calloc(room, sizeof *w->rows);
    w->half = tern_calloc(room, sizeof *w->half);
    tern_status status = w->rows && w->half ? TERN_OK : tern_fail_alloc(err, room * sizeof *w->rows);
    if (status == TERN_OK && t->parts) status = tern_hf__write_parts(w, t, err);
    for (uint32_t r = 0, n; !t->parts && r < t->rows && status == TERN_OK; r += n) {
        n = t->rows - r < chunk ? t->rows - r : chunk;
        status = read_rows(w, t, r, n, err);
        if (status == TERN_OK) status = tern_hf__put(w, (size_t)n * t->cols, err);
    }
    tern_free(w->rows);
    tern_free(w->half);
    return status;
}

/* Adds the tensors of a configuration, the model's or that of its block. */
static void list_roles(const tern_config *c, tern_hf_tensor *out, size_t *n)
{
    tern_role_walk walk = {0};
    while (tern_role__next(&walk, c)) {
        tern_hf_tensor *t = &out[*n];
        if (tern_role__of_experts(walk.role)) {
            *n += tern_hf__list_experts(c, walk.role, walk.layer, t);
            continue;
        }
        if (c->recurrence.joint_rates && walk.role == TERN_ROLE_SSM_GATE) { /* among the rows of q, k and v */
            uint32_t rows, cols;
            tern_role__shape(walk.role, walk.layer, c, &rows, &cols);
            (t - 1)->rows += rows;
            (t - 1)->mixed = true;
            continue;
        }
        ++*n;
        *t = (tern_hf_tensor){.role = walk.role, .layer = walk.layer};
        tern_role__shape(walk.role, walk.layer, c, &t->rows, &t->cols);
        t->from_adjacent = c->rope_adjacent && tern_role__is_rotated(walk.role);
        tern_role_hf_name(c, walk.role, walk.layer, t->name);
        tern_joint joint;
        if (!tern_family__find(c->architecture)->joined || !tern_role__joint(c, walk.role, walk.layer, &joint))
            continue;
        memcpy(t->name, joint.hf, sizeof t->name);
        t->joins = walk.role != joint.first;
    }
}

/* The tensors of the configuration, in the order of the file; those of a block that drafts tokens follow the last
 * layer's. */
static tern_status list(const tern_hf__writing *w, tern_hf_tensor **out, size_t *n, tern_error *err)
{
    const tern_config *c = w->config;
    *out = tern_calloc(((size_t)c->n_layers + 2) * (TERN_ROLE_COUNT + 3 * (size_t)c->n_experts), sizeof **out);
    if (!*out) return tern_fail_alloc(err, sizeof **out);
    *n = 0;
    list_roles(c, *out, n);
    if (!c->n_mtp) return TERN_OK;
    const tern_config mtp = tern_config_of_mtp(c);
    const size_t first = *n;
    list_roles(&mtp, *out, n);
    for (size_t i = first; i < *n; i++) (*out)[i].layer = c->n_layers;
    return TERN_OK;
}

static void add_part(tern_st_tensor *whole, const tern_hf_tensor *part)
{
    const size_t item = whole->bytes / (size_t)whole->n_elements;
    whole->dims[0] += part->rows;
    whole->n_elements += (uint64_t)part->rows * part->cols;
    whole->bytes += tern_size_of((uint64_t)part->rows * part->cols) * item;
}

static tern_status write_tensors(tern_hf__writing *w, const char *path, const tern_hf_tensor *tensors, size_t n,
                                 tern_error *err)
{
    static const char *const metadata[] = {"format", "pt", NULL};
    tern_st_tensor *described = tern_calloc(n, sizeof *described);
    if (!described) return tern_fail_alloc(err, n * sizeof *described);
    size_t n_described = 0;
    for (size_t i = 0; i < n; i++) {
        const tern_hf_tensor *t = &tensors[i];
        uint64_t elements = (uint64_t)t->rows * t->cols * (t->parts ? t->parts : 1);
        w->total += elements;
        if (t->joins) {
            add_part(&described[n_described - 1], t);
            continue;
        }
        tern_st_tensor *d = &described[n_described++];
        *d = (tern_st_tensor){.name = t->name,
                              .dtype = w->options->f32 ? TERN_ST_F32 : TERN_ST_BF16,
                              .n_elements = elements,
                              .bytes = tern_size_of(elements * (w->options->f32 ? 4 : 2))};
        d->n_dims = tern_hf__dims(t, w->config, d->dims);
    }
    tern_status status;
    TERN_GOTO(tern_safetensors_writer_open(&w->file, path, described, n_described, metadata, err));
    for (size_t i = 0; i < n; i++) TERN_GOTO(write_tensor(w, &tensors[i], err));
    TERN_GOTO(tern_safetensors_writer_commit(&w->file, err));
fail:
    tern_safetensors_writer_abort(&w->file);
    tern_free(described);
    return status;
}

/* These classes have one switch for all four. */
static tern_status check_biases(const tern_config *c, tern_error *err)
{
    if (!tern_family__find(c->architecture)->may_bias || c->qkv_bias == c->o_bias) return TERN_OK;
    return tern_fail(err, TERN_UNSUPPORTED, "biases of %s alone found: %s expects those of q, k, v and o, or none",
                     c->o_bias ? "o" : "q, k and v", tern_family__class_of(c)->name);
}

tern_status tern_hf_write(const char *dir, const tern_config *config, const tern_tokenizer *tokenizer,
                          const tern_master_source *source, const tern_hf_options *options, tern_error *err)
{
    static const tern_hf_options none;
    TERN_TRY(check_biases(config, err));
    tern_hf__writing w = {.config = config, .source = source, .options = options ? options : &none};
    tern_hf_tensor *tensors = NULL;
    size_t n = 0;
    TERN_TRY(tern_folder_make(dir, err));
    if (tokenizer) TERN_TRY(tern_tokenizer_write_hf(tokenizer, dir, err));
    TERN_TRY(tern_hf__write_config(dir, config, tokenizer, w.options->f32, err));
    char *path = tern_path_join(dir, "model.safetensors");
    tern_status status;
    TERN_GOTO(path ? list(&w, &tensors, &n, err) : tern_fail_alloc(err, strlen(dir)));
    TERN_GOTO(write_tensors(&w, path, tensors, n, err));
fail:
    tern_free(tensors);
    tern_free(path);
    return status;
}
