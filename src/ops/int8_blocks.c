/* Which dense weights multiply activations that are int8 by blocks. */
#include "ops/int8_blocks.h"

#include "ops/ref/blocks.h"

bool tern_op_multiplies_blocks(tern_encoding_id id)
{
#define MULTIPLIES(X, name, NAME, elements, bytes) case TERN_ENC_##NAME:
    switch (id) {
        TERN_ENCODING_INT8_LIST(MULTIPLIES, )
        return true;
    default: return false;
    }
#undef MULTIPLIES
}
