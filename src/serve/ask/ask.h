/* What a client asks for, whatever API it speaks: the one form into which every protocol's requests are read. */
#ifndef TERN_SERVE_ASK_ASK_H
#define TERN_SERVE_ASK_ASK_H

#include "serve/ask/fields.h"
#include "tern.h"

enum { TERN_ASK_MAX_COMPLETIONS = 128, TERN_ASK_MAX_STOPS = 32, TERN_ASK_MAX_PROMPTS = 2048 };

/* A text, or token ids in its place. */
typedef struct tern_ask_prompt {
    const char *text; /* n bytes; borrowed from the document */
    size_t n;
    const json_t *ids; /* an array of whole numbers; NULL: the text counts */
} tern_ask_prompt;

/* Everything points into the document, which lives longer, or is the ask's own. */
typedef struct tern_ask {
    const char *model; /* NULL: the first */
    tern_chat_message *messages;
    size_t n_messages, cap_messages;
    tern_ask_prompt *prompts;
    size_t n_prompts, cap_prompts;
    char **owned; /* texts that were joined from parts */
    size_t n_owned, cap_owned;

    tern_sampler_params sampler;
    tern_logit_bias *biases;
    size_t n_biases, cap_biases;
    bool seed_given;
    uint32_t n, best_of; /* 0: 1 */
    uint32_t max_tokens; /* 0: until the context is full */
    bool no_tokens;      /* none are to be generated: 0 was asked for, where that means so */
    bool constrained;    /* the text is what a grammar allows: */
    tern_grammar_kind grammar_kind;
    const char *grammar;  /* its source, of GBNF */
    const json_t *schema; /* of JSON Schema */
    const char *system;   /* what the model is told first, where it is no message */
    const char *stops[TERN_ASK_MAX_STOPS];
    uint32_t n_stops;
    bool ignore_eos, echo, show_special;
    bool logprobs;
    uint32_t n_top_logprobs;
    bool stream, stream_usage;
    bool stop_in_text; /* a stream keeps its text too */
    bool raw;          /* a prompt is text as it stands, without the chat's template */

    tern_pooling pooling;
    bool normalize, base64;
    uint32_t dimensions; /* of a vector, the first so many; 0: all */

    bool special, with_bos, with_pieces; /* of tokens */
} tern_ask;

/* With the sampler at temperature 1 and nothing else, as most APIs have it. */
void tern_ask_init(tern_ask *ask);
void tern_ask_deinit(tern_ask *ask);

/* Of the tables' kind READ: into a tern_ask. */
tern_status tern_ask_read_stop(void *ask, const json_t *value, tern_error *err);     /* a string, or several */
tern_status tern_ask_read_bias(void *ask, const json_t *value, tern_error *err);     /* {"ID": number} */
tern_status tern_ask_read_seed(void *ask, const json_t *value, tern_error *err);     /* negative: none */
tern_status tern_ask_read_messages(void *ask, const json_t *value, tern_error *err); /* [{role, content}] */
tern_status tern_ask_read_grammar(void *ask, const json_t *value, tern_error *err);  /* GBNF; "": none */
tern_status tern_ask_read_schema(void *ask, const json_t *value, tern_error *err);   /* JSON Schema */
tern_status tern_ask_read_prompts(void *ask, const json_t *value, tern_error *err);  /* text, ids, or lists of them */

/* Adds a message; the text of `content` is a string, or parts of the type "text", which are joined. `name` in errors.
 */
tern_status tern_ask_add_message(tern_ask *ask, const char *role, const json_t *content, const char *name,
                                 tern_error *err);
/* The same in front of all others. */
tern_status tern_ask_put_first(tern_ask *ask, const char *role, const json_t *content, const char *name,
                               tern_error *err);
/* Seeds the sampler from the system where no seed was given, and points it to the biases. */
tern_status tern_ask_finish(tern_ask *ask, tern_error *err);

#endif
