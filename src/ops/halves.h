/* Which dense weights multiply activations in 16 bits. */
#ifndef TERN_OPS_HALVES_H
#define TERN_OPS_HALVES_H

typedef struct tern_encoding tern_encoding; /* quant/encoding.h */

/* Both factors of a LINEAR are rounded to 16 bits first (ops/ref/halves/halves.h). */
typedef enum tern_halves { TERN_HALVES_NONE, TERN_HALVES_F16, TERN_HALVES_BF16 } tern_halves;

/* The kind in which weights of this encoding are multiplied: BF16 in bf16, F32 and ternary ones in none, others in f16.
 */
tern_halves tern_op_halves_of(const tern_encoding *encoding);

#endif
