/* The memory of a model and a session, and what would fit. */
#include "infer/engine/memory_need.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "infer/draft/mtp.h"
#include "infer/engine/kv_types.h"
#include "ops/op.h"
#include "quant/weight.h"

enum { LEAST_CTX = 64, LEAST_BATCH = 16 };

static void count_buffer(tern_memory_need *need, uint64_t bytes, const char *name)
{
    if (bytes <= need->largest) return;
    need->largest = bytes;
    snprintf(need->largest_name, sizeof need->largest_name, "%s", name);
}

static tern_status add_weight(tern_memory_need *need, const tern_weight *w, tern_error *err)
{
    const tern_backend *b = need->backend;
    uint64_t more = w->bytes;
    if (b->weight_bytes) TERN_TRY(b->weight_bytes(b, w, &more, err));
    need->weights += more ? more : w->bytes;
    if (!more) need->there += w->bytes;
    return TERN_OK;
}

/* Objects that all graphs of a session share: weights, caches, constants. */
static tern_status add_shared(tern_memory_need *need, const tern_value *v, uint32_t head_dim, bool weights,
                              tern_error *err)
{
    if (v->kind == TERN_VALUE_WEIGHT) return weights ? add_weight(need, v->weight, err) : TERN_OK;
    if (!tern_value_is_kept(v) && v->kind != TERN_VALUE_CONSTANT) return TERN_OK;
    const bool cache = v->kind == TERN_VALUE_CACHE; /* states of layers that recur are never spilled */
    *(cache ? &need->cache : &need->other) += v->bytes;
    const uint64_t layer = cache ? 2 * v->bytes : 0, /* its keys, its values */
        head = cache ? layer / (v->cols / head_dim) : 0;
    if (layer > need->largest_layer) need->largest_layer = layer;
    if (head > need->least_layer) need->least_layer = head;
    if (!cache || !need->backend->info.spill) count_buffer(need, v->bytes, v->name);
    return TERN_OK;
}

/* The device has room for no more of them. */
static void limit_cache(tern_memory_need *need)
{
    const tern_spill_info *spill = need->backend->info.spill;
    if (spill && need->cache > spill->room - spill->taken) need->cache = spill->room - spill->taken;
}

/* Which sides touch each value: a bit for each. */
static void mark_sides(const tern_backend *b, const tern_graph *g, uint8_t *marks)
{
    for (size_t i = 0; i < g->n_ops; i++) {
        const uint8_t side = (uint8_t)(1u << tern_backend_side_of(b, g, &g->ops[i]));
        for (uint32_t k = 0; k < tern_op_n_views(&g->ops[i]); k++) {
            const uint32_t value = tern_op_view(&g->ops[i], k).value;
            if (value != TERN_NO_VALUE) marks[value] |= side;
        }
    }
}

/* A table that is both embedding and output is there once, on a side. */
static bool is_on_side(const tern_graph *g, size_t at, const uint8_t *marks, uint8_t side)
{
    for (size_t i = 0; i < at; i++)
        if (g->values[i].kind == TERN_VALUE_WEIGHT && g->values[i].weight == g->values[at].weight && marks[i] & side)
            return true;
    return false;
}

/* The values that a graph brings beside its activations: the first one what all share, that of a block that drafts
 * tokens without the tables, which are its model's. */
typedef enum graph_part { FIRST_GRAPH, ANOTHER_GRAPH, GRAPH_OF_BLOCK } graph_part;

static bool is_table(tern_engine *engine, const tern_weight *w)
{
    return w == tern_engine_head(engine) || w == tern_model_weight(tern_engine_model(engine), TERN_ROLE_TOKEN_EMBD, 0);
}

static tern_status add_values(tern_memory_needs *needs, tern_engine *engine, const tern_graph *g, const uint8_t *marks,
                              graph_part part, bool weights, tern_error *err)
{
    const uint32_t head_dim = tern_engine_config(engine)->head_dim;
    for (uint32_t s = 0; s < needs->n; s++) {
        tern_memory_need *need = &needs->sides[s];
        const uint8_t side = (uint8_t)(1u << s);
        for (size_t i = 0; i < g->n_values; i++) {
            const tern_value *v = &g->values[i];
            if (!(marks[i] & side) || (v->kind == TERN_VALUE_WEIGHT && is_on_side(g, i, marks, side))) continue;
            if (part == GRAPH_OF_BLOCK && v->kind == TERN_VALUE_WEIGHT && is_table(engine, v->weight)) continue;
            if (part != ANOTHER_GRAPH) TERN_TRY(add_shared(need, v, head_dim, weights, err));
            if (v->kind == TERN_VALUE_OUTPUT) need->other += v->bytes;
        }
        need->other += g->param_bytes;
        if (g->activation_bytes > need->activations) need->activations = g->activation_bytes;
        count_buffer(need, g->activation_bytes, "activations");
    }
    return TERN_OK;
}

static tern_status add_graph(tern_memory_needs *needs, tern_engine *engine, const tern_graph *g, graph_part part,
                             bool weights, tern_error *err)
{
    uint8_t *marks = tern_calloc(g->n_values + 1, sizeof *marks);
    if (!marks) return tern_fail_alloc(err, g->n_values);
    mark_sides(tern_engine_backend(engine), g, marks);
    const tern_status status = add_values(needs, engine, g, marks, part, weights, err);
    tern_free(marks);
    return status;
}

static tern_status add_graphs(tern_memory_needs *needs, tern_engine *engine, const tern_runner_graphs *set,
                              graph_part part, bool weights, tern_error *err)
{
    TERN_TRY(add_graph(needs, engine, &set->prefill.graph, part, weights, err));
    TERN_TRY(add_graph(needs, engine, &set->decode.graph, ANOTHER_GRAPH, weights, err));
    if (set->few.graph.n_ops) TERN_TRY(add_graph(needs, engine, &set->few.graph, ANOTHER_GRAPH, weights, err));
    return set->steps.graph.n_ops ? add_graph(needs, engine, &set->steps.graph, ANOTHER_GRAPH, weights, err) : TERN_OK;
}

/* The graphs of the model's own block, in sessions that draft by it. */
static tern_status add_block(tern_memory_needs *needs, tern_engine *engine, const tern_runner_params *params,
                             bool weights, tern_error *err)
{
    tern_runner_graphs *set;
    if (!params->keep_states || !tern_model_mtp(tern_engine_model(engine))) return TERN_OK;
    const tern_runner_params block = tern_mtp_params(params);
    TERN_TRY(tern_runner_build(&set, engine, &block, err));
    const tern_status status = add_graphs(needs, engine, set, GRAPH_OF_BLOCK, weights, err);
    tern_runner_unbuild(set, engine);
    return status;
}

tern_status tern_memory_needs_of(tern_engine *engine, const tern_runner_params *params, bool with_weights,
                                 tern_memory_needs *out, tern_error *err)
{
    tern_backend *sides[TERN_BACKEND_MAX_SIDES];
    tern_runner_graphs *set;
    *out = (tern_memory_needs){.n = tern_backend_sides(tern_engine_backend(engine), sides)};
    for (uint32_t i = 0; i < out->n; i++) {
        tern_memory_need *need = &out->sides[i];
        need->backend = sides[i];
        need->free = sides[i]->memory_free ? sides[i]->memory_free(sides[i]) : 0;
    }
    TERN_TRY(tern_runner_build(&set, engine, params, err));
    tern_status status = add_graphs(out, engine, set, FIRST_GRAPH, with_weights, err);
    if (status == TERN_OK) status = add_block(out, engine, params, with_weights, err);
    for (uint32_t i = 0; i < out->n; i++) {
        tern_memory_need *n = &out->sides[i];
        limit_cache(n);
        n->total = n->weights - n->there + n->cache + n->activations + n->other;
    }
    tern_runner_unbuild(set, engine);
    return status;
}

static bool fits(const tern_memory_need *n)
{
    const uint64_t most = n->backend->info.max_allocation;
    return (n->free == 0 || n->total <= n->free) && (most == 0 || n->largest <= most);
}

/* The question while it is asked again with other parameters. */
typedef struct fit_query {
    tern_engine *engine;
    tern_runner_params params;
    uint32_t side;
    bool with_weights;
} fit_query;

/* Whether the side would do with these parameters; *need: with what. */
static bool fits_with(const fit_query *q, tern_memory_need *need)
{
    tern_memory_needs needs;
    if (tern_memory_needs_of(q->engine, &q->params, q->with_weights, &needs, NULL) != TERN_OK) return false;
    *need = needs.sides[q->side];
    return fits(need);
}

static void suggest(char *out, size_t out_bytes, const char *flag, uint32_t value, uint64_t bytes)
{
    const size_t n = strlen(out);
    char number[16] = "";
    if (value) snprintf(number, sizeof number, " %u", value);
    if (n < out_bytes)
        snprintf(out + n, out_bytes - n, "%s%s%s takes %.2f", n ? ", " : "", flag, number, (double)bytes / (1 << 30));
}

/* Smaller types of cache: the first that is enough. */
static void try_kv(fit_query q, char *out, size_t out_bytes)
{
    static const tern_dtype types[] = {TERN_DTYPE_F16, TERN_DTYPE_Q8_0};
    const tern_config *c = tern_engine_config(q.engine);
    const uint64_t k = tern_kv_page_bytes(c, q.params.kv.k), v = tern_kv_page_bytes(c, q.params.kv.v);
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        tern_memory_need need;
        char flag[32];
        if (2 * tern_kv_page_bytes(c, types[i]) >= k + v) continue;
        q.params.kv = (tern_cache_types){types[i], types[i]};
        if (tern_kv_check(q.params.kv, c, tern_engine_backend(q.engine), NULL) != TERN_OK) return;
        snprintf(flag, sizeof flag, "--kv %s", tern_cache_type_of(types[i])->name);
        if (!fits_with(&q, &need)) continue;
        suggest(out, out_bytes, flag, 0, need.total);
        return;
    }
}

static void try_ctx(fit_query q, char *out, size_t out_bytes)
{
    tern_memory_need need;
    for (uint32_t n = q.params.n_ctx / 2; n >= LEAST_CTX; n /= 2) {
        q.params.n_ctx = n;
        if (q.params.n_batch > n) q.params.n_batch = n;
        if (q.params.max_outputs > q.params.n_batch) q.params.max_outputs = q.params.n_batch;
        if (fits_with(&q, &need)) {
            suggest(out, out_bytes, "-c", n, need.total);
            return;
        }
    }
}

static void try_batch(fit_query q, char *out, size_t out_bytes)
{
    tern_memory_need need;
    for (uint32_t n = q.params.n_batch / 2; n >= LEAST_BATCH; n /= 2) {
        q.params.n_batch = n;
        if (q.params.max_outputs > n) q.params.max_outputs = n;
        if (fits_with(&q, &need)) {
            suggest(out, out_bytes, "-b", n, need.total);
            return;
        }
    }
}

/* Layers whose weights, keys and values fit beside what is there whatever their number. */
static void try_layers(const fit_query *q, const tern_memory_need *need, char *out, size_t out_bytes)
{
    const uint32_t n_layers = tern_engine_config(q->engine)->n_layers;
    const uint64_t fixed = need->activations + need->other, each = (need->weights + need->cache) / n_layers;
    if (!q->with_weights || !need->backend->info.copies_weights || need->backend->info.never_waits || !each) return;
    if (need->free <= fixed) return;
    const uint64_t n = (need->free - fixed) / each;
    if (n > 0 && n < n_layers) suggest(out, out_bytes, "--gpu-layers", (uint32_t)n, fixed + n * each);
}

/* A disk for keys and values, where without most of them the rest would fit. */
static void try_disk(const fit_query *q, const tern_memory_need *need, char *out, size_t out_bytes)
{
    const tern_backend_info *info = &need->backend->info;
    const uint64_t least = need->total - need->cache + need->least_layer;
    if (!q->with_weights || !info->unified || info->never_waits || info->spill || tern_engine_ranks(q->engine) ||
        least >= need->free)
        return;
    suggest(out, out_bytes, "--kv-disk DIR", 0, least);
}

static tern_status fail_memory(const fit_query *q, const tern_memory_need *n, tern_error *err)
{
    char help[200] = "";
    const double gib = 1 << 30;
    const char *device = n->backend->info.device;
    try_kv(*q, help, sizeof help);
    try_ctx(*q, help, sizeof help);
    try_batch(*q, help, sizeof help);
    try_layers(q, n, help, sizeof help);
    try_disk(q, n, help, sizeof help);
    return tern_fail(err, TERN_OUT_OF_MEMORY,
                     "%s%s%.40s: %.2f GiB are needed (weights %.2f, KV cache %.2f, activations %.2f, other %.2f; "
                     "largest buffer %.2f, %s), %.2f GiB are free; %s; --no-memory-check tries all the same",
                     n->backend->info.name, device ? ": " : "", device ? device : "", (double)n->total / gib,
                     (double)(n->weights - n->there) / gib, (double)n->cache / gib, (double)n->activations / gib,
                     (double)n->other / gib, (double)n->largest / gib, n->largest_name, (double)n->free / gib,
                     *help ? help : "a smaller model or type (tern convert --type) is needed");
}

static tern_status fail_buffer(const fit_query *q, const tern_memory_need *n, tern_error *err)
{
    char help[160] = "";
    try_kv(*q, help, sizeof help);
    try_ctx(*q, help, sizeof help);
    try_batch(*q, help, sizeof help);
    return tern_fail(err, TERN_LIMIT, "%s: %s takes a buffer of %.1f MiB, the device has at most %.1f MiB in one%s%s%s",
                     n->backend->info.name, n->largest_name, (double)n->largest / (1 << 20),
                     (double)n->backend->info.max_allocation / (1 << 20), *help ? "; " : "", help, *help ? " GiB" : "");
}

tern_status tern_memory_check(tern_engine *engine, const tern_runner_params *params, bool with_weights, tern_error *err)
{
    tern_memory_needs needs;
    if (tern_engine_no_memory_check(engine)) return TERN_OK;
    /* in a browser no free memory is known, and what the session will be is not yet: it asks itself */
    if (with_weights && tern_engine_backend(engine)->info.never_waits) return TERN_OK;
    TERN_TRY(tern_memory_needs_of(engine, params, with_weights, &needs, err));
    for (uint32_t i = 0; i < needs.n; i++) {
        const fit_query q = {.engine = engine, .params = *params, .side = i, .with_weights = with_weights};
        const tern_memory_need *n = &needs.sides[i];
        if (n->free && n->total > n->free) return fail_memory(&q, n, err);
        if (!fits(n)) return fail_buffer(&q, n, err);
    }
    return TERN_OK;
}
