/* The bytes of a training data file: shared by its reader and its writer. */
#ifndef TERN_TRAIN_DATA_LAYOUT_H
#define TERN_TRAIN_DATA_LAYOUT_H

#include "base/hash.h"

enum { TERN_TRAIN_DATA_VERSION = 1, TERN_TRAIN_DATA_HEADER = 128, TERN_TRAIN_DATA_ALIGN = 64 };
enum { TERN_TRAIN_DATA_WIDE = 1, TERN_TRAIN_DATA_SEQUENCES = 2 }; /* flags: ids are u32; one document, one row */
#define TERN_TRAIN_DATA_MAGIC "TERNDATA"

#endif
