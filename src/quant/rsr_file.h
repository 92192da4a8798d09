/* The bytes of an RSR matrix in a file (docs/reference/formats/rsr.md). */
#ifndef TERN_QUANT_RSR_FILE_H
#define TERN_QUANT_RSR_FILE_H

#include "quant/rsr.h"

enum { TERN_RSR__HEADER_BYTES = 64, TERN_RSR__VERSION = 1 };

/* Where each array begins; `bytes` is where the last one ends. */
typedef struct tern_rsr__offsets {
    size_t first_slice, first_vector, lengths, masks, index, bytes;
} tern_rsr__offsets;

/* False when the size does not fit. */
bool tern_rsr__offsets_of(tern_rsr__offsets *out, uint64_t n_units, uint64_t n_slices, uint64_t n_vectors, uint32_t k);
void tern_rsr__header_write(uint8_t *to, const tern_rsr_slices *s, uint32_t n_slices, uint32_t n_vectors,
                            uint64_t origin);
void tern_rsr__point(tern_rsr_slices *s, const uint8_t *bytes, const tern_rsr__offsets *at);

#endif
