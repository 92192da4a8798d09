/* Properties of a model that lists show, also while it is closed. */
#ifndef TERN_SERVE_MODELS_CARD_H
#define TERN_SERVE_MODELS_CARD_H

#include "tern.h"

typedef struct tern_model_card {
    bool known;                /* it was read, or there is nothing to read */
    char family[48];           /* GGUF's architecture; "": not known */
    char quantization[24];     /* "Q4_K_M", "I2_S"; "": not known */
    uint64_t parameters;       /* 0: not known */
    uint64_t bytes, gpu_bytes; /* of the weights in memory, and on a device; of a model that is or was open */
    uint32_t n_ctx_train, n_embd;
} tern_model_card;

/* From the head of a GGUF file; another file, or a folder, leaves it as it is. */
void tern_model_card_read(tern_model_card *card, const char *path);
/* Members of a model that is open. */
void tern_model_card_set(tern_model_card *card, const tern_engine_info *info);
/* The parameters as Ollama writes them: "1.2B", "135M"; "": not known. */
void tern_model_card_size(const tern_model_card *card, char out[32]);

#endif
