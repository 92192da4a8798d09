/* Engines from files that come piece by piece, for the tests of loading. */
#ifndef TERN_TESTS_INFER_LOADING_H
#define TERN_TESTS_INFER_LOADING_H

#include "infer/support.h"

#include "base/file.h"
#include "infer/engine/loader.h"
#include "support/micro_refusals.h"

/* What a load has looked like. */
typedef struct loading {
    size_t n_heads, n_pieces;
    size_t largest; /* bytes of a piece */
    uint64_t end;   /* of the last piece: they come in order, without overlap */
} loading;

/* As many bytes at first as given, then as many as are wanted. */
tern_status give_heads(tern_loader *loader, const uint8_t *file, size_t size, size_t n, loading *log, tern_error *err);
/* All pieces, of a file whose bytes are these. */
tern_status give_pieces(tern_loader *loader, const uint8_t *file, size_t size, loading *log, tern_error *err);
/* The whole of it from bytes in memory, `first` of them in the first head. On failure *engine is NULL. */
tern_status load_bytes(tern_engine **engine, const uint8_t *file, size_t size, size_t first,
                       const tern_engine_params *params, loading *log, tern_error *err);
/* Refused, with the words that the same bytes in memory are refused with. */
void refuse_loading(const micro_refusal *r, const tern_engine_params *params);
tern_engine *load_file(const char *path, const tern_engine_params *params, loading *log);
tern_engine *map_file(const char *path, const tern_engine_params *params);
/* The same logits, bit by bit, for a few tokens in one step, and then the same greedy tokens one by one. */
void assert_same(tern_engine *a, tern_engine *b, bool bits);
/* A file mapped and loaded piece by piece: the same engine. */
void check_file(const char *path, const tern_engine_params *params);

/* A micro model from memory and piece by piece: the same engines. */
void check_micro(const micro_change *change, const tern_engine_params *params);

#endif
