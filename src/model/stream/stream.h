/* A model whose GGUF file comes piece by piece, in the order of the file. */
#ifndef TERN_MODEL_STREAM_STREAM_H
#define TERN_MODEL_STREAM_STREAM_H

#include "format/manifest.h"
#include "model/model.h"
#include "quant/weight.h"

typedef struct tern_gguf tern_gguf; /* format/gguf.h */

typedef struct tern_model_stream tern_model_stream;

enum { TERN_MODEL_PIECE_BYTES = 8 << 20 };

typedef struct tern_model_stream_options {
    uint64_t file_bytes; /* of the whole file */
    bool keep; /* every weight stays in memory, in its file layout; else only what is small does (norms, scales), the
                * matrices' data is NULL */
    bool no_experts;                 /* weights of experts are not read, and have no data */
    const tern_manifest *manifest;   /* what the header must agree with; may be NULL */
    const tern_model_options *model; /* may be NULL; borrowed to the end of the stream */
} tern_model_stream_options;

/* The file's first n bytes, which may go afterwards. PENDING: the header is longer; *wanted bytes are likely to be
 * enough. OK: configuration, vocabulary and the list of tensors have been read and checked. On failure *stream is NULL.
 * Errors: as tern_model_open_memory. */
tern_status tern_model_stream_open(tern_model_stream **stream, const void *head, size_t n,
                                   const tern_model_stream_options *options, uint64_t *wanted, tern_error *err);
/* As above from a header that has been read (all parts of a file joined), which may go afterwards: file_bytes is its
 * tern_gguf_bytes. Errors: as above, but never PENDING. */
tern_status tern_model_stream_open_gguf(tern_model_stream **stream, const tern_gguf *gguf,
                                        const tern_model_stream_options *options, tern_error *err);
/* NULL is fine. */
void tern_model_stream_close(tern_model_stream *stream);
/* The model so far; its weights have names, encodings and shapes, and stay where they are. */
const tern_model *tern_model_stream_model(const tern_model_stream *stream);

/* The bytes of the file that are wanted next, and where to. */
typedef struct tern_model_piece {
    uint64_t offset;
    size_t bytes; /* at most TERN_MODEL_PIECE_BYTES, unless the fewest rows that can be told apart are longer */
    uint8_t *into;
} tern_model_piece;

/* Rows of a weight that is not kept: `rows` is rows [first, first + rows.rows) alone, in its file layout (a tail that
 * the piece did not bring says 1), without row scales; valid until the next call. A weight whose blocks have scales
 * (tq1_0, tq2_0) comes whole; with several in a row it is q2_0, as in a file that is whole. weight NULL: nothing but
 * what the model keeps, or a weight that is not whole yet. */
typedef struct tern_model_part {
    const tern_weight *weight;
    uint32_t first;
    tern_weight rows;
} tern_model_part;

/* NOT_FOUND: there are no more. Gives the same piece until it is accepted. Errors: OUT_OF_MEMORY. */
tern_status tern_model_stream_next(tern_model_stream *stream, tern_model_piece *piece, tern_error *err);
/* The piece is there. Errors: as tern_model_open_memory. */
tern_status tern_model_stream_accept(tern_model_stream *stream, tern_model_part *part, tern_error *err);
/* Every piece is there: the model is the caller's. Errors: INVALID_ARGUMENT (some are not), UNSUPPORTED (I2_S codes in
 * another order than Tern's). */
tern_status tern_model_stream_finish(tern_model_stream *stream, tern_model **model, tern_error *err);

#endif
