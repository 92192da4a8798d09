/* Reading presets of models. */
#include "apps/serve/presets.h"

#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "apps/app.h"
#include "apps/chat/talk.h"
#include "base/alloc.h"
#include "base/show.h"

enum { MAX_ADAPTERS = 16 };

/* Settings by the names of flags, and as the server has them; the shorter names are those of llama.cpp. */
static const char *const settings[][2] = {
    {"temp", "temperature"},
    {"temperature", "temperature"},
    {"top-k", "top_k"},
    {"top-p", "top_p"},
    {"min-p", "min_p"},
    {"typical", "typical_p"},
    {"typical-p", "typical_p"},
    {"repeat-penalty", "repeat_penalty"},
    {"repetition-penalty", "repeat_penalty"},
    {"repeat-last-n", "repeat_last_n"},
    {"presence-penalty", "presence_penalty"},
    {"frequency-penalty", "frequency_penalty"},
    {"seed", "seed"},
    {"n-predict", "num_predict"},
    {"predict", "num_predict"},
    {"n", "num_predict"},
};

/* The file while it is read. */
typedef struct reading {
    tern_presets *presets;
    const char *path;
    unsigned line;
    tern_serve_model common;          /* of [*] */
    json_t *common_options, *options; /* of [*]; of the section at hand */
    bool in_section, in_common;
} reading;

static tern_status fail(const reading *r, const char *found, const char *expected, tern_error *err)
{
    return tern_fail(err, TERN_INVALID_ARGUMENT, "--models-preset %s: line %u: \"%s\" found, %s expected",
                     tern_show_z(r->path).text, r->line, tern_show_z(found).text, expected);
}

/* A copy that lives as long as the presets; NULL: out of memory. */
static char *keep(tern_presets *p, const char *text)
{
    char *copy = strdup(text);
    if (copy && tern_grow((void **)&p->texts, &p->cap_texts, p->n_texts + 1, sizeof *p->texts, NULL) == TERN_OK) {
        p->texts[p->n_texts++] = copy;
        return copy;
    }
    free(copy);
    return NULL;
}

static char *trim(char *text)
{
    text += strspn(text, " \t\r");
    size_t n = strlen(text);
    while (n && strchr(" \t\r", text[n - 1])) text[--n] = 0;
    if (n >= 2 && text[0] == '"' && text[n - 1] == '"') {
        text[n - 1] = 0;
        text++;
    }
    return text;
}

static tern_status read_count(const reading *r, const char *value, uint32_t *out, tern_error *err)
{
    char *end;
    errno = 0;
    const unsigned long n = strtoul(value, &end, 10);
    if (*value < '0' || *value > '9' || *end || errno || n > 1 << 24)
        return fail(r, value, "a whole number up to 16777216", err);
    *out = (uint32_t)n;
    return TERN_OK;
}

/* "PATH" or "PATH:SCALE". */
static tern_status add_adapter(reading *r, tern_serve_model *m, const char *value, tern_error *err)
{
    char *path = keep(r->presets, value), *end;
    tern_serve_adapter *all = (tern_serve_adapter *)(uintptr_t)m->adapters;
    if (m->n_adapters == MAX_ADAPTERS) return fail(r, value, "at most 16 adapters", err);
    if (!all) m->adapters = all = tern_calloc(MAX_ADAPTERS, sizeof *all);
    if (!path || !all) return tern_fail_alloc(err, MAX_ADAPTERS * sizeof *all);
    char *colon = strrchr(path, ':');
    float scale = 1;
    if (colon && colon[1] && !strchr(colon, '/')) {
        scale = strtof(colon + 1, &end);
        if (*end || !(scale >= -100 && scale <= 100)) return fail(r, value, "PATH or PATH:SCALE", err);
        *colon = 0;
    }
    all[m->n_adapters++] = (tern_serve_adapter){path, scale};
    return TERN_OK;
}

static tern_status set_template(reading *r, tern_serve_model *m, const char *value, tern_error *err)
{
    tern_buf text = {0};
    m->template_source = tern_chat_template_builtin(value);
    if (m->template_source) return TERN_OK;
    TERN_TRY(tern_chat_template_read(value, &text, err));
    m->template_source = keep(r->presets, text.data ? text.data : "");
    tern_buf_deinit(&text);
    return m->template_source ? TERN_OK : tern_fail(err, TERN_OUT_OF_MEMORY, "out of memory");
}

static tern_status set_option(reading *r, const char *key, const char *value, tern_error *err)
{
    char *end;
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++) {
        if (strcmp(settings[i][0], key) != 0) continue;
        const double number = strtod(value, &end);
        if (!*value || *end) return fail(r, value, "a number", err);
        json_object_set_new(r->options, settings[i][1], json_real(number));
        return TERN_OK;
    }
    return fail(r, key,
                "model, lora, ctx, chat-template, chat-template-kwargs, system, spm-infill, load-on-startup or a flag "
                "of sampling",
                err);
}

static bool is_true(const char *value)
{
    return strcmp(value, "true") == 0 || strcmp(value, "1") == 0 || strcmp(value, "on") == 0;
}

static tern_status set(reading *r, tern_serve_model *m, const char *key, const char *value, tern_error *err)
{
    if (strcmp(key, "lora") == 0) return add_adapter(r, m, value, err);
    if (strcmp(key, "chat-template") == 0) return set_template(r, m, value, err);
    bool *flag = strcmp(key, "load-on-startup") == 0 ? &m->opens
                 : strcmp(key, "spm-infill") == 0    ? &m->suffix_first
                                                     : NULL;
    if (flag) {
        *flag = is_true(value);
        return TERN_OK;
    }
    if (strcmp(key, "ctx") == 0 || strcmp(key, "c") == 0 || strcmp(key, "ctx-size") == 0)
        return read_count(r, value, &m->n_ctx, err);
    const char **text = strcmp(key, "model") == 0 || strcmp(key, "m") == 0 ? &m->path
                        : strcmp(key, "system") == 0                       ? &m->system
                        : strcmp(key, "chat-template-kwargs") == 0         ? &m->variables
                                                                           : NULL;
    if (!text) return set_option(r, key, value, err);
    *text = keep(r->presets, value);
    return *text ? TERN_OK : tern_fail(err, TERN_OUT_OF_MEMORY, "out of memory");
}

/* The options of the section that ends. */
static tern_status end_section(reading *r, tern_error *err)
{
    tern_serve_model *m = r->presets->n ? &r->presets->items[r->presets->n - 1] : NULL;
    if (!m || r->in_common || !r->in_section || !json_object_size(r->options)) return TERN_OK;
    char *text = json_dumps(r->options, JSON_COMPACT | JSON_REAL_PRECISION(9));
    m->options = text ? keep(r->presets, text) : NULL;
    tern_free(text);
    return m->options ? TERN_OK : tern_fail(err, TERN_OUT_OF_MEMORY, "out of memory");
}

static tern_status begin_section(reading *r, char *line, tern_error *err)
{
    tern_presets *p = r->presets;
    char *end = strrchr(line, ']');
    if (!end || end[1] || end == line + 1) return fail(r, line, "[NAME]", err);
    *end = 0;
    if (strpbrk(line, "\"\\")) return fail(r, line + 1, "a name without quotes", err);
    TERN_TRY(end_section(r, err));
    r->in_section = true;
    r->in_common = strcmp(line + 1, "*") == 0;
    if (r->in_common) {
        r->options = r->common_options;
        return TERN_OK;
    }
    for (size_t i = 0; i < p->n; i++)
        if (strcmp(p->items[i].name, line + 1) == 0) return fail(r, line + 1, "each name once", err);
    TERN_TRY(tern_grow((void **)&p->items, &p->cap, p->n + 1, sizeof *p->items, err));
    tern_serve_model m = r->common;
    m.adapters = NULL;
    m.n_adapters = 0;
    m.name = keep(p, line + 1);
    if (!m.name) return tern_fail(err, TERN_OUT_OF_MEMORY, "out of memory");
    p->items[p->n++] = m;
    if (r->options != r->common_options) json_decref(r->options);
    r->options = json_deep_copy(r->common_options);
    return TERN_OK;
}

static tern_status read_line(reading *r, char *line, tern_error *err)
{
    char *text = trim(line), *equals = strchr(text, '=');
    if (!*text || *text == '#' || *text == ';') return TERN_OK;
    if (*text == '[') return begin_section(r, text, err);
    if (!equals) return fail(r, text, "KEY = VALUE", err);
    *equals = 0;
    const char *key = trim(text), *value = trim(equals + 1);
    if (!r->in_section && strcmp(key, "version") == 0)
        return strcmp(value, "1") == 0 ? TERN_OK : fail(r, value, "version 1", err);
    if (!r->in_section) return fail(r, key, "[NAME]", err);
    if (r->in_common && (strcmp(key, "lora") == 0 || strcmp(key, "model") == 0 || strcmp(key, "m") == 0))
        return fail(r, key, "a setting of all models", err);
    return set(r, r->in_common ? &r->common : &r->presets->items[r->presets->n - 1], key, value, err);
}

tern_status tern_presets_read(tern_presets *presets, const char *path, tern_error *err)
{
    tern_buf text = {0};
    reading r = {.presets = presets, .path = path, .common_options = json_object()};
    tern_status status = tern_app_read_text(path, &text, err);
    char *rest = status == TERN_OK ? text.data : NULL;
    r.options = r.common_options;
    for (char *line; status == TERN_OK && (line = strsep(&rest, "\n"));) {
        r.line++;
        status = read_line(&r, line, err);
    }
    if (status == TERN_OK) status = end_section(&r, err);
    if (r.options != r.common_options) json_decref(r.options);
    json_decref(r.common_options);
    tern_buf_deinit(&text);
    return status;
}

void tern_presets_deinit(tern_presets *p)
{
    for (size_t i = 0; i < p->n; i++) tern_free((void *)(uintptr_t)p->items[i].adapters);
    for (size_t i = 0; i < p->n_texts; i++) free(p->texts[i]);
    tern_free(p->texts);
    tern_free(p->items);
    *p = (tern_presets){0};
}
