/* Where the rows of an encoded tensor lie. */
#ifndef TERN_QUANT_LAYOUT_H
#define TERN_QUANT_LAYOUT_H

#include "quant/encoding.h"

/* A tensor as n_rows stored rows of n_blocks whole blocks and `rest` elements in a shorter one. A linear encoding
 * stores the tensor as a single row. The tail, if any, begins at n_rows * row_bytes. */
typedef struct tern_layout {
    size_t n_rows, row_elements, row_bytes;
    size_t n_blocks, rest;
} tern_layout;

/* Errors: those of tern_encoding_bytes. */
tern_status tern_layout__of(const tern_encoding *e, uint64_t rows, uint64_t cols, tern_layout *layout, tern_error *err);

/* The tensor's one scale, from its tail. Only for encodings with a tail. */
float tern_layout__tail_scale(const tern_layout *layout, const void *in);

#endif
