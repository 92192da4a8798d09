/* A weight: one tensor of a model, as its file has it. */
#ifndef TERN_QUANT_WEIGHT_H
#define TERN_QUANT_WEIGHT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct tern_encoding tern_encoding; /* quant/encoding.h */

/* One tensor. `data` lies in the mapped file or in memory of the model, in the encoding's file layout, tail included.
 * A ternary weight's value is code * scale, or code * row_scales[row] where row_scales is not NULL; block scales inside
 * the data (tq1_0, tq2_0) are already in scale/row_scales and must not be applied again. Norms are always F32. */
enum { TERN_WEIGHT_END_BYTES = 64 };

typedef struct tern_weight {
    const tern_encoding *encoding; /* NULL: the model has no such tensor */
    uint32_t rows, cols;
    const uint8_t *data;
    size_t bytes;
    float scale;
    const float *row_scales; /* [rows] or NULL */
    const uint8_t *rsr;      /* the RSR section that the file has beside it (quant/rsr.h), not checked; NULL: none */
    size_t rsr_bytes;
    const uint8_t *ends; /* of one that came piece by piece and has no data, or is a part: the first
                          * TERN_WEIGHT_END_BYTES of all of it, then the last ones */
    size_t whole_bytes;  /* of one that is a part of a tensor (model/cut.h): those of all of it; 0: it is not a part */
    bool mapped;         /* data lies in the mapped file, not in memory of our own */
    /* Ops write it (UPDATE, REQUANTIZE), so data and row_scales are memory that may be written: a backend of the host
     * writes there, another keeps its own copy. Ternary: i2_s with row_scales. Dense: F32 or BF16, which every backend
     * keeps as one contiguous matrix, so that buffer_read gives it as it is. */
    bool trained;
    char name[72]; /* as in the file, for messages */
} tern_weight;

#endif
