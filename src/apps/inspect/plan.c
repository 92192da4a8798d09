/* The part of a model that one of several processes has: its layers, and its part of each tensor. */
#include <string.h>

#include "apps/inspect/inspect.h"
#include "apps/model.h"
#include "quant/encoding.h"
#include "quant/weight.h"

/* A weight of the plan. */
typedef struct planned {
    const tern_weight *w;
    const char *name;
    tern_share share;
    uint32_t whole, n_runs; /* of rows or columns in a run, one of each expert; how many runs */
    bool vector;
} planned;

static bool is_outside(tern_role role)
{
    return role == TERN_ROLE_TOKEN_EMBD || role == TERN_ROLE_OUTPUT_NORM || role == TERN_ROLE_OUTPUT;
}

/* false: this process has no such weight. */
static bool plan_of(const tern_model *model, tern_role role, uint32_t layer, planned *out)
{
    const tern_weight *w = tern_model_weight(model, role, layer);
    const bool tied = role == TERN_ROLE_OUTPUT && tern_model_config(model)->tied_head; /* the embedding's name */
    const bool there = w->encoding && (!is_outside(role) || layer == 0);
    if (!there || !tern_model_is_own(model, role, layer)) return false;
    *out = (planned){.w = w, .name = tied ? "output" : w->name, .vector = tern_role_is_vector(role)};
    out->share = tern_cut_rows(tern_model_config(model), role, layer, tern_model_cut(model), &out->whole);
    out->n_runs = out->vector ? w->rows : w->rows / out->share.n;
    return true;
}

/* Every matrix is cut by rows, a vector along its length: the shape says which dimension that is. */
static json_t *tensor(const tern_model *model, const planned *p)
{
    const tern_cut cut = tern_model_cut(model);
    const tern_weight *w = p->w;
    const uint64_t whole = p->vector ? p->whole : (uint64_t)p->whole * p->n_runs;
    json_t *out =
        json_pack("{s:o, s:s, s:[I, I], s:I}", "name", tern_app_json_text(p->name, strlen(p->name)), "encoding",
                  w->encoding->name, "shape", (json_int_t)w->rows, (json_int_t)w->cols, "bytes", (json_int_t)w->bytes);
    if (p->share.n == p->whole) {
        json_object_set_new(out, "sliceDim", json_null());
        return out;
    }
    json_object_set_new(
        out, "originalShape",
        json_pack("[I, I]", (json_int_t)(p->vector ? w->rows : whole), (json_int_t)(p->vector ? whole : w->cols)));
    json_object_set_new(out, "sliceDim", json_integer(p->vector));
    json_object_set_new(out, "sliceIdx", json_integer((json_int_t)cut.rank));
    json_object_set_new(out, "sliceCount", json_integer((json_int_t)cut.n));
    json_object_set_new(out, "slice", json_pack("[I, I]", (json_int_t)p->share.first, (json_int_t)p->share.n));
    return out;
}

void tern_app_plan(const tern_model *model, json_t *out)
{
    const tern_stages *s = tern_model_stages(model);
    const tern_cut cut = tern_model_cut(model);
    const uint32_t n_layers = tern_model_config(model)->n_layers;
    const tern_share layers = tern_stage_layers(s, n_layers);
    json_t *tensors = json_array();
    planned p;
    for (uint32_t layer = 0; layer < n_layers; layer++)
        for (int role = 0; role < TERN_ROLE_COUNT; role++)
            if (plan_of(model, (tern_role)role, layer, &p)) json_array_append_new(tensors, tensor(model, &p));
    json_object_set_new(out, "rank", json_integer((json_int_t)cut.rank));
    json_object_set_new(out, "ranks", json_integer((json_int_t)(cut.n ? cut.n : 1)));
    json_object_set_new(out, "stage", json_integer((json_int_t)s->stage));
    json_object_set_new(out, "stages", json_integer((json_int_t)(s->n ? s->n : 1)));
    json_object_set_new(out, "layers", json_pack("[I, I]", (json_int_t)layers.first, (json_int_t)layers.n));
    json_object_set_new(out, "weight_bytes", json_integer((json_int_t)tern_model_bytes(model)));
    json_object_set_new(out, "tensors", tensors);
}

static void print_stage(const tern_model *model)
{
    const tern_stages *s = tern_model_stages(model);
    if (s->n < 2) return;
    const tern_share layers = tern_stage_layers(s, tern_model_config(model)->n_layers);
    printf("stage %u of %u: layers %u to %u of %u, %llu bytes of weights for a token\n", s->stage, s->n, layers.first,
           layers.first + layers.n - 1, tern_model_config(model)->n_layers,
           (unsigned long long)tern_model_bytes(model));
}

void tern_app_print_plan(const tern_model *model)
{
    const tern_cut cut = tern_model_cut(model);
    const tern_share layers = tern_stage_layers(tern_model_stages(model), tern_model_config(model)->n_layers);
    planned p;
    print_stage(model);
    if (cut.n < 2) return;
    printf("rank %u of %u:\n", cut.rank, cut.n);
    for (int role = 0; role < TERN_ROLE_COUNT; role++) {
        if (!plan_of(model, (tern_role)role, is_outside((tern_role)role) ? 0 : layers.first, &p)) continue;
        if (p.vector || p.share.n == p.whole) continue;
        printf("  %-28s sliceDim 0, rows %u to %u of %u\n", p.name, p.share.first, p.share.first + p.share.n - 1,
               p.whole);
    }
}
