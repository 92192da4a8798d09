/* Which dense weights multiply activations in 16 bits. */
#include "ops/halves.h"

#include "quant/encoding.h"

tern_halves tern_op_halves_of(const tern_encoding *encoding)
{
    if (encoding->id == TERN_ENC_F32 || encoding->ternary) return TERN_HALVES_NONE;
    return encoding->id == TERN_ENC_BF16 ? TERN_HALVES_BF16 : TERN_HALVES_F16;
}
