/* The layout that the writer and the reader of checkpoints share. */
#ifndef TERN_TRAIN_CHECKPOINT_INTERNAL_H
#define TERN_TRAIN_CHECKPOINT_INTERNAL_H

#include "format/safetensors.h"
#include "train/checkpoint.h"

enum { TERN_CHECKPOINT__VERSION = 1 };
#define TERN_CHECKPOINT__RUN    "tern.run"    /* first: U8, the run as JSON */
#define TERN_CHECKPOINT__HASHES "tern.hashes" /* last: U64, of each tensor before */

/* How an item stands in the file: 8-bit states as their bytes, [1][n]. */
static inline tern_st_tensor tern_checkpoint__tensor(const tern_checkpoint_item *item)
{
    tern_st_tensor t = {.name = item->name,
                        .n_dims = 2,
                        .dims = {item->rows, item->cols},
                        .n_elements = (uint64_t)item->rows * item->cols,
                        .bytes = (size_t)tern_row_bytes(item->dtype, item->cols, item->rows)};
    switch (item->dtype) {
    case TERN_DTYPE_F32: t.dtype = TERN_ST_F32; return t;
    case TERN_DTYPE_F16: t.dtype = TERN_ST_F16; return t;
    case TERN_DTYPE_BF16: t.dtype = TERN_ST_BF16; return t;
    case TERN_DTYPE_U32: t.dtype = TERN_ST_U32; return t;
    case TERN_DTYPE_Q8_0:
    case TERN_DTYPE_Q4_0:
    case TERN_DTYPE_Q8:
    case TERN_DTYPE_M8:
    case TERN_DTYPE_V8: break;
    }
    t.dtype = TERN_ST_U8;
    t.dims[0] = 1;
    t.dims[1] = t.n_elements = t.bytes;
    return t;
}

#endif
