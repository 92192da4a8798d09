/* Inside the reading of a configuration from GGUF metadata. */
#ifndef TERN_MODEL_CONFIG_GGUF_INTERNAL_H
#define TERN_MODEL_CONFIG_GGUF_INTERNAL_H

#include "format/gguf.h"
#include "model/model_internal.h"

/* "<architecture>.<key>" */
typedef struct tern_gguf_key {
    char text[96];
} tern_gguf_key;

tern_gguf_key tern_config__key(const tern_config *config, const char *key);
/* The value of such a key. Errors: NOT_FOUND, MALFORMED (another type). */
tern_status tern_config__need_u32(const tern_config *config, const tern_gguf *gguf, const char *key, uint32_t *out,
                                  tern_error *err);
/* The value of such a key; without one *out stays as it is. Errors: MALFORMED (another type). */
tern_status tern_config__maybe_u32(const tern_config *config, const tern_gguf *gguf, const char *key, uint32_t *out,
                                   tern_error *err);
tern_status tern_config__maybe_f32(const tern_config *config, const tern_gguf *gguf, const char *key, float *out,
                                   tern_error *err);
/* How positions become angles. Errors: UNSUPPORTED (another scaling), MALFORMED. */
tern_status tern_config__rope_from_gguf(tern_config *config, const tern_family *family, const tern_gguf *gguf,
                                        tern_error *err);
/* How attention and the head make scores: windows, scale, soft caps. Errors: NOT_FOUND (of families that need a key),
 * MALFORMED, UNSUPPORTED (another pattern of layers). */
tern_status tern_config__scores_from_gguf(tern_config *config, const tern_family *family, const tern_gguf *gguf,
                                          tern_error *err);
/* Keys that change what llama.cpp computes and that no graph of Tern has. Errors: UNSUPPORTED (the key, the value found
 * and the one that changes nothing). */
tern_status tern_config__refuse_from_gguf(const tern_config *config, const tern_family *family, const tern_gguf *gguf,
                                          tern_error *err);
/* Layers that recur. Errors: NOT_FOUND, MALFORMED, UNSUPPORTED. */
tern_status tern_config__recurrence_from_gguf(tern_config *config, const tern_family *family, const tern_gguf *gguf,
                                              tern_error *err);
/* Experts: how many, how long, how they are chosen. Errors: NOT_FOUND, MALFORMED, UNSUPPORTED. */
tern_status tern_config__experts_from_gguf(tern_config *config, const tern_family *family, const tern_gguf *gguf,
                                           tern_error *err);

#endif
