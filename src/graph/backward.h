/* Declarations that the parts of differentiation share. */
#ifndef TERN_GRAPH_BACKWARD_H
#define TERN_GRAPH_BACKWARD_H

#include "graph/training.h"
#include "ops/op.h"

enum { TERN_BACKWARD_PARTS = 4 };

/* Facts about one value. */
typedef struct tern_backward_value {
    bool wanted;       /* it leads from a trained weight, so that its gradient matters */
    uint32_t source;   /* whose gradient this one's is, straight through quantisers; most are their own */
    uint32_t gradient; /* the value that holds its gradient so far, or TERN_NO_VALUE */
    tern_view made[TERN_BACKWARD_PARTS]; /* the runs of its columns whose gradients are there, where the forward reads
                                          * it in such runs; `gradient` holds them all */
    uint32_t n_made;
    bool in_parts;
    uint32_t whole;                 /* of a value that the head reads some rows at a time: its gradient of all rows */
    uint32_t again;                 /* in the layer that is computed again: what stands for it there; else itself */
    uint32_t original;              /* of such a stand-in: what it stands for */
    size_t first_write, last_touch; /* ops of the forward */
} tern_backward_value;

typedef struct tern_backward {
    tern_graph *graph;
    const tern_op *forward;
    size_t n_forward;
    bool bf16;               /* of tern_graph_backward_options */
    tern_backward_value *of; /* [n] */
    size_t n, cap;
    tern_error *err;
    tern_status status; /* sticky: after the first failure every step does nothing */
} tern_backward;

/* A value, known to `of`. */
uint32_t tern_backward__value(tern_backward *b, tern_value value);
void tern_backward__emit(tern_backward *b, const tern_op *op);

/* The backward of one op whose result has the gradient dy: adds ops, and contributes to the gradients of its inputs. */
typedef void (*tern_backward_fn)(tern_backward *b, const tern_op *op, tern_view dy);
/* NULL: there is none. */
tern_backward_fn tern_backward__of(tern_op_kind kind);

bool tern_backward__wanted(const tern_backward *b, tern_view x);
/* The gradient of x so far; TERN_NO_VALUE: none. For a run of columns it is that of these columns. */
tern_view tern_backward__gradient(const tern_backward *b, tern_view x);
/* Room for a gradient of what the op reads as x: of a run of columns, those of the whole value's. */
tern_view tern_backward__new(tern_backward *b, const tern_op *op, tern_view x);
/* dx is the whole gradient of x from now on. */
void tern_backward__set(tern_backward *b, tern_view x, tern_view dx);
/* dx is one more part of the gradient of x, if that is wanted. dx may be the gradient of other values too. */
void tern_backward__contribute(tern_backward *b, const tern_op *op, tern_view x, tern_view dx);
/* Whether dx is the gradient of other values than x as well, so that it must not be changed in place. */
bool tern_backward__is_shared(const tern_backward *b, tern_view x, tern_view dx);
/* Makes the backward fail: UNSUPPORTED, the format with a name. */
void tern_backward__refuse(tern_backward *b, const char *what, const char *name);
/* The state that holds the gradient of a trained weight. */
tern_view tern_backward__weight_gradient(tern_backward *b, const tern_weight *weight);

#endif
