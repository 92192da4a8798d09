/* --lora FILE[:SCALE]: adapters that the flags name. */
#include "apps/lora.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const tern_flag tern_flags_lora[] = {
    {"lora", 0, TERN_FLAG_TEXTS, "FILE[:SCALE]", offsetof(tern_options, loras), 0, 0,
     "LoRA adapter (PEFT folder or GGUF); SCALE times its own strength, 1 when not given; may be given several times"},
    {0},
};

tern_status tern_app_parse_lora(const char *text, char **path, float *scale, tern_error *err)
{
    const char *colon = strrchr(text, ':');
    char *end = NULL;
    float value = colon && colon != text && colon[1] ? strtof(colon + 1, &end) : 1;
    bool has_scale = end && *end == 0;
    if (has_scale && !isfinite(value))
        return tern_fail(err, TERN_INVALID_ARGUMENT, "--lora %s: scale %s, a finite number expected", text, colon + 1);
    *scale = has_scale ? value : 1;
    *path = strndup(text, has_scale ? (size_t)(colon - text) : strlen(text));
    return *path ? TERN_OK : tern_fail(err, TERN_OUT_OF_MEMORY, "--lora %s: out of memory", text);
}

tern_status tern_app_open_loras(tern_app_loras *loras, const tern_options *options, const tern_model *model,
                                tern_error *err)
{
    *loras = (tern_app_loras){0};
    if (options->loras.n > TERN_APP_MAX_LORAS)
        return tern_fail(err, TERN_INVALID_ARGUMENT, "--lora: %zu adapters, at most %d expected", options->loras.n,
                         TERN_APP_MAX_LORAS);
    for (size_t i = 0; i < options->loras.n; i++, loras->n++) {
        TERN_TRY(tern_app_parse_lora(options->loras.items[i], &loras->texts[i], &loras->scales[i], err));
        loras->paths[i] = loras->texts[i];
        tern_status status = tern_adapter_open(&loras->adapters[i], loras->paths[i], model, err);
        if (status == TERN_OK) continue;
        free(loras->texts[i]);
        return status;
    }
    return TERN_OK;
}

void tern_app_close_loras(tern_app_loras *loras)
{
    for (size_t i = 0; i < loras->n; i++) {
        tern_adapter_close(loras->adapters[i]);
        free(loras->texts[i]);
    }
    *loras = (tern_app_loras){0};
}
