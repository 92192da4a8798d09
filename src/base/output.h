/* Where something may be written: one rule for every file and folder that is made at a person's word. */
#ifndef TERN_BASE_OUTPUT_H
#define TERN_BASE_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"

typedef struct tern_output {
    const char *path;
    bool folder; /* a folder is made, else a file */
    /* A model that is read: a file or a folder; a .json or .safetensors file stands for its folder. May be NULL. */
    const char *model;
    const char *const *inputs; /* [n_inputs] other files and folders that are read; NULL ones are passed over */
    size_t n_inputs;
    bool overwrite; /* what is there may be replaced */
    /* How a file begins that this writer made: one that is there goes on or is replaced. NULL: none does. */
    const char *ours;
} tern_output;

/* Refuses, whatever `overwrite` says, an output that is an input: the same file or folder by device and number, links
 * followed; a folder that holds an input, at any depth; a file that lies in a folder that is read (except GGUF files,
 * which no reader of a folder takes). Refuses, unless `overwrite`, a file that is there, is not empty and does not
 * begin with `ours`, and a folder that is there and not empty. Devices and FIFOs may always be written to. A path that
 * cannot be examined is left to whoever opens it. Errors: INVALID_ARGUMENT (the path, and the input or what is
 * there). */
tern_status tern_output_check(const tern_output *output, tern_error *err);

/* Whether both names lead to one file or folder that is there. */
bool tern_output_same(const char *a, const char *b);

#endif
