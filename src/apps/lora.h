/* --lora FILE[:SCALE]: adapters that the flags name. */
#ifndef TERN_APPS_LORA_H
#define TERN_APPS_LORA_H

#include "apps/app.h"
#include "model/adapter.h"

enum { TERN_APP_MAX_LORAS = 16 };

typedef struct tern_app_loras {
    const char *paths[TERN_APP_MAX_LORAS];
    tern_adapter *adapters[TERN_APP_MAX_LORAS];
    float scales[TERN_APP_MAX_LORAS];
    char *texts[TERN_APP_MAX_LORAS]; /* what the paths lie in */
    size_t n;
} tern_app_loras;

/* A path, and behind its last colon a number, if there is one: the scale, else 1. *path is the caller's to free.
 * Errors: INVALID_ARGUMENT (a scale that is not finite), OUT_OF_MEMORY. */
tern_status tern_app_parse_lora(const char *text, char **path, float *scale, tern_error *err);
/* Opens all that --lora names for this model. Close them, also after failure. */
tern_status tern_app_open_loras(tern_app_loras *loras, const tern_options *options, const tern_model *model,
                                tern_error *err);
void tern_app_close_loras(tern_app_loras *loras);

extern const tern_flag tern_flags_lora[];

#endif
