/* The kind of training data that a file holds, told by its bytes. */
#ifndef TERN_TRAIN_DATA_KIND_H
#define TERN_TRAIN_DATA_KIND_H

#include "base/bytes.h"
#include "base/error.h"

typedef enum tern_train_data_kind {
    TERN_TRAIN_DATA_TEXT,
    TERN_TRAIN_DATA_JSONL, /* an object on each line */
    TERN_TRAIN_DATA_JSON,  /* an array of such objects, or one */
    TERN_TRAIN_DATA_CSV,   /* RFC 4180, its first record the names of the columns */
    TERN_TRAIN_DATA_TSV    /* the same with tabs */
} tern_train_data_kind;

/* The kind of `bytes`, which lie in the file `path`. The name decides for .jsonl, .ndjson, .csv and .tsv; .json is an
 * array or, where objects follow each other, JSONL; any other name is text, unless its first line is an object with a
 * key of training data (JSONL). Errors: UNSUPPORTED, with the kind of file and advice, for files that are not UTF-8
 * text: compressed files, archives, Parquet, models, UTF-16 and UTF-32, other bytes. */
tern_status tern_train_data_kind_of(const char *path, tern_span bytes, tern_train_data_kind *kind, tern_error *err);

#endif
