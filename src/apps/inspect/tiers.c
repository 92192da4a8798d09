/* Where what a model and a session need would lie: on the device, the host, a disk. */
#include <stdio.h>

#include "apps/inspect/inspect.h"
#include "apps/model.h"
#include "graph/memory.h"
#include "infer/engine/tiers.h"
#include "infer/experts/cache.h"
#include "quant/weight.h"

/* Bytes of a model's weights, by whether they are those of experts. */
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

static void print_row(const char *tier, const char *what, uint64_t bytes)
{
    char text[16];
    if (bytes) printf("%-8s %-46s %10s\n", tier, what, tern_app_bytes(bytes, text));
}

tern_status tern_app_print_tiers(const tern_model *model, const tern_graph *graph, const tern_options *o,
                                 tern_error *err)
{
    tern_experts_size size;
    tern_kv_room room;
    TERN_TRY(tern_experts_parse(o->experts, &size, err));
    TERN_TRY(tern_kv_room_parse(o->kv_memory, &room, err));
    const weights w = weights_of(model);
    const uint64_t cache = tern_graph_bytes_of(graph, TERN_VALUE_CACHE),
                   held = experts_held(tern_model_config(model), &size, w.experts),
                   kv = room.bytes && room.bytes < cache ? room.bytes : cache;
    const uint64_t states = tern_graph_bytes_of(graph, TERN_VALUE_RECURRENT);
    const uint64_t other = graph->activation_bytes + tern_graph_bytes_of(graph, TERN_VALUE_OUTPUT) +
                           tern_graph_bytes_of(graph, TERN_VALUE_CONSTANT) + graph->param_bytes;
    print_row("device", "total", w.others + held + kv + states + other);
    print_row("device", "weights that every token reads", w.others);
    print_row("device", held < w.experts ? "experts, those used last" : "experts", held);
    print_row("device", kv < cache ? "keys and values, as many as there is room for" : "keys and values", kv);
    print_row("device", "states of layers that recur", states);
    print_row("device", "activations, outputs, tables", other);
    print_row("host", "experts, in the mapped file", held < w.experts ? w.experts : 0);
    print_row(o->kv_disk ? "disk" : "host", "keys and values, all of them", kv < cache ? cache : 0);
    printf("\n");
    return TERN_OK;
}
