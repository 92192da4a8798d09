/* Making an adapter that no file has: what training writes. */
#include <string.h>

#include "base/alloc.h"
#include "model/adapter_internal.h"

static tern_status add_pair(tern_adapter *ad, const tern_adapter_place *place, tern_error *err)
{
    if ((unsigned)place->role >= TERN_ROLE_COUNT || !tern_role_is_linear(place->role) ||
        place->layer >= ad->config.n_layers)
        return tern_fail(err, TERN_INVALID_ARGUMENT, "adapter of role %d in layer %u: a linear layer below %u expected",
                         (int)place->role, place->layer, ad->config.n_layers);
    tern_adapter_pair *pair = &ad->pairs[(size_t)place->layer * TERN_ROLE_COUNT + (size_t)place->role];
    if (pair->a)
        return tern_fail(err, TERN_INVALID_ARGUMENT, "adapter of role %d in layer %u: found twice", (int)place->role,
                         place->layer);
    tern_role__shape(place->role, &ad->config, &pair->out, &pair->in);
    pair->a = tern_calloc((size_t)ad->info.rank * pair->in, sizeof(float));
    pair->b = tern_calloc((size_t)ad->info.rank * pair->out, sizeof(float));
    if (!pair->a || !pair->b)
        return tern_fail_alloc(err, (size_t)ad->info.rank * (pair->in + pair->out) * sizeof(float));
    ad->info.parameters += (uint64_t)ad->info.rank * (pair->in + pair->out);
    ad->info.n_pairs++;
    return TERN_OK;
}

static tern_status make(tern_adapter *ad, const tern_adapter_info *info, const tern_adapter_place *places,
                        size_t n_places, tern_error *err)
{
    const char *base = info->base ? info->base : "";
    ad->info.rank = info->rank;
    ad->info.alpha = info->alpha;
    ad->info.dropout = info->dropout;
    ad->info.rslora = info->rslora;
    ad->info.n_layers = ad->config.n_layers;
    ad->info.format = "PEFT";
    TERN_TRY(tern_adapter__check_info(&ad->info, err));
    TERN_TRY(tern_adapter__set_base(ad, "base", (tern_span){(const uint8_t *)base, strlen(base)}, err));
    ad->pairs = tern_calloc((size_t)ad->info.n_layers * TERN_ROLE_COUNT, sizeof *ad->pairs);
    if (!ad->pairs) return tern_fail_alloc(err, (size_t)ad->info.n_layers * TERN_ROLE_COUNT * sizeof *ad->pairs);
    for (size_t i = 0; i < n_places; i++) TERN_TRY(add_pair(ad, &places[i], err));
    return n_places ? TERN_OK : tern_fail(err, TERN_INVALID_ARGUMENT, "an adapter of no layer");
}

tern_status tern_adapter_make(tern_adapter **adapter, const tern_model *model, const tern_adapter_info *info,
                              const tern_adapter_place *places, size_t n_places, tern_error *err)
{
    tern_adapter *a = NULL;
    *adapter = NULL;
    TERN_TRY(tern_adapter__create(&a, tern_model_config(model), err));
    tern_status status = make(a, info, places, n_places, err);
    if (status == TERN_OK) *adapter = a;
    else tern_adapter_close(a);
    return status;
}
