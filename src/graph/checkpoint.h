/* Checkpointing of activations: a layer's forward is computed again before its backward (Chen et al.,
 * arXiv:1604.06174). */
#ifndef TERN_GRAPH_CHECKPOINT_H
#define TERN_GRAPH_CHECKPOINT_H

#include "graph/backward.h"

/* The backward of the forward ops first .. end - 1 from values of their own, made again from what the layer reads;
 * what the backward has no use for is not made. */
void tern_backward__again(tern_backward *b, size_t first, size_t end);
/* The backward of one op, if its result has a gradient that is wanted. */
void tern_backward__op(tern_backward *b, const tern_op *op);

#endif
