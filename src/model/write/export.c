/* Writing a whole model as a GGUF file. */
#include "model/model.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/pool.h"
#include "format/gguf.h"
#include "model/hadamard.h"
#include "model/mix.h"
#include "model/write/export_internal.h"
#include "quant/encoding.h"
#include "quant/rsr.h"
#include "text/tokenizer/tokenizer.h"

/* The keys that llama.cpp needs where there is no tokenizer. */
#define NO_VOCAB "no_vocab"

static const tern_encoding *target_of(const tern_config *c, const tern_export_options *o, tern_role role,
                                      uint32_t layer, const tern_weight *w)
{
    const tern_encoding *mixed = o->mix ? tern_mix_encoding(o->mix, c, role, layer) : NULL;
    const tern_encoding *linear = mixed ? mixed : o->linear ? o->linear : w->encoding;
    /* a block that drafts tokens may be dense where the layers are ternary */
    if (c->mtp_at && linear->ternary && !w->encoding->ternary && !o->force) linear = w->encoding;
    switch (tern_role__kind(role)) {
    case TERN_KIND_E:
    case TERN_KIND_L: return linear;
    case TERN_KIND_T: return o->head ? o->head : mixed ? mixed : w->encoding;
    default: return tern_encoding_find(TERN_ENC_F32);
    }
}

/* trained: a dense weight's numbers are ternary. */
static tern_status check_target(const tern_export_options *o, tern_role role, const tern_weight *w,
                                const tern_encoding *e, bool trained, tern_error *err)
{
    size_t bytes;
    if (tern_role__kind(role) == TERN_KIND_T && e->ternary)
        return tern_fail(err, TERN_INVALID_ARGUMENT, "%s: %s found, an encoding that is not ternary expected", w->name,
                         e->name);
    if (e->ternary && !w->encoding->ternary && !trained && !o->force)
        return tern_fail(err, TERN_UNSUPPORTED, "%s: %s weights into %s: the model was not trained for it", w->name,
                         w->encoding->name, e->name);
    if (tern_encoding_bytes(e, w->rows, w->cols, &bytes, err) == TERN_OK) return TERN_OK;
    tern_error why = err ? *err : (tern_error){0};
    return tern_fail(err, why.code, "%s: %s; t160 takes any shape", w->name, why.message);
}

tern_status tern_export__plan(const tern_config *config, const tern_export_options *options, tern_role role,
                              uint32_t layer, const tern_weight *weight, tern_export_plan *plan, tern_error *err)
{
    const tern_config *c = config;
    const tern_weight *w = weight;
    tern_export_plan p = {.weight = w,
                          .asked = target_of(c, options, role, layer, w),
                          .n_experts = tern_role__of_experts(role) ? c->n_experts : 1};
    p.encoding = tern_encoding_fitting(p.asked, w->cols);
    p.ternarise = p.encoding->ternary && !w->encoding->ternary;
    if (p.ternarise) TERN_TRY(tern_export__find_signs(&p, err));
    tern_status status;
    TERN_GOTO(check_target(options, role, w, p.encoding, p.signs, err));
    bool permute = tern_family__find(c->architecture)->rope_adjacent && !c->rope_adjacent;
    const bool q = role == TERN_ROLE_ATTN_Q || role == TERN_ROLE_ATTN_Q_BIAS;
    if (permute && tern_role__is_rotated(role)) p.permuted_heads = q ? c->n_heads : c->n_kv_heads;
    p.heads = tern_role__head_order(c, role, tern_family__find(c->architecture)->tiled_heads);
    TERN_GOTO(tern_export__find_importance(options, role, layer, &p, err));
    if (options->rsr && p.encoding->ternary)
        p.rsr_rows = options->rsr_rows ? options->rsr_rows : tern_rsr_default_k(w->cols);
    if (p.encoding->ternary) TERN_GOTO(tern_export__plan_scales(&p, err));
    *plan = p;
    return TERN_OK;
fail:
    tern_export__drop(&p);
    return status;
}

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

typedef struct exporter {
    const tern_model *model;
    const tern_export_options *options;
    tern_gguf_writer *writer;
    tern_pool *pool;
    tern_export_exact exact;
    tern_export_report report;
    uint64_t done; /* elements */
} exporter;

static tern_status add_scale_tensor(const exporter *x, tern_role role, uint32_t layer, uint32_t n, tern_error *err)
{
    char name[TERN_MODEL__NAME_BYTES], scale_name[TERN_MODEL__NAME_BYTES + 8];
    tern_role__gguf_name(&x->model->config, role, layer, name);
    snprintf(scale_name, sizeof scale_name, "%.*s.scale", (int)(strlen(name) - strlen(".weight")), name);
    uint64_t dims[1] = {n};
    return tern_gguf_add_tensor(x->writer, scale_name, TERN_ENC_F32, dims, 1, err);
}

static tern_status add_rsr_tensor(const exporter *x, const tern_role_walk *walk, const tern_export_plan *plan,
                                  tern_error *err)
{
    char name[TERN_MODEL__NAME_BYTES];
    tern_role__gguf_name(&x->model->config, walk->role, walk->layer, name);
    return tern_export__rsr_tensor(plan, name, x->writer, err);
}

static bool has_rope_factors(const tern_config *c, tern_rope_factors which)
{
    if (which != TERN_FACTORS) return c->rope[0].scaling == TERN_ROPE_LONG;
    return c->rope[0].scaling == TERN_ROPE_LLAMA3 || c->rope[0].factors;
}

/* Matrices that are stored as one have one encoding, that of the last part where a mix gives them several; parts that
 * come in different ones, or ternary ones, whose scales belong to one matrix, stay apart. */
static bool is_joined(const exporter *x, tern_role role, uint32_t layer)
{
    const tern_config *c = &x->model->config;
    const tern_encoding *first = NULL;
    tern_joint joint;
    if (!tern_family__find(c->architecture)->joined || !tern_role__joint(c, role, layer, &joint)) return false;
    for (unsigned part = joint.first; part <= joint.last; part++) {
        const tern_weight *w = tern_model_weight(x->model, (tern_role)part, layer);
        const tern_encoding *e = target_of(c, x->options, joint.last, layer, w);
        e = tern_encoding_fitting(e, w->cols);
        if (e->ternary || e->linear || e->tail_bytes || (first && e != first)) return false;
        first = e;
    }
    return true;
}

static tern_status plan_of(const exporter *x, tern_role role, uint32_t layer, tern_export_plan *plan, tern_error *err)
{
    const tern_config *c = &x->model->config;
    tern_export_options options = *x->options;
    const tern_weight *w = tern_model_weight(x->model, role, layer);
    tern_joint joint;
    const bool joined = is_joined(x, role, layer);
    if (c->mtp_at) options.imatrix = NULL; /* which the model's own layers made */
    if (joined && tern_role__joint(c, role, layer, &joint) && options.mix) {
        options.linear = tern_mix_encoding(options.mix, c, joint.last, layer);
        options.mix = NULL;
    }
    TERN_TRY(tern_export__plan(c, &options, role, layer, w, plan, err));
    plan->joined = joined;
    plan->pool = x->pool;
    return TERN_OK;
}

/* A tensor, and those beside it. */
static tern_status add_tensor(exporter *x, const tern_role_walk *walk, const tern_export_plan *plan, tern_error *err)
{
    char name[TERN_MODEL__NAME_BYTES];
    tern_role__gguf_name(&x->model->config, walk->role, walk->layer, name);
    TERN_TRY(tern_export_exact_add(&x->exact, plan, name, err));
    TERN_TRY(
        tern_export__tensor(x->writer, walk->role, walk->layer, &x->model->config, plan->encoding, plan->joined, err));
    if (plan->n_scales) TERN_TRY(add_scale_tensor(x, walk->role, walk->layer, plan->n_scales, err));
    if (plan->rsr_rows) TERN_TRY(add_rsr_tensor(x, walk, plan, err));
    tern_export__note(&x->report, plan);
    return TERN_OK;
}

static tern_status check_report(const exporter *x, uint32_t n_rsr, tern_error *err)
{
    if (x->options->imatrix && !x->report.n_weighted)
        return tern_fail(err, TERN_INVALID_ARGUMENT,
                         "imatrix: no entry found for any matrix that is encoded anew, some expected");
    if (!x->options->rsr || n_rsr) return TERN_OK;
    return tern_fail(err, TERN_INVALID_ARGUMENT, "rsr: a model without ternary layers found, some expected");
}

static tern_status add_classifier(exporter *x, tern_error *err)
{
    const tern_classifier *c = tern_model_classifier(x->model);
    if (!c) return TERN_OK;
    const uint64_t dims[2] = {c->n_embd, c->n_labels};
    TERN_TRY(tern_gguf_add_tensor(x->writer, TERN_MODEL__CLASSIFIER, TERN_ENC_F32, dims, 2, err));
    return c->bias ? tern_gguf_add_tensor(x->writer, TERN_MODEL__CLASSIFIER_BIAS, TERN_ENC_F32, dims + 1, 1, err)
                   : TERN_OK;
}

static tern_status write_floats(const exporter *x, const float *values, size_t n, tern_error *err)
{
    uint8_t bytes[4];
    for (size_t i = 0; i < n; i++) {
        tern_store_f32(bytes, values[i]);
        TERN_TRY(tern_gguf_writer_data(x->writer, bytes, sizeof bytes, err));
    }
    return TERN_OK;
}

static tern_status write_classifier(const exporter *x, tern_error *err)
{
    const tern_classifier *c = tern_model_classifier(x->model);
    if (!c) return TERN_OK;
    TERN_TRY(write_floats(x, c->weights, (size_t)c->n_labels * c->n_embd, err));
    return c->bias ? write_floats(x, c->bias, c->n_labels, err) : TERN_OK;
}

static tern_status add_roles(exporter *x, uint32_t *n_rsr, tern_error *err)
{
    tern_role_walk walk = {0};
    while (tern_role__next(&walk, &x->model->config)) {
        tern_export_plan plan;
        TERN_TRY(plan_of(x, walk.role, walk.layer, &plan, err));
        const tern_status status = add_tensor(x, &walk, &plan, err);
        *n_rsr += plan.rsr_rows != 0;
        tern_export__drop(&plan);
        TERN_TRY(status);
    }
    return TERN_OK;
}

/* The layers' first, then those of a block that drafts tokens. */
static tern_status add_tensors(exporter *x, tern_error *err)
{
    const tern_config *c = &x->model->config;
    uint64_t dims[1] = {tern_config_rope_dim(c) / 2};
    for (unsigned i = 0; i < TERN_FACTORS_KINDS; i++)
        if (has_rope_factors(c, (tern_rope_factors)i))
            TERN_TRY(tern_gguf_add_tensor(x->writer, tern_model__factors_name((tern_rope_factors)i), TERN_ENC_F32, dims,
                                          1, err));
    TERN_TRY(add_classifier(x, err));
    uint32_t n_rsr = 0;
    TERN_TRY(add_roles(x, &n_rsr, err));
    const tern_model *whole = x->model;
    x->model = whole->mtp;
    const tern_status status = x->model ? add_roles(x, &n_rsr, err) : TERN_OK;
    x->model = whole;
    TERN_TRY(status);
    return check_report(x, n_rsr, err);
}

/* The divisors of the plain frequencies that give the model's; llama.cpp's tensor for LLaMA 3 scaling. */
static tern_status write_rope_factors(const exporter *x, tern_error *err)
{
    tern_config plain = x->model->config;
    if (!has_rope_factors(&plain, TERN_FACTORS)) return TERN_OK;
    float before[TERN_MODEL__MAX_HEAD_DIM / 2], after[TERN_MODEL__MAX_HEAD_DIM / 2];
    tern_rope_frequencies(&plain.rope[0], plain.head_dim, after);
    plain.rope[0].factors = NULL;
    if (plain.rope[0].scaling == TERN_ROPE_LLAMA3) plain.rope[0].scaling = TERN_ROPE_PLAIN;
    tern_rope_frequencies(&plain.rope[0], plain.head_dim, before);
    for (uint32_t i = 0; i < plain.head_dim / 2; i++) {
        uint8_t bytes[4];
        const float *given = x->model->config.rope[0].factors;
        bool as_given = given && x->model->config.rope[0].scaling != TERN_ROPE_LLAMA3;
        tern_store_f32(bytes, as_given ? given[i] : before[i] / after[i]);
        TERN_TRY(tern_gguf_writer_data(x->writer, bytes, sizeof bytes, err));
    }
    return TERN_OK;
}

static tern_status write_long_factors(const exporter *x, const float *factors, tern_error *err)
{
    const tern_config *c = &x->model->config;
    if (c->rope[0].scaling != TERN_ROPE_LONG) return TERN_OK;
    return write_floats(x, factors, tern_config_rope_dim(c) / 2, err);
}

static tern_status report(const exporter *x, tern_error *err)
{
    const tern_export_options *o = x->options;
    const tern_model *whole = x->model->trunk ? x->model->trunk : x->model;
    float share = (float)((double)x->done / (double)whole->parameters);
    if (!o->progress || o->progress(o->progress_context, share)) return TERN_OK;
    return tern_fail(err, TERN_CANCELLED, "writing the model was cancelled");
}

static tern_status write_roles(exporter *x, tern_error *err)
{
    tern_role_walk walk = {0};
    while (tern_role__next(&walk, &x->model->config)) {
        tern_export_plan plan;
        TERN_TRY(plan_of(x, walk.role, walk.layer, &plan, err));
        const tern_status status = tern_export__write(&plan, x->writer, err);
        tern_export__drop(&plan);
        TERN_TRY(status);
        x->done += (uint64_t)plan.weight->rows * plan.weight->cols;
        TERN_TRY(report(x, err));
    }
    return TERN_OK;
}

static tern_status write_tensors(exporter *x, tern_error *err)
{
    TERN_TRY(write_rope_factors(x, err));
    TERN_TRY(write_long_factors(x, x->model->config.long_factors, err));
    TERN_TRY(write_long_factors(x, x->model->config.short_factors, err));
    TERN_TRY(write_classifier(x, err));
    TERN_TRY(write_roles(x, err));
    const tern_model *whole = x->model;
    x->model = whole->mtp;
    const tern_status status = x->model ? write_roles(x, err) : TERN_OK;
    x->model = whole;
    return status;
}

static tern_status write_all(exporter *x, tern_error *err)
{
    tern_export_plan first;
    TERN_TRY(plan_of(x, tern_config_first_linear(&x->model->config), 0, &first, err));
    tern_export__drop(&first);
    const uint32_t file_type = tern_export__file_type(x->options, first.encoding);
    TERN_TRY(tern_export__config(&x->model->config, file_type, x->writer, err));
    if (x->options->imatrix) TERN_TRY(tern_export__imatrix(x->options->imatrix, x->writer, err));
    if (x->model->i2s_stated) TERN_TRY(tern_gguf_add_string(x->writer, TERN_MODEL__I2S_ORDER, "x86", 3, err));
    TERN_TRY(tern_hadamard_write(x->model->hadamard, x->writer, err));
    if (x->model->tokenizer)
        TERN_TRY(tern_tokenizer_write_gguf(x->model->tokenizer, x->model->config.n_vocab, x->writer, err));
    else TERN_TRY(tern_gguf_add_string(x->writer, "tokenizer.ggml.model", NO_VOCAB, strlen(NO_VOCAB), err));
    TERN_TRY(add_tensors(x, err));
    TERN_TRY(tern_export_exact_write(&x->exact, x->writer, err));
    TERN_TRY(tern_gguf_writer_begin_data(x->writer, err));
    return write_tensors(x, err);
}

tern_status tern_model_write_gguf(const tern_model *model, const char *path, const tern_export_options *options,
                                  tern_error *err)
{
    static const tern_export_options none;
    tern_error local = {0};
    tern_error *e = err ? err : &local;
    exporter x = {.model = model, .options = options ? options : &none};
    tern_pool *own = NULL;
    if (!x.options->pool) TERN_TRY(tern_pool_open(&own, 0, false, e));
    x.pool = own ? own : x.options->pool;
    tern_status status = tern_gguf_writer_open(&x.writer, path, e);
    if (status == TERN_OK) status = write_all(&x, e);
    tern_pool_close(own);
    tern_export_exact_deinit(&x.exact);
    if (status != TERN_OK) {
        tern_gguf_writer_abort(x.writer);
        return status;
    }
    TERN_TRY(tern_gguf_writer_commit(x.writer, e));
    x.report.own |= tern_export__own_architecture(&model->config);
    if (x.options->report) *x.options->report = x.report;
    return TERN_OK;
}
