/* Cutting a list of ops between places, which are devices or processes: the rows that ops of one place read of those
 * that ops of another have made. */
#ifndef TERN_OPS_CROSSING_H
#define TERN_OPS_CROSSING_H

#include <stdbool.h>
#include <stdint.h>

typedef struct tern_graph tern_graph; /* ops/graph.h */
typedef struct tern_op tern_op;       /* ops/op.h */

/* A set of places, a bit for each. */
typedef uint32_t tern_places;

/* The layer that an op goes with: the rows whose logits are wanted are gathered where the last layer is, so that fewer
 * cross. UINT32_MAX: outside the layers. */
uint32_t tern_op_goes_with(const tern_op *op, uint32_t n_layers);
/* The values that an op reads; what it writes in place it reads too. values: [TERN_OP_MAX_VIEWS]; returns how many. */
uint32_t tern_op_values_read(const tern_op *op, uint32_t *values);
/* Whether the rows of a value must be brought to a place before an op there reads it. where: the places that have them
 * after the ops before; this place is added. The host writes values that no op has made. */
bool tern_crossing_reads(const tern_graph *graph, uint32_t value, uint32_t place, tern_places *where);
/* Once the op has run, the place alone has what it wrote. where: [n_values] */
void tern_crossing_writes(const tern_op *op, uint32_t place, tern_places *where);
/* Bytes of what a step has of a value; of q8 all, whose scales and sums lie behind the rows of the largest step. */
uint64_t tern_crossing_bytes(const tern_graph *graph, uint32_t value, uint32_t n_tokens, uint32_t n_outputs);

#endif
