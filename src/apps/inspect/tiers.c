/* The memory that a model and a session need on the device, on the host and on a disk. */
#include <stdio.h>

#include "apps/inspect/inspect.h"
#include "apps/model.h"
#include "graph/memory.h"
#include "infer/engine/tiers.h"
#include "infer/experts/cache.h"
#include "quant/weight.h"

/* Bytes of a model's weights: of experts, and all others. */
typedef struct weights {
    uint64_t experts, others;
} weights;

static weights weights_of(const tern_model *model)
{
    weights w = {0};
    for (uint32_t layer = 0; layer < tern_model_config(model)->n_layers; layer++)
        for (int role = 0; role < TERN_ROLE_COUNT; role++) {
            const bool outside = role == TERN_ROLE_TOKEN_EMBD || role == TERN_ROLE_OUTPUT_NORM;
            const tern_weight *weight = tern_model_weight(model, (tern_role)role, layer);
            if (!weight->encoding || role == TERN_ROLE_OUTPUT || (outside && layer)) continue;
            *(tern_experts_has((tern_role)role) ? &w.experts : &w.others) += weight->bytes;
        }
    const tern_weight *head = tern_model_weight(model, TERN_ROLE_OUTPUT, 0);
    if (head != tern_model_weight(model, TERN_ROLE_TOKEN_EMBD, 0)) w.others += head->bytes;
    return w;
}

/* Bytes of the experts that are on the device, of `all`. */
static uint64_t experts_held(const tern_config *c, const tern_experts_size *size, uint64_t all)
{
    if (size->bytes) return size->bytes < all ? size->bytes : all;
    if (!size->per_layer || size->per_layer >= c->n_experts) return all;
    return all / c->n_experts * size->per_layer;
}

/* Bytes in each place. */
typedef struct tiers {
    uint64_t weights, experts, kv, states, other; /* on the device; states: of layers that recur */
    uint64_t file_experts, spilled; /* experts in the mapped file; keys and values of which the device has a part */
} tiers;

static tern_status find_tiers(tiers *t, const tern_model *model, const tern_graph *graph, const tern_options *o,
                              tern_error *err)
{
    tern_experts_size size;
    tern_kv_room room;
    TERN_TRY(tern_experts_parse(o->experts, &size, err));
    TERN_TRY(tern_kv_room_parse(o->kv_memory, &room, err));
    const weights w = weights_of(model);
    const uint64_t cache = tern_graph_bytes_of(graph, TERN_VALUE_CACHE);
    *t = (tiers){.weights = w.others, .experts = experts_held(tern_model_config(model), &size, w.experts)};
    t->kv = room.bytes && room.bytes < cache ? room.bytes : cache;
    t->states = tern_graph_bytes_of(graph, TERN_VALUE_RECURRENT);
    t->other = graph->activation_bytes + tern_graph_bytes_of(graph, TERN_VALUE_OUTPUT) +
               tern_graph_bytes_of(graph, TERN_VALUE_CONSTANT) + graph->param_bytes;
    t->file_experts = t->experts < w.experts ? w.experts : 0;
    t->spilled = t->kv < cache ? cache : 0;
    return TERN_OK;
}

static void print_row(const char *tier, const char *what, uint64_t bytes)
{
    char text[16];
    if (bytes) printf("%-8s %-46s %10s\n", tier, what, tern_app_bytes(bytes, text));
}

tern_status tern_app_print_tiers(const tern_model *model, const tern_graph *graph, const tern_options *o,
                                 tern_error *err)
{
    tiers t;
    TERN_TRY(find_tiers(&t, model, graph, o, err));
    print_row("device", "total", t.weights + t.experts + t.kv + t.states + t.other);
    print_row("device", "weights that every token reads", t.weights);
    print_row("device", t.file_experts ? "experts, the most recently used" : "experts", t.experts);
    print_row("device", t.spilled ? "keys and values, as many as fit" : "keys and values", t.kv);
    print_row("device", "states of layers that recur", t.states);
    print_row("device", "activations, outputs, tables", t.other);
    print_row("host", "experts, in the mapped file", t.file_experts);
    print_row(o->kv_disk ? "disk" : "host", "keys and values, all of them", t.spilled);
    printf("\n");
    return TERN_OK;
}

tern_status tern_app_tiers_json(const tern_model *model, const tern_graph *graph, const tern_options *o, json_t *out,
                                tern_error *err)
{
    tiers t;
    TERN_TRY(find_tiers(&t, model, graph, o, err));
    json_t *device =
        json_pack("{s:I, s:I, s:I, s:I, s:I, s:I}", "total_bytes",
                  (json_int_t)(t.weights + t.experts + t.kv + t.states + t.other), "weight_bytes",
                  (json_int_t)t.weights, "expert_bytes", (json_int_t)t.experts, "kv_bytes", (json_int_t)t.kv,
                  "state_bytes", (json_int_t)t.states, "other_bytes", (json_int_t)t.other);
    json_object_set_new(out, "device", device);
    json_object_set_new(out, "host",
                        json_pack("{s:I, s:I}", "expert_bytes", (json_int_t)t.file_experts, "kv_bytes",
                                  (json_int_t)(o->kv_disk ? 0 : t.spilled)));
    json_object_set_new(out, "disk", json_pack("{s:I}", "kv_bytes", (json_int_t)(o->kv_disk ? t.spilled : 0)));
    json_object_set_new(out, "activation_bytes", json_integer((json_int_t)graph->activation_bytes));
    return TERN_OK;
}
