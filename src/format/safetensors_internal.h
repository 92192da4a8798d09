/* Declarations that the SafeTensors reader of one file and of a folder share. */
#ifndef TERN_FORMAT_SAFETENSORS_INTERNAL_H
#define TERN_FORMAT_SAFETENSORS_INTERNAL_H

#include "base/arena.h"
#include "base/map.h"
#include "format/safetensors.h"

enum { TERN_ST_MAX_DIMS = 8, TERN_ST_MAX_TENSORS = 1 << 18, TERN_ST_MAX_HEADER_BYTES = 100000000 };

struct tern_safetensors {
    tern_st_tensor *tensors;
    size_t count, cap;
    tern_map names;
    tern_arena strings;
    tern_file_map *files;
    size_t n_files;
};

/* Appends the tensors of one file to st. On failure st holds some of them and is to be closed. */
tern_status tern_safetensors__add_file(tern_safetensors *st, const void *data, size_t size, tern_error *err);
/* Adds up the elements and bytes of a shape. False on overflow. */
bool tern_safetensors__size(tern_st_tensor *t);

#endif
