/* Memory that graphs share: buffers for all values of one kind, and the memory that activations lie in. */
#ifndef TERN_GRAPH_MEMORY_H
#define TERN_GRAPH_MEMORY_H

#include "backend/backend.h"
#include "ops/value.h"

/* A buffer for each value of one kind (NULL: it has no bytes here), in the order of a graph's values. The k-th constant
 * or cache of one graph of a model is the k-th of every other graph of that model. */
typedef struct tern_graph_buffers {
    tern_value_kind kind;
    tern_buffer **buffers; /* [n] */
    size_t n;
} tern_graph_buffers;

/* Zeroed caches, states or outputs; constants are filled (tern_graph_fill_constant). After a failure there is something
 * to free as well. Errors: OUT_OF_MEMORY, those of the backend. */
tern_status tern_graph_buffers_make(tern_graph_buffers *out, tern_backend *backend, const tern_graph *graph,
                                    tern_value_kind kind, tern_error *err);
void tern_graph_buffers_free(tern_graph_buffers *buffers, tern_backend *backend);
/* The buffer of a value of that kind; NULL: there are fewer. */
tern_buffer *tern_graph_buffers_at(const tern_graph_buffers *buffers, const tern_graph *graph, uint32_t value);
/* The bytes of all of a graph's values of that kind. */
uint64_t tern_graph_bytes_of(const tern_graph *graph, tern_value_kind kind);

/* Writes what a constant is: the rows of a rope table, from its frequencies; else one number everywhere. */
tern_status tern_graph_fill_constant(tern_backend *backend, tern_buffer *buffer, const tern_value *value,
                                     tern_error *err);

enum { TERN_MAX_ACTIVATION_BUFFERS = 64 };

/* Where the activations of graphs lie that never run at the same time. */
typedef struct tern_activations {
    tern_buffer *buffers[TERN_MAX_ACTIVATION_BUFFERS];
    uint64_t block; /* bytes of each buffer but the last; as in graph->activation_block, 0: one holds all */
} tern_activations;

/* `bytes`: of the graph that takes the most. Errors: LIMIT (too many buffers), those of the backend; there is something
 * to free then as well. */
tern_status tern_activations_make(tern_activations *out, tern_backend *backend, uint64_t bytes, uint64_t block,
                                  tern_error *err);
void tern_activations_free(tern_activations *activations, tern_backend *backend);
tern_binding tern_activations_at(const tern_activations *activations, uint64_t offset);

#endif
