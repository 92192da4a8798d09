/* tern serve: models behind HTTP, in the forms that today's clients speak (docs/guides/serving.md). */
#ifndef TERN_SERVE_SERVE_H
#define TERN_SERVE_SERVE_H

#include "base/error.h"
#include "tern.h"

/* A name that clients say, and the file or folder behind it. */
typedef struct tern_serve_named {
    const char *name, *path;
} tern_serve_named;

/* An adapter that counts in all requests to a model. */
typedef struct tern_serve_adapter {
    const char *path;
    float scale;
} tern_serve_adapter;

/* A model, and its defaults where a request sets none. */
typedef struct tern_serve_model {
    const char *name, *path;
    const tern_serve_adapter *adapters; /* [n_adapters] */
    uint32_t n_adapters;
    const char *template_source; /* Jinja; NULL: that of the server, else the model's own */
    const char *system;          /* begins conversations without a system message; NULL: none */
    const char *options;         /* a JSON object, by the names of Ollama's options; NULL: none */
    const char *variables;       /* of the template, a JSON object; NULL: those of the server */
    uint32_t n_ctx;              /* positions of a sequence; 0: batch.n_ctx */
    bool suffix_first;           /* of texts with a gap, whatever the server's options say */
    bool opens;                  /* at the start, as the first does */
} tern_serve_model;

/* The request of a client; 0: the default. */
typedef struct tern_serve_limits {
    uint32_t body_bytes;   /* of a request; 16 MiB */
    uint32_t tokens;       /* generated for one completion; no limit but the context */
    uint32_t connections;  /* at once; 1024 */
    uint32_t queue;        /* requests that wait for a model; 256 */
    uint32_t seconds;      /* from a request's last byte to its answer's; 600 */
    uint32_t idle_seconds; /* of a connection on which nothing moves, or a request that is not whole; 30 */
} tern_serve_limits;

/* A model of the hub that is in its cache. */
typedef struct tern_serve_pulled {
    char name[1024]; /* by which it is found again, and removed */
    char path[4096];
    bool fetched; /* bytes of it came now: it was not there */
} tern_serve_pulled;

/* Progress of a file; false: to stop. `digest`: the sum of its bytes, hexadecimal digits. */
typedef bool tern_serve_progress(void *context, const char *digest, uint64_t total, uint64_t completed, bool checking);

/* Models that clients may fetch, make, copy and delete. The functions may be called by several threads at once. */
typedef struct tern_serve_store {
    const char *folder; /* of the server's own, for what clients make; NULL: they may not */
    uint64_t max_bytes; /* of an uploaded file, and of a model that is fetched */
    /* Makes a model of the hub, as clients name it, be in the cache. Errors: those of fetching, LIMIT, CANCELLED. */
    tern_status (*pull)(void *context, const char *name, uint64_t max_bytes, tern_serve_progress *progress,
                        void *progress_context, tern_serve_pulled *pulled, tern_error *err);
    /* The path of one that was pulled. Errors: NOT_FOUND. */
    tern_status (*find)(void *context, const char *name, char path[4096], tern_error *err);
    /* Removes its files from the cache. One at a time. */
    tern_status (*remove)(void *context, const char *name, tern_error *err);
    void *context;
} tern_serve_store;

typedef struct tern_serve tern_serve;

/* All strings and lists are borrowed while the server lives. */
typedef struct tern_serve_options {
    const tern_serve_model *models; /* [n_models], at least 1; the first answers where no model is named */
    uint32_t n_models;
    const tern_serve_named *loras; /* [n_loras] adapters of the first model, which clients name as a model */
    uint32_t n_loras;
    const char *lora_folder; /* clients may load adapters below it, and unload adapters; NULL: they may not */
    bool strict_model;       /* any other name is an error, also where there is one model and no adapter */
    bool rerank;             /* models that do not say that they are rerankers rate documents too */
    uint32_t unload_seconds; /* a model without requests is closed after so many; 0: it stays open */
    uint32_t max_models;     /* open at once, the one that was idle for the longest is closed; 0: no limit but memory */
    const char *template_source; /* Jinja in the place of the models' own; NULL: theirs */
    const char *variables;       /* of templates, a JSON object, where a request sets none; NULL: none */
    bool suffix_first;           /* of texts with a gap, the suffix comes before the prefix */
    bool no_thoughts;            /* models do not think, unless a request wants it */
    uint32_t thought_budget;     /* tokens of thoughts before an answer; 0: no limit */
    const char *thought_message; /* the last words of thoughts that used it up; NULL: none */
    tern_batch_params batch;
    uint32_t draft_tokens;  /* guessed for each step of a request, at most; 0: none */
    const char *draft_path; /* of the small model that guesses for the first one; NULL: its text so far does */
    const char *cache_file; /* where the first model keeps its pages while it is closed; NULL: nowhere */
    tern_serve_store store;
    const char *slot_folder; /* where /slots saves pages of keys and values; NULL: it does not */
    /* Opens a model's file; on the thread of that model. */
    tern_status (*open)(void *context, const char *path, tern_engine **engine, tern_error *err);
    void *open_context;

    const char *host;        /* a numeric address; NULL: 127.0.0.1 */
    uint16_t port;           /* 0: any that is free */
    const char *unix_path;   /* a socket in place of host and port; NULL: none */
    int listen_fd;           /* a socket that listens already, in place of both; 0: none */
    const char *const *keys; /* [n_keys], one of which a client must send; none: any client is answered */
    uint32_t n_keys;
    const char *cors;               /* the origin that pages may ask from, "*": any; NULL: none */
    const char *tls_cert, *tls_key; /* PEM text; NULL: no TLS */
    const char *log_path;           /* a line of JSON for each request; NULL: standard error */
    bool no_log, log_prompts;
    tern_serve_limits limits;
} tern_serve_options;

/* Listens, and opens the first model. On failure *server is NULL. Errors: INVALID_ARGUMENT (an address), IO (the
 * address is in use, files), UNSUPPORTED (TLS that the HTTP library lacks), those of opening a model. */
tern_status tern_serve_open(tern_serve **server, const tern_serve_options *options, tern_error *err);
/* Where it listens: 0 for a unix socket. */
uint16_t tern_serve_port(const tern_serve *server);
/* To be called about once a second: drops connections that take too long to say what they want, and frees models that
 * were deleted. */
void tern_serve_tick(tern_serve *server);
/* Opens the log file anew, which something else has moved away. */
tern_status tern_serve_reopen_log(tern_serve *server, tern_error *err);
/* From now on new requests are refused (503); those that run go on. */
void tern_serve_drain(tern_serve *server);
/* Requests that are not answered yet. */
uint32_t tern_serve_running(const tern_serve *server);
/* Ends what still runs. NULL is fine. */
void tern_serve_close(tern_serve *server);

#endif
