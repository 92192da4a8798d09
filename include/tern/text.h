/* Token ids, tokenizers, the messages and templates of a chat, and grammars of what a model may write. */
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

/* ---- grammars: what a model may write (docs/grammar.md) */

/* A vocabulary made ready for grammars: the bytes of its tokens in order. Immutable; shared by threads. The tokenizer
 * must outlive it. */
typedef struct tern_grammar_vocab tern_grammar_vocab;

/* Takes about 20 bytes for each byte of the vocabulary, and some milliseconds. On failure *vocab is NULL. Errors:
 * OUT_OF_MEMORY. */
TERN_API tern_status tern_grammar_vocab_open(tern_grammar_vocab **vocab, const tern_tokenizer *tokenizer,
                                             tern_error *err);
/* All grammars on it must be closed. NULL is fine. */
TERN_API void tern_grammar_vocab_close(tern_grammar_vocab *vocab);

/* What a grammar is written in. GBNF: that of llama.cpp, with a rule `root`. SCHEMA: JSON Schema. REGEX: a regular
 * expression that all of the text matches. JSON: any JSON object; the source is not read. */
typedef enum tern_grammar_kind {
    TERN_GRAMMAR_GBNF,
    TERN_GRAMMAR_SCHEMA,
    TERN_GRAMMAR_REGEX,
    TERN_GRAMMAR_JSON
} tern_grammar_kind;

/* A compiled grammar, with the masks that were made of it. Shared by threads, which take turns. */
typedef struct tern_grammar tern_grammar;

/* Compiles n bytes of source, which may go afterwards. `vocab` NULL: for text alone (accept_text). On failure *grammar
 * is NULL. Errors: MALFORMED (line, column, what was found and what was expected), UNSUPPORTED (a keyword of JSON
 * Schema with its JSON pointer, or a construct of regular expressions, that Tern does not know), LIMIT (a grammar that
 * is too large or nested too deep), OUT_OF_MEMORY. */
TERN_API tern_status tern_grammar_open(tern_grammar **grammar, const tern_grammar_vocab *vocab, tern_grammar_kind kind,
                                       const char *source, size_t n, tern_error *err);
/* All its states must be closed. NULL is fine. */
TERN_API void tern_grammar_close(tern_grammar *grammar);

/* How far a text has come in a grammar. One thread at a time. */
typedef struct tern_grammar_state tern_grammar_state;

/* A state before the first token. The grammar must outlive it. Errors: OUT_OF_MEMORY. */
TERN_API tern_status tern_grammar_state_open(tern_grammar_state **state, tern_grammar *grammar, tern_error *err);
/* Another state at the same place. Errors: OUT_OF_MEMORY. */
TERN_API tern_status tern_grammar_state_clone(tern_grammar_state **copy, const tern_grammar_state *state,
                                              tern_error *err);
/* NULL is fine. */
TERN_API void tern_grammar_state_close(tern_grammar_state *state);
/* Back to before the first token. */
TERN_API tern_status tern_grammar_state_reset(tern_grammar_state *state, tern_error *err);
/* Goes on by a token, or by n bytes of text. An end token is accepted where the grammar may end, and nothing after it.
 * On failure the state is as it was. Errors: INVALID_ARGUMENT (what does not continue the text, or an id outside the
 * vocabulary), LIMIT (a grammar with too many ways to read the text at once), OUT_OF_MEMORY. */
TERN_API tern_status tern_grammar_state_accept(tern_grammar_state *state, int32_t id, tern_error *err);
TERN_API tern_status tern_grammar_state_accept_text(tern_grammar_state *state, const char *text, size_t n,
                                                    tern_error *err);
/* Whether the text may end here. */
TERN_API bool tern_grammar_state_may_end(const tern_grammar_state *state);
/* Which tokens may come next: bit id % 32 of words[id / 32], in n_words words, of which those beyond the vocabulary
 * become 0. The end tokens are among them where the text may end; none is left once it has ended. Errors:
 * INVALID_ARGUMENT (fewer words than the vocabulary needs, no vocabulary), LIMIT, OUT_OF_MEMORY. */
TERN_API tern_status tern_grammar_state_mask(tern_grammar_state *state, uint32_t *words, size_t n_words,
                                             tern_error *err);

/* What chooses the tokens that a generation may take: a grammar's state (tern_grammar_state_filter), or a program of
 * one's own. */
typedef struct tern_token_filter {
    /* As tern_grammar_state_mask. No bit at all ends the text. */
    tern_status (*mask)(void *context, uint32_t *words, size_t n_words, tern_error *err);
    /* As tern_grammar_state_accept. */
    tern_status (*accept)(void *context, int32_t id, tern_error *err);
    void *context;
} tern_token_filter;

/* The state as a filter, which borrows it. */
TERN_API tern_token_filter tern_grammar_state_filter(tern_grammar_state *state);

#ifdef __cplusplus
}
#endif

#endif
