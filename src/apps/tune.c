/* The file of choices: where it is, reading and writing it, and giving it to backends. */
#include "apps/tune.h"

#include <stdlib.h>
#include <string.h>

#include "backend/cpu/cpu.h"
#include "base/build.h"
#include "base/cpu.h"
#include "base/file.h"
#include "base/show.h"

enum { LEAST_COLD = 64 << 20, MOST_COLD = 1 << 30, DEFAULT_MS = 60 };

void tern_app_tune_key_of(tern_app_tune_key *key)
{
    char name[160], features[128];
    tern_cpu_name(name, sizeof name);
    tern_cpu_features_print(tern_cpu_features(), features, sizeof features);
    snprintf(key->cpu, sizeof key->cpu, "%s (%s)", name, features);
    tern_build_name(key->build, sizeof key->build);
}

tern_status tern_app_tune_path(tern_app_path *path, tern_error *err)
{
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    int n = -1;
    if (cache && *cache == '/') n = snprintf(path->text, sizeof path->text, "%s/tern/tune.json", cache);
    else if (home && *home == '/') n = snprintf(path->text, sizeof path->text, "%s/.cache/tern/tune.json", home);
    if (n > 0 && (size_t)n < sizeof path->text) return TERN_OK;
    return tern_fail(err, TERN_NOT_FOUND, "no cache folder: XDG_CACHE_HOME or HOME has to be an absolute path");
}

static tern_status check_kernels(const tern_tune_cache *c, tern_error *err)
{
    for (size_t i = 0; i < c->n; i++)
        if (tern_cpu_kernel_check(c->choices[i].kernel, err) != TERN_OK) {
            tern_error_prefix(err, "choices[%zu]", i);
            return err->code = TERN_MALFORMED;
        }
    return TERN_OK;
}

static tern_status read_checked(tern_tune_cache *out, const char *path, tern_error *err)
{
    tern_app_tune_key key;
    tern_buf text = {0};
    TERN_TRY(tern_file_read(&text, path, TERN_TUNE_MAX_FILE, err));
    tern_status status = tern_tune_cache_parse(out, text.data, text.size, err);
    tern_buf_deinit(&text);
    TERN_TRY(status);
    tern_app_tune_key_of(&key);
    TERN_TRY(tern_tune_cache_check(out, key.cpu, key.build, err));
    return check_kernels(out, err);
}

tern_status tern_app_tune_read(tern_tune_cache *out, const char *path, tern_error *err)
{
    *out = (tern_tune_cache){0};
    const tern_status status = read_checked(out, path, err);
    if (status == TERN_OK) return TERN_OK;
    tern_tune_cache_deinit(out);
    if (strncmp(err->message, path, strlen(path)) == 0) return status;
    return tern_error_prefix(err, "%s", tern_show_z(path).text);
}

tern_status tern_app_tune_write(const tern_tune_cache *cache, const char *path, tern_error *err)
{
    tern_buf text = {0};
    tern_file_writer w = {0};
    tern_status status = tern_tune_cache_print(cache, &text, err);
    if (status == TERN_OK) {
        tern_folders_make(path);
        status = tern_file_writer_open(&w, path, err);
    }
    if (status == TERN_OK) {
        tern_file_writer_add(&w, text.data, text.size);
        status = tern_file_writer_commit(&w, err);
    }
    tern_file_writer_abort(&w);
    tern_buf_deinit(&text);
    return status;
}

void tern_app_tuned(const tern_options *o, tern_backend_options *out)
{
    static tern_tune_cache cache; /* for all engines of this program; a second one says nothing anew */
    static bool looked;
    tern_app_path path;
    tern_error err = {0};
    const bool cpu = !o->backend || strcmp(o->backend, "cpu") == 0 || out->split;
    if (!cpu || o->kernel || o->no_tune || o->cpu_features) return;
    if (!looked && tern_app_tune_path(&path, &err) == TERN_OK && tern_file_exists(path.text) &&
        tern_app_tune_read(&cache, path.text, &err) != TERN_OK)
        fprintf(
            stderr,
            "tern: %s; default kernels are used (tern tune measures again, tern tune --reset takes the file away)\n",
            err.message);
    looked = true;
    out->choices = cache.choices;
    out->n_choices = cache.n;
}

tern_status tern_app_backends_open(tern_app_backends *out, const tern_options *o, tern_error *err)
{
    uint32_t counts[TERN_TUNE_MAX_BACKENDS] = {1, tern_cpu_cores()}, n = counts[1] > 1 ? 2 : 1;
    tern_status status = TERN_OK;
    *out = (tern_app_backends){0};
    if (o->threads) TERN_TRY(tern_app_parse_list("threads", o->threads, 1024, counts, TERN_TUNE_MAX_BACKENDS, &n, err));
    for (uint32_t i = 0; i < n && status == TERN_OK; i++) {
        const tern_backend_options how = {.n_threads = counts[i], .pin = o->pin, .cpu_features = o->cpu_features};
        status = tern_backend_open(&out->at[i], &how, err);
        if (status == TERN_OK) out->n++;
    }
    if (status != TERN_OK) tern_app_backends_close(out);
    return status;
}

void tern_app_backends_close(tern_app_backends *b)
{
    for (uint32_t i = 0; i < b->n; i++) b->at[i]->close(b->at[i]);
    *b = (tern_app_backends){0};
}

uint64_t tern_app_cold_bytes(const tern_options *o)
{
    const uint64_t memory = tern_cpu_memory(), cache = tern_cpu_cache();
    uint64_t n = cache + cache / 3;
    if (o->cold_mib) return (uint64_t)o->cold_mib << 20;
    if (n < LEAST_COLD) n = LEAST_COLD;
    if (n > MOST_COLD) n = MOST_COLD;
    return memory && n > memory / 4 ? memory / 4 : n;
}

double tern_app_measure_seconds(const tern_options *o)
{
    return 1e-3 * (o->measure_ms ? o->measure_ms : DEFAULT_MS);
}
