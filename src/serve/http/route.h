/* Which path is answered by what, and in which API's form. */
#ifndef TERN_SERVE_HTTP_ROUTE_H
#define TERN_SERVE_HTTP_ROUTE_H

#include "serve/http/exchange.h"
#include "serve/request/request.h"

typedef struct tern_answer tern_answer;
typedef struct tern_completion tern_completion;
typedef struct tern_host tern_host;

/* The form of an API's errors, and what frames them at the end of a stream. */
typedef struct tern_protocol {
    json_t *(*error)(const tern_exchange *exchange, unsigned code, const char *message);
    const char *error_before, *error_behind;
} tern_protocol;

/* More of a call of a tool, which is written as the model writes it. */
typedef struct tern_call_part {
    size_t i; /* which of its completion's */
    const char *id, *name;
    const char *text; /* [n] that its arguments go on with; n may be 0 */
    size_t n;
    bool first;                  /* nothing of it came before */
    const tern_tool_call *whole; /* it ends here; NULL: more will come */
} tern_call_part;

/* How what a model generates is written. Those of streams may be NULL. In the thread of the model. */
typedef struct tern_dialect {
    const char *stream_type;
    void (*begin)(tern_answer *answer);
    /* New text, n bytes, or new tokens (of c->tokens from `first` on, with log-probabilities) of one completion. */
    void (*piece)(tern_answer *answer, tern_completion *c, const char *text, size_t n, size_t first);
    void (*ended)(tern_answer *answer, tern_completion *c);
    void (*finish)(tern_answer *answer);
    json_t *(*whole)(tern_answer *answer); /* not as a stream */
    /* A part of a call, which no text of the completion comes between; n bytes of the model's thoughts, which come
     * before its text. */
    void (*call)(tern_answer *answer, tern_completion *c, const tern_call_part *part);
    void (*thought)(tern_answer *answer, tern_completion *c, const char *text, size_t n);
} tern_dialect;

/* One of: `reply`, at once; or `read` and `handle`. In a path, a star stands for
 * one part between slashes, and two at the end for one or more parts. */
struct tern_route {
    const char *method, *path;
    const tern_protocol *protocol;
    tern_status (*reply)(tern_exchange *exchange, tern_error *err);
    tern_status (*read)(tern_api_request *request, const json_t *body, tern_error *err);
    tern_status (*handle)(tern_answer *answer, tern_host *host, tern_error *err);
    const tern_dialect *dialect;
    bool open;    /* without a key */
    bool manages; /* changes files: for servers that let clients do so */
    /* Takes the body piece by piece, before `reply`; NULL: it is a document of JSON. */
    tern_status (*upload)(tern_exchange *exchange, const char *data, size_t n, tern_error *err);
};

/* NULL: none. *other_method: the path is there, for another method. */
const tern_route *tern_route_find(const char *method, const char *path, const char **rest, bool *other_method);
/* The methods of a path that is there, with commas between. */
const char *tern_route_methods(const char *path);
/* The API that a path belongs to, for errors where no route was found. */
const tern_protocol *tern_route_protocol(const char *path);

/* Each ends with a route without a path. */
extern const tern_route tern_routes_openai[], tern_routes_ollama[], tern_routes_anthropic[], tern_routes_native[],
    tern_routes_page[];
extern const tern_protocol tern_protocol_openai, tern_protocol_ollama, tern_protocol_anthropic, tern_protocol_native;

#endif
