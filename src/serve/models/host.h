/* A model that is served: opened when somebody asks for it, on a thread of its own that runs its steps. */
#ifndef TERN_SERVE_MODELS_HOST_H
#define TERN_SERVE_MODELS_HOST_H

#include <pthread.h>
#include <stdatomic.h>

#include "serve/models/answer.h"
#include "serve/models/helper.h"
#include "serve/models/loras.h"

struct tern_host {
    tern_serve *server;
    const char *name, *path;
    uint32_t at; /* among the models */

    pthread_mutex_t lock; /* of the inbox and what the thread is told */
    pthread_cond_t changed;
    tern_answer *inbox, **inbox_end;
    uint32_t n_in_inbox;
    bool started, stopping, must_close; /* the thread; it is to end; the model is to be closed once nothing runs */
    bool is_open, is_busy, must_open;
    tern_error open_error; /* of the last opening */
    double last_used;
    tern_batch_counters counters; /* of the batch as it was last */
    pthread_t thread;
    tern_helper helpers[TERN_N_HELPERS];

    /* The thread's own. */
    tern_answer *active;
    tern_engine *engine, *draft; /* draft: guesses for it; NULL: none */
    tern_engine_info info;
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

tern_status tern_host_init(tern_host *host, tern_serve *server, uint32_t at, tern_error *err);
/* Starts the thread, and waits until the model is open. */
tern_status tern_host_open_now(tern_host *host, tern_error *err);
/* Reads a request, and hands it to its model's thread. */
tern_status tern_host_submit(tern_exchange *exchange, tern_error *err);
/* Whether a name is what was asked for, without the ":latest" that some clients add. */
bool tern_host_is_name(const char *name, const char *asked);
/* By a name that clients say: a model, or an adapter, which is one more use then (uses[TERN_SERVE_MAX_LORAS], 0 or 1
 * of them). NULL name: the first model; so is any that is unknown where there are no others and no
 * adapters, unless the server is strict. Errors: NOT_FOUND. */
tern_status tern_host_find(tern_serve *server, const char *name, tern_host **host, tern_served_use *uses,
                           uint32_t *n_uses, tern_error *err);
/* When a file or folder was changed last, in seconds since 1970; 0: not known. */
int64_t tern_host_file_time(const char *path);
/* Thread-safe; zeros before it is open. */
void tern_host_count(tern_host *host, tern_batch_counters *counters);
/* Whether it is open now. */
bool tern_host_is_open(tern_host *host);
/* Ends what runs, and the thread. */
void tern_host_close(tern_host *host);
void tern_host_deinit(tern_host *host);

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
