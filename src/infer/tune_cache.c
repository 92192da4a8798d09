/* The file of measured choices: JSON, read strictly, written always alike. */
#include "infer/tune_cache.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/show.h"
#include "format/json.h"

enum { VERSION = 1, MAX_THREADS = 1024 };
static const double max_microseconds = 1e9;
static const char format_name[] = "tern-tune";

void tern_tune_cache_deinit(tern_tune_cache *c)
{
    tern_free(c->cpu);
    tern_free(c->build);
    tern_free(c->choices);
    tern_free(c->costs);
    *c = (tern_tune_cache){0};
}

static tern_status init_n(tern_tune_cache *c, tern_span cpu, tern_span build, tern_error *err)
{
    *c = (tern_tune_cache){.cpu = tern_strndup((const char *)cpu.data, cpu.size),
                           .build = tern_strndup((const char *)build.data, build.size)};
    if (c->cpu && c->build) return TERN_OK;
    tern_tune_cache_deinit(c);
    return tern_fail_alloc(err, cpu.size + build.size);
}

tern_status tern_tune_cache_init(tern_tune_cache *c, const char *cpu, const char *build, tern_error *err)
{
    return init_n(c, (tern_span){(const uint8_t *)cpu, strlen(cpu)}, (tern_span){(const uint8_t *)build, strlen(build)},
                  err);
}

/* "dot", "rsr:6": letters, digits, a colon, a dash or an underscore. */
static bool is_kernel_name(const char *name)
{
    const size_t n = strnlen(name, TERN_KERNEL_NAME_BYTES);
    return n > 0 && n < TERN_KERNEL_NAME_BYTES && strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_-:") == n;
}

static bool is_time(double microseconds)
{
    return microseconds >= 0 && microseconds <= max_microseconds;
}

static tern_status check(const tern_kernel_choice *c, const tern_tune_cost *cost, tern_error *err)
{
    if (!is_kernel_name(c->kernel))
        return tern_fail(err, TERN_INVALID_ARGUMENT, "kernel \"%s\": a name as --kernel has it expected",
                         tern_show((tern_span){(const uint8_t *)c->kernel, strnlen(c->kernel, sizeof c->kernel)}).text);
    if (!c->encoding->ternary)
        return tern_fail(err, TERN_INVALID_ARGUMENT, "encoding %s: a ternary one expected", c->encoding->name);
    if (c->rows == 0 || c->cols == 0)
        return tern_fail(err, TERN_INVALID_ARGUMENT, "%u x %u: rows and columns expected", c->rows, c->cols);
    if (c->n_threads == 0 || c->n_threads > MAX_THREADS)
        return tern_fail(err, TERN_INVALID_ARGUMENT, "threads %u: 1 to %d expected", c->n_threads, MAX_THREADS);
    if (c->task_rows > TERN_KERNEL_MAX_TASK_ROWS)
        return tern_fail(err, TERN_INVALID_ARGUMENT, "task_rows %u: at most %d expected", c->task_rows,
                         TERN_KERNEL_MAX_TASK_ROWS);
    if (!is_time(cost->microseconds) || !is_time(cost->default_microseconds))
        return tern_fail(err, TERN_INVALID_ARGUMENT, "microseconds %g, default_microseconds %g: 0 to %g expected",
                         cost->microseconds, cost->default_microseconds, max_microseconds);
    return TERN_OK;
}

/* The place of this key; cache->n when there is none. */
static size_t find(const tern_tune_cache *cache, const tern_kernel_choice *k)
{
    size_t i = 0;
    for (; i < cache->n; i++) {
        const tern_kernel_choice *c = &cache->choices[i];
        if (c->encoding == k->encoding && c->rows == k->rows && c->cols == k->cols && c->n_threads == k->n_threads)
            break;
    }
    return i;
}

tern_status tern_tune_cache_add(tern_tune_cache *cache, const tern_kernel_choice *choice, const tern_tune_cost *cost,
                                tern_error *err)
{
    const size_t at = find(cache, choice);
    void *choices = cache->choices, *costs = cache->costs;
    TERN_TRY(check(choice, cost, err));
    if (at == TERN_TUNE_MAX_CHOICES) return tern_fail(err, TERN_LIMIT, "more than %d choices", TERN_TUNE_MAX_CHOICES);
    TERN_TRY(tern_grow(&choices, &cache->choices_cap, at + 1, sizeof *choice, err));
    cache->choices = choices;
    TERN_TRY(tern_grow(&costs, &cache->costs_cap, at + 1, sizeof *cost, err));
    cache->costs = costs;
    cache->choices[at] = *choice;
    cache->costs[at] = *cost;
    if (at == cache->n) cache->n++;
    return TERN_OK;
}

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
    return c->encoding ? TERN_OK
                       : tern_fail(err, TERN_MALFORMED, "encoding \"%s\": there is none", tern_show(name).text);
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

static tern_status read_choice(tern_tune_cache *cache, const json_t *o, tern_error *err)
{
    tern_kernel_choice c = {0};
    tern_tune_cost cost = {0};
    TERN_TRY(read_encoding(o, &c, err));
    TERN_TRY(tern_json_get_u32(o, "rows", &c.rows, err));
    TERN_TRY(tern_json_get_u32(o, "cols", &c.cols, err));
    TERN_TRY(tern_json_get_u32(o, "threads", &c.n_threads, err));
    TERN_TRY(read_kernel(o, &c, err));
    TERN_TRY(tern_json_get_u32(o, "task_rows", &c.task_rows, err));
    TERN_TRY(read_bytes(o, &cost.bytes, err));
    TERN_TRY(tern_json_get_f64(o, "microseconds", &cost.microseconds, err));
    TERN_TRY(tern_json_get_f64(o, "default_microseconds", &cost.default_microseconds, err));
    if (find(cache, &c) < cache->n)
        return tern_fail(err, TERN_MALFORMED, "%s, %u x %u, %u threads: there is a choice already", c.encoding->name,
                         c.rows, c.cols, c.n_threads);
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
    return init_n(out, cpu, build, err);
}

static tern_status read_all(const json_t *root, tern_tune_cache *out, tern_error *err)
{
    const json_t *list;
    TERN_TRY(read_head(root, out, err));
    TERN_TRY(tern_json_get_array(root, "choices", &list, err));
    for (size_t i = 0; i < json_array_size(list); i++)
        if (read_choice(out, json_array_get(list, i), err) != TERN_OK) return tern_error_prefix(err, "choices[%zu]", i);
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
    return tern_buf_addf(out, err,
                         "    {\"encoding\": \"%s\", \"rows\": %u, \"cols\": %u, \"threads\": %u, \"kernel\": \"%s\", "
                         "\"task_rows\": %u, "
                         "\"bytes\": %llu, \"microseconds\": %.3f, \"default_microseconds\": %.3f}",
                         c->encoding->name, c->rows, c->cols, c->n_threads, c->kernel, c->task_rows,
                         (unsigned long long)cost->bytes, cost->microseconds, cost->default_microseconds);
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
    return tern_buf_addf(out, err, "\n  ]\n}\n");
}

tern_status tern_tune_cache_check(const tern_tune_cache *c, const char *cpu, const char *build, tern_error *err)
{
    if (strcmp(c->cpu, cpu) != 0)
        return tern_fail(err, TERN_UNSUPPORTED, "measured on the CPU \"%s\", this one is \"%s\"",
                         tern_show_z(c->cpu).text, tern_show_z(cpu).text);
    if (strcmp(c->build, build) != 0)
        return tern_fail(err, TERN_UNSUPPORTED, "measured by the build \"%s\", this one is \"%s\"",
                         tern_show_z(c->build).text, tern_show_z(build).text);
    return TERN_OK;
}
