/* GGUF files in parts, as llama.cpp's gguf-split cuts them (docs/reference/formats/gguf.md). Each part is a GGUF file;
 * the first has the metadata. Each names its number (split.no, from 0), the number of parts (split.count) and the
 * number of tensors of all parts (split.tensors.count). */
#ifndef TERN_FORMAT_GGUF_PARTS_H
#define TERN_FORMAT_GGUF_PARTS_H

#include "base/file.h"
#include "format/gguf.h"

enum { TERN_GGUF_MAX_PARTS = 4096 };

typedef struct tern_gguf_place {
    uint32_t index, count; /* count 1: the file is whole */
    uint32_t n_tensors;    /* of all parts; 0 of a whole file */
} tern_gguf_place;

/* The facts that a file states. Errors: MALFORMED (keys that are missing or of another kind, index >= count), LIMIT
 * (more than TERN_GGUF_MAX_PARTS). */
tern_status tern_gguf_place_of(const tern_gguf *g, tern_gguf_place *place, tern_error *err);
/* UNSUPPORTED where it is a part, and not all of them joined. */
tern_status tern_gguf_check_whole(const tern_gguf *g, tern_error *err);

/* Makes one file of parts[0..n), in their order: the metadata of the first and the tensors of all. Offsets count from
 * the first byte of the first part, as if the files lay one behind another. parts[0] becomes it, the others may be
 * closed; their bytes stay where they are for its life. A key that a part has beside split.no and general.alignment
 * must have the value that it has in the first. On failure parts[0] is fit for nothing but closing.
 * Errors, naming the part: INVALID_ARGUMENT (n is another number than it says), MALFORMED (a part in another's place,
 * of another model, a tensor that two have, another number of tensors), LIMIT (tensors), OUT_OF_MEMORY. */
tern_status tern_gguf_join(tern_gguf *const *parts, size_t n, tern_error *err);

/* ---- heads of parts that come one by one */

/* Zero-initialised has no parts. */
typedef struct tern_gguf_heads {
    tern_gguf **parts;
    uint8_t **bytes;      /* of the heads */
    uint64_t *file_bytes; /* of each part */
    size_t n, at;
} tern_gguf_heads;

/* Errors: INVALID_ARGUMENT (n is 0), LIMIT, OUT_OF_MEMORY. */
tern_status tern_gguf_heads_open(tern_gguf_heads *heads, const uint64_t *file_bytes, size_t n, tern_error *err);
/* Safe on a zeroed one. */
void tern_gguf_heads_close(tern_gguf_heads *heads);
/* The first n bytes of the next part, which may go afterwards. PENDING: its header is longer; *wanted bytes are likely
 * to be enough. When all have come, *whole is what tern_gguf_join makes of them, which lives as long as the heads; NULL
 * before. Errors: those of tern_gguf_parse_head and tern_gguf_join, naming the part. */
tern_status tern_gguf_heads_add(tern_gguf_heads *heads, const void *head, size_t n, uint64_t *wanted,
                                const tern_gguf **whole, tern_error *err);

/* ---- files on disk */

/* A GGUF file with all its parts, mapped; zero-initialised is closed. */
typedef struct tern_gguf_file {
    tern_gguf *gguf;
    tern_file_map *maps;
    size_t n;       /* parts; 1 of a whole file */
    uint64_t bytes; /* of all of them */
} tern_gguf_file;

/* Any part stands for all, which lie beside it. Errors, naming the file: those of tern_file_map_open, tern_gguf_parse
 * and tern_gguf_join; NOT_FOUND (a part is missing), INVALID_ARGUMENT (a part whose name is not of the form
 * NAME-00001-of-00003.gguf, or says another number of parts). */
tern_status tern_gguf_file_open(tern_gguf_file *file, const char *path, tern_error *err);
/* Safe on a zeroed one. */
void tern_gguf_file_close(tern_gguf_file *file);
/* Whether bytes of it lie there. */
bool tern_gguf_file_holds(const tern_gguf_file *file, const void *at);

#endif
