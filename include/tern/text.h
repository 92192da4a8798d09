/* Token ids and the messages of a chat. */
#ifndef TERN_TEXT_H
#define TERN_TEXT_H

#include <stdint.h>

#include "tern/bytes.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A growable list of token ids; zero-initialised is empty. The caller's to deinit. */
typedef struct tern_tokens {
    int32_t *ids;
    size_t n, cap;
} tern_tokens;

/* Adds one id at the end. Errors: OUT_OF_MEMORY (the list is unchanged). */
TERN_API tern_status tern_tokens_add(tern_tokens *tokens, int32_t id, tern_error *err);
/* Frees the ids; the list is empty again. NULL is fine. */
TERN_API void tern_tokens_deinit(tern_tokens *tokens);

/* One turn of a conversation; the bytes are borrowed. */
typedef struct tern_chat_message {
    const char *role;    /* "system", "user", "assistant", ... */
    const char *content; /* n_content bytes, any bytes */
    size_t n_content;
} tern_chat_message;

#ifdef __cplusplus
}
#endif

#endif
