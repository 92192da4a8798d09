/* tern serve: models behind HTTP. */
#include <ctype.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "apps/app.h"
#include "apps/chat/talk.h"
#include "apps/generation.h"
#include "apps/hub/hub.h"
#include "apps/open.h"
#include "apps/ranks.h"
#include "apps/serve/flags.h"
#include "base/show.h"
#if TERN_SERVE
#include "apps/serve/presets.h"
#include "apps/serve/store.h"
#include "base/file.h"
#include "serve/serve.h"
#endif

enum { MAX_NAMED = TERN_SERVE_MAX_NAMED, MAX_KEYS = 1024, DEFAULT_PORT = 8080, DRAIN_SECONDS = 30, FIRST_FD = 3 };

static const tern_flag_group groups[] = {{"Models", tern_flags_serve_models},
                                         {"Listening", tern_flags_serve_listening},
                                         {"Batching", tern_flags_serve_batching},
                                         {"Thoughts", tern_flags_thoughts},
                                         {"Limits", tern_flags_serve_limits, true},
                                         {"Numbers", tern_flags_numbers, true},
                                         {"Device", tern_flags_device},
                                         {"Several processes (mpirun)", tern_flags_ranks, true},
                                         {"CPU", tern_flags_cpu},
                                         {"Kernels", tern_flags_kernel, true},
                                         {"Fusion", tern_flags_fusion, true},
                                         {0}};

static void defaults(tern_options *o)
{
    o->draft_tokens = 8;
    o->thought_budget = UINT32_MAX;
    o->serve.port = DEFAULT_PORT;
    o->bundled = "chat.gguf";
}

#if TERN_SERVE
static volatile sig_atomic_t hung_up;

static void on_hangup(int number)
{
    (void)number;
    hung_up = 1;
}

/* Objects that the server borrows. */
typedef struct serving {
    const tern_options *options;
    tern_app_path bundled, *found; /* found: [MAX_NAMED], of names of the hub */
    tern_serve_model models[MAX_NAMED];
    tern_serve_named loras[MAX_NAMED];
    tern_presets presets;
    tern_hub hub;
    tern_app_path store_folder;
    char *names[2 * MAX_NAMED];
    size_t n_names;
    const char *keys[MAX_KEYS];
    tern_buf key_text, cert, key, template;
    tern_serve_options how;
    tern_serve *server;
} serving;

static tern_status open_model(void *context, const char *path, tern_engine **engine, tern_error *err)
{
    const serving *s = context;
    tern_options o = *s->options;
    const bool drafts = path == s->how.draft_path;
    o.model = path;
    if (drafts) o.hf = o.experts = o.gpu_layers = NULL;
    return tern_app_open_engine(engine, &o, !drafts, err);
}

/* "NAME=PATH", or a path, whose last part without its ending is the name. */
static tern_status split(serving *s, const char *text, bool needs_name, const char **out_name, const char **out_path,
                         tern_error *err)
{
    const char *equals = strchr(text, '='), *slash = strchr(text, '/');
    const bool named = equals && equals != text && !(slash && slash < equals);
    if (needs_name && !named)
        return tern_fail(err, TERN_INVALID_ARGUMENT, "--lora %s: NAME=PATH expected", tern_show_z(text).text);
    *out_path = named ? equals + 1 : text;
    size_t n = named ? (size_t)(equals - text) : strlen(text);
    const char *from = text;
    if (!named) {
        while (n > 1 && text[n - 1] == '/') n--;
        for (size_t i = 0; i + 1 < n; i++)
            if (text[i] == '/') from = text + i + 1;
        n -= (size_t)(from - text);
        if (n > 5 && memcmp(from + n - 5, ".gguf", 5) == 0) n -= 5;
    }
    char *name = strndup(from, n);
    if (!name) return tern_fail(err, TERN_OUT_OF_MEMORY, "out of memory");
    for (char *c = name; *c; c++)
        if ((unsigned char)*c < ' ' || *c == '"' || *c == '\\' || *c == 127) *c = '_';
    s->names[s->n_names++] = name;
    *out_name = name;
    return TERN_OK;
}

static tern_status check_names(const serving *s, tern_error *err)
{
    for (size_t i = 0; i < s->n_names; i++)
        for (size_t k = 0; k < i; k++)
            if (strcmp(s->names[i], s->names[k]) == 0)
                return tern_fail(err, TERN_INVALID_ARGUMENT, "the name %s is given twice: give NAME=PATH",
                                 tern_show_z(s->names[i]).text);
    return TERN_OK;
}

static tern_status find_one(const char **path, tern_app_path *found, tern_error *err)
{
    TERN_TRY(tern_app_hub_find(*path, found, err));
    *path = found->text;
    return TERN_OK;
}

/* Models and adapters that are names of what was fetched, as their paths in the cache. */
static tern_status find_pulled(serving *s, size_t n_models, size_t n_loras, tern_error *err)
{
    s->found = calloc(n_models + n_loras + 1, sizeof *s->found);
    if (!s->found) return tern_fail(err, TERN_OUT_OF_MEMORY, "out of memory");
    for (size_t i = 0; i < n_models; i++) {
        const bool named = tern_app_hub_names(s->models[i].path);
        TERN_TRY(named ? find_one(&s->models[i].path, &s->found[i], err)
                       : tern_app_hub_check_there(s->models[i].path, err));
    }
    for (size_t i = 0; i < n_loras; i++)
        if (tern_app_hub_says(s->loras[i].path)) TERN_TRY(find_one(&s->loras[i].path, &s->found[n_models + i], err));
    return TERN_OK;
}

/* Settings of models that -m names, and further models. */
static tern_status add_presets(serving *s, size_t *n, tern_error *err)
{
    if (!s->options->serve.presets) return TERN_OK;
    TERN_TRY(tern_presets_read(&s->presets, s->options->serve.presets, err));
    for (size_t i = 0; i < s->presets.n; i++) {
        const tern_serve_model *preset = &s->presets.items[i];
        size_t k = 0;
        while (k < *n && strcmp(s->models[k].name, preset->name) != 0) k++;
        if (k == *n && !preset->path)
            return tern_fail(err, TERN_INVALID_ARGUMENT, "--models-preset: [%s]: model expected, none found",
                             tern_show_z(preset->name).text);
        if (k == MAX_NAMED)
            return tern_fail(err, TERN_INVALID_ARGUMENT,
                             "--models-preset: [%s]: more than %d models found, at most %d expected",
                             tern_show_z(preset->name).text, MAX_NAMED, MAX_NAMED);
        if (k == *n && !(s->names[s->n_names] = strdup(preset->name)))
            return tern_fail(err, TERN_OUT_OF_MEMORY, "out of memory");
        s->n_names += k == *n;
        const char *given = k < *n ? s->models[k].path : preset->path;
        s->models[k] = *preset;
        s->models[k].path = given;
        *n += k == *n;
    }
    return TERN_OK;
}

static tern_status find_models(serving *s, tern_error *err)
{
    const tern_options *o = s->options;
    const tern_texts *models = &o->serve.models, *loras = &o->serve.loras;
    if (models->n > MAX_NAMED || loras->n > MAX_NAMED)
        return tern_fail(err, TERN_INVALID_ARGUMENT, "%zu models and %zu adapters found, at most %d of each expected",
                         models->n, loras->n, MAX_NAMED);
    for (size_t i = 0; i < models->n; i++)
        TERN_TRY(split(s, models->items[i], false, &s->models[i].name, &s->models[i].path, err));
    for (size_t i = 0; i < loras->n; i++)
        TERN_TRY(split(s, loras->items[i], true, &s->loras[i].name, &s->loras[i].path, err));
    size_t n = models->n;
    TERN_TRY(add_presets(s, &n, err));
    TERN_TRY(find_pulled(s, n, loras->n, err));
    if (!n) {
        TERN_TRY(tern_app_find_model(o, &s->bundled, err));
        TERN_TRY(split(s, s->bundled.text, false, &s->models[0].name, &s->models[0].path, err));
    }
    s->how.models = s->models;
    s->how.n_models = n ? (uint32_t)n : 1;
    s->how.loras = s->loras;
    s->how.n_loras = (uint32_t)loras->n;
    return check_names(s, err);
}

static tern_status read_file(const char *path, tern_buf *text, const char **out, tern_error *err)
{
    if (!path) return TERN_OK;
    TERN_TRY(tern_app_read_text(path, text, err));
    *out = text->data ? text->data : "";
    return TERN_OK;
}

static bool is_local(const char *host)
{
    return !host || strcmp(host, "localhost") == 0 || strcmp(host, "::1") == 0 || strncmp(host, "127.", 4) == 0;
}

/* Lines that are neither empty nor begin with #. */
static tern_status read_keys(serving *s, tern_error *err)
{
    const tern_options *o = s->options;
    if (!o->serve.key_file && !o->serve.no_auth && !o->serve.unix_path && !is_local(o->serve.host))
        return tern_fail(err, TERN_INVALID_ARGUMENT,
                         "--host %s: other machines can reach this address: --api-key FILE expected (or --no-auth on a "
                         "trusted network)",
                         tern_show_z(o->serve.host).text);
    if (!o->serve.key_file) return TERN_OK;
    TERN_TRY(tern_app_read_text(o->serve.key_file, &s->key_text, err));
    char *rest = s->key_text.data;
    for (char *line; (line = strsep(&rest, "\r\n"));) {
        if (!*line || *line == '#') continue;
        if (s->how.n_keys == MAX_KEYS)
            return tern_fail(err, TERN_INVALID_ARGUMENT, "--api-key %s: more than %d keys found, at most %d expected",
                             tern_show_z(o->serve.key_file).text, MAX_KEYS, MAX_KEYS);
        s->keys[s->how.n_keys++] = line;
    }
    s->how.keys = s->keys;
    if (s->how.n_keys) return TERN_OK;
    return tern_fail(err, TERN_INVALID_ARGUMENT, "--api-key %s: a file with a key on a line expected, none found",
                     tern_show_z(o->serve.key_file).text);
}

static tern_status read_template(serving *s, tern_error *err)
{
    const char *name = s->options->template;
    if (!name) return TERN_OK;
    s->how.template_source = tern_chat_template_builtin(name);
    if (s->how.template_source) return TERN_OK;
    TERN_TRY(tern_chat_template_read(name, &s->template, err));
    s->how.template_source = s->template.data ? s->template.data : "";
    return TERN_OK;
}

/* A number of bytes: 2G, 800M. */
static tern_status read_size(const char *flag, const char *text, uint64_t *bytes, tern_error *err)
{
    static const char units[] = "KMGT";
    char *end;
    if (!text) return TERN_OK;
    double size = strtod(text, &end);
    const char *unit = *end ? strchr(units, toupper((unsigned char)*end)) : NULL;
    for (const char *u = units; unit && u <= unit; u++) size *= 1024;
    if (*text < '0' || *text > '9' || end[unit != NULL] || !(size >= 1 && size < 1e18))
        return tern_fail(err, TERN_INVALID_ARGUMENT, "%s %s: a number of bytes expected, such as 800M or 2G", flag,
                         tern_show_z(text).text);
    *bytes = (uint64_t)size;
    return TERN_OK;
}

/* A socket that systemd has opened (sd_listen_fds(3)); 0: none. */
static int activated_fd(void)
{
    const char *pid = getenv("LISTEN_PID"), *n = getenv("LISTEN_FDS");
    return pid && n && strtol(pid, NULL, 10) == (long)getpid() && strtol(n, NULL, 10) >= 1 ? FIRST_FD : 0;
}

static tern_status check_ranks(const serving *s, tern_error *err)
{
    const tern_ranks *ranks = tern_app_ranks();
    if (!ranks || s->how.n_models == 1) return TERN_OK;
    return tern_fail(err, TERN_UNSUPPORTED, "%u models in %u processes: one model expected", s->how.n_models,
                     tern_ranks_count(ranks));
}

static tern_status check_slot_folder(const tern_options *o, tern_error *err)
{
    if (!o->serve.slot_folder || tern_file_is_dir(o->serve.slot_folder)) return TERN_OK;
    return tern_fail(err, TERN_NOT_FOUND, "--slot-save-path %s: no such folder",
                     tern_show_z(o->serve.slot_folder).text);
}

/* Models that clients manage lie in the cache of the hub. */
static tern_status prepare_store(serving *s, tern_error *err)
{
    const tern_options *o = s->options;
    uint64_t most = (uint64_t)64 << 30;
    TERN_TRY(read_size("--max-upload", o->serve.max_upload, &most, err));
    if (!o->serve.manage) return TERN_OK;
    if (tern_app_ranks())
        return tern_fail(err, TERN_UNSUPPORTED, "--manage: one process expected, %u found",
                         tern_ranks_count(tern_app_ranks()));
    TERN_TRY(tern_app_hub(&s->hub, err));
    if (snprintf(s->store_folder.text, sizeof s->store_folder.text, "%s/served", s->hub.cache) >=
        (int)sizeof s->store_folder.text)
        return tern_fail(err, TERN_LIMIT, "%s: a path too long", tern_show_z(s->hub.cache).text);
    s->how.store = tern_app_store(&s->hub, s->store_folder.text, most);
    return TERN_OK;
}

static tern_status prepare(serving *s, tern_error *err)
{
    const tern_options *o = s->options;
    s->how = (tern_serve_options){
        .max_models = o->serve.max_models,
        .unload_seconds = o->serve.unload_after,
        .slot_folder = o->serve.slot_folder,
        .strict_model = o->serve.strict_model,
        .rerank = o->serve.rerank,
        .batch = {.size = sizeof(tern_batch_params),
                  .n_parallel = o->serve.parallel,
                  .n_ctx = o->ctx_given && !o->ctx ? UINT32_MAX : o->ctx, /* at most the model's */
                  .n_batch = o->batch,
                  .n_chunk = o->serve.chunk,
                  .max_step_ms = o->serve.max_step_ms,
                  .kv = tern_app_kv(o),
                  .n_state_checkpoints = o->state_checkpoints,
                  .mtp = tern_app_drafts_by_mtp(o),
                  .no_prefix_reuse = o->serve.no_reuse},
        .lora_folder = o->serve.lora_folder,
        .variables = o->variables,
        .suffix_first = o->suffix_first,
        .no_thoughts = o->thought_budget == 0,
        .thought_budget = o->thought_budget == UINT32_MAX ? 0 : o->thought_budget,
        .thought_message = o->thought_message,
        .draft_tokens = tern_app_draft_tokens(o),
        .draft_path = o->draft_model,
        .cache_file = o->serve.cache_file,
        .open = open_model,
        .open_context = s,
        .host = o->serve.host,
        .port = (uint16_t)o->serve.port,
        .unix_path = o->serve.unix_path,
        .listen_fd = activated_fd(),
        .cors = o->serve.cors,
        .log_path = o->serve.log_path,
        .no_log = o->serve.no_log,
        .log_prompts = o->serve.log_prompts,
        .limits = {o->serve.max_body, o->serve.max_tokens, o->serve.max_connections, o->serve.max_queue,
                   o->serve.timeout, o->serve.idle},
    };
    if (o->serve.cache_file && o->serve.no_reuse)
        return tern_fail(err, TERN_INVALID_ARGUMENT,
                         "--cache-file and --no-prefix-reuse: both found, one of them expected");
    TERN_TRY(tern_app_check_drafts(o, err));
    TERN_TRY(read_size("--cache", o->serve.cache, &s->how.batch.cache_bytes, err));
    TERN_TRY(tern_app_check_device(o, err));
    TERN_TRY(find_models(s, err));
    TERN_TRY(check_ranks(s, err));
    TERN_TRY(check_slot_folder(o, err));
    TERN_TRY(prepare_store(s, err));
    TERN_TRY(read_keys(s, err));
    TERN_TRY(read_file(o->serve.tls_cert, &s->cert, &s->how.tls_cert, err));
    TERN_TRY(read_file(o->serve.tls_key, &s->key, &s->how.tls_key, err));
    return read_template(s, err);
}

static void say_where(const serving *s)
{
    const char *host = s->how.host ? s->how.host : "127.0.0.1";
    const bool v6 = strchr(host, ':') != NULL;
    if (s->how.unix_path) fprintf(stderr, "tern: listening on %s\n", tern_show_z(s->how.unix_path).text);
    else
        fprintf(stderr, "tern: listening on http%s://%s%s%s:%u\n", s->how.tls_cert ? "s" : "", v6 ? "[" : "", host,
                v6 ? "]" : "", tern_serve_port(s->server));
}

static void nap(void)
{
    nanosleep(&(struct timespec){.tv_nsec = 50 * 1000 * 1000}, NULL);
}

static void serve_until_interrupted(const serving *s)
{
    tern_error err = {0};
    for (unsigned i = 0; !tern_app_interrupted(); i++) {
        nap();
        if (i % 20 == 0) tern_serve_tick(s->server);
        if (!hung_up) continue;
        hung_up = 0;
        if (tern_serve_reopen_log(s->server, &err) != TERN_OK) fprintf(stderr, "tern: %s\n", err.message);
    }
}

/* Lets what runs come to its end. */
static void drain(const serving *s)
{
    const uint32_t most = s->options->serve.drain ? s->options->serve.drain : DRAIN_SECONDS;
    const double end = tern_app_seconds() + most;
    tern_serve_drain(s->server);
    fprintf(stderr, "tern: stopping\n");
    while (tern_serve_running(s->server) && tern_app_seconds() < end) nap();
}

static tern_status serve(serving *s, tern_error *err)
{
    struct sigaction action = {.sa_handler = on_hangup};
    TERN_TRY(prepare(s, err));
    (void)tern_app_tune_file(s->options); /* looked for once, before there are threads */
    TERN_TRY(tern_serve_open(&s->server, &s->how, err));
    sigaction(SIGHUP, &action, NULL);
    say_where(s);
    serve_until_interrupted(s);
    drain(s);
    tern_serve_close(s->server);
    return TERN_OK;
}

/* The model that rank 0 opens. The path that is found stays valid as long as the process runs. */
static tern_status followed(const tern_options *o, tern_options *out, tern_error *err)
{
    static serving found;
    found.options = o;
    TERN_TRY(find_models(&found, err));
    out->model = found.models[0].path;
    return TERN_OK;
}

static tern_status run(const tern_options *o, tern_error *err)
{
    if (TERN_STATIC && o->serve.tls_cert)
        return tern_fail(err, TERN_UNSUPPORTED,
                         "--tls-cert: this static build of tern has no TLS; put a proxy with TLS before it");
    serving *s = calloc(1, sizeof *s);
    if (!s) return tern_fail(err, TERN_OUT_OF_MEMORY, "out of memory");
    s->options = o;
    const tern_status status = serve(s, err);
    for (size_t i = 0; i < s->n_names; i++) free(s->names[i]);
    free(s->found);
    tern_presets_deinit(&s->presets);
    tern_buf_deinit(&s->key_text);
    tern_buf_deinit(&s->cert);
    tern_buf_deinit(&s->key);
    tern_buf_deinit(&s->template);
    free(s);
    return status;
}
#else
static tern_status followed(const tern_options *o, tern_options *out, tern_error *err)
{
    (void)o;
    (void)out;
    (void)err;
    return TERN_OK;
}

static tern_status run(const tern_options *o, tern_error *err)
{
    (void)o;
    return tern_fail(err, TERN_UNSUPPORTED,
                     "this build of tern has no server: install libmicrohttpd (Debian: "
                     "libmicrohttpd-dev) and configure it again");
}
#endif

const tern_command tern_command_serve = {
    .name = "serve",
    .usage = "[-m [NAME=]MODEL]... [--host ADDRESS] [--port N] [--api-key FILE]",
    .summary = "Serve models over HTTP",
    .detail = "Clients of the APIs of OpenAI, Ollama, Anthropic and llama.cpp's server can talk to it "
              "(docs/guides/serving.md).",
    .groups = groups,
    .ranks = TERN_RANKED_FOLLOWED,
    .followed = followed,
    .defaults = defaults,
    .run = run,
};
