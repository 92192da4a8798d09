/* A model that is served: opened when somebody asks for it, on a thread of its own that runs its steps. */
#ifndef TERN_SERVE_MODELS_HOST_H
#define TERN_SERVE_MODELS_HOST_H

#include <pthread.h>
#include <stdatomic.h>

#include "serve/models/answer.h"
#include "serve/models/card.h"
#include "serve/models/helper.h"
#include "serve/models/loras.h"

struct tern_host {
    tern_serve *server;
    const char *name, *path;
    tern_serve_model model; /* its strings lie in the manifest, or are the caller's of the server */
    json_t *manifest;       /* what clients made it from; NULL: it was given */
    json_t *settings;       /* options where a request sets none; NULL: none */
    json_t *variables;      /* of its template, where a request sets none; NULL: none */
    uint32_t at;            /* among all that there ever were; 0: the first */
    uint32_t n_holders;     /* guarded by the list's lock, as is the next */
    tern_host *next_retired;

    pthread_mutex_t lock; /* of the inbox and what the thread is told */
    pthread_cond_t changed;
    tern_answer *inbox, **inbox_end;
    uint32_t n_in_inbox;
    bool started, stopping, must_close; /* the thread; it is to end; the model is to be closed once nothing runs */
    bool is_open, is_busy, must_open;
    tern_error open_error; /* of the last opening */
    double last_used;
    bool unloads;   /* that was asked for while answers ran, which do not change when it is closed */
    double expires; /* in seconds as tern_serve_seconds has them: it is closed then, unless something runs */
    uint32_t n_ctx; /* of its sequences, while it is open */
    tern_model_card card;
    tern_batch_counters counters; /* of the batch as it was last */
    pthread_t thread;
    tern_helper helpers[TERN_N_HELPERS];

    /* The thread's own. */
    tern_answer *active;
    tern_engine *engine, *draft; /* draft: guesses for it; NULL: none */
    tern_engine_info info;
    tern_lora **own_loras; /* [n_own_loras] those of `model` */
    uint32_t n_own_loras;
    tern_batch *batch;
    tern_chat_template *chat_template;
    tern_error template_error;       /* why the model's own cannot be read */
    const char *template_source;     /* its Jinja text; "": there is none */
    tern_tool_form tool_form;        /* in which it has calls of tools */
    bool generic_tools;              /* its template knows none: messages tell of them */
    atomic_bool told_generic;        /* and so does the log */
    const tern_thought_marks *marks; /* of its thoughts; NULL: it has none that are known */
    bool special_marks;              /* special tokens are among them */
    tern_grammar_vocab *vocab;       /* of grammars; opened with the first, by the helper that makes them */
};

/* Takes the manifest, also on failure. Errors: MALFORMED and INVALID_ARGUMENT (its options), OUT_OF_MEMORY. */
tern_status tern_host_open(tern_host **host, tern_serve *server, const tern_serve_model *model, json_t *manifest,
                           tern_error *err);
/* Starts the thread, and waits until the model is open. */
tern_status tern_host_open_now(tern_host *host, tern_error *err);
/* Reads a request, and hands it to its model's thread. */
tern_status tern_host_submit(tern_exchange *exchange, tern_error *err);
/* Whether a name is what was asked for, without the ":latest" that some clients add. */
bool tern_host_is_name(const char *name, const char *asked);
/* By a name that clients say: a model, to be given back with tern_hosts_drop, or an adapter, which is one more use then
 * (uses[TERN_SERVE_MAX_LORAS], 0 or 1 of them). NULL name: the first model; so is any that is unknown where there are
 * no others and no adapters, unless the server is strict. Errors: NOT_FOUND. */
tern_status tern_host_find(tern_serve *server, const char *name, tern_host **host, tern_served_use *uses,
                           uint32_t *n_uses, tern_error *err);
/* When a file or folder was changed last, in seconds since 1970; 0: not known. */
int64_t tern_host_file_time(const char *path);
/* Thread-safe; zeros before it is open. */
void tern_host_count(tern_host *host, tern_batch_counters *counters);
/* Whether it is open now. */
bool tern_host_is_open(tern_host *host);
/* Describes it without opening it. Thread-safe; the first call may read the head of its file. */
void tern_host_describe(tern_host *host, tern_model_card *card);
/* Has it closed `seconds` after now, unless a later request says otherwise; below 0: not at all. */
void tern_host_keep(tern_host *host, double seconds);
/* Has it closed as soon as nothing runs, unless a later request comes before. */
void tern_host_expire(tern_host *host);
/* Ends what runs, and the thread. */
void tern_host_close(tern_host *host);
/* After close. NULL is fine. */
void tern_host_free(tern_host *host);

/* With the lock: puts an answer at the end of the inbox. */
void tern_host__enqueue(tern_host *host, tern_answer *answer);
/* models/open.c: on the thread. */
tern_status tern_host__open(tern_host *host, tern_error *err);
void tern_host__close(tern_host *host);
/* Saves the pages of its batch where the options say so. */
void tern_host__save_pages(tern_host *host);
/* models/work.c: the thread. */
void *tern_host__run(void *host);

#endif
