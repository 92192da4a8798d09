/* Cutting a model by layers, for ranks that run one after the other. */
#include "model/model_internal.h"

static bool is_outside(tern_role role)
{
    return role == TERN_ROLE_TOKEN_EMBD || role == TERN_ROLE_OUTPUT_NORM || role == TERN_ROLE_OUTPUT;
}

static uint64_t bytes_of_layer(tern_model *model, uint32_t layer)
{
    uint64_t bytes = 0;
    for (int role = 0; role < TERN_ROLE_COUNT; role++) {
        const tern_weight *w = tern_model__slot(model, (tern_role)role, layer);
        if (w->encoding && !is_outside((tern_role)role)) bytes += w->bytes;
    }
    return bytes;
}

static uint64_t distance(uint64_t a, uint64_t b)
{
    return a > b ? a - b : b - a;
}

/* Each end where the bytes before it are nearest to its share; every stage has a layer. */
static void choose_ends(tern_model *model, tern_stages *s)
{
    const uint32_t n_layers = model->config.n_layers;
    const tern_role table = model->config.tied_head ? TERN_ROLE_TOKEN_EMBD : TERN_ROLE_OUTPUT;
    uint64_t all = tern_model__slot(model, table, 0)->bytes, before = 0;
    for (uint32_t layer = 0; layer < n_layers; layer++) all += bytes_of_layer(model, layer);
    uint32_t layer = 0;
    for (uint32_t i = 0; i + 1 < s->n; i++) {
        const uint64_t share = all / s->n * (i + 1);
        const uint32_t most = n_layers - (s->n - 1 - i);
        before += bytes_of_layer(model, layer++);
        for (; layer < most; layer++) {
            const uint64_t more = before + bytes_of_layer(model, layer);
            if (distance(more, share) >= distance(before, share)) break;
            before = more;
        }
        s->ends[i] = layer;
    }
    s->ends[s->n - 1] = n_layers;
}

tern_status tern_model__choose_stages(tern_model *model, tern_error *err)
{
    const tern_model_options *o = model->options;
    if (o->n_stages < 2) return TERN_OK;
    if (o->n_stages > model->config.n_layers)
        return tern_fail(err, TERN_INVALID_ARGUMENT, "%u stages for a model of %u layers: at most %u expected",
                         o->n_stages, model->config.n_layers, model->config.n_layers);
    model->stages = (tern_stages){.stage = o->stage, .n = o->n_stages};
    choose_ends(model, &model->stages);
    for (uint32_t layer = 0; layer < model->config.n_layers; layer++)
        for (int role = 0; role < TERN_ROLE_COUNT; role++) {
            const tern_weight *w = tern_model__slot(model, (tern_role)role, layer);
            if (w->encoding && tern_model_is_own(model, (tern_role)role, layer))
                TERN_TRY(tern_model__check_data(model, w, err));
        }
    return TERN_OK;
}

const tern_stages *tern_model_stages(const tern_model *model)
{
    return &model->stages;
}

tern_share tern_stage_layers(const tern_stages *s, uint32_t n_layers)
{
    if (s->n < 2) return (tern_share){0, n_layers};
    const uint32_t first = s->stage ? s->ends[s->stage - 1] : 0;
    return (tern_share){first, s->ends[s->stage] - first};
}

uint32_t tern_stage_of(const tern_stages *s, uint32_t layer)
{
    uint32_t stage = 0;
    while (stage + 1 < s->n && layer >= s->ends[stage]) stage++;
    return stage;
}

bool tern_model_is_own(const tern_model *model, tern_role role, uint32_t layer)
{
    const tern_stages *s = &model->stages;
    if (s->n < 2) return true;
    if (role == TERN_ROLE_TOKEN_EMBD) return s->stage == 0;
    if (is_outside(role)) return s->stage + 1 == s->n;
    return tern_stage_of(s, layer) == s->stage;
}
