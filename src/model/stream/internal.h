/* Inside a stream: the tensors that it wants. */
#ifndef TERN_MODEL_STREAM_INTERNAL_H
#define TERN_MODEL_STREAM_INTERNAL_H

#include "model/model_internal.h"
#include "model/stream/stream.h"

/* A tensor of the file: a weight, factors for its scales, or (weight NULL) those of RoPE. */
typedef struct item {
    uint64_t offset;
    size_t bytes, done;
    uint8_t *data; /* memory of the model; NULL: passed on in pieces */
    tern_weight *weight;
    tern_role role;
    tern_rope_factors factors;
    bool scales;
    bool gathered;           /* a weight whose blocks have scales: what it is, its whole tells */
    const float *row_scales; /* found in the blocks of a weight that is passed on; NULL: one for all rows */
    uint32_t rows_done;
    uint8_t *ends; /* of a weight that is passed on */
} item;

struct tern_model_stream {
    tern_model *model; /* NULL once it has been handed out */
    bool keep, no_experts;
    item *items; /* in the order of the file */
    size_t n_items, at;
    uint8_t *staging; /* one piece of what is passed on; all pieces of a weight that is gathered */
    size_t staging_bytes;
    size_t piece_bytes; /* of the piece that is being waited for; 0: none */
    uint32_t piece_rows;
};

#endif
