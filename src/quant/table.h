/* The rows of the encoding table, one for each file of this folder that defines one; and the scans they share. */
#ifndef TERN_QUANT_TABLE_H
#define TERN_QUANT_TABLE_H

#include "quant/encoding.h"

extern const tern_encoding tern_encoding__f32;
extern const tern_encoding tern_encoding__f16;
extern const tern_encoding tern_encoding__q4_0;
extern const tern_encoding tern_encoding__q4_1;
extern const tern_encoding tern_encoding__q5_0;
extern const tern_encoding tern_encoding__q5_1;
extern const tern_encoding tern_encoding__q8_0;
extern const tern_encoding tern_encoding__q2_k;
extern const tern_encoding tern_encoding__q3_k;
extern const tern_encoding tern_encoding__q4_k;
extern const tern_encoding tern_encoding__q5_k;
extern const tern_encoding tern_encoding__q6_k;
extern const tern_encoding tern_encoding__iq4_nl;
extern const tern_encoding tern_encoding__bf16;
extern const tern_encoding tern_encoding__tq1_0;
extern const tern_encoding tern_encoding__tq2_0;
extern const tern_encoding tern_encoding__i2_s;
extern const tern_encoding tern_encoding__mxfp4;
extern const tern_encoding tern_encoding__q1_0;
extern const tern_encoding tern_encoding__q2_0;
extern const tern_encoding tern_encoding__pq2_0;
extern const tern_encoding tern_encoding__t160;

/* The first of n f16 values, `stride` bytes apart, that is NaN or infinite; n when there is none. */
size_t tern_f16__find_nonfinite(const uint8_t *first, size_t stride, size_t n);
/* As above for values without gaps. */
size_t tern_f16__find_nonfinite_packed(const uint8_t *values, size_t n);
/* Whether any of the 2-bit fields of n bytes is 11. */
bool tern_bits__any_11(const uint8_t *bytes, size_t n);

#endif
