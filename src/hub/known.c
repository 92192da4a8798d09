/* The table of models that are known to work. */
#include "hub/known.h"

#include <stdio.h>
#include <string.h>

#include "base/nearest.h"
#include "base/show.h"
#include "hub/choose.h"

const tern_hub_known tern_hub_known_models[] = {
#define TERN_KNOWN(name, hub_name, what, memory, verified) {name, hub_name, what, memory, verified},
#include "hub/known.def"
#undef TERN_KNOWN
    {NULL, NULL, NULL, NULL, NULL},
};

static const char *name_at(const void *context, size_t i)
{
    (void)context;
    return tern_hub_known_models[i].name;
}

const tern_hub_known *tern_hub_known_find(const char *name)
{
    for (const tern_hub_known *k = tern_hub_known_models; k->name; k++)
        if (strcmp(k->name, name) == 0) return k;
    return NULL;
}

const tern_hub_known *tern_hub_known_of(const tern_hub_name *name)
{
    for (const tern_hub_known *k = tern_hub_known_models; k->name; k++) {
        tern_hub_name one;
        if (tern_hub_name_parse(&one, k->hub_name, NULL) != TERN_OK) continue;
        if (strcmp(one.repository, name->repository) != 0 || strcmp(one.revision, name->revision) != 0) continue;
        if (one.tag[0] ? tern_hub_has_tag(name->file, one.tag) : strcmp(one.file, name->file) == 0) return k;
    }
    return NULL;
}

/* "llama3.2:1b" and "llama3.2" of Ollama: the model of that name, or the first of that family. */
static const char *find_colon_name(const char *text)
{
    char name[64];
    const size_t family = strcspn(text, ":");
    if ((size_t)snprintf(name, sizeof name, "%s", text) >= sizeof name || family == 0) return NULL;
    for (char *at = name; *at; at++)
        if (*at == ':') *at = '-';
    const tern_hub_known *k = tern_hub_known_find(name);
    if (k) return k->name;
    for (k = tern_hub_known_models; k->name; k++)
        if (strncmp(k->name, text, family) == 0 && k->name[family] == '-') return k->name;
    return NULL;
}

const char *tern_hub_known_nearest(const char *text)
{
    const char *found = find_colon_name(text);
    return found ? found : tern_nearest(text, name_at, NULL);
}

tern_status tern_hub_known_parse(tern_hub_name *name, const char *text, tern_error *err)
{
    const tern_hub_known *k = tern_hub_known_find(text);
    if (k) return tern_hub_name_parse(name, k->hub_name, err);
    if (strchr(text, '/') || tern_hub_name_is(text)) return tern_hub_name_parse(name, text, err);
    const char *nearest = tern_hub_known_nearest(text);
    return tern_fail(err, TERN_INVALID_ARGUMENT,
                     "%s: no short name of a model%s%s%s (tern list --known shows them); "
                     "others are given as ORG/NAME",
                     tern_show_z(text).text, nearest ? "; did you mean " : "", nearest ? nearest : "",
                     nearest ? "?" : "");
}
