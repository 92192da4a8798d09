/* Checkpoints of a run: the trainer's states, how far it is, and what must be alike when it goes on. */
#include <dirent.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "format/json.h"
#include "train/run/internal.h"

static const tern_state kept_states[] = {TERN_STATE_MASTER, TERN_STATE_M, TERN_STATE_V};
static const char *const state_words[] = {"master", "m", "v"};
enum { N_KEPT = 3 };

/* The items of a checkpoint, and where the trainer has them. */
typedef struct items {
    const tern_run *run;
    tern_checkpoint_item *items;
    struct item_state {
        size_t tensor;
        tern_state state;
    } * item_states;
    size_t n;
} items;

static void free_items(items *x)
{
    tern_free(x->items);
    tern_free(x->item_states);
}

/* `n_states` of the kept ones: 1 is the masters alone. */
static tern_status list_items(items *x, const tern_run *run, size_t n_states, tern_error *err)
{
    const size_t n = tern_trainer_n_tensors(run->trainer);
    *x = (items){.run = run, .items = tern_calloc(n * n_states, sizeof *x->items)};
    x->item_states = tern_calloc(n * n_states, sizeof *x->item_states);
    if (!x->items || !x->item_states) return tern_fail_alloc(err, n * n_states * sizeof *x->items);
    for (size_t i = 0; i < n; i++) {
        const tern_trainer_tensor *t = tern_trainer_tensor_at(run->trainer, i);
        for (size_t k = 0; k < n_states; k++) {
            const tern_dtype dtype = t->dtype[kept_states[k]];
            if (dtype == TERN_DTYPE_U32) continue;
            tern_checkpoint_item *item = &x->items[x->n];
            *item = (tern_checkpoint_item){.dtype = dtype, .rows = t->rows, .cols = t->cols};
            snprintf(item->name, sizeof item->name, "%s.%s", state_words[k], t->name);
            x->item_states[x->n++] = (struct item_state){i, kept_states[k]};
        }
    }
    return TERN_OK;
}

static tern_status read_item(void *context, size_t i, void *bytes, tern_error *err)
{
    const items *x = context;
    return tern_trainer_read(x->run->trainer, x->item_states[i].tensor, x->item_states[i].state, bytes, err);
}

/* JSON has no infinity. */
static json_t *json_number(double v)
{
    return isfinite(v) ? json_real(v) : json_null();
}

static json_t *describe_run(const tern_run *run)
{
    const json_int_t step = (json_int_t)tern_trainer_steps(run->trainer);
    return json_pack("{s:i, s:I, s:I, s:I, s:o, s:I, s:i, s:s, s:I, s:O}", "version", 1, "step", step, "n_steps",
                     (json_int_t)run->params.n_steps, "tokens", (json_int_t)run->n_tokens, "best_loss",
                     json_number(run->best_loss), "best_step", (json_int_t)run->best_step, "worse", (int)run->n_worse,
                     "backend", run->backend->info.name, "warmup", (json_int_t)run->params.n_warmup, "settings",
                     run->settings);
}

/* Another rank than the first sends what it has of each item. */
static tern_status send_state(const tern_run *run, size_t n_states, tern_error *err)
{
    items x;
    tern_status status;
    TERN_GOTO(list_items(&x, run, n_states, err));
    for (size_t i = 0; i < x.n; i++)
        if (x.item_states[i].state != TERN_STATE_MASTER) TERN_GOTO(read_item(&x, i, NULL, err));
fail:
    free_items(&x);
    return status;
}

static tern_status write_state(const tern_run *run, const char *path, size_t n_states, tern_error *err)
{
    if (!tern_run__is_first(run)) return send_state(run, n_states, err);
    items x;
    json_t *about = describe_run(run);
    tern_status status = about ? list_items(&x, run, n_states, err) : tern_fail_alloc(err, sizeof(json_t));
    if (!about) return status;
    const tern_checkpoint_source source = {.run = about, .items = x.items, .n = x.n, .read = read_item, .context = &x};
    if (status == TERN_OK) status = tern_checkpoint_write(path, &source, err);
    json_decref(about);
    free_items(&x);
    return status;
}

/* ---- the best weights lie beside it, by their step */

static char *best_path(const tern_run *run, uint64_t step)
{
    char name[64];
    snprintf(name, sizeof name, "best-%llu.safetensors", (unsigned long long)step);
    return tern_path_join(run->checkpoint_dir, name);
}

/* Once a checkpoint that knows the best ones is there, all others may go. */
static void remove_other_best(const tern_run *run)
{
    DIR *dir = opendir(run->checkpoint_dir);
    for (const struct dirent *e; dir && (e = readdir(dir));) {
        char *end;
        if (strncmp(e->d_name, "best-", 5) != 0) continue;
        const uint64_t step = strtoull(e->d_name + 5, &end, 10);
        if (strcmp(end, ".safetensors") != 0 || step == run->best_step) continue;
        char *path = best_path(run, step);
        if (path) unlink(path);
        tern_free(path);
    }
    if (dir) closedir(dir);
}

tern_status tern_run__save_best(tern_run *run, tern_error *err)
{
    char *path = best_path(run, run->best_step);
    tern_status status = path ? write_state(run, path, 1, err) : tern_fail_alloc(err, strlen(run->checkpoint_dir));
    tern_free(path);
    return status;
}

tern_status tern_run__save(tern_run *run, tern_error *err)
{
    const uint64_t step = tern_trainer_steps(run->trainer);
    if (tern_run__is_first(run)) TERN_TRY(tern_run__flush_curve(run, err));
    TERN_TRY(write_state(run, run->state_path, N_KEPT, err));
    if (tern_run__is_first(run)) remove_other_best(run);
    TERN_TRY(tern_run__wait_for_first(run, err)); /* none may end while it writes */
    run->saved_step = step;
    run->saved_at = tern_run__seconds();
    tern_run__emit(run, (tern_finetune_event){.kind = TERN_FINETUNE_SAVED, .text = run->state_path});
    return TERN_OK;
}

/* ---- going on */

static tern_status compare_setting(const char *name, const json_t *found, const json_t *want, tern_error *err)
{
    static const char advice[] = "a run goes on as it began; leave --resume out to begin anew";
    const char *was = json_string_value(found), *is = json_string_value(want);
    if (was && is && strcmp(was, is) == 0) return TERN_OK;
    if (strcmp(name, "model") == 0 || strcmp(name, "data") == 0 || strcmp(name, "val-data") == 0 ||
        strcmp(name, "config") == 0)
        return tern_fail(err, TERN_INVALID_ARGUMENT,
                         "the checkpoint was made with another %s (fingerprint %s, %s found): %s", name,
                         was ? was : "none", is ? is : "none", advice);
    return tern_fail(err, TERN_INVALID_ARGUMENT, "the checkpoint was made with --%s %s, %s found: %s", name,
                     was ? was : "(not given)", is ? is : "(not given)", advice);
}

static tern_status compare_settings(const tern_run *run, const json_t *about, tern_error *err)
{
    const json_t *found = NULL;
    const char *name;
    json_t *value;
    TERN_TRY(tern_json_get_object(about, "settings", &found, err));
    json_object_foreach(run->settings, name, value)
        TERN_TRY(compare_setting(name, json_object_get(found, name), value, err));
    json_object_foreach((json_t *)(uintptr_t)found, name, value)
        TERN_TRY(compare_setting(name, value, json_object_get(run->settings, name), err));
    return TERN_OK;
}

static tern_status get_u64(const json_t *about, const char *key, uint64_t *out, tern_error *err)
{
    int64_t v = 0;
    TERN_TRY(tern_json_get_i64(about, key, &v, err));
    if (v < 0) return tern_fail(err, TERN_MALFORMED, "%s: %lld found, 0 or more expected", key, (long long)v);
    *out = (uint64_t)v;
    return TERN_OK;
}

static tern_status read_progress(tern_run *run, const json_t *about, tern_error *err)
{
    uint64_t n_steps = 0, worse = 0;
    run->best_loss = INFINITY;
    TERN_TRY(get_u64(about, "step", &run->saved_step, err));
    TERN_TRY(get_u64(about, "n_steps", &n_steps, err));
    TERN_TRY(get_u64(about, "tokens", &run->n_tokens, err));
    TERN_TRY(get_u64(about, "best_step", &run->best_step, err));
    TERN_TRY(get_u64(about, "worse", &worse, err));
    if (tern_json_has(about, "best_loss")) TERN_TRY(tern_json_get_f64(about, "best_loss", &run->best_loss, err));
    if (run->o->warmup < 0) TERN_TRY(get_u64(about, "warmup", &run->params.n_warmup, err));
    run->n_worse = (uint32_t)worse;
    if (n_steps != run->params.n_steps)
        tern_run__note(run, "%llu steps instead of %llu: the rest is another run than it would have been",
                       (unsigned long long)run->params.n_steps, (unsigned long long)n_steps);
    const char *backend = json_string_value(json_object_get(about, "backend"));
    if (backend && strcmp(backend, run->backend->info.name) != 0)
        tern_run__note(run, "a run that began on %s continues on %s: losses differ in their last digits", backend,
                       run->backend->info.name);
    return TERN_OK;
}

tern_status tern_run__read_checkpoint(tern_run *run, const json_t *about, tern_error *err)
{
    TERN_TRY(compare_settings(run, about, err));
    return read_progress(run, about, err);
}

tern_status tern_run__find_checkpoint(tern_run *run, tern_error *err)
{
    run->best_loss = INFINITY;
    if (!run->o->resume) return TERN_OK;
    TERN_TRY(tern_checkpoint_open(&run->checkpoint, run->state_path, err));
    tern_status status = tern_run__read_checkpoint(run, tern_checkpoint_run(run->checkpoint), err);
    return status == TERN_NOT_FOUND || status == TERN_MALFORMED ? tern_error_prefix(err, "%s", run->state_path)
                                                                : status;
}

static tern_status load_items(tern_run *run, const tern_checkpoint *checkpoint, size_t n_states, tern_error *err)
{
    items x;
    tern_status status = list_items(&x, run, n_states, err);
    for (size_t i = 0; status == TERN_OK && i < x.n; i++) {
        const uint8_t *bytes = NULL;
        status = tern_checkpoint_find(checkpoint, &x.items[i], &bytes, err);
        if (status == TERN_OK)
            status = tern_trainer_write(run->trainer, x.item_states[i].tensor, x.item_states[i].state, bytes, err);
    }
    free_items(&x);
    return status;
}

tern_status tern_run__restore(tern_run *run, tern_error *err)
{
    if (!run->checkpoint) return TERN_OK;
    TERN_TRY(load_items(run, run->checkpoint, N_KEPT, err));
    tern_checkpoint_close(run->checkpoint);
    run->checkpoint = NULL;
    return tern_trainer_sync(run->trainer, run->saved_step, err);
}

tern_status tern_run__restore_best(tern_run *run, tern_error *err)
{
    const uint64_t step = tern_trainer_steps(run->trainer);
    if (!run->validation || !isfinite(run->best_loss) || run->best_step == step) return TERN_OK;
    tern_checkpoint *best = NULL;
    char *path = best_path(run, run->best_step);
    tern_status status;
    TERN_GOTO(path ? tern_checkpoint_open(&best, path, err) : tern_fail_alloc(err, 64));
    TERN_GOTO(load_items(run, best, 1, err));
    TERN_GOTO(tern_trainer_sync(run->trainer, step, err));
fail:
    tern_checkpoint_close(best);
    tern_free(path);
    return status;
}
