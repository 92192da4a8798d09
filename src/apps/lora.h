/* --lora FILE[:SCALE]: adapters that the flags name. */
#ifndef TERN_APPS_LORA_H
#define TERN_APPS_LORA_H

#include "apps/open.h"

enum { TERN_APP_MAX_LORAS = 16 };

/* Adapters on an engine, in the order in which they were named. */
typedef struct tern_app_loras {
    char *paths[TERN_APP_MAX_LORAS];
    tern_lora_use uses[TERN_APP_MAX_LORAS]; /* what a session takes */
    tern_lora *loras[TERN_APP_MAX_LORAS];
    uint32_t n;
} tern_app_loras;

/* The path of what a name of the cache means, hf:... or torrent:..., in place of the name; others stay. *path is the
 * caller's to free; NULL afterwards: OUT_OF_MEMORY. Errors: NOT_FOUND (a name that is not there). */
tern_status tern_app_find_lora(char **path, tern_error *err);
/* A path, and behind its last colon a number, if there is one: the scale, else 1. A name of the cache (hf:...,
 * torrent:...) becomes its path there. *path is the caller's to free. Errors: INVALID_ARGUMENT (a scale that is not
 * finite), NOT_FOUND (a name that is not there), OUT_OF_MEMORY. */
tern_status tern_app_parse_lora(const char *text, char **path, float *scale, tern_error *err);
/* Loads all that --lora names on this engine. Close them, also after failure: after the sessions and before the engine.
 */
tern_status tern_app_load_loras(tern_app_loras *loras, const tern_options *options, tern_engine *engine,
                                tern_error *err);
/* INVALID_ARGUMENT when that many adapters are there and `text` names one more. */
tern_status tern_app_check_lora_room(uint32_t n, const char *text, tern_error *err);
/* One more, FILE[:SCALE], on an engine; and one less. On failure the list is as it was. */
tern_status tern_app_add_lora(tern_app_loras *loras, const char *text, tern_engine *engine, tern_error *err);
void tern_app_remove_lora(tern_app_loras *loras, uint32_t at);
void tern_app_close_loras(tern_app_loras *loras);

extern const tern_flag tern_flags_lora[];

#endif
