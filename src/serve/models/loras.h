/* The adapters of a server's first model: given at the start, or loaded and unloaded by clients while it runs. */
#ifndef TERN_SERVE_MODELS_LORAS_H
#define TERN_SERVE_MODELS_LORAS_H

#include <pthread.h>

#include "serve/request/request.h"
#include "serve/serve.h"

/* One of them. An adapter whose name has changed stays until the last answer that uses it has ended. */
typedef struct tern_served_lora {
    struct tern_served_lora *next;
    uint32_t id; /* for POST /lora-adapters; never given twice */
    char *name, *path;
    float scale; /* its scale where a request names the model and no adapter; 0: not at all */
    bool listed; /* clients can name it */
    uint32_t n_answers;
    tern_lora *lora; /* NULL: it is not read yet, or the model is closed */
} tern_served_lora;

typedef struct tern_loras {
    pthread_mutex_t lock;
    tern_served_lora *first;
    uint32_t n_listed, n_ids;
} tern_loras;

/* The adapters that an answer uses. */
typedef struct tern_served_use {
    tern_served_lora *lora;
    float scale;
} tern_served_use;

tern_status tern_loras_init(tern_loras *loras, const tern_serve_named *given, uint32_t n, tern_error *err);
/* After close. Works on zeros. */
void tern_loras_deinit(tern_loras *loras);

/* Which uses an answer has. All are thread-safe; uses[TERN_SERVE_MAX_LORAS] are given back with drop. */
/* The one of this name, without the ":latest" that some clients add, at scale 1; 0: none. */
uint32_t tern_loras_acquire(tern_loras *loras, const char *name, tern_served_use *uses);
/* Those that count where none is named. */
uint32_t tern_loras_acquire_scaled(tern_loras *loras, tern_served_use *uses);
/* Those with these numbers. Errors: INVALID_ARGUMENT (no such number). */
tern_status tern_loras_acquire_ids(tern_loras *loras, const tern_lora_scale *scales, uint32_t n, tern_served_use *uses,
                                   uint32_t *n_uses, tern_error *err);
void tern_loras_release(tern_loras *loras, const tern_served_use *uses, uint32_t n);

/* Sets the scales of these; those of all others become 0. Thread-safe. Errors: INVALID_ARGUMENT (no such number). */
tern_status tern_loras_scale(tern_loras *loras, const tern_lora_scale *scales, uint32_t n, tern_error *err);
/* Calls with each that clients can name, in the order in which they came. Thread-safe. */
void tern_loras_each(tern_loras *loras, void (*each)(void *context, const tern_served_lora *lora), void *context);

/* Reads what is not read. Not by two threads at once, but beside all else. Errors: those of tern_lora_load. */
tern_status tern_loras_load(tern_loras *loras, tern_served_lora *lora, tern_engine *engine, tern_error *err);
/* NULL: it is not read. Thread-safe. */
tern_lora *tern_loras_get(tern_loras *loras, const tern_served_lora *lora);
/* The following is for the model's thread. */
/* An adapter that is not read, and that clients cannot name yet: one use of it is the caller's (tern_loras_release).
 * Errors: INVALID_ARGUMENT (the name is taken, unless it `replaces` what has it; too many), OUT_OF_MEMORY. */
tern_status tern_loras_add(tern_loras *loras, const char *name, const char *path, bool replaces,
                           tern_served_lora **lora, tern_error *err);
/* From now on clients can name it; who had the name no longer has it. On failure all is as it was. Errors:
 * INVALID_ARGUMENT (as before). */
tern_status tern_loras_publish(tern_loras *loras, tern_served_lora *lora, bool replaces, tern_error *err);
/* Errors: NOT_FOUND. */
tern_status tern_loras_remove(tern_loras *loras, const char *name, tern_error *err);
/* Closes those that have no name and no answer. */
void tern_loras_reap(tern_loras *loras);
/* Closes all on the engine, which is about to close; their names stay. */
void tern_loras_close(tern_loras *loras);

#endif
