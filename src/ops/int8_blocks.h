/* Which dense weights multiply activations that are int8 by blocks. */
#ifndef TERN_OPS_INT8_BLOCKS_H
#define TERN_OPS_INT8_BLOCKS_H

#include <stdbool.h>

#include "quant/encoding_id.h"

/* Whether weights of this encoding have that product (ops/ref/blocks.h). */
bool tern_op_multiplies_blocks(tern_encoding_id id);

#endif
