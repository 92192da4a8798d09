/* Documents packed into rows of one length, some of them held out. */
#ifndef TERN_TRAIN_DATA_PACK_H
#define TERN_TRAIN_DATA_PACK_H

#include "train/data/file.h"

enum { TERN_TRAIN_NO_LABEL = -1 };

typedef struct tern_train_pack_params {
    uint32_t seq;    /* positions of a row; at least 1 */
    double held_out; /* share of the pieces that training does not see: 0 to less than 1 */
    uint64_t seed;   /* chooses them */
    bool validation; /* the pieces held out, instead of the others */
} tern_train_pack_params;

/* The result. */
typedef struct tern_train_pack_info {
    uint32_t n_rows, seq;
    uint64_t n_pieces, n_positions, n_labels;
    uint64_t n_unlabelled; /* pieces of the data that no row has: none of their labels counts */
} tern_train_pack_info;

/* Rows of one side; immutable after opening; shared by threads. 8 bytes for each piece and 4 for each row. */
typedef struct tern_train_pack tern_train_pack;

/* A document of T tokens has T - 1 positions: token i predicts token i + 1. It is cut into pieces only where it is
 * longer than a row; pieces go into rows by best fit among the rows that are open, in the order of the data, so that
 * rows are numbered as their first pieces come. Where the data are sequences, each piece is a row.
 *
 * The pieces with the smallest hashes of seed and tokens are held out, at least one and not all. A text is never on
 * both sides, and equal data, seq and seed give equal sides.
 *
 * Reads all of the data once, which must outlive the pack. Errors: MALFORMED (an id), INVALID_ARGUMENT (params; too few
 * pieces to hold some out), LIMIT (2^32 pieces or more). */
tern_status tern_train_pack_open(tern_train_pack **pack, const tern_train_data *data,
                                 const tern_train_pack_params *params, tern_error *err);
void tern_train_pack_close(tern_train_pack *pack);
const tern_train_pack_info *tern_train_pack_about(const tern_train_pack *pack);

/* The part to hold out when nobody says, of so many rows: a tenth, at most about 64 rows; 0 of less than 20. */
double tern_train_pack_default_held_out(uint32_t n_rows);

/* One row, in the caller's arrays of seq items. */
typedef struct tern_train_row {
    int32_t *ids;      /* 0 in the padding at the end */
    int32_t *labels;   /* the token that follows, or TERN_TRAIN_NO_LABEL where it does not count */
    uint32_t *starts;  /* where in the row the piece begins: position i attends to starts[i] .. i and has the RoPE
                        * position  i - starts[i]; each position of the padding is a piece of its own */
    uint32_t n_used;   /* out: positions before the padding */
    uint32_t n_labels; /* out */
} tern_train_row;

/* Fills row number `row` < n_rows. Errors: MALFORMED (the file was changed meanwhile). No allocation. */
tern_status tern_train_pack_row(const tern_train_pack *pack, uint32_t row, tern_train_row *out, tern_error *err);

#endif
