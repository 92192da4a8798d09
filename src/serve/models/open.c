/* Opening and closing a served model. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/show.h"
#include "serve/server.h"

typedef struct search {
    const tern_host *except;
    tern_host *idlest; /* held */
    double since;
    bool busy;
} search;

static void look_for_idlest(void *context, tern_host *h)
{
    search *s = context;
    if (h == s->except) return;
    pthread_mutex_lock(&h->lock);
    const bool better = !s->idlest || (h->is_busy == s->busy ? h->last_used < s->since : s->busy);
    if (h->is_open && !h->inbox && better) {
        if (s->idlest) s->idlest->n_holders--; /* the list's lock is held */
        h->n_holders++;
        s->idlest = h;
        s->since = h->last_used;
        s->busy = h->is_busy;
    }
    pthread_mutex_unlock(&h->lock);
}

/* Closes the model that was idle for the longest. One that works is asked where none is idle: its last answer may have
 * gone out in the step that it is about to end; it declines if there are others. false: none was closed. */
static bool close_idlest(tern_host *except)
{
    search found = {.except = except};
    tern_hosts_each(except->server, look_for_idlest, &found);
    tern_host *idlest = found.idlest;
    if (!idlest) return false;
    pthread_mutex_lock(&idlest->lock);
    idlest->must_close = true;
    pthread_cond_broadcast(&idlest->changed);
    while (idlest->must_close && !idlest->stopping) pthread_cond_wait(&idlest->changed, &idlest->lock);
    const bool closed = !idlest->is_open;
    pthread_mutex_unlock(&idlest->lock);
    tern_hosts_drop(idlest);
    return closed;
}

static void add_open(void *count, tern_host *h)
{
    *(uint32_t *)count += tern_host_is_open(h);
}

static uint32_t count_open(tern_serve *s)
{
    uint32_t n = 0;
    tern_hosts_each(s, add_open, &n);
    return n;
}

static tern_status open_engine(tern_host *h, tern_error *err)
{
    const tern_serve_options *o = &h->server->options;
    while (o->max_models && count_open(h->server) >= o->max_models && close_idlest(h)) {}
    for (;;) {
        const tern_status status = o->open(o->open_context, h->path, &h->engine, err);
        if (status != TERN_OUT_OF_MEMORY || !close_idlest(h)) return status;
    }
}

/* Where neither the flags nor the file have one; NULL: none is known. */
static const char *template_of_family(const tern_host *h)
{
    const char *name = tern_engine_chat_template_family(h->engine);
    if (!name) return NULL;
    fprintf(stderr, "tern: %s has no chat template: %s, by its family (%s); --template takes another\n",
            tern_show_z(h->name).text, name, tern_show_z(h->info.architecture).text);
    return tern_chat_template_builtin(name);
}

/* A model whose template cannot be read serves all but conversations. */
static void read_template(tern_host *h, const char *source)
{
    h->template_error = (tern_error){0};
    if (tern_chat_template_parse(&h->chat_template, source, strlen(source), &h->template_error) == TERN_OK) return;
    fprintf(stderr, "tern: %s: no conversations, its %s; --template takes another\n", tern_show_z(h->name).text,
            tern_show_z(h->template_error.message).text);
}

/* Whether a text is one special token. */
static bool is_special(const tern_engine *engine, const char *text)
{
    tern_tokens ids = {0};
    tern_buf shown = {0};
    bool is = tern_engine_tokenize(engine, text, strlen(text), TERN_TOKENIZE_SPECIAL, &ids, NULL) == TERN_OK;
    is = is && ids.n == 1 && tern_engine_detokenize(engine, ids.ids, 1, false, &shown, NULL) == TERN_OK && !shown.size;
    tern_tokens_deinit(&ids);
    tern_buf_deinit(&shown);
    return is;
}

static void find_thoughts(tern_host *h, const char *source)
{
    h->marks = tern_thought_marks_of(source, tern_engine_tokenizer(h->engine));
    h->special_marks = h->marks && is_special(h->engine, h->marks->close);
}

static tern_status open_template(tern_host *h, tern_error *err)
{
    const char *given = h->model.template_source ? h->model.template_source : h->server->options.template_source;
    const char *source = given;
    if (!source) source = h->info.chat_template;
    if (!source) source = template_of_family(h);
    h->template_source = source ? source : "";
    if (!source) return TERN_OK;
    /* A template that never speaks of tools cannot tell the model which there are. */
    h->tool_form = tern_tool_form_of(source);
    if (!strstr(source, "tools") && h->tool_form != TERN_TOOLS_HARMONY) h->tool_form = TERN_TOOLS_NONE;
    h->generic_tools = h->tool_form == TERN_TOOLS_NONE;
    if (h->generic_tools) h->tool_form = TERN_TOOLS_HERMES;
    find_thoughts(h, source);
    if (given) return tern_chat_template_parse(&h->chat_template, source, strlen(source), err);
    read_template(h, source);
    return TERN_OK;
}

static const char *cache_file_of(const tern_host *h)
{
    return h->at == 0 ? h->server->options.cache_file : NULL;
}

/* A file that cannot be used is reported, and the pool begins empty. */
static void restore_pages(tern_host *h)
{
    tern_error err = {0};
    const char *path = cache_file_of(h);
    uint32_t n;
    if (!path) return;
    const tern_status status = tern_batch_restore(h->batch, path, &n, &err);
    if (status == TERN_OK) fprintf(stderr, "tern: %s: %u pages\n", tern_show_z(path).text, n);
    else if (status != TERN_NOT_FOUND) fprintf(stderr, "tern: --cache-file ignored: %s\n", err.message);
}

void tern_host__save_pages(tern_host *h)
{
    tern_error err = {0};
    const char *path = cache_file_of(h);
    uint32_t n;
    if (!path || !h->batch || tern_batch_save(h->batch, path, &n, &err) == TERN_OK) return;
    fprintf(stderr, "tern: --cache-file: %s\n", err.message);
}

static tern_status open_draft(tern_host *h, tern_error *err)
{
    const tern_serve_options *o = &h->server->options;
    if (h->at || !o->draft_path || h->draft) return TERN_OK;
    const tern_status status = o->open(o->open_context, o->draft_path, &h->draft, err);
    return status == TERN_OK ? TERN_OK : tern_error_prefix(err, "--draft-model %s", tern_show_z(o->draft_path).text);
}

/* The first model must have a block of its own where such blocks are to guess; others use theirs if they have one. */
static bool drafts_by_mtp(const tern_host *h)
{
    if (!h->server->options.batch.mtp || h->at == 0 || h->info.has_mtp) return h->server->options.batch.mtp;
    fprintf(stderr, "tern: --draft mtp: %s has no block that drafts tokens; its requests draft from their own text\n",
            tern_show_z(h->name).text);
    return false;
}

/* The adapters of the start, before there is anybody who could ask; after a closing each is loaded when it is
 * requested. */
static tern_status load_given(tern_host *h, tern_error *err)
{
    if (h->last_used > 0) return TERN_OK;
    for (tern_served_lora *l = h->server->loras.first; l; l = l->next)
        TERN_TRY(tern_loras_load(&h->server->loras, l, h->engine, err));
    return TERN_OK;
}

static tern_status load_own(tern_host *h, tern_error *err)
{
    const tern_serve_model *m = &h->model;
    if (!m->n_adapters) return TERN_OK;
    h->own_loras = tern_calloc(m->n_adapters, sizeof *h->own_loras);
    if (!h->own_loras) return tern_fail_alloc(err, m->n_adapters * sizeof *h->own_loras);
    for (; h->n_own_loras < m->n_adapters; h->n_own_loras++) {
        const char *path = m->adapters[h->n_own_loras].path;
        if (tern_lora_load(&h->own_loras[h->n_own_loras], h->engine, path, err) != TERN_OK)
            return tern_error_prefix(err, "the adapter %s", tern_show_z(path).text);
    }
    return TERN_OK;
}

static tern_status open_all(tern_host *h, tern_error *err)
{
    const tern_serve_options *o = &h->server->options;
    tern_batch_params params = o->batch;
    h->info.size = sizeof h->info;
    h->counters.size = sizeof h->counters;
    params.max_queue = h->server->limits.queue;
    if (h->model.n_ctx) params.n_ctx = h->model.n_ctx;
    if (!h->engine) {
        TERN_TRY(open_engine(h, err));
        TERN_TRY(tern_engine_describe(h->engine, &h->info, err));
        TERN_TRY(open_template(h, err));
        if (h->at == 0) TERN_TRY(load_given(h, err));
        TERN_TRY(load_own(h, err));
    }
    if (params.n_ctx > h->info.n_ctx_train) params.n_ctx = h->info.n_ctx_train;
    if (h->batch) return TERN_OK;
    TERN_TRY(open_draft(h, err));
    params.draft = h->draft;
    params.mtp = drafts_by_mtp(h);
    TERN_TRY(tern_batch_open(&h->batch, h->engine, &params, err));
    restore_pages(h);
    return TERN_OK;
}

tern_status tern_host__open(tern_host *h, tern_error *err)
{
    if (h->batch) return TERN_OK;
    const tern_status status = open_all(h, err);
    if (status != TERN_OK) tern_host__close(h);
    pthread_mutex_lock(&h->lock);
    h->is_open = status == TERN_OK;
    if (h->is_open) {
        const uint32_t seconds = h->server->options.unload_seconds;
        if (seconds) h->expires = tern_serve_seconds() + seconds;
        h->n_ctx = tern_batch_n_ctx(h->batch);
        tern_model_card_set(&h->card, &h->info);
    }
    pthread_mutex_unlock(&h->lock);
    return status;
}

void tern_host__close(tern_host *h)
{
    tern_helpers_drain(h);
    tern_batch_close(h->batch);
    if (h->at == 0) tern_loras_close(&h->server->loras);
    for (uint32_t i = 0; i < h->n_own_loras; i++) tern_lora_close(h->own_loras[i]);
    tern_free(h->own_loras);
    h->own_loras = NULL;
    h->n_own_loras = 0;
    tern_chat_template_close(h->chat_template);
    tern_grammar_vocab_close(h->vocab);
    tern_engine_close(h->engine);
    tern_engine_close(h->draft);
    h->batch = NULL;
    h->chat_template = NULL;
    h->vocab = NULL;
    h->engine = h->draft = NULL;
}
