/* Token ids, tokenizers, the messages and templates of a chat, grammars of what a model may write, and tool calls. */
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

/* Closes one that was loaded; those of engines go with them. NULL is fine. */
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

/* ---- fill in the middle: the text between two others */

/* A file beside the one with the gap. */
typedef struct tern_fim_file {
    const char *name; /* NULL: none */
    const char *text; /* [n_text] */
    size_t n_text;
} tern_fim_file;

/* A text with a gap. All texts are borrowed, and nothing in them can become a special token. Sized (tern/sized.h). */
typedef struct tern_fim {
    size_t size;                 /* sizeof(tern_fim) */
    const char *prefix, *suffix; /* before and behind the gap: n_prefix and n_suffix bytes */
    size_t n_prefix, n_suffix;
    const char *start; /* n_start bytes that the text of the gap begins with */
    size_t n_start;
    const char *repository;     /* its name, for models that have a token for it; NULL: none */
    const char *name;           /* of the file with the gap, for models that have a token for it; NULL: none */
    const tern_fim_file *files; /* [n_files] that come before it */
    size_t n_files;
    /* At most so many tokens; 0: no limit. The beginning of the files is left out first, then the beginning of the
     * prefix and the end of the suffix, three to one where both are long. */
    size_t max_tokens;
    bool suffix_first; /* the suffix and its mark come before the prefix, as some models were trained */
} tern_fim;

/* ---- grammars: what a model may write (docs/guides/structured-output.md) */

/* A vocabulary made ready for grammars: the bytes of its tokens in order. Immutable; shared by threads. The tokenizer
 * must outlive it. */
typedef struct tern_grammar_vocab tern_grammar_vocab;

/* Takes about 20 bytes for each byte of the vocabulary, and some milliseconds. On failure *vocab is NULL. Errors:
 * OUT_OF_MEMORY. */
TERN_API tern_status tern_grammar_vocab_open(tern_grammar_vocab **vocab, const tern_tokenizer *tokenizer,
                                             tern_error *err);
/* All grammars on it must be closed. NULL is fine. */
TERN_API void tern_grammar_vocab_close(tern_grammar_vocab *vocab);

/* The language of a grammar. GBNF: that of llama.cpp, with a rule `root`. SCHEMA: JSON Schema. REGEX: a regular
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
 * is NULL. Errors: MALFORMED with line, column, what was found and what was expected. UNSUPPORTED for a keyword
 * of JSON Schema, with its JSON pointer, or a construct of regular expressions that Tern does not know. LIMIT for a
 * grammar that is too large, is nested too deep, or begins in too many ways. OUT_OF_MEMORY. Takes at most about a
 * second. */
TERN_API tern_status tern_grammar_open(tern_grammar **grammar, const tern_grammar_vocab *vocab, tern_grammar_kind kind,
                                       const char *source, size_t n, tern_error *err);
/* All its states must be closed. NULL is fine. */
TERN_API void tern_grammar_close(tern_grammar *grammar);

/* How far a text has come in a grammar. One thread at a time. */
typedef struct tern_grammar_state tern_grammar_state;

/* A state before the first token. The grammar must outlive it. Errors: LIMIT, OUT_OF_MEMORY. */
TERN_API tern_status tern_grammar_state_open(tern_grammar_state **state, tern_grammar *grammar, tern_error *err);
/* Another state at the same place. Errors: OUT_OF_MEMORY. */
TERN_API tern_status tern_grammar_state_clone(tern_grammar_state **copy, const tern_grammar_state *state,
                                              tern_error *err);
/* NULL is fine. */
TERN_API void tern_grammar_state_close(tern_grammar_state *state);
/* Back to before the first token. */
TERN_API tern_status tern_grammar_state_reset(tern_grammar_state *state, tern_error *err);
/* Goes on by a token, or by n bytes of text. An end token is accepted where the grammar may end, and nothing after it.
 * On failure the state is as it was. Errors: INVALID_ARGUMENT for a text that cannot continue so, or an id outside
 * the vocabulary. LIMIT for too many ways to read the text at once, or too many steps for the token or the text so far;
 * the message has the rule or the JSON pointer of the schema. OUT_OF_MEMORY. The steps of a text follow from the
 * grammar, the vocabulary and the text alone. */
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

/* Chooses the tokens that a generation may take: a grammar's state (tern_grammar_state_filter), or your own
 * program. */
typedef struct tern_token_filter {
    /* As tern_grammar_state_mask. No bit at all ends the text. */
    tern_status (*mask)(void *context, uint32_t *words, size_t n_words, tern_error *err);
    /* As tern_grammar_state_accept. */
    tern_status (*accept)(void *context, int32_t id, tern_error *err);
    void *context;
} tern_token_filter;

/* The state as a filter, which borrows it. */
TERN_API tern_token_filter tern_grammar_state_filter(tern_grammar_state *state);

/* ---- tool calls (docs/guides/structured-output.md) */

/* How a family of models writes the calls of tools. */
typedef enum tern_tool_form {
    TERN_TOOLS_NONE,
    TERN_TOOLS_LLAMA3,  /* {"name": ..., "parameters": {...}}, after <|python_tag|> or not; several with ; between */
    TERN_TOOLS_HERMES,  /* <tool_call>{"name": ..., "arguments": {...}}</tool_call>: Hermes, Qwen */
    TERN_TOOLS_MISTRAL, /* [TOOL_CALLS][{"name": ..., "arguments": {...}}], or [TOOL_CALLS]name[ARGS]{...} */
    TERN_TOOLS_GEMMA,   /* ```tool_code or ```json around {"name": ..., "parameters": {...}}, or bare */
    TERN_TOOLS_HARMONY  /* <|channel|>commentary to=functions.NAME <|message|>{...}<|call|>: GPT-OSS */
} tern_tool_form;

/* The form that the Jinja text of a chat template speaks of; NONE for one without tools, and for NULL. */
TERN_API tern_tool_form tern_tool_form_of(const char *chat_template);
/* "none", "llama3", "hermes", "mistral", "gemma", "harmony"; static storage. */
TERN_API const char *tern_tool_form_name(tern_tool_form form);

/* A call that a model made; the strings are the parser's. */
typedef struct tern_tool_call {
    const char *id;        /* the model's, or "call_" and eight hexadecimal digits */
    const char *name;      /* UTF-8 */
    const char *arguments; /* JSON text: an object */
} tern_tool_call;

/* Reads what a model writes, piece by piece. One thread at a time. */
typedef struct tern_tool_parser tern_tool_parser;

/* Errors: OUT_OF_MEMORY. */
TERN_API tern_status tern_tool_parser_open(tern_tool_parser **parser, tern_tool_form form, tern_error *err);
/* NULL is fine. */
TERN_API void tern_tool_parser_close(tern_tool_parser *parser);
/* Takes n more bytes of the answer, with its special tokens shown (show_special). Adds text that is surely not a call
 * to *content, and thoughts (tern_tool_parser_think, Harmony's channel `analysis`) to *reasoning (which may be NULL).
 * Text that may become a call is held back. Text that looks like a call but has no JSON or no name is content. Errors:
 * LIMIT (a call of more than 16 MiB, more than 1024 calls), OUT_OF_MEMORY. */
TERN_API tern_status tern_tool_parser_add(tern_tool_parser *parser, const char *text, size_t n, tern_buf *content,
                                          tern_buf *reasoning, tern_error *err);
/* Calls are certain as soon as their name and the beginning of their arguments have come. If the arguments are cut off
 * or are not JSON, they stay as they were written. Their ids follow from `salt`, which should
 * differ between answers. Before the first tern_tool_parser_add. */
TERN_API void tern_tool_parser_announce(tern_tool_parser *parser, const char *salt);

/* A call that is being written. */
typedef struct tern_tool_partial {
    const char *id, *name;
    const char *arguments; /* [n_arguments] what its arguments begin with, not NUL-terminated */
    size_t n_arguments;
} tern_tool_partial;

/* The call under way, which will be the next of the calls; borrowed until the next call of the parser's functions.
 * false: there is none that is certain. */
TERN_API bool tern_tool_parser_partial(const tern_tool_parser *parser, tern_tool_partial *partial);
/* No more will come: what was held back becomes a call or content. */
TERN_API tern_status tern_tool_parser_finish(tern_tool_parser *parser, tern_buf *content, tern_buf *reasoning,
                                             tern_error *err);
/* The calls so far, *n of them, in order; borrowed until the next call of the parser's functions. */
TERN_API const tern_tool_call *tern_tool_parser_calls(const tern_tool_parser *parser, size_t *n);

/* ---- thoughts (docs/guides/serving.md) */

/* The marks around a model's thoughts. */
typedef struct tern_thought_marks {
    const char *open, *close;
    const char *ending; /* the text that ends thoughts and begins the answer */
} tern_thought_marks;

/* The marks that the Jinja text of a chat template speaks of, else those that are tokens of the vocabulary. Either may
 * be NULL. Static storage; NULL: the model has no thoughts that are known. */
TERN_API const tern_thought_marks *tern_thought_marks_of(const char *chat_template, const tern_tokenizer *tokenizer);
/* Whether n bytes of a prompt end within thoughts: behind the mark that opens them, and blanks. */
TERN_API bool tern_thought_marks_opened(const tern_thought_marks *marks, const char *prompt, size_t n);
/* Thoughts that an answer begins with go to *reasoning, without their marks and the blanks around them. `opened`: the
 * prompt has opened them. Harmony's form knows its own channel. Before the first tern_tool_parser_add. */
TERN_API void tern_tool_parser_think(tern_tool_parser *parser, const tern_thought_marks *marks, bool opened);
/* Whether the text so far ends within thoughts. */
TERN_API bool tern_tool_parser_is_thinking(const tern_tool_parser *parser);

/* A grammar that forces calls of tools in a form: one call, or with `parallel` one or more. `tools` is a JSON array of
 * n bytes as in OpenAI's requests ({"type": "function", "function": {"name", "parameters"}}, or the inner objects);
 * `name` is the one that must be called, NULL: any. Special tokens that the form needs are looked for in `vocab`.
 * Harmony's calls follow the template's <|start|>assistant. Errors: MALFORMED (the JSON, and what is missing),
 * NOT_FOUND (no tool of that name), UNSUPPORTED (the form NONE; keywords of a schema with their JSON pointers), those
 * of tern_grammar_open. */
TERN_API tern_status tern_grammar_open_tools(tern_grammar **grammar, const tern_grammar_vocab *vocab,
                                             tern_tool_form form, const char *tools, size_t n, const char *name,
                                             bool parallel, tern_error *err);

#ifdef __cplusplus
}
#endif

#endif
