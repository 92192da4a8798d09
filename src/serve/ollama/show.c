/* The answers of the Ollama API about models: lists, and one of them in full. */
#include <math.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/bytes.h"
#include "base/parts.h"
#include "base/sha256.h"
#include "serve/ollama/ollama.h"
#include "serve/server.h"

/* A name as Ollama writes it: with a tag, "latest" where it has none. */
static void full_name(const char *name, char out[600])
{
    const char *slash = strrchr(name, '/');
    snprintf(out, 600, "%s%s", name, strchr(slash ? slash : name, ':') ? "" : ":latest");
}

/* Whether the last part of a path is a sum of SHA-256, as names of blobs are. */
static bool sum_in_name(const char *path, char digest[TERN_SHA256_DIGITS + 1])
{
    const char *name = strrchr(path, '/');
    name = name ? name + 1 : path;
    if (strncmp(name, "sha256-", 7) == 0) name += 7;
    if (strlen(name) != TERN_SHA256_DIGITS || strspn(name, "0123456789abcdef") != TERN_SHA256_DIGITS) return false;
    memcpy(digest, name, TERN_SHA256_DIGITS + 1);
    return true;
}

/* 64 digits that change with the model: the sum of what clients made it from, the sum in the name of a blob of the hub,
 * else that of path, size and time. The sum of all bytes would take seconds for each gigabyte. */
static void digest_of(const char *path, const json_t *manifest, char digest[TERN_SHA256_DIGITS + 1])
{
    char target[4096], text[4200];
    struct stat st = {0};
    char *own = manifest ? json_dumps(manifest, JSON_COMPACT | JSON_SORT_KEYS | JSON_REAL_PRECISION(17)) : NULL;
    const ssize_t n = readlink(path, target, sizeof target - 1);
    *digest = 0;
    if (own) {
        (void)tern_sha256(own, strlen(own), digest, NULL);
    } else if (n < 0 || (target[n] = 0, !sum_in_name(target, digest))) {
        (void)stat(path, &st);
        const int size =
            snprintf(text, sizeof text, "%.4000s %lld %lld", path, (long long)st.st_size, (long long)st.st_mtime);
        (void)tern_sha256(text, (size_t)size, digest, NULL);
    }
    tern_free(own);
}

static json_t *details(const tern_model_card *c, const char *parent)
{
    char size[32];
    tern_model_card_size(c, size);
    return json_pack("{s:s, s:s, s:s, s:[s], s:s, s:s, s:I, s:I}", "parent_model", parent ? parent : "", "format",
                     "gguf", "family", c->family, "families", c->family, "parameter_size", size, "quantization_level",
                     c->quantization, "context_length", (json_int_t)c->n_ctx_train, "embedding_length",
                     (json_int_t)c->n_embd);
}

static json_t *row(const char *name, const char *path, const json_t *manifest, const tern_model_card *c)
{
    char full[600], digest[TERN_SHA256_DIGITS + 1];
    full_name(name, full);
    digest_of(path, manifest, digest);
    return json_pack("{s:s, s:s, s:I, s:s, s:o}", "name", full, "model", full, "size",
                     (json_int_t)tern_parts_bytes(path), "digest", digest, "details",
                     details(c, json_string_value(json_object_get(manifest, "parent"))));
}

static json_t *dated(json_t *r, const char *path)
{
    char when[40];
    tern_ollama__time(tern_host_file_time(path), when);
    json_object_set_new(r, "modified_at", json_string(when));
    return r;
}

static void add_lora(void *models, const tern_served_lora *lora)
{
    const tern_model_card none = {0};
    json_array_append_new(models, dated(row(lora->name, lora->path, NULL, &none), lora->path));
}

tern_status tern_ollama__tags(tern_exchange *x, tern_error *err)
{
    json_t *models = json_array();
    tern_host *h;
    (void)err;
    for (uint32_t i = 0; (h = tern_hosts_at(x->server, i)); i++) {
        tern_model_card card;
        tern_host_describe(h, &card);
        json_array_append_new(models, dated(row(h->name, h->path, h->manifest, &card), h->path));
        tern_hosts_drop(h);
    }
    tern_loras_each(&x->server->loras, add_lora, models);
    tern_exchange_send(x, 200, json_pack("{s:o}", "models", models));
    return TERN_OK;
}

/* When it will be closed; what is never closed is so after 292 years, the longest time that Ollama's clients know. */
static int64_t wall_time(double expires)
{
    const double longest = 292.0 * 365 * 86400, left = expires - tern_serve_seconds();
    return time(NULL) + (int64_t)(left < longest ? left : longest);
}

tern_status tern_ollama__ps(tern_exchange *x, tern_error *err)
{
    json_t *models = json_array();
    tern_host *h;
    (void)err;
    for (uint32_t i = 0; (h = tern_hosts_at(x->server, i)); i++) {
        char when[40];
        pthread_mutex_lock(&h->lock);
        const bool is_open = h->is_open;
        const tern_model_card card = h->card;
        const uint32_t n_ctx = h->n_ctx;
        tern_ollama__time(wall_time(h->expires), when);
        pthread_mutex_unlock(&h->lock);
        if (is_open) {
            json_t *r = row(h->name, h->path, h->manifest, &card);
            json_object_update_new(r, json_pack("{s:I, s:I, s:s, s:I}", "size", (json_int_t)card.bytes, "size_vram",
                                                (json_int_t)card.gpu_bytes, "expires_at", when, "context_length",
                                                (json_int_t)n_ctx));
            json_array_append_new(models, r);
        }
        tern_hosts_drop(h);
    }
    tern_exchange_send(x, 200, json_pack("{s:o}", "models", models));
    return TERN_OK;
}

static void set_info(json_t *info, const char *architecture, const char *key, uint64_t value)
{
    char name[96];
    snprintf(name, sizeof name, "%s.%s", architecture, key);
    json_object_set_new(info, name, json_integer((json_int_t)value));
}

static json_t *info_of(const tern_engine_info *i)
{
    json_t *info = json_pack("{s:s, s:I}", "general.architecture", i->architecture, "general.parameter_count",
                             (json_int_t)i->parameters);
    set_info(info, i->architecture, "context_length", i->n_ctx_train);
    set_info(info, i->architecture, "embedding_length", i->n_embd);
    set_info(info, i->architecture, "block_count", i->n_layers);
    return info;
}

/* One line for each value: its name, then itself. */
static tern_status add_parameter(tern_buf *out, const char *before, int width, const char *name, const json_t *value,
                                 tern_error *err)
{
    const double number = json_number_value(value);
    const bool whole = json_is_number(value) && floor(number) == number && fabs(number) < 1e15;
    if (whole) return tern_buf_addf(out, err, "%s%-*s %.0f\n", before, width, name, number);
    char *text = json_dumps(value, JSON_ENCODE_ANY | JSON_REAL_PRECISION(6));
    const tern_status status = tern_buf_addf(out, err, "%s%-*s %s\n", before, width, name, text ? text : "");
    tern_free(text);
    return status;
}

static tern_status add_parameters(tern_buf *out, const char *before, int width, const json_t *settings, tern_error *err)
{
    const char *name;
    const json_t *value;
    json_object_foreach((json_t *)(uintptr_t)settings, name, value)
    {
        if (!json_is_array(value)) TERN_TRY(add_parameter(out, before, width, name, value, err));
        for (size_t i = 0; i < json_array_size(value); i++)
            TERN_TRY(add_parameter(out, before, width, name, json_array_get(value, i), err));
    }
    return TERN_OK;
}

/* From which `create` makes the model again. */
static tern_status write_modelfile(const tern_host *h, tern_buf *out, tern_error *err)
{
    const char *own = h->model.template_source;
    TERN_TRY(tern_buf_addf(out, err, "# Modelfile of \"%s\"\nFROM %s\n", h->name, h->name));
    if (own) TERN_TRY(tern_buf_addf(out, err, "TEMPLATE \"\"\"%s\"\"\"\n", own));
    if (h->model.system) TERN_TRY(tern_buf_addf(out, err, "SYSTEM \"\"\"%s\"\"\"\n", h->model.system));
    return add_parameters(out, "PARAMETER ", 0, h->settings, err);
}

static json_t *capabilities_of(const tern_host *h)
{
    json_t *list = json_pack("[s]", "completion"); /* with "embedding", `ollama run` asks for vectors */
    if (!h->generic_tools) json_array_append_new(list, json_string("tools"));
    if (h->marks) json_array_append_new(list, json_string("thinking"));
    if (tern_engine_fills(h->engine)) json_array_append_new(list, json_string("insert"));
    return list;
}

static json_t *text_of(const tern_buf *text)
{
    return tern_serve_string(text->data, text->size);
}

tern_status tern_ollama__show(tern_answer *a, tern_host *h, tern_error *err)
{
    tern_buf modelfile = {0}, parameters = {0};
    tern_model_card card;
    tern_status status;
    tern_host_describe(h, &card);
    TERN_GOTO(write_modelfile(h, &modelfile, err));
    TERN_GOTO(add_parameters(&parameters, "", 30, h->settings, err));
    json_t *shown =
        json_pack("{s:o, s:o, s:o, s:o, s:o, s:o}", "modelfile", text_of(&modelfile), "parameters",
                  text_of(&parameters), "template", tern_serve_string(h->template_source, strlen(h->template_source)),
                  "details", details(&card, json_string_value(json_object_get(h->manifest, "parent"))), "model_info",
                  info_of(&h->info), "capabilities", capabilities_of(h));
    if (h->model.system) json_object_set_new(shown, "system", json_string(h->model.system));
    json_t *license = json_object_get(h->manifest, "license"), *messages = json_object_get(h->manifest, "messages");
    if (license) json_object_set(shown, "license", license);
    if (messages) json_object_set(shown, "messages", messages);
    tern_exchange_send(a->exchange, 200, dated(shown, h->path));
fail:
    tern_buf_deinit(&modelfile);
    tern_buf_deinit(&parameters);
    return status;
}
