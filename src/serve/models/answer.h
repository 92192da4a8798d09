/* The answer to a request: its completions, as far as they are, and how they are written. */
#ifndef TERN_SERVE_MODELS_ANSWER_H
#define TERN_SERVE_MODELS_ANSWER_H

#include "serve/http/route.h"
#include "serve/models/loras.h"

typedef struct tern_answer_token {
    int32_t id;
    float logprob;             /* NaN: not known */
    uint32_t n_top, first_top; /* in `tops` of its completion */
} tern_answer_token;

/* Where limits that lines set are watched. */
typedef struct tern_line {
    bool in_indent;    /* no other character than spaces and tabs in it yet; never in the first line */
    bool ended;        /* the text ends here */
    uint32_t n_indent; /* spaces and tabs that begin it */
} tern_line;

struct tern_completion {
    uint32_t index, prompt; /* among all; of the prompts */
    tern_buf text;
    tern_tool_parser *parser; /* of its calls and thoughts; NULL: all of its text is for the reader */
    bool thinks;              /* its text so far ends within thoughts, */
    uint32_t n_thought;       /* which have so many tokens */
    bool thoughts_ended;      /* as their budget was used up */
    bool constrained;         /* the grammar that waited for their end counts */
    tern_buf fresh, thought;  /* what its last piece was, for the reader and of the model's thoughts */
    tern_buf thoughts;        /* all of them, where `text` is kept */
    size_t n_calls;           /* that were shown whole */
    bool in_call;             /* another was begun, */
    size_t n_shown;           /* and so many bytes of its arguments shown */
    tern_tokens ids;          /* that were generated, where the request wants its context */
    tern_answer_token *tokens;
    size_t n_tokens, cap_tokens;
    tern_token_logprob *tops;
    size_t n_tops, cap_tops;
    tern_stop_reason reason;
    char *stop; /* the stop string that was met; NULL */
    uint32_t n_generated;
    double logprob, last_token;
    bool ended;
    tern_line line; /* that its text has come to */
};

/* Work that an answer waits for; each kind has a thread of its own. */
typedef enum tern_answer_wait {
    TERN_WAITS_FOR_LORAS,
    TERN_WAITS_FOR_PROMPTS, /* without a grammar */
    TERN_WAITS_FOR_GRAMMAR, /* and its prompts */
    TERN_N_HELPERS,
    TERN_WAITS_NOT = TERN_N_HELPERS
} tern_answer_wait;

/* The completions of one prompt. */
typedef struct tern_answer_part {
    tern_answer *answer;
    tern_request *batch_request;
    uint32_t first; /* completion */
} tern_answer_part;

struct tern_answer {
    tern_answer *next;
    tern_exchange *exchange;
    const tern_route *route;
    tern_host *host;
    tern_api_request request;
    char id[32];     /* random letters */
    int64_t created; /* seconds since 1970 */

    tern_answer_part *parts;
    uint32_t n_parts;
    tern_completion *completions;
    uint32_t n, n_ended;
    uint32_t n_asked; /* tokens of the prompts, known from the start */
    uint32_t n_prompt, n_cached, n_generated;
    double began, first_token;               /* seconds; 0: there was none */
    double queued_ms, prefill_ms, decode_ms; /* the longest of its completions */
    tern_served_use *served;                 /* [n_loras] its adapters; loras: as the batch takes them */
    tern_lora_use *loras;
    uint32_t n_loras, n_uses;  /* n_uses: of loras, with those of the model */
    tern_served_lora *loading; /* of them the one that it loads; NULL */
    tern_grammar *grammar;     /* NULL: any text */
    bool opened;               /* its prompt has opened thoughts */
    tern_tokens ending;        /* tokens that end them */
    json_t *vectors;           /* of a request for embeddings; scores where its prompts are rated */
    tern_reranker reranker;    /* how they are */
    int32_t answers[2];        /* its tokens yes and no */
    tern_error error;          /* of the first completion that failed */
    bool begun, cancelled, done;
    bool run;               /* the thread of the model had it */
    tern_answer_wait waits; /* its handler runs again */
    tern_tokens *prompts;   /* [n_prompts] their ids, with the grammar once it is prepared; NULL before */
    uint32_t n_prompts;
    bool shortened;    /* texts around a gap were, to the context */
    uint32_t n_events; /* of a stream that counts them, or its blocks */
    uint32_t n_items;  /* of a response */
    uint32_t text_at;  /* of them the one with the text, where in_text says that there is one */
    bool in_text;      /* of a stream that has blocks: one of text is open, */
    bool in_thoughts;  /* or one of thoughts */
};

tern_status tern_answer_open(tern_answer **answer, tern_exchange *exchange, tern_error *err);
/* The model stays open for as long as the request or --unload-after says, from now on. */
void tern_answer_keep(const tern_answer *a);
void tern_answer_close(tern_answer *answer);

/* Finds its model and its adapters, which stay until it is closed, and reads its request with the model's defaults.
 * Errors: NOT_FOUND, INVALID_ARGUMENT. */
tern_status tern_answer_read(tern_answer *answer, tern_error *err);
/* Makes its grammar and the ids of its prompts, on a thread beside the model's. Errors: those of the grammar, of the
 * template and of tokenizing. */
tern_status tern_answer_prepare(tern_answer *answer, tern_host *host, tern_error *err);
/* On the thread of the model, once that is open: whether its adapters are on the engine. false: they are read by
 * another thread, and the handler ends, and runs again when they are there. */
bool tern_answer_has_loras(tern_answer *answer);
/* Takes an adapter, one of whose uses is the answer's from now on, in the place of those that it had. */
void tern_answer_take_lora(tern_answer *answer, tern_served_lora *lora);
/* Handlers of routes, on the thread of the model. */
tern_status tern_handle_generate(tern_answer *answer, tern_host *host, tern_error *err);
/* answer->vectors becomes a list of vectors, one for each prompt: lists of numbers, or base64 of their f32. */
tern_status tern_handle_embed(tern_answer *answer, tern_host *host, tern_error *err);
/* answer->vectors becomes a list of numbers: how well each prompt answers the query. */
tern_status tern_handle_rerank(tern_answer *answer, tern_host *host, tern_error *err);
/* models/rerank.c: the ids of the i-th prompt behind the query. */
tern_status tern_rerank_tokens(tern_answer *answer, tern_host *host, size_t i, tern_tokens *ids, tern_error *err);
/* Makes a request for a vector one for a score. */
void tern_rerank_ask(const tern_answer *answer, tern_request_params *params);
/* The score that came of it; NULL: none did. */
json_t *tern_rerank_score(const tern_answer *answer, const tern_answer_part *part, const tern_request_result *result);
/* Submits what the texts of a request need. */
tern_status tern_embed__start(tern_answer *answer, tern_error *err);
/* Finds the ids of the i-th prompt, or of the conversation. */
tern_status tern_answer_tokens(tern_answer *answer, tern_host *host, size_t i, tern_tokens *ids, tern_error *err);

/* models/lines.c: how many of the next n bytes of a completion's text belong to it. */
size_t tern_lines_take(const tern_answer *answer, tern_completion *c, const char *text, size_t n);

/* models/infill.c: the ids of the i-th prompt as the text before a gap. */
tern_status tern_infill_tokens(tern_answer *answer, tern_host *host, size_t i, tern_tokens *ids, tern_error *err);

/* models/thoughts.c. Gives a request without a budget of thoughts that of the server. */
void tern_thoughts_resolve(tern_answer *answer);
/* After its prompts: whether that of a conversation opens thoughts; ends them where there should be none. Errors:
 * INVALID_ARGUMENT (the model has none), OUT_OF_MEMORY. */
tern_status tern_thoughts_prepare(tern_answer *answer, tern_host *host, tern_error *err);
/* Whether its text may begin with thoughts, which come apart. */
bool tern_thoughts_wanted(const tern_answer *answer);
/* After a token of a completion: counts it, and ends thoughts that used up their budget. */
tern_status tern_thoughts_count(tern_answer_part *part, tern_completion *c, tern_error *err);
/* Tokens of thoughts in all completions. */
uint32_t tern_thoughts_tokens(const tern_answer *answer);

/* models/calls.c. Opens the parser of a completion, where its answer may have calls or thoughts. */
tern_status tern_calls_open(tern_answer *answer, tern_completion *c, tern_error *err);
bool tern_calls_wanted(const tern_answer *answer);
/* Takes n bytes that the model wrote, or its end: *fresh and *thought of the completion are the text to show. */
tern_status tern_calls_read(tern_completion *c, const char *text, size_t n, bool ended, tern_error *err);
/* Shows what is new of its calls. */
void tern_calls_show(tern_answer *answer, tern_completion *c);
/* Its calls, of which there are *n. */
const tern_tool_call *tern_calls_of(const tern_answer *answer, const tern_completion *c, size_t *n);
/* The object that a call's arguments are. */
json_t *tern_calls_arguments(const tern_tool_call *call);
/* The grammar that forces calls, where they are required. Errors: those of tern_grammar_open_tools. */
tern_status tern_calls_grammar(tern_answer *answer, tern_host *host, tern_error *err);
/* The tokens of a conversation with tools. */
tern_status tern_calls_prompt(const tern_answer *answer, tern_host *host, tern_tokens *ids, tern_error *err);

/* The end of an answer that generated: writes what is left. */
void tern_answer_finish(tern_answer *answer);
/* Ends its completions at the next step. */
void tern_answer_cancel(tern_answer *answer);
/* Fails it: nothing is written any more. */
void tern_answer_fail(tern_answer *answer, tern_status status, const char *message);

/* A document to a stream: an event of server-sent events (`name` may be NULL), or a line. Takes the document. */
void tern_answer_event(tern_answer *answer, const char *name, json_t *document);
void tern_answer_line(tern_answer *answer, json_t *document);
/* Bytes as a JSON string: those that are not UTF-8 become U+FFFD. */
json_t *tern_serve_string(const char *bytes, size_t n);
/* A token's own bytes, special ones too. */
tern_status tern_answer_token_text(const tern_answer *answer, int32_t id, tern_buf *text, tern_error *err);

#endif
