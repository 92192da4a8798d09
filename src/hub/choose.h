/* Which files of a repository are the model that a name asks for. */
#ifndef TERN_HUB_CHOOSE_H
#define TERN_HUB_CHOOSE_H

#include "hub/files.h"

typedef struct tern_hub_choice {
    size_t model;   /* the file to open; of a folder any of its weight files */
    bool folder;    /* SafeTensors: the folder of the files is opened */
    uint32_t parts; /* of a GGUF file that is split; 1: it is whole */
    uint64_t bytes; /* of all wanted files */
} tern_hub_choice;

/* Sets `wanted` in the files, which are sorted, and *choice:
 *
 * - a FILE: that one; a part of a split GGUF file ("-00001-of-00003.gguf"): all parts
 * - a TAG: the GGUF file with it in its name or its folder's, upper or lower case, as a word between "-", "." and "/"
 * - neither: the only GGUF file, else the first of I2_S, TQ2_0, TQ1_0, MXFP4, Q4_K_M, Q4_K_S, Q4_0, Q5_K_M, Q8_0, BF16,
 *   F16; projectors of pictures (mmproj) and importance matrices are none
 * - no GGUF file: the .safetensors files at the top with their index, config and tokenizer
 *
 * Errors: NOT_FOUND (what exists instead; also a split file that lacks a part), INVALID_ARGUMENT (several that the rule
 * does not tell apart). */
tern_status tern_hub_choose(tern_hub_files *files, const tern_hub_name *name, tern_hub_choice *choice, tern_error *err);

/* Whether a path has the tag as a word, upper or lower case. */
bool tern_hub_has_tag(const char *path, const char *tag);
/* Whether a path is a GGUF file with a model, and of a split one the first part. */
bool tern_hub_is_model(const char *path);

#endif
