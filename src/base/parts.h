/* Names of files in parts: NAME-00001-of-00003.gguf and so on. */
#ifndef TERN_BASE_PARTS_H
#define TERN_BASE_PARTS_H

#include <stddef.h>
#include <stdint.h>

/* For "NAME-00001-of-00003.gguf": 3, and in *part 1; else 0. The ending in upper or lower case. */
uint32_t tern_parts_of_name(const char *path, uint32_t *part);
/* The path of another part, beside one whose name has such an ending; in storage of tern_alloc, NULL when out of
 * memory. A part of more than five digits has no such name. */
char *tern_parts_path(const char *path, uint32_t part);

/* Bytes of a file, of one in parts of all that are there, of a folder of its SafeTensors files; 0: nothing is there. */
uint64_t tern_parts_bytes(const char *path);

#endif
