/* What becomes of an ask: its completions, as far as they are, and how they are written. */
#ifndef TERN_SERVE_MODELS_ANSWER_H
#define TERN_SERVE_MODELS_ANSWER_H

#include "serve/http/route.h"

typedef struct tern_answer_token {
    int32_t id;
    float logprob;             /* NaN: not known */
    uint32_t n_top, first_top; /* in `tops` of its completion */
} tern_answer_token;

struct tern_completion {
    uint32_t index, prompt; /* among all; of the prompts */
    tern_buf text;
    tern_answer_token *tokens;
    size_t n_tokens, cap_tokens;
    tern_token_logprob *tops;
    size_t n_tops, cap_tops;
    tern_stop_reason reason;
    char *stop; /* the stop string that was met; NULL */
    uint32_t n_generated;
    double logprob, last_token;
    bool ended;
};

/* The completions of one prompt. */
typedef struct tern_answer_part {
    tern_answer *answer;
    tern_request *request;
    uint32_t first; /* completion */
} tern_answer_part;

struct tern_answer {
    tern_answer *next;
    tern_exchange *exchange;
    const tern_route *route;
    tern_host *host;
    int32_t lora; /* -1: none */
    tern_ask ask;
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
    tern_lora_use use;
    tern_grammar *grammar; /* NULL: any text */
    tern_error error;      /* of the first completion that failed */
    bool begun, cancelled, done;
    uint32_t n_events; /* of a stream that counts them */
};

tern_status tern_answer_open(tern_answer **answer, tern_exchange *exchange, tern_error *err);
void tern_answer_close(tern_answer *answer);

/* Acts of routes, on the thread of the model. */
tern_status tern_act_generate(tern_answer *answer, tern_host *host, tern_error *err);
/* The ids of the i-th prompt, or of the conversation. */
tern_status tern_answer_tokens(tern_answer *answer, tern_host *host, size_t i, tern_tokens *ids, tern_error *err);

/* The end of an answer that generated: writes what is left. */
void tern_answer_finish(tern_answer *answer);
/* Ends its completions at the next step. */
void tern_answer_cancel(tern_answer *answer);
/* Fails it: nothing is written any more. */
void tern_answer_fail(tern_answer *answer, tern_status status, const char *message);

/* A document to a stream: an event of server-sent events (`name` may be NULL), or a line. Takes the document. */
void tern_answer_event(tern_answer *answer, const char *name, json_t *document);
void tern_answer_line(tern_answer *answer, json_t *document);
/* Bytes as a JSON string: those that are no UTF-8 become U+FFFD. */
json_t *tern_serve_string(const char *bytes, size_t n);
/* A token's own bytes, special ones too. */
tern_status tern_answer_token_text(const tern_answer *answer, int32_t id, tern_buf *text, tern_error *err);

#endif
