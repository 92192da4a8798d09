/* Token ids, tokenizers, and the messages and templates of a chat. */
#ifndef TERN_TEXT_H
#define TERN_TEXT_H

#include <stdbool.h>
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

/* How text becomes tokens and back. Immutable; shared by threads. */
typedef struct tern_tokenizer tern_tokenizer;

/* Of one that was loaded; those of engines go with them. NULL is fine. */
TERN_API void tern_tokenizer_close(tern_tokenizer *tokenizer);

/* One turn of a conversation; the bytes are borrowed. */
typedef struct tern_chat_message {
    const char *role;    /* "system", "user", "assistant", ... */
    const char *content; /* n_content bytes, any bytes */
    size_t n_content;
} tern_chat_message;

/* How a conversation becomes text: Jinja, the subset that published templates use. Immutable; shared by threads. */
typedef struct tern_chat_template tern_chat_template;

/* Parses n bytes of Jinja, which may go afterwards. On failure *chat_template is NULL. Errors: UNSUPPORTED (the
 * construct and its line), MALFORMED, LIMIT (nested deeper than 64), OUT_OF_MEMORY. */
TERN_API tern_status tern_chat_template_parse(tern_chat_template **chat_template, const char *source, size_t n,
                                              tern_error *err);
/* NULL is fine. */
TERN_API void tern_chat_template_close(tern_chat_template *chat_template);
/* The names of the templates that Tern knows. */
#define TERN_CHAT_TEMPLATES                                                                                            \
    "chatml, qwen, llama2, llama3, bitnet, gemma, phi3, phi4, phi4-mini, mistral, mistral-tekken, granite, falcon3, "  \
    "deepseek, command-r"
/* The Jinja text of a well-known template (TERN_CHAT_TEMPLATES), for models that bring none: turns of the roles system
 * (first), user and assistant as the family was trained on them, without tools. Static storage; NULL for any other
 * name. */
TERN_API const char *tern_chat_template_builtin(const char *name);

#ifdef __cplusplus
}
#endif

#endif
