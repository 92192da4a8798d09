/* Inside the split backend: what its files share. */
#ifndef TERN_BACKEND_SPLIT_SPLIT_INTERNAL_H
#define TERN_BACKEND_SPLIT_SPLIT_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>

#include "backend/split/split.h"
#include "ops/graph.h"

typedef enum tern_side { TERN_SIDE_HOST, TERN_SIDE_DEVICE, TERN_SIDES } tern_side;

typedef struct tern_split {
    tern_backend base;
    tern_backend *sides[TERN_SIDES];
    uint32_t device_layers;
    char name[64];          /* "cpu+vulkan" */
    pthread_mutex_t making; /* buffers of a side: sessions share weights */
    _Atomic uint64_t runs, crossed_bytes;
} tern_split;

/* Memory or a weight, on the sides that need it; what is written before any side does waits in `copy`. */
struct tern_buffer {
    uint64_t bytes;
    const tern_weight *weight;   /* NULL: memory */
    tern_buffer *on[TERN_SIDES]; /* of that side's backend, or NULL */
    bool made_on[TERN_SIDES];    /* ops of that side write it */
    uint8_t *copy;               /* what the host wrote, or NULL */
    uint64_t copied;             /* bytes of it that count; zeros follow */
    bool keep_copy;              /* parameters: counts are looked up there in each run */
    bool host_wrote;
};

/* A run of ops on one side. */
typedef struct tern_split_part {
    tern_side side;
    tern_graph graph;        /* ops: its part of the prepared copy; values: the whole graph's */
    tern_binding *bindings;  /* [n_values]; nowhere for those that its ops do not use */
    tern_prepared *prepared; /* by the side */
    uint32_t *crossings;     /* values that the other side made, to be carried over before a run */
    size_t n_crossings, cap_crossings;
    bool only_outputs; /* nothing to do in a step without logits */
} tern_split_part;

struct tern_prepared {
    const tern_graph *graph;
    const tern_binding *bindings;
    tern_op *ops; /* a copy of the graph's: the parts own their list */
    tern_split_part *parts;
    size_t n_parts;
    uint8_t *rows; /* on their way from side to side */
};

static inline tern_split *tern_split__of(tern_backend *b)
{
    return (tern_split *)b;
}

static inline tern_side tern_split__other(tern_side side)
{
    return side == TERN_SIDE_HOST ? TERN_SIDE_DEVICE : TERN_SIDE_HOST;
}

tern_side tern_split__side_of(const tern_split *s, const tern_graph *graph, const tern_op *op);
/* Puts the side's name before a message. */
tern_status tern_split__at(const tern_split *s, tern_side side, tern_status status, tern_error *err);

tern_status tern_split__buffer_create(tern_backend *b, uint64_t bytes, tern_buffer **out, tern_error *err);
tern_status tern_split__weight_create(tern_backend *b, const tern_weight *w, tern_buffer **out, tern_error *err);
void tern_split__buffer_free(tern_backend *b, tern_buffer *buffer);
tern_status tern_split__buffer_write(tern_backend *b, tern_buffer *buffer, uint64_t offset, const void *data,
                                     uint64_t bytes, tern_error *err);
tern_status tern_split__buffer_read(tern_backend *b, const tern_buffer *buffer, uint64_t offset, void *data,
                                    uint64_t bytes, tern_error *err);
/* Makes the buffer on a side, with what was written so far. */
tern_status tern_split__need(tern_split *s, tern_buffer *buffer, tern_side side, tern_error *err);
/* Has the host's writes kept from here on. */
tern_status tern_split__keep_copy(tern_buffer *buffer, tern_error *err);

tern_status tern_split__prepare(tern_backend *b, const tern_graph *graph, const tern_binding *bindings,
                                tern_prepared **out, tern_error *err);
void tern_split__prepared_free(tern_backend *b, tern_prepared *prepared);

tern_status tern_split__run(tern_backend *b, tern_prepared *prepared, uint32_t n_steps, tern_error *err);

#endif
