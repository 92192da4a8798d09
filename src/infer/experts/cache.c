/* How many experts of a model are on a device at once, where it has not the memory for all of them. */
#include "infer/experts/cache.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/show.h"
#include "infer/engine/memory_need.h"
#include "quant/weight.h"

static const tern_role roles[] = {TERN_ROLE_FFN_GATE_EXPS,    TERN_ROLE_FFN_UP_EXPS,
                                  TERN_ROLE_FFN_DOWN_EXPS,    TERN_ROLE_FFN_GATE_EXPS_BIAS,
                                  TERN_ROLE_FFN_UP_EXPS_BIAS, TERN_ROLE_FFN_DOWN_EXPS_BIAS};
enum { MARGIN_PARTS = 15 }; /* of what experts take as much again may be taken by what is not counted */
static_assert(sizeof roles / sizeof *roles == TERN_PAGED_MAX_WEIGHTS, "a weight for each role");

tern_status tern_experts_parse(const char *text, tern_experts_size *size, tern_error *err)
{
    char *end = "";
    *size = (tern_experts_size){.all = text && strcmp(text, "all") == 0};
    if (!text || size->all) return TERN_OK;
    const double number = *text >= '0' && *text <= '9' ? strtod(text, &end) : 0;
    static const char units[] = "KMGT";
    const char *unit = number > 0 && *end ? strchr(units, *end) : NULL;
    if (number > 0 && number < 1e6 && unit && !end[1]) {
        size->bytes = (uint64_t)(number * (double)(1ull << (10 * (unit - units + 1))));
        return TERN_OK;
    }
    size->per_layer = number > 0 && number <= TERN_MAX_EXPERTS ? (uint32_t)number : 0;
    if (size->per_layer && !*end && !strchr(text, '.')) return TERN_OK;
    return tern_fail(err, TERN_INVALID_ARGUMENT,
                     "experts %s: a number for each layer, bytes for all (800M, 3.5G), or \"all\" expected",
                     tern_show_z(text).text);
}

bool tern_experts_has(tern_role role)
{
    bool has = false;
    for (size_t i = 0; i < sizeof roles / sizeof *roles; i++) has |= roles[i] == role;
    return has;
}

static void find_layers(const tern_model *model, tern_paged_layer *layers)
{
    const uint32_t n_layers = tern_model_config(model)->n_layers;
    for (uint32_t layer = 0; layer < n_layers; layer++)
        for (size_t i = 0; i < TERN_PAGED_MAX_WEIGHTS; i++) {
            const tern_weight *w = tern_model_weight(model, roles[i], layer);
            if (w->encoding) layers[layer].weights[layers[layer].n++] = w;
        }
}

/* The most slots that fit into so many bytes; 0: not even the fewest. */
static tern_status most_slots(const tern_backend *b, const tern_paged_options *o, uint64_t bytes, uint32_t *n,
                              tern_error *err)
{
    uint32_t low = tern_paged_slots_least(o), high = o->n_layers * o->n_experts;
    uint64_t takes;
    *n = 0;
    TERN_TRY(tern_paged_bytes(b, o, low, &takes, err));
    if (takes > bytes) return TERN_OK;
    while (low < high) {
        const uint32_t middle = low + (high - low + 1) / 2;
        TERN_TRY(tern_paged_bytes(b, o, middle, &takes, err));
        if (takes <= bytes) low = middle;
        else high = middle - 1;
    }
    *n = low;
    return TERN_OK;
}

static tern_status fail_too_few_slots(const tern_backend *b, const tern_paged_options *o, tern_error *err)
{
    const uint32_t least = tern_paged_slots_least(o);
    uint64_t bytes = 0;
    TERN_TRY(tern_paged_bytes(b, o, least, &bytes, err));
    return tern_fail(err, TERN_INVALID_ARGUMENT,
                     "experts: a token takes %u of a layer's: room for %u of them at least, %.1f MiB, expected",
                     o->n_used, least, (double)bytes / (1 << 20));
}

static tern_status slots_of_size(const tern_backend *b, const tern_paged_options *o, const tern_experts_size *size,
                                 uint32_t *n, tern_error *err)
{
    const uint32_t all = o->n_layers * o->n_experts;
    if (size->bytes) TERN_TRY(most_slots(b, o, size->bytes, n, err));
    else *n = size->per_layer < o->n_experts ? size->per_layer * o->n_layers : all;
    if (*n >= tern_paged_slots_least(o) && (size->bytes || size->per_layer >= o->n_used)) return TERN_OK;
    return fail_too_few_slots(b, o, err);
}

/* The memory of rows of experts beside activations where a prompt's experts are not all there at once. */
static uint64_t bytes_of_rows(const tern_config *c, const tern_runner_params *session)
{
    return (uint64_t)session->n_batch * c->n_experts_used * (3 * (uint64_t)c->n_ff + c->n_embd) * sizeof(float);
}

/* The free memory that is left beside all else; *n: 0 where everything fits, or that is not enough.
 */
static tern_status slots_that_fit(const tern_backend *b, tern_engine *engine, const tern_paged_options *o,
                                  const tern_runner_params *session, uint32_t *n, tern_error *err)
{
    tern_memory_needs needs;
    uint64_t experts;
    *n = 0;
    TERN_TRY(tern_memory_needs_of(engine, session, true, &needs, err));
    const tern_memory_need *need = &needs.sides[0];
    if (!need->free || need->total <= need->free) return TERN_OK;
    TERN_TRY(tern_paged_bytes(b, o, o->n_layers * o->n_experts, &experts, err));
    const uint64_t rows = bytes_of_rows(tern_engine_config(engine), session);
    const uint64_t other = (need->total > experts ? need->total - experts : 0) + rows;
    const uint64_t spare = need->free > other ? need->free - other : 0;
    return most_slots(b, o, spare - spare / (MARGIN_PARTS + 1), n, err);
}

static tern_status open_paged(tern_backend **backend, tern_engine *engine, tern_paged_options *o,
                              const tern_experts_size *size, const tern_runner_params *session, tern_error *err)
{
    tern_backend *paged, *b = *backend;
    if (size->bytes || size->per_layer) TERN_TRY(slots_of_size(b, o, size, &o->n_slots, err));
    else TERN_TRY(slots_that_fit(b, engine, o, session, &o->n_slots, err));
    const uint32_t all = o->n_layers * o->n_experts;
    if (o->n_slots == 0 && o->fetch) o->n_slots = all;
    if (o->n_slots == 0 || (o->n_slots == all && !o->fetch)) return TERN_OK;
    TERN_TRY(tern_paged_open(&paged, b, o, err));
    *backend = paged;
    return TERN_OK;
}

static tern_status make_options(tern_engine *engine, tern_paged_options *o, tern_error *err)
{
    const tern_model *model = tern_engine_model(engine);
    const tern_config *c = tern_model_config(model);
    tern_paged_layer *layers = tern_calloc(c->n_layers, sizeof *layers);
    if (!layers) return tern_fail_alloc(err, c->n_layers * sizeof *layers);
    find_layers(model, layers);
    *o = (tern_paged_options){
        .layers = layers, .n_layers = c->n_layers, .n_experts = c->n_experts, .n_used = c->n_experts_used};
    return TERN_OK;
}

static void free_options(const tern_paged_options *o)
{
    tern_free((void *)(uintptr_t)o->layers);
}

tern_status tern_experts_bytes(const tern_backend *b, tern_engine *engine, const tern_runner_params *session,
                               uint64_t *all, uint64_t *least, tern_error *err)
{
    tern_paged_options o;
    TERN_TRY(make_options(engine, &o, err));
    tern_status status = tern_paged_bytes(b, &o, o.n_layers * o.n_experts, all, err);
    if (status == TERN_OK) status = tern_paged_bytes(b, &o, tern_paged_slots_least(&o), least, err);
    if (status == TERN_OK) *least += *least / MARGIN_PARTS + bytes_of_rows(tern_engine_config(engine), session);
    free_options(&o);
    return status;
}

static bool is_requested(const tern_engine_params *params)
{
    return params->experts.bytes || params->experts.per_layer;
}

bool tern_experts_may_page(tern_backend *b, tern_engine *engine, const tern_engine_params *params)
{
    tern_backend *sides[TERN_BACKEND_MAX_SIDES];
    const bool may = is_requested(params) || params->fetch || (b->info.copies_weights && !b->info.never_waits);
    if (!tern_engine_config(engine)->n_experts || tern_backend_sides(b, sides) > 1) return false;
    return may && (!params->experts.all || params->fetch);
}

tern_status tern_engine__page_experts(tern_backend **backend, tern_engine *engine, const tern_engine_params *params,
                                      const tern_runner_params *session, tern_error *err)
{
    tern_backend *sides[TERN_BACKEND_MAX_SIDES];
    const bool asked = is_requested(params), split = tern_backend_sides(*backend, sides) > 1;
    tern_paged_options o;
    if (asked && !tern_engine_config(engine)->n_experts)
        return tern_fail(err, TERN_INVALID_ARGUMENT, "option experts: the model has none");
    if (split && (asked || params->fetch))
        return tern_fail(err, TERN_UNSUPPORTED, "option experts: all layers on one device expected");
    if (!tern_experts_may_page(*backend, engine, params)) return TERN_OK;
    TERN_TRY(make_options(engine, &o, err));
    o.fetch = params->fetch;
    o.context = params->fetch_context;
    const tern_status status = open_paged(backend, engine, &o, &params->experts, session, err);
    free_options(&o);
    return status;
}
