/* A model from a GGUF file that comes piece by piece: which tensors are wanted, and where their bytes go. */
#include "model/stream/stream.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "format/gguf.h"
#include "model/package/package.h"
#include "model/stream/internal.h"
#include "quant/encoding.h"

static item *add(tern_model_stream *s, const tern_gguf_tensor *t, size_t offset, size_t bytes)
{
    item *i = &s->items[s->n_items++];
    *i = (item){.offset = t->offset + offset, .bytes = bytes};
    return i;
}

static tern_status keep(tern_model_stream *s, item *i, tern_error *err)
{
    void *block;
    TERN_TRY(tern_model__own(s->model, i->bytes, &block, err));
    i->data = block;
    return TERN_OK;
}

/* A weight that is passed on: backends want to know at once whether it has a scale for each row. */
static tern_status pass_on(tern_model_stream *s, item *i, bool scale_for_each_row, tern_error *err)
{
    tern_weight *w = i->weight;
    void *storage;
    TERN_TRY(tern_model__own(s->model, 2 * TERN_WEIGHT_END_BYTES, &storage, err));
    w->ends = i->ends = storage;
    if (!scale_for_each_row) return TERN_OK;
    TERN_TRY(tern_model__own(s->model, w->rows * sizeof(float), &storage, err));
    w->row_scales = storage;
    return TERN_OK;
}

/* Only the sizes count of what somebody else brings. */
static tern_status pass_over(tern_model_stream *s, const tern_gguf_weight *p, tern_error *err)
{
    if (p->weight->encoding->ternary)
        return tern_fail(err, TERN_UNSUPPORTED,
                         "%s: ternary experts found, whose scales are not read: dense ones expected", p->weight->name);
    return tern_model__added(s->model, p->weight, err);
}

static tern_status add_weight(tern_model_stream *s, const tern_gguf_weight *p, tern_error *err)
{
    if (s->no_experts && tern_role__of_experts(p->role)) return pass_over(s, p, err);
    item *i = add(s, p->tensor, p->offset, p->weight->bytes);
    i->weight = p->weight;
    i->role = p->role;
    i->gathered = p->weight->encoding->ternary && p->weight->encoding->tail_bytes == 0;
    const bool keeps = s->keep || tern_role_is_vector(p->role);
    if (keeps && !i->gathered) TERN_TRY(keep(s, i, err));
    if (!keeps) TERN_TRY(pass_on(s, i, p->scales && p->scales->bytes > sizeof(float), err));
    if (!p->scales) return TERN_OK;
    i = add(s, p->scales, 0, p->scales->bytes);
    i->weight = p->weight;
    i->scales = true;
    return keep(s, i, err);
}

static tern_status add_all(tern_model_stream *s, const tern_gguf *g, tern_error *err)
{
    const tern_gguf_tensor *factors;
    size_t most = 2 * ((size_t)s->model->config.n_layers + 1) * TERN_ROLE_COUNT + TERN_FACTORS_KINDS;
    s->items = tern_calloc(most, sizeof *s->items);
    if (!s->items) return tern_fail_alloc(err, most * sizeof *s->items);
    for (unsigned i = 0; i < TERN_FACTORS_KINDS; i++) {
        TERN_TRY(tern_model__find_rope_factors(s->model, g, (tern_rope_factors)i, &factors, err));
        if (!factors) continue;
        item *kept = add(s, factors, 0, factors->bytes);
        kept->factors = (tern_rope_factors)i;
        TERN_TRY(keep(s, kept, err));
    }
    tern_role_walk walk = {0};
    while (tern_role__next(&walk, &s->model->config)) {
        tern_gguf_weight p;
        TERN_TRY(tern_model__describe(s->model, g, walk.role, walk.layer, &p, err));
        TERN_TRY(add_weight(s, &p, err));
    }
    return TERN_OK;
}

static int by_offset(const void *a, const void *b)
{
    const item *x = a, *y = b;
    return (x->offset > y->offset) - (x->offset < y->offset);
}

static tern_status read_head(tern_model_stream *s, const tern_gguf *g, tern_error *err)
{
    TERN_TRY(tern_model__read_header(s->model, g, err));
    s->model->bytes_expected = tern_gguf_bytes(g);
    TERN_TRY(add_all(s, g, err));
    qsort(s->items, s->n_items, sizeof *s->items, by_offset);
    return tern_model__open_tokenizer(s->model, g, err);
}

tern_status tern_model_stream_open_gguf(tern_model_stream **stream, const tern_gguf *g,
                                        const tern_model_stream_options *options, tern_error *err)
{
    *stream = NULL;
    tern_error local = {0};
    if (!err) err = &local;
    tern_model_stream *s = tern_calloc(1, sizeof *s);
    tern_status status = s ? TERN_OK : tern_fail_alloc(err, sizeof *s);
    if (s) {
        s->keep = options->keep;
        s->no_experts = options->no_experts;
        status = tern_model__begin(&s->model, options->model, err);
    }
    if (status == TERN_OK) status = read_head(s, g, err);
    if (status == TERN_OK && options->manifest) status = tern_package_match(options->manifest, s->model, g, err);
    if (status != TERN_OK) {
        tern_model_stream_close(s);
        return status;
    }
    *err = (tern_error){0}; /* a missing optional key is none */
    *stream = s;
    return TERN_OK;
}

tern_status tern_model_stream_open(tern_model_stream **stream, const void *head, size_t n,
                                   const tern_model_stream_options *options, uint64_t *wanted, tern_error *err)
{
    *stream = NULL;
    tern_gguf *g = NULL;
    TERN_TRY(tern_gguf_parse_head(&g, head, n, options->file_bytes, wanted, err));
    const tern_status status = tern_model_stream_open_gguf(stream, g, options, err);
    tern_gguf_close(g);
    return status;
}

void tern_model_stream_close(tern_model_stream *s)
{
    if (!s) return;
    tern_model_close(s->model);
    tern_free(s->items);
    tern_free_aligned(s->staging);
    tern_free(s);
}

const tern_model *tern_model_stream_model(const tern_model_stream *s)
{
    return s->model;
}

tern_status tern_model_stream_finish(tern_model_stream *s, tern_model **model, tern_error *err)
{
    if (s->at < s->n_items)
        return tern_fail(err, TERN_INVALID_ARGUMENT, "%zu of %zu tensors read, all expected", s->at, s->n_items);
    TERN_TRY(tern_model__settle_i2s_order(s->model, err));
    *model = tern_model__opened(s->model);
    s->model = NULL;
    return TERN_OK;
}
