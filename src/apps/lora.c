/* --lora FILE[:SCALE]: adapters that the flags name. */
#include "apps/lora.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "apps/hub/hub.h"
#include "base/show.h"

const tern_flag tern_flags_lora[] = {
    {"lora", 0, TERN_FLAG_TEXTS, "FILE[:SCALE]", offsetof(tern_options, loras), 0, 0,
     "LoRA adapter, SCALE times as strong; PEFT folder, GGUF file, package of one or its name in tern list (llama.cpp: "
     "--lora-scaled); may be repeated"},
    {0},
};

tern_status tern_app_find_lora(char **path, tern_error *err)
{
    tern_app_path found;
    if (strncmp(*path, "magnet:", 7) == 0) return tern_app_hub_check_there(*path, err);
    if (!tern_app_hub_says(*path)) return TERN_OK;
    TERN_TRY(tern_app_hub_find(*path, &found, err));
    free(*path);
    *path = strdup(found.text);
    return *path ? TERN_OK : tern_fail(err, TERN_OUT_OF_MEMORY, "out of memory");
}

/* The colon that a scale may stand behind: that of a name's scheme is none. */
static const char *last_colon(const char *text)
{
    const char *colon = strrchr(text, ':');
    return tern_app_hub_says(text) && strchr(text, ':') == colon ? NULL : colon;
}

tern_status tern_app_parse_lora(const char *text, char **path, float *scale, tern_error *err)
{
    const char *colon = last_colon(text);
    char *end = NULL;
    float value = colon && colon != text && colon[1] ? strtof(colon + 1, &end) : 1;
    bool has_scale = end && *end == 0;
    if (has_scale && !isfinite(value))
        return tern_fail(err, TERN_INVALID_ARGUMENT, "--lora %s: scale %s, a finite number expected",
                         tern_show_z(text).text, tern_show_z(colon + 1).text);
    if (colon && colon != text && !has_scale && access(text, F_OK) != 0) {
        char *before = strndup(text, (size_t)(colon - text));
        const bool there = before && access(before, F_OK) == 0;
        free(before);
        if (there)
            return tern_fail(err, TERN_INVALID_ARGUMENT, "--lora %s: scale \"%s\" found, a number expected",
                             tern_show_z(text).text, tern_show_z(colon + 1).text);
    }
    *scale = has_scale ? value : 1;
    *path = strndup(text, has_scale ? (size_t)(colon - text) : strlen(text));
    if (!*path) return tern_fail(err, TERN_OUT_OF_MEMORY, "--lora: out of memory");
    const tern_status status = tern_app_find_lora(path, err);
    if (status == TERN_OK) return TERN_OK;
    free(*path);
    *path = NULL;
    return tern_error_prefix(err, "--lora");
}

tern_status tern_app_check_lora_room(uint32_t n, const char *text, tern_error *err)
{
    if (n < TERN_APP_MAX_LORAS) return TERN_OK;
    return tern_fail(err, TERN_INVALID_ARGUMENT, "--lora %s: at most %d adapters expected", tern_show_z(text).text,
                     TERN_APP_MAX_LORAS);
}

tern_status tern_app_add_lora(tern_app_loras *l, const char *text, tern_engine *engine, tern_error *err)
{
    const uint32_t at = l->n;
    TERN_TRY(tern_app_check_lora_room(at, text, err));
    TERN_TRY(tern_app_parse_lora(text, &l->paths[at], &l->uses[at].scale, err));
    const tern_status status = tern_lora_load(&l->loras[at], engine, l->paths[at], err);
    l->uses[at].lora = l->loras[at];
    if (status == TERN_OK) l->n++;
    else free(l->paths[at]);
    return status;
}

tern_status tern_app_load_loras(tern_app_loras *loras, const tern_options *options, tern_engine *engine,
                                tern_error *err)
{
    *loras = (tern_app_loras){0};
    for (size_t i = 0; i < options->loras.n; i++)
        TERN_TRY(tern_app_add_lora(loras, options->loras.items[i], engine, err));
    return TERN_OK;
}

void tern_app_remove_lora(tern_app_loras *l, uint32_t at)
{
    tern_lora_close(l->loras[at]);
    free(l->paths[at]);
    l->n--;
    for (uint32_t i = at; i < l->n; i++) {
        l->paths[i] = l->paths[i + 1];
        l->uses[i] = l->uses[i + 1];
        l->loras[i] = l->loras[i + 1];
    }
}

void tern_app_close_loras(tern_app_loras *loras)
{
    while (loras->n) tern_app_remove_lora(loras, loras->n - 1);
}
