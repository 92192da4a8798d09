/* Structs that begin with their size: how programs and libraries of different versions go together.
 *
 *     tern_engine_options options = {.size = sizeof options, .backend = TERN_BACKEND_AUTO};
 *     tern_engine_load(&engine, path, &options, &err);
 *
 * `size` is sizeof the struct as the program was compiled. A later version adds members at the end of such a struct, or
 * in the `reserved` room of a part of it (options.cpu, params.sampler), and never moves one.
 *
 *   - A struct that a function reads: members beyond `size` are taken as zero. Bytes within `size`, and reserved ones,
 *     that this library does not know must be zero: INVALID_ARGUMENT (the size found and the size known).
 *   - A struct that a function writes: the caller sets `size` first. At most `size` bytes are written; members that
 *     this library does not know become zero.
 *
 * A size that is smaller than that of the member itself (0: it was not set), or above TERN_MAX_STRUCT_BYTES, is
 * INVALID_ARGUMENT. Structs without the member `size` keep their layout until the next major version. Those that only
 * the library fills in and lends may grow at their end: tern_piece, tern_request_piece, tern_request_result,
 * tern_finetune_event, tern_finetune_plan. */
#ifndef TERN_SIZED_H
#define TERN_SIZED_H

#include <stddef.h>

enum { TERN_MAX_STRUCT_BYTES = 65536 };

/* A struct that begins with its size, as a value: TERN_SIZED(tern_session_params, .n_ctx = 512). For C alone. */
#define TERN_SIZED(type, ...) ((type){.size = sizeof(type), __VA_ARGS__})

#endif
