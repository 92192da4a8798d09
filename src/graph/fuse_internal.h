/* Inside the fusion pass: what its files share. */
#ifndef TERN_GRAPH_FUSE_INTERNAL_H
#define TERN_GRAPH_FUSE_INTERNAL_H

#include "graph/graph.h"

typedef struct tern_fusing {
    tern_graph *graph;
    tern_backend *backend; /* NULL: no device is asked */
    uint32_t *uses;
    tern_error *err;
} tern_fusing;

/* Changes an op of the graph to `fused` where the device runs that. */
bool tern_fuse__becomes(const tern_fusing *f, tern_op *op, const tern_op *fused);
/* The op is no longer there. */
void tern_fuse__drop(tern_op *op);
/* Whether the value is an activation, which nobody reads but ops. */
bool tern_fuse__internal(const tern_fusing *f, uint32_t value);

/* fuse_attention.c: rules, each of the op at `at`. */
tern_status tern_fuse__rope_kv(tern_fusing *f, size_t at);
tern_status tern_fuse__head_norms(tern_fusing *f, size_t at);
tern_status tern_fuse__rope_attention(tern_fusing *f, size_t at);

#endif
