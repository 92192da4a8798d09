/* Opens an engine from a GGUF file that comes piece by piece. A model is then never whole in memory if the backend
 * copies its weights. Browsers load so, from a network, a disk or a package (docs/guides/browser.md). One thread. */
#ifndef TERN_INFER_ENGINE_LOADER_H
#define TERN_INFER_ENGINE_LOADER_H

#include "infer/experts/source.h"
#include "model/stream/stream.h"

typedef struct tern_loader tern_loader;

/* Opens the backend (one that is split: with the head). params, except what they point to, are copied. file_bytes: of
 * the whole file. Errors: UNSUPPORTED (params.head on a backend that copies weights: the table is never whole), those
 * of the backend. */
tern_status tern_loader_open(tern_loader **loader, const tern_engine_params *params, uint64_t file_bytes,
                             tern_error *err);

/* The file's first n bytes, borrowed for the call. PENDING: the header is longer; *wanted bytes are likely to be
 * enough. OK: metadata, vocabulary and the list of tensors have been read and checked. Errors: as
 * tern_model_open_memory. */
tern_status tern_loader_head(tern_loader *loader, const void *bytes, size_t n, uint64_t *wanted, tern_error *err);
/* Called before the head: the file is in n parts of these sizes (llama.cpp's gguf-split), which together have
 * file_bytes. tern_loader_head then takes the first bytes of one part after another. OK means that those of the next
 * part are expected, and after the last part that the model is known. Offsets of pieces count as if the parts were one
 * file, one behind another; no piece is of two parts. Errors: INVALID_ARGUMENT (another sum, a manifest), LIMIT,
 * OUT_OF_MEMORY; then of tern_loader_head also those of tern_gguf_join. */
tern_status tern_loader_parts(tern_loader *loader, const uint64_t *bytes, size_t n, tern_error *err);
/* Before the head: a package's manifest, which the header must agree with; kept by the caller until the head is there.
 */
void tern_loader_expect(tern_loader *loader, const tern_manifest *manifest);
/* As above from its text, which may go. Errors: those of tern_manifest_parse. */
tern_status tern_loader_expect_json(tern_loader *loader, const void *json, size_t n, tern_error *err);
/* As above for a package by expert, which the loader owns from here on, also when this fails. The pieces are those of
 * the rest; experts are fetched when they are needed, into the memory that params.experts gives (0: for all of them).
 * The head is UNSUPPORTED where the backend never waits, and for ternary experts. Errors: OUT_OF_MEMORY. */
tern_status tern_loader_experts(tern_loader *loader, tern_package *package, tern_error *err);
/* The model, from the head on (NULL before: of parts from the last head on); its weights have no data yet. */
const tern_model *tern_loader_model(const tern_loader *loader);

/* Where its weights go, from the head on. */
const tern_backend *tern_loader_backend(const tern_loader *loader);

/* A piece of the file that is wanted next: `bytes` at `offset`, to be put where `into` points. Pieces come in the order
 * of the file, without overlap, of at most TERN_MODEL_PIECE_BYTES. */
typedef tern_model_piece tern_loader_piece;

/* NOT_FOUND: there are no more. Errors: OUT_OF_MEMORY (with the numbers). */
tern_status tern_loader_next(tern_loader *loader, tern_loader_piece *piece, tern_error *err);
/* The piece is there: checked as tern_model_open checks, and given to the backend. Errors: MALFORMED (the tensor, the
 * place, what was found). */
tern_status tern_loader_accept(tern_loader *loader, tern_error *err);
/* Every piece is there: the engine, which is as any other except for weights without data. The loader is to be closed
 * all the same, and any failure of the others leaves it fit for nothing else. */
tern_status tern_loader_finish(tern_loader *loader, tern_engine **engine, tern_error *err);
/* NULL is fine. */
void tern_loader_close(tern_loader *loader);

#endif
