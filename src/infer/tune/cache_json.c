/* The file of measured choices: JSON, read strictly, written always alike. */
#include <string.h>

#include "base/alloc.h"
#include "base/bytes.h"
#include "base/show.h"
#include "format/json.h"
#include "infer/tune/cache.h"
#include "quant/encoding.h"

enum { VERSION = 2 };
static const char format_name[] = "tern-tune";

static tern_status read_bytes(const json_t *o, uint64_t *out, tern_error *err)
{
    int64_t n;
    TERN_TRY(tern_json_get_i64(o, "bytes", &n, err));
    if (n < 0) return tern_fail(err, TERN_MALFORMED, "bytes: %lld found, 0 or more expected", (long long)n);
    *out = (uint64_t)n;
    return TERN_OK;
}

static tern_status read_encoding(const json_t *o, tern_kernel_choice *c, tern_error *err)
{
    tern_span name;
    char text[32];
    TERN_TRY(tern_json_get_string(o, "encoding", &name, err));
    const size_t n = name.size < sizeof text - 1 ? name.size : sizeof text - 1;
    memcpy(text, name.data, n);
    text[n] = 0;
    c->encoding = n == name.size && strlen(text) == n ? tern_encoding_by_name(text) : NULL;
    return c->encoding ? TERN_OK : tern_fail(err, TERN_MALFORMED, "encoding \"%s\" is unknown", tern_show(name).text);
}

static tern_status read_kernel(const json_t *o, tern_kernel_choice *c, tern_error *err)
{
    tern_span name;
    TERN_TRY(tern_json_get_string(o, "kernel", &name, err));
    if (name.size < sizeof c->kernel && !memchr(name.data, 0, name.size)) {
        memcpy(c->kernel, name.data, name.size);
        return TERN_OK;
    }
    return tern_fail(err, TERN_MALFORMED, "kernel \"%s\": a name of at most %zu bytes expected", tern_show(name).text,
                     sizeof c->kernel - 1);
}

/* A GPU's choice; others have neither. */
static tern_status read_device(const json_t *o, tern_kernel_choice *c, tern_error *err)
{
    tern_span name;
    if (!json_object_get(o, "device") && !json_object_get(o, "tokens")) return TERN_OK;
    TERN_TRY(tern_json_get_u32(o, "tokens", &c->tokens, err));
    TERN_TRY(tern_json_get_string(o, "device", &name, err));
    if (name.size == 0 || name.size >= sizeof c->device || memchr(name.data, 0, name.size))
        return tern_fail(err, TERN_MALFORMED, "device \"%s\": a name of 1 to %zu bytes expected", tern_show(name).text,
                         sizeof c->device - 1);
    memcpy(c->device, name.data, name.size);
    return TERN_OK;
}

static tern_status read_choice(tern_tune_cache *cache, const json_t *o, tern_error *err)
{
    tern_kernel_choice c = {0};
    tern_tune_cost cost = {0};
    TERN_TRY(read_encoding(o, &c, err));
    TERN_TRY(tern_json_get_u32(o, "rows", &c.rows, err));
    TERN_TRY(tern_json_get_u32(o, "cols", &c.cols, err));
    TERN_TRY(tern_json_get_u32(o, "threads", &c.n_threads, err));
    TERN_TRY(read_device(o, &c, err));
    TERN_TRY(read_kernel(o, &c, err));
    TERN_TRY(tern_json_get_u32(o, "task_rows", &c.task_rows, err));
    TERN_TRY(read_bytes(o, &cost.bytes, err));
    TERN_TRY(tern_json_get_f64(o, "microseconds", &cost.microseconds, err));
    TERN_TRY(tern_json_get_f64(o, "default_microseconds", &cost.default_microseconds, err));
    if (tern_tune_cache_find(cache, &c) < cache->n)
        return tern_fail(err, TERN_MALFORMED, "%s, %u x %u, %u threads: a second choice found, one expected",
                         c.encoding->name, c.rows, c.cols, c.n_threads);
    return tern_tune_cache_add(cache, &c, &cost, err);
}

static tern_status read_head(const json_t *root, tern_tune_cache *out, tern_error *err)
{
    tern_span format, cpu, build;
    uint32_t version;
    TERN_TRY(tern_json_get_string(root, "format", &format, err));
    if (format.size != strlen(format_name) || memcmp(format.data, format_name, format.size) != 0)
        return tern_fail(err, TERN_MALFORMED, "format: \"%s\" found, \"%s\" expected", tern_show(format).text,
                         format_name);
    TERN_TRY(tern_json_get_u32(root, "version", &version, err));
    if (version != VERSION) return tern_fail(err, TERN_UNSUPPORTED, "version: %u found, %d expected", version, VERSION);
    TERN_TRY(tern_json_get_string(root, "cpu", &cpu, err));
    TERN_TRY(tern_json_get_string(root, "build", &build, err));
    if (memchr(cpu.data, 0, cpu.size) || memchr(build.data, 0, build.size))
        return tern_fail(err, TERN_MALFORMED, "cpu or build: a NUL found, text expected");
    *out = (tern_tune_cache){.cpu = tern_strndup((const char *)cpu.data, cpu.size),
                             .build = tern_strndup((const char *)build.data, build.size)};
    return out->cpu && out->build ? TERN_OK : tern_fail_alloc(err, cpu.size + build.size + 2);
}

static tern_status read_decode(tern_tune_cache *cache, const json_t *o, tern_error *err)
{
    tern_tune_decoded d = {0};
    tern_span model;
    TERN_TRY(tern_json_get_string(o, "model", &model, err));
    if (model.size >= sizeof d.model || memchr(model.data, 0, model.size))
        return tern_fail(err, TERN_MALFORMED, "model \"%s\": a name of at most %zu bytes expected",
                         tern_show(model).text, sizeof d.model - 1);
    memcpy(d.model, model.data, model.size);
    TERN_TRY(tern_json_get_u32(o, "threads", &d.n_threads, err));
    TERN_TRY(tern_json_get_f64(o, "default_tokens_per_second", &d.standard, err));
    TERN_TRY(tern_json_get_f64(o, "tuned_tokens_per_second", &d.tuned, err));
    TERN_TRY(tern_json_get_u32(o, "choices", &d.n_choices, err));
    TERN_TRY(tern_json_get_u32(o, "left_out", &d.n_left_out, err));
    if (cache->n_decodes == TERN_TUNE_MAX_DECODES)
        return tern_fail(err, TERN_LIMIT, "more than %d models", TERN_TUNE_MAX_DECODES);
    if (tern_tune_cache_find_decode(cache, &d) < cache->n_decodes)
        return tern_fail(err, TERN_MALFORMED, "%s, %u threads: a second entry found, one expected",
                         tern_show_z(d.model).text, d.n_threads);
    return tern_tune_cache_add_decode(cache, &d, err);
}

static tern_status read_all(const json_t *root, tern_tune_cache *out, tern_error *err)
{
    const json_t *list;
    TERN_TRY(read_head(root, out, err));
    TERN_TRY(tern_json_get_array(root, "choices", &list, err));
    for (size_t i = 0; i < json_array_size(list); i++)
        if (read_choice(out, json_array_get(list, i), err) != TERN_OK) return tern_error_prefix(err, "choices[%zu]", i);
    TERN_TRY(tern_json_get_array(root, "decode", &list, err));
    for (size_t i = 0; i < json_array_size(list); i++)
        if (read_decode(out, json_array_get(list, i), err) != TERN_OK) return tern_error_prefix(err, "decode[%zu]", i);
    return TERN_OK;
}

tern_status tern_tune_cache_parse(tern_tune_cache *out, const void *bytes, size_t n, tern_error *err)
{
    json_t *root;
    tern_error local = {0}, *e = err ? err : &local;
    *out = (tern_tune_cache){0};
    if (n > TERN_TUNE_MAX_FILE)
        return tern_fail(err, TERN_LIMIT, "%zu bytes found, at most %d expected", n, TERN_TUNE_MAX_FILE);
    TERN_TRY(tern_json_parse(&root, bytes, n, "choices of kernels", e));
    tern_status status = read_all(root, out, e);
    tern_json_free(root);
    if (status == TERN_OK) return TERN_OK;
    tern_tune_cache_deinit(out);
    if (status == TERN_OUT_OF_MEMORY || status == TERN_LIMIT || status == TERN_UNSUPPORTED) return status;
    return e->code = TERN_MALFORMED;
}

static tern_status print_choice(const tern_kernel_choice *c, const tern_tune_cost *cost, tern_buf *out, tern_error *err)
{
    TERN_TRY(tern_buf_addf(out, err, "    {\"encoding\": \"%s\", \"rows\": %u, \"cols\": %u, \"threads\": %u, ",
                           c->encoding->name, c->rows, c->cols, c->n_threads));
    if (c->device[0]) {
        TERN_TRY(tern_buf_addf(out, err, "\"tokens\": %u, \"device\": ", c->tokens));
        TERN_TRY(tern_json_add_string(out, c->device, strlen(c->device), err));
        TERN_TRY(tern_buf_addf(out, err, ", "));
    }
    return tern_buf_addf(out, err,
                         "\"kernel\": \"%s\", \"task_rows\": %u, "
                         "\"bytes\": %llu, \"microseconds\": %.3f, \"default_microseconds\": %.3f}",
                         c->kernel, c->task_rows, (unsigned long long)cost->bytes, cost->microseconds,
                         cost->default_microseconds);
}

static tern_status print_decode(const tern_tune_decoded *d, tern_buf *out, tern_error *err)
{
    TERN_TRY(tern_buf_addf(out, err, "    {\"model\": "));
    TERN_TRY(tern_json_add_string(out, d->model, strlen(d->model), err));
    return tern_buf_addf(out, err,
                         ", \"threads\": %u, \"default_tokens_per_second\": %.3f, \"tuned_tokens_per_second\": %.3f, "
                         "\"choices\": %u, \"left_out\": %u}",
                         d->n_threads, d->standard, d->tuned, d->n_choices, d->n_left_out);
}

tern_status tern_tune_cache_print(const tern_tune_cache *c, tern_buf *out, tern_error *err)
{
    TERN_TRY(
        tern_buf_addf(out, err, "{\n  \"format\": \"%s\",\n  \"version\": %d,\n  \"cpu\": ", format_name, VERSION));
    TERN_TRY(tern_json_add_string(out, c->cpu, strlen(c->cpu), err));
    TERN_TRY(tern_buf_addf(out, err, ",\n  \"build\": "));
    TERN_TRY(tern_json_add_string(out, c->build, strlen(c->build), err));
    TERN_TRY(tern_buf_addf(out, err, ",\n  \"choices\": ["));
    for (size_t i = 0; i < c->n; i++) {
        TERN_TRY(tern_buf_addf(out, err, "%s\n", i ? "," : ""));
        TERN_TRY(print_choice(&c->choices[i], &c->costs[i], out, err));
    }
    TERN_TRY(tern_buf_addf(out, err, "\n  ],\n  \"decode\": ["));
    for (size_t i = 0; i < c->n_decodes; i++) {
        TERN_TRY(tern_buf_addf(out, err, "%s\n", i ? "," : ""));
        TERN_TRY(print_decode(&c->decodes[i], out, err));
    }
    return tern_buf_addf(out, err, "\n  ]\n}\n");
}
