/* Checkpoints: everything that a run needs to go on, in one SafeTensors file (docs/reference/formats/checkpoints.md).
 * */
#ifndef TERN_TRAIN_CHECKPOINT_H
#define TERN_TRAIN_CHECKPOINT_H

#include <jansson.h>

#include "base/error.h"
#include "ops/dtype.h"

/* One state of one tensor. */
typedef struct tern_checkpoint_item {
    char name[160]; /* "master.model.layers.0.self_attn.q_proj.weight", "m. ...", "v. ..." */
    tern_dtype dtype;
    uint32_t rows, cols;
} tern_checkpoint_item;

/* The written items in their order, each read once. `run` is the JSON beside them. */
typedef struct tern_checkpoint_source {
    const json_t *run; /* an object */
    const tern_checkpoint_item *items;
    size_t n;
    /* Fills the bytes of item i: tern_row_bytes(dtype, cols, rows). */
    tern_status (*read)(void *context, size_t i, void *bytes, tern_error *err);
    void *context;
} tern_checkpoint_source;

/* Writes the file under a temporary name, syncs it, renames it and syncs its folder: at every moment there is the old
 * one whole, or the new one. Takes the memory of the largest item. Errors: IO, OUT_OF_MEMORY, those of read. */
tern_status tern_checkpoint_write(const char *path, const tern_checkpoint_source *source, tern_error *err);

typedef struct tern_checkpoint tern_checkpoint; /* immutable after opening */

/* Opens and reads all of it: every hash is compared, every number must be finite, and those of second moments and the
 * scales of 8-bit states 0 or more. Errors: NOT_FOUND, IO, MALFORMED (cut off, damaged: which tensor; no checkpoint),
 * UNSUPPORTED (version). */
tern_status tern_checkpoint_open(tern_checkpoint **checkpoint, const char *path, tern_error *err);
/* As above from bytes that the caller keeps. */
tern_status tern_checkpoint_parse(tern_checkpoint **checkpoint, const void *data, size_t size, tern_error *err);
void tern_checkpoint_close(tern_checkpoint *checkpoint);

/* The `run` that was given; numbers are reals. Lives as long as the checkpoint. */
const json_t *tern_checkpoint_run(const tern_checkpoint *checkpoint);
/* How many items there are. */
size_t tern_checkpoint_count(const tern_checkpoint *checkpoint);
/* The bytes of an item. Errors: NOT_FOUND (no such item), MALFORMED (another type or shape; found and expected). */
tern_status tern_checkpoint_find(const tern_checkpoint *checkpoint, const tern_checkpoint_item *item,
                                 const uint8_t **bytes, tern_error *err);

#endif
