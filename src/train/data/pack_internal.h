/* Inside packing: pieces while they are found, and where they are once placed. */
#ifndef TERN_TRAIN_DATA_PACK_INTERNAL_H
#define TERN_TRAIN_DATA_PACK_INTERNAL_H

#include "train/data/pack.h"

typedef struct tern_train_piece {
    uint32_t document, part; /* positions from part * seq on */
    uint32_t n, n_labels;
} tern_train_piece;

typedef struct tern_train_scan {
    const tern_train_data *data;
    const tern_train_pack_params *params;
    tern_train_piece *pieces; /* [n] */
    uint64_t *hashes;         /* [n] */
    size_t n;
    uint64_t n_unlabelled;
    int32_t *ids;     /* [seq + 1] of the piece being looked at */
    uint8_t *in_loss; /* [seq + 1] */
    uint64_t hash;
    uint32_t n_labels;
} tern_train_scan;

typedef struct tern_train_placed {
    uint32_t document, part;
} tern_train_placed;

struct tern_train_pack {
    const tern_train_data *data;
    tern_train_pack_info info;
    tern_train_placed *pieces; /* [n_pieces], row by row */
    uint32_t *rows;            /* [n_rows + 1] the first piece of each */
};

/* Every bit of the result depends on every bit of v (the finaliser of splitmix64, as in base/rng.h). */
static inline uint64_t tern_train__mix(uint64_t v)
{
    v = (v ^ v >> 30) * 0xbf58476d1ce4e5b9u;
    v = (v ^ v >> 27) * 0x94d049bb133111ebu;
    return v ^ v >> 31;
}

/* Places the pieces of the scan into rows. Errors: OUT_OF_MEMORY. */
tern_status tern_train__place_pieces(tern_train_pack *pack, const tern_train_scan *s, tern_error *err);

#endif
