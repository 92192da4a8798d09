/* Inside the paged backend: what its files share. */
#ifndef TERN_BACKEND_PAGED_PAGED_INTERNAL_H
#define TERN_BACKEND_PAGED_PAGED_INTERNAL_H

#include <pthread.h>

#include "backend/paged/paged.h"
#include "backend/paged/predict.h"
#include "backend/paged/slots.h"
#include "backend/wrap.h"
#include "ops/routing.h"
#include "quant/weight.h"

/* The slots of layers whose experts are alike. A slot is rows slot * R .. slot * R + R - 1 of each weight. */
typedef struct tern_paged_room {
    uint32_t n_layers, n_weights;
    const tern_weight *of[TERN_PAGED_MAX_WEIGHTS]; /* of its first layer */
    tern_weight weights[TERN_PAGED_MAX_WEIGHTS];   /* [n_slots * R][cols], without data unless `host` */
    float *row_scales[TERN_PAGED_MAX_WEIGHTS];     /* of them, where ternary: layers have scales of their own */
    uint8_t *host[TERN_PAGED_MAX_WEIGHTS];         /* their data, for a backend that reads weights where they lie */
    tern_buffer *inner[TERN_PAGED_MAX_WEIGHTS];    /* once they are made */
    tern_slots slots;
} tern_paged_room;

/* Where a layer's experts go: the room, and which of its layers this is. */
typedef struct tern_paged_place {
    uint32_t room, layer;
} tern_paged_place;

/* The rooms of a model, sized for a number of slots; nothing is allocated on a device. */
typedef struct tern_paged_rooms {
    tern_paged_room *rooms; /* [n]; at most one for each layer */
    uint32_t n;
    tern_paged_place *places; /* [n_layers] */
} tern_paged_rooms;

/* A step that has begun; on a backend that never waits it goes on where the routes of a layer were not there yet. */
typedef struct tern_paged_step {
    struct tern_paged *paged;
    tern_prepared *p;             /* NULL: none is under way */
    uint32_t n_tokens, n_outputs; /* n_tokens 0: not read yet */
    uint32_t n_rows;              /* routed ones */
    size_t next;                  /* of its parts */
} tern_paged_step;

typedef struct tern_paged {
    tern_wrap wrap;
    tern_paged_info info;
    tern_paged_options options; /* layers: a copy */
    tern_paged_layer *layers;
    tern_paged_rooms rooms;
    pthread_mutex_t lock; /* rooms: sessions take turns, step by step */
    tern_paged_step step;
    uint64_t runs;
    bool incomplete;         /* rooms or parts could not be made when rooms shrank */
    tern_prepared *prepared; /* all that there are, for when rooms shrink */
    uint64_t hits, misses, copied_bytes;
    uint64_t prefetched;
    tern_predict predict;
    uint32_t last_layer; /* of this step, whose experts a token took: */
    uint32_t last[TERN_MAX_ROUTES];
    uint64_t evictions; /* of rooms that are no more */
} tern_paged;

enum { TERN_PAGED_NOWHERE = UINT32_MAX };

/* A buffer of the inner backend, or the experts of a layer. */
struct tern_buffer {
    tern_buffer *inner;    /* first (backend/wrap.h) */
    uint32_t layer, index; /* of weights of experts; else NOWHERE */
};

/* A run of ops, after which the experts of a layer are not yet known; or those that use them. */
typedef struct tern_paged_part {
    tern_wrap_part base;
    uint32_t layer;    /* whose experts it needs, or NOWHERE */
    uint32_t route;    /* the value that says which */
    bool only_outputs; /* nothing to do in a step without logits */
    bool again;        /* may run more than once in a step: some of the rows each time */
} tern_paged_part;

struct tern_prepared {
    tern_prepared *next, **self; /* in the list of all */
    const tern_graph *graph;
    const tern_binding *bindings;
    tern_op *ops;       /* copies of the graph's, with slots in place of experts */
    tern_value *values; /* and one more: the slots of routed rows */
    tern_binding *at;   /* [n_values + 1] on the inner backend */
    tern_paged_part *parts;
    size_t n_parts;
    tern_buffer *slots; /* (slot, weight) of each routed row: on the inner backend */
    tern_buffer **kept; /* [n_kept] memory of routed rows that outlives one run of a part */
    size_t n_kept;
    uint32_t *routes; /* [max routed rows][2] as ROUTE made them */
    uint32_t *mapped; /* the same, with slots */
    bool *done;       /* [max routed rows] */
};

static inline tern_paged *tern_paged__of(tern_backend *b)
{
    return (tern_paged *)b;
}

/* rooms.c */
tern_status tern_paged__rooms_init(tern_paged_rooms *rooms, const tern_paged_options *options, uint32_t n_slots,
                                   tern_error *err);
void tern_paged__rooms_deinit(tern_paged_rooms *rooms, tern_backend *inner);
/* Rows of one expert in weight `index` of a room. */
uint32_t tern_paged__rows(const tern_paged_room *room, uint32_t index);
/* Makes a weight of a room on the inner backend, unless it is there. */
tern_status tern_paged__room_make(tern_paged *p, tern_paged_room *room, uint32_t index, tern_error *err);
/* An expert is copied soon: its bytes, where they are those of a mapped file, come from the disk beside others'. */
void tern_paged__want(const tern_paged *p, uint32_t layer, uint32_t expert);
/* Copies an expert into a slot of its room. */
tern_status tern_paged__copy(tern_paged *p, uint32_t layer, uint32_t expert, uint32_t slot, tern_error *err);

/* prepare.c, run.c */
tern_status tern_paged__prepare(tern_backend *b, const tern_graph *graph, const tern_binding *bindings,
                                tern_prepared **out, tern_error *err);
void tern_paged__prepared_free(tern_backend *b, tern_prepared *prepared);
tern_status tern_paged__run(tern_backend *b, tern_prepared *prepared, uint32_t n_steps, tern_error *err);
/* Ends the step that is under way, on a backend that never waits. PENDING: again when the device is done. After another
 * error the step is none any more. */
tern_status tern_paged__go_on(tern_paged *paged, tern_error *err);
/* Gives it up. */
void tern_paged__give_up(tern_paged *paged);

/* Under the lock: the parts and their memory, as the rooms are now, and without them. Making them again after an error
 * is fine. */
tern_status tern_paged__make_parts(tern_paged *paged, tern_prepared *p, tern_error *err);
void tern_paged__free_parts(tern_paged *paged, tern_prepared *p);

/* shrink.c: under the lock, before a step: where the device has nothing left, others want its memory, and rooms give up
 * a quarter of their slots, down to the fewest. Earlier contents are copied again when they are needed. Errors: those
 * of making rooms and parts; the next step tries again. */
tern_status tern_paged__shrink(tern_paged *paged, tern_error *err);
/* Reports the contents of the rooms in the backend's info. */
void tern_paged__describe(tern_paged *paged);

/* cut.c: the parts of a prepared graph, whose ops and values are copied. p->parts has room for one of each op. */
void tern_paged__cut(const tern_paged *paged, tern_prepared *p);

/* The layer whose experts an op needs, or NOWHERE. */
uint32_t tern_paged__layer_of(const tern_prepared *p, const tern_op *op);

#endif
