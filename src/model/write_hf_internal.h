/* Inside the writing of Hugging Face folders. */
#ifndef TERN_MODEL_WRITE_HF_INTERNAL_H
#define TERN_MODEL_WRITE_HF_INTERNAL_H

#include "model/write_hf.h"

typedef struct tern_hf_tensor {
    tern_role role;
    uint32_t layer, rows, cols;
    bool joins;         /* its rows follow those of the one before, in the same tensor */
    bool from_adjacent; /* rows are reordered from adjacent pairs to split halves */
    char name[TERN_ROLE_NAME_BYTES];
} tern_hf_tensor;

/* config.json. */
tern_status tern_hf__write_config(const char *dir, const tern_config *config, const tern_tokenizer *tokenizer, bool f32,
                                  tern_error *err);

#endif
