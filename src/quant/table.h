/* The rows of the encoding table, one for each file of this folder that defines one; and the scans they share. */
#ifndef TERN_QUANT_TABLE_H
#define TERN_QUANT_TABLE_H

#include "quant/encoding.h"

#define TERN_ENCODING_ROW(name, NAME, id, file_type) extern const tern_encoding tern_encoding__##name;
TERN_ENCODING_LIST(TERN_ENCODING_ROW)
#undef TERN_ENCODING_ROW

/* The first of n f16 values, `stride` bytes apart, that is NaN or infinite; n when there is none. */
size_t tern_f16__find_nonfinite(const uint8_t *first, size_t stride, size_t n);
/* As above for values without gaps. */
size_t tern_f16__find_nonfinite_packed(const uint8_t *values, size_t n);
/* Whether any of the 2-bit fields of n bytes is 11. */
bool tern_bits__any_11(const uint8_t *bytes, size_t n);

#endif
