/* Where choices are kept, and whether they hold here. */
#include "infer/tune/file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/open.h"
#include "base/build.h"
#include "base/cpu.h"
#include "base/file.h"
#include "base/show.h"
#include "tern/infer.h"

void tern_tune_key_of(tern_tune_key *key)
{
    char name[160], features[128];
    tern_cpu_name(name, sizeof name);
    tern_cpu_features_print(tern_cpu_features(), features, sizeof features);
    snprintf(key->cpu, sizeof key->cpu, "%s (%s)", name, features);
    tern_build_name(key->build, sizeof key->build);
}

tern_status tern_tune_path(char *path, size_t bytes, tern_error *err)
{
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    int n;
    TERN_NEED(path, err);
    if (cache && *cache == '/') n = snprintf(path, bytes, "%s/tern/tune.json", cache);
    else if (home && *home == '/') n = snprintf(path, bytes, "%s/.cache/tern/tune.json", home);
    else return tern_fail(err, TERN_NOT_FOUND, "no cache folder: XDG_CACHE_HOME or HOME has to be an absolute path");
    if (n > 0 && (size_t)n < bytes) return TERN_OK;
    return tern_fail(err, TERN_LIMIT, "path of choices: %d bytes, room for %zu", n + 1, bytes);
}

tern_status tern_tune_check(const char *path, tern_error *err)
{
    tern_tune_cache choices;
    TERN_NEED(path, err);
    TERN_TRY(tern_tune_file_read(&choices, path, err));
    tern_tune_cache_deinit(&choices);
    return TERN_OK;
}

static tern_status check_kernels(const tern_tune_cache *c, tern_error *err)
{
    for (size_t i = 0; i < c->n; i++)
        if (tern_backend_kernel_check(c->choices[i].kernel, c->choices[i].device[0] != 0, err) != TERN_OK) {
            tern_error_prefix(err, "choices[%zu]", i);
            return err->code = TERN_MALFORMED;
        }
    return TERN_OK;
}

static tern_status check(const tern_tune_cache *cache, tern_error *err)
{
    tern_tune_key key;
    tern_tune_key_of(&key);
    TERN_TRY(tern_tune_cache_check(cache, key.cpu, key.build, err));
    return check_kernels(cache, err);
}

tern_status tern_tune_file_check(const tern_tune_cache *cache, tern_error *err)
{
    tern_error local = {0};
    return check(cache, err ? err : &local);
}

static tern_status read_any(tern_tune_cache *out, const char *path, tern_error *err)
{
    tern_buf text = {0};
    tern_status status = tern_file_read(&text, path, TERN_TUNE_MAX_FILE, err);
    if (status == TERN_OK) {
        status = tern_tune_cache_parse(out, text.data, text.size, err);
        if (status != TERN_OK) tern_error_prefix(err, "%s", tern_show_z(path).text);
    }
    tern_buf_deinit(&text);
    return status;
}

tern_status tern_tune_file_read_any(tern_tune_cache *out, const char *path, tern_error *err)
{
    tern_error local = {0};
    *out = (tern_tune_cache){0};
    return read_any(out, path, err ? err : &local);
}

tern_status tern_tune_file_read(tern_tune_cache *out, const char *path, tern_error *err)
{
    tern_error local = {0}, *e = err ? err : &local;
    TERN_TRY(tern_tune_file_read_any(out, path, e));
    const tern_status status = check(out, e);
    if (status == TERN_OK) return TERN_OK;
    tern_tune_cache_deinit(out);
    return tern_error_prefix(e, "%s", tern_show_z(path).text);
}

tern_status tern_tune_file_try(const char *path, tern_error *err)
{
    tern_file_writer w = {0};
    tern_folders_make(path);
    const tern_status status = tern_file_writer_open(&w, path, err);
    tern_file_writer_abort(&w);
    return status;
}

static tern_status write(const tern_tune_cache *cache, const char *path, tern_error *err)
{
    tern_buf text = {0};
    tern_status status = tern_tune_cache_print(cache, &text, err);
    tern_folders_make(path);
    if (status == TERN_OK) status = tern_file_write(path, text.data, text.size, err);
    tern_buf_deinit(&text);
    return status;
}

tern_status tern_tune_file_add(const tern_tune_cache *made, const char *path, tern_error *err)
{
    tern_tune_cache all;
    tern_error why = {0};
    tern_status status = tern_tune_file_read(&all, path, &why);
    if (status == TERN_IO || status == TERN_OUT_OF_MEMORY) return tern_fail(err, status, "%s", why.message);
    if (status != TERN_OK) status = tern_tune_cache_init(&all, made->cpu, made->build, err);
    if (status == TERN_OK) status = tern_tune_cache_merge(&all, made, err);
    if (status == TERN_OK) status = write(&all, path, err);
    tern_tune_cache_deinit(&all);
    return status;
}
