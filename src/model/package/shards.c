/* Which bytes of a GGUF file go into which shard of a package. */
#include <stdlib.h>

#include "base/alloc.h"
#include "model/package/internal.h"
#include "quant/encoding.h"

static const tern_role roles[TERN_PACKAGE_MAX_PARTS] = {TERN_ROLE_FFN_GATE_EXPS,    TERN_ROLE_FFN_UP_EXPS,
                                                        TERN_ROLE_FFN_DOWN_EXPS,    TERN_ROLE_FFN_GATE_EXPS_BIAS,
                                                        TERN_ROLE_FFN_UP_EXPS_BIAS, TERN_ROLE_FFN_DOWN_EXPS_BIAS};

static const tern_gguf_tensor *tensor_of(const tern_model *model, const tern_gguf *gguf, tern_role role, uint32_t layer)
{
    const tern_weight *w = tern_model_weight(model, role, layer);
    return w->encoding ? tern_gguf_find_tensor(gguf, w->name) : NULL;
}

/* Bytes of one expert in a weight of all; 0: experts do not begin at whole bytes. */
static size_t bytes_of(const tern_weight *w, uint32_t n_experts)
{
    size_t row_bytes;
    const bool whole = w->rows % n_experts == 0;
    if (!whole || tern_encoding_row_bytes(w->encoding, w->cols, &row_bytes, NULL) != TERN_OK) return 0;
    return w->rows / n_experts * row_bytes;
}

bool tern_package__by_expert(const tern_model *model, const tern_gguf *gguf)
{
    const tern_config *c = tern_model_config(model);
    for (uint32_t layer = 0; c->n_experts && layer < c->n_layers; layer++)
        for (size_t i = 0; i < TERN_PACKAGE_MAX_PARTS; i++) {
            const tern_weight *w = tern_model_weight(model, roles[i], layer);
            if (!w->encoding) continue;
            const tern_gguf_tensor *t = tensor_of(model, gguf, roles[i], layer);
            const size_t each = bytes_of(w, c->n_experts);
            if (!t || each == 0 || each * c->n_experts + w->encoding->tail_bytes != t->bytes) return false;
        }
    return c->n_experts > 0;
}

uint32_t tern_package__expert_ranges(const tern_model *model, const tern_gguf *gguf, uint32_t layer, uint32_t expert,
                                     tern_manifest_range ranges[TERN_PACKAGE_MAX_PARTS])
{
    uint32_t n = 0;
    size_t at = 0;
    for (size_t i = 0; i < TERN_PACKAGE_MAX_PARTS; i++) {
        const tern_weight *w = tern_model_weight(model, roles[i], layer);
        const tern_gguf_tensor *t = tensor_of(model, gguf, roles[i], layer);
        if (!t) continue;
        const size_t bytes = bytes_of(w, tern_model_config(model)->n_experts);
        ranges[n++] = (tern_manifest_range){.offset = t->offset + (uint64_t)expert * bytes, .bytes = bytes, .at = at};
        at += bytes;
    }
    return n;
}

/* A plan that grows. */
typedef struct plan {
    tern_manifest *m;
    size_t cap_shards, cap_ranges;
} plan;

static tern_status add_shard(plan *p, uint32_t layer, uint32_t expert, tern_error *err)
{
    void *items = p->m->shards;
    if (p->m->n_shards == TERN_MANIFEST_MAX_SHARDS)
        return tern_fail(err, TERN_LIMIT, "shards of %llu bytes: more than %d needed, larger ones expected",
                         (unsigned long long)p->m->shard_bytes, TERN_MANIFEST_MAX_SHARDS);
    TERN_TRY(tern_grow(&items, &p->cap_shards, p->m->n_shards + 1, sizeof *p->m->shards, err));
    p->m->shards = items;
    p->m->shards[p->m->n_shards++] = (tern_manifest_shard){.layer = layer, .expert = expert};
    return TERN_OK;
}

/* To the last shard. */
static tern_status add_range(plan *p, uint64_t offset, size_t bytes, tern_error *err)
{
    tern_manifest *m = p->m;
    tern_manifest_shard *s = &m->shards[m->n_shards - 1];
    void *items = m->ranges;
    TERN_TRY(tern_grow(&items, &p->cap_ranges, m->n_ranges + 1, sizeof *m->ranges, err));
    m->ranges = items;
    m->ranges[m->n_ranges++] =
        (tern_manifest_range){.offset = offset, .bytes = bytes, .shard = m->n_shards - 1, .at = s->bytes};
    s->bytes += bytes;
    return TERN_OK;
}

/* Bytes [offset, end) of no expert, into as few shards as hold them. */
static tern_status add_dense(plan *p, uint64_t offset, uint64_t end, tern_error *err)
{
    tern_manifest *m = p->m;
    while (offset < end) {
        const size_t n = m->n_shards;
        if (n == 0 || m->shards[n - 1].bytes == m->shard_bytes) TERN_TRY(add_shard(p, TERN_MANIFEST_DENSE, 0, err));
        const uint64_t room = m->shard_bytes - m->shards[m->n_shards - 1].bytes, left = end - offset;
        const uint64_t now = left < room ? left : room;
        TERN_TRY(add_range(p, offset, (size_t)now, err));
        offset += now;
    }
    return TERN_OK;
}

static int by_offset(const void *a, const void *b)
{
    const tern_manifest_range *x = a, *y = b;
    return (x->offset > y->offset) - (x->offset < y->offset);
}

/* The bytes between the experts. */
static tern_status add_between(plan *p, tern_manifest_range *experts, size_t n, tern_error *err)
{
    uint64_t at = 0;
    qsort(experts, n, sizeof *experts, by_offset);
    for (size_t i = 0; i < n; i++) {
        TERN_TRY(add_dense(p, at, experts[i].offset, err));
        at = experts[i].offset + experts[i].bytes;
    }
    return add_dense(p, at, p->m->bytes, err);
}

static tern_status add_experts(plan *p, const tern_model *model, const tern_gguf *gguf, tern_error *err)
{
    const tern_config *c = tern_model_config(model);
    for (uint32_t layer = 0; layer < c->n_layers; layer++)
        for (uint32_t expert = 0; expert < c->n_experts; expert++) {
            tern_manifest_range parts[TERN_PACKAGE_MAX_PARTS];
            const uint32_t n = tern_package__expert_ranges(model, gguf, layer, expert, parts);
            TERN_TRY(add_shard(p, layer, expert, err));
            for (uint32_t i = 0; i < n; i++) TERN_TRY(add_range(p, parts[i].offset, parts[i].bytes, err));
            if (p->m->shards[p->m->n_shards - 1].bytes <= TERN_MANIFEST_EXPERT_BYTES) continue;
            return tern_fail(err, TERN_LIMIT, "expert %u of layer %u: %zu bytes, at most %d expected", expert, layer,
                             p->m->shards[p->m->n_shards - 1].bytes, TERN_MANIFEST_EXPERT_BYTES);
        }
    return TERN_OK;
}

static tern_status cut_by_expert(plan *p, const tern_model *model, const tern_gguf *gguf, tern_error *err)
{
    const tern_config *c = tern_model_config(model);
    const size_t most = (size_t)c->n_layers * c->n_experts * TERN_PACKAGE_MAX_PARTS;
    tern_manifest_range *all = tern_calloc(most, sizeof *all);
    size_t n = 0;
    if (!all) return tern_fail_alloc(err, most * sizeof *all);
    for (uint32_t layer = 0; layer < c->n_layers; layer++)
        for (uint32_t expert = 0; expert < c->n_experts; expert++)
            n += tern_package__expert_ranges(model, gguf, layer, expert, all + n);
    const tern_status status = add_between(p, all, n, err);
    tern_free(all);
    return status == TERN_OK ? add_experts(p, model, gguf, err) : status;
}

tern_status tern_package__cut(tern_manifest *m, const tern_model *model, const tern_gguf *gguf, tern_error *err)
{
    plan p = {.m = m};
    if (m->version == TERN_MANIFEST_EXPERTS_VERSION) return cut_by_expert(&p, model, gguf, err);
    return add_dense(&p, 0, m->bytes, err);
}

static tern_status match_expert(const tern_manifest *m, const tern_manifest_range *parts, uint32_t n, uint32_t layer,
                                uint32_t expert, tern_error *err)
{
    const tern_manifest_shard *s = tern_manifest_expert(m, layer, expert);
    for (uint32_t i = 0; s && i < n; i++) {
        const tern_manifest_range *r = tern_manifest_range_at(m, parts[i].offset);
        const bool same = r->offset == parts[i].offset && r->bytes == parts[i].bytes && r->at == parts[i].at &&
                          &m->shards[r->shard] == s;
        if (!same) s = NULL;
    }
    if (s && n && s->bytes == parts[n - 1].at + parts[n - 1].bytes) return TERN_OK;
    return tern_fail(err, TERN_MALFORMED, "shard of expert %u of layer %u: other bytes than the model's file says",
                     expert, layer);
}

tern_status tern_package__match_experts(const tern_manifest *m, const tern_model *model, const tern_gguf *gguf,
                                        tern_error *err)
{
    const tern_config *c = tern_model_config(model);
    if (m->version != TERN_MANIFEST_EXPERTS_VERSION) return TERN_OK;
    if (!tern_package__by_expert(model, gguf))
        return tern_fail(err, TERN_MALFORMED, "shards by expert: a file whose experts lie apart expected");
    for (uint32_t layer = 0; layer < c->n_layers; layer++)
        for (uint32_t expert = 0; expert < c->n_experts; expert++) {
            tern_manifest_range parts[TERN_PACKAGE_MAX_PARTS];
            const uint32_t n = tern_package__expert_ranges(model, gguf, layer, expert, parts);
            TERN_TRY(match_expert(m, parts, n, layer, expert, err));
        }
    return TERN_OK;
}
