/* Training data as one file: documents of token ids, and which of them count in the loss
 * (docs/reference/formats/train-data.md).
 */
#ifndef TERN_TRAIN_DATA_FILE_H
#define TERN_TRAIN_DATA_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/file.h"
#include "tern/bytes.h"
#include "text/tokenizer/tokenizer.h"

/* The facts of the header. */
typedef struct tern_train_data_info {
    uint32_t n_vocab;   /* every id is smaller */
    uint64_t tokenizer; /* tern_train_data_tokenizer; 0 when ids came ready-made and the model has no tokenizer */
    uint64_t n_documents, n_tokens;
    uint64_t n_loss;      /* tokens that count as labels */
    uint64_t fingerprint; /* of ids, mask and offsets: the same documents give the same number */
    bool sequences;       /* documents are sequences as they were given: each begins a row of its own */
} tern_train_data_info;

typedef struct tern_train_data tern_train_data; /* immutable after opening; shared by threads */

/* Maps a file, or looks at `size` borrowed bytes, which must outlive it. The header, the size and the document offsets
 * are checked at once; ids when they are read. Errors: NOT_FOUND, IO, MALFORMED, UNSUPPORTED (version or flags). */
tern_status tern_train_data_open(tern_train_data **data, const char *path, tern_error *err);
tern_status tern_train_data_open_memory(tern_train_data **data, const void *bytes, size_t size, tern_error *err);
void tern_train_data_close(tern_train_data *data);

const tern_train_data_info *tern_train_data_about(const tern_train_data *data);
/* MALFORMED unless the data was made for this vocabulary: n_vocab ids of `tokenizer` (NULL: none). */
tern_status tern_train_data_match(const tern_train_data *data, uint32_t n_vocab, const tern_tokenizer *tokenizer,
                                  tern_error *err);
/* Reads all of it: every id, the counts and the fingerprint. Errors: MALFORMED. */
tern_status tern_train_data_check(const tern_train_data *data, tern_error *err);

/* The number of tokens of document d < n_documents: at least 2. */
uint64_t tern_train_data_document(const tern_train_data *data, uint64_t d);
/* Copies tokens [at, at + n) of document d, which must lie inside it. in_loss may be NULL: else 1 for each token that
 * counts in the loss when it is the label, and else 0. Errors: MALFORMED (an id that is not a token, and its place). */
tern_status tern_train_data_read(const tern_train_data *data, uint64_t d, uint64_t at, size_t n, int32_t *ids,
                                 uint8_t *in_loss, tern_error *err);

/* Writes such a file: to a temporary name, synced and renamed. */
typedef struct tern_train_data_writer {
    tern_file_writer file;
    tern_train_data_info info;
    tern_buf mask, offsets;
    uint64_t hash;
} tern_train_data_writer;

/* info: n_vocab (1 to 2^31), tokenizer and sequences; the rest is counted. Errors: IO. */
tern_status tern_train_data_writer_open(tern_train_data_writer *w, const char *path, const tern_train_data_info *info,
                                        tern_error *err);
/* To the end of a buffer, which abort leaves as it was. */
tern_status tern_train_data_writer_open_memory(tern_train_data_writer *w, tern_buf *out,
                                               const tern_train_data_info *info, tern_error *err);
/* Adds one document: n >= 2 ids below n_vocab; in_loss [n] as above, NULL for all. The first token is never a label.
 * Errors: INVALID_ARGUMENT, OUT_OF_MEMORY. */
tern_status tern_train_data_writer_add(tern_train_data_writer *w, const int32_t *ids, const uint8_t *in_loss, size_t n,
                                       tern_error *err);
/* Errors: IO; INVALID_ARGUMENT when there is nothing to learn from (no document). */
tern_status tern_train_data_writer_commit(tern_train_data_writer *w, tern_error *err);
/* Safe on a zeroed, a failed and a committed writer. */
void tern_train_data_writer_abort(tern_train_data_writer *w);

/* A number for a vocabulary: its pieces in order, and which are special. 0 for NULL, never 0 else. */
uint64_t tern_train_data_tokenizer(const tern_tokenizer *tokenizer);

#endif
