/* The adapters of a server's first model. */
#include "serve/models/loras.h"

#include <string.h>

#include "base/alloc.h"
#include "base/show.h"
#include "serve/models/host.h"

static void free_lora(tern_served_lora *l)
{
    if (!l) return;
    tern_lora_close(l->lora);
    tern_free(l->name);
    tern_free(l->path);
    tern_free(l);
}

static tern_status make_lora(tern_served_lora **out, const char *name, const char *path, tern_error *err)
{
    tern_served_lora *l = tern_calloc(1, sizeof *l);
    *out = l;
    if (!l) return tern_fail_alloc(err, sizeof *l);
    l->name = tern_strdup(name);
    l->path = tern_strdup(path);
    if (l->name && l->path) return TERN_OK;
    free_lora(l);
    *out = NULL;
    return tern_fail_alloc(err, strlen(name) + strlen(path));
}

/* With the lock: at the end of the list. */
static void append_lora(tern_loras *loras, tern_served_lora *l)
{
    tern_served_lora **at = &loras->first;
    while (*at) at = &(*at)->next;
    *at = l;
    l->next = NULL;
}

static void detach(tern_loras *loras, const tern_served_lora *l)
{
    tern_served_lora **at = &loras->first;
    while (*at != l) at = &(*at)->next;
    *at = l->next;
}

static void list_lora(tern_loras *loras, tern_served_lora *l)
{
    append_lora(loras, l);
    l->id = loras->n_ids++;
    l->listed = true;
    loras->n_listed++;
}

static void unlist_lora(tern_loras *loras, tern_served_lora *l)
{
    l->listed = false;
    loras->n_listed--;
}

tern_status tern_loras_init(tern_loras *loras, const tern_serve_named *given, uint32_t n, tern_error *err)
{
    pthread_mutex_init(&loras->lock, NULL);
    for (uint32_t i = 0; i < n; i++) {
        tern_served_lora *l;
        TERN_TRY(make_lora(&l, given[i].name, given[i].path, err));
        list_lora(loras, l);
    }
    return TERN_OK;
}

void tern_loras_deinit(tern_loras *loras)
{
    for (tern_served_lora *l = loras->first, *next; l; l = next) {
        next = l->next;
        free_lora(l);
    }
    loras->first = NULL;
    pthread_mutex_destroy(&loras->lock);
}

/* With the lock; NULL: none. */
static tern_served_lora *find(tern_loras *loras, const char *name)
{
    for (tern_served_lora *l = loras->first; l; l = l->next)
        if (l->listed && tern_host_is_name(l->name, name)) return l;
    return NULL;
}

static tern_served_lora *find_id(tern_loras *loras, uint32_t id)
{
    for (tern_served_lora *l = loras->first; l; l = l->next)
        if (l->listed && l->id == id) return l;
    return NULL;
}

static void acquire(tern_served_use *uses, uint32_t *n, tern_served_lora *l, float scale)
{
    l->n_answers++;
    uses[(*n)++] = (tern_served_use){l, scale};
}

uint32_t tern_loras_acquire(tern_loras *loras, const char *name, tern_served_use *uses)
{
    uint32_t n = 0;
    pthread_mutex_lock(&loras->lock);
    tern_served_lora *l = find(loras, name);
    if (l) acquire(uses, &n, l, 1);
    pthread_mutex_unlock(&loras->lock);
    return n;
}

static bool is_scaled(float scale)
{
    return scale < 0 || scale > 0;
}

uint32_t tern_loras_acquire_scaled(tern_loras *loras, tern_served_use *uses)
{
    uint32_t n = 0;
    pthread_mutex_lock(&loras->lock);
    for (tern_served_lora *l = loras->first; l; l = l->next)
        if (l->listed && is_scaled(l->scale)) acquire(uses, &n, l, l->scale);
    pthread_mutex_unlock(&loras->lock);
    return n;
}

static tern_status check_ids(tern_loras *loras, const tern_lora_scale *scales, uint32_t n, tern_error *err)
{
    for (uint32_t i = 0; i < n; i++)
        if (!find_id(loras, scales[i].id))
            return tern_fail(err, TERN_INVALID_ARGUMENT,
                             "lora: %u found, the id of an adapter of /lora-adapters expected", scales[i].id);
    return TERN_OK;
}

tern_status tern_loras_acquire_ids(tern_loras *loras, const tern_lora_scale *scales, uint32_t n, tern_served_use *uses,
                                   uint32_t *n_uses, tern_error *err)
{
    *n_uses = 0;
    pthread_mutex_lock(&loras->lock);
    const tern_status status = check_ids(loras, scales, n, err);
    for (uint32_t i = 0; status == TERN_OK && i < n; i++)
        if (is_scaled(scales[i].scale)) acquire(uses, n_uses, find_id(loras, scales[i].id), scales[i].scale);
    pthread_mutex_unlock(&loras->lock);
    return status;
}

void tern_loras_release(tern_loras *loras, const tern_served_use *uses, uint32_t n)
{
    if (!n) return;
    pthread_mutex_lock(&loras->lock);
    for (uint32_t i = 0; i < n; i++) uses[i].lora->n_answers--;
    pthread_mutex_unlock(&loras->lock);
}

tern_status tern_loras_scale(tern_loras *loras, const tern_lora_scale *scales, uint32_t n, tern_error *err)
{
    pthread_mutex_lock(&loras->lock);
    const tern_status status = check_ids(loras, scales, n, err);
    for (tern_served_lora *l = loras->first; status == TERN_OK && l; l = l->next) l->scale = 0;
    for (uint32_t i = 0; status == TERN_OK && i < n; i++) find_id(loras, scales[i].id)->scale = scales[i].scale;
    pthread_mutex_unlock(&loras->lock);
    return status;
}

void tern_loras_each(tern_loras *loras, void (*each)(void *context, const tern_served_lora *lora), void *context)
{
    pthread_mutex_lock(&loras->lock);
    for (tern_served_lora *l = loras->first; l; l = l->next)
        if (l->listed) each(context, l);
    pthread_mutex_unlock(&loras->lock);
}

tern_lora *tern_loras_get(tern_loras *loras, const tern_served_lora *l)
{
    pthread_mutex_lock(&loras->lock);
    tern_lora *lora = l->lora;
    pthread_mutex_unlock(&loras->lock);
    return lora;
}

static void set_adapter(tern_loras *loras, tern_served_lora *l, tern_lora *lora)
{
    pthread_mutex_lock(&loras->lock);
    l->lora = lora;
    pthread_mutex_unlock(&loras->lock);
}

tern_status tern_loras_load(tern_loras *loras, tern_served_lora *l, tern_engine *engine, tern_error *err)
{
    tern_lora *lora;
    if (tern_loras_get(loras, l)) return TERN_OK;
    if (tern_lora_load(&lora, engine, l->path, err) != TERN_OK)
        return tern_error_prefix(err, "the adapter %s", tern_show_z(l->name).text);
    set_adapter(loras, l, lora);
    return TERN_OK;
}

/* With the lock. */
static tern_status check_name(tern_loras *loras, const char *name, bool replaces, tern_error *err)
{
    const bool taken = find(loras, name) != NULL;
    if (taken && !replaces)
        return tern_fail(err, TERN_INVALID_ARGUMENT,
                         "lora_name: an adapter \"%s\" is loaded already; \"load_inplace\": true replaces it",
                         tern_show_z(name).text);
    if (!taken && loras->n_listed >= TERN_SERVE_MAX_LORAS)
        return tern_fail(err, TERN_INVALID_ARGUMENT, "%u adapters are loaded already, at most %d expected",
                         loras->n_listed, TERN_SERVE_MAX_LORAS);
    return TERN_OK;
}

tern_status tern_loras_add(tern_loras *loras, const char *name, const char *path, bool replaces,
                           tern_served_lora **lora, tern_error *err)
{
    tern_served_lora *l;
    TERN_TRY(make_lora(&l, name, path, err));
    pthread_mutex_lock(&loras->lock);
    const tern_status status = check_name(loras, name, replaces, err);
    if (status == TERN_OK) {
        l->n_answers = 1;
        append_lora(loras, l);
    }
    pthread_mutex_unlock(&loras->lock);
    if (status == TERN_OK) *lora = l;
    else free_lora(l);
    return status;
}

tern_status tern_loras_publish(tern_loras *loras, tern_served_lora *l, bool replaces, tern_error *err)
{
    pthread_mutex_lock(&loras->lock);
    const tern_status status = check_name(loras, l->name, replaces, err); /* another may have come meanwhile */
    if (status == TERN_OK) {
        tern_served_lora *before = find(loras, l->name);
        if (before) {
            unlist_lora(loras, before);
            l->scale = before->scale;
        }
        detach(loras, l);
        list_lora(loras, l);
    }
    pthread_mutex_unlock(&loras->lock);
    return status;
}

tern_status tern_loras_remove(tern_loras *loras, const char *name, tern_error *err)
{
    pthread_mutex_lock(&loras->lock);
    tern_served_lora *l = find(loras, name);
    if (l) unlist_lora(loras, l);
    pthread_mutex_unlock(&loras->lock);
    return l ? TERN_OK
             : tern_fail(err, TERN_NOT_FOUND, "lora_name: no adapter \"%s\" is loaded", tern_show_z(name).text);
}

void tern_loras_reap(tern_loras *loras)
{
    tern_served_lora *gone = NULL;
    pthread_mutex_lock(&loras->lock);
    for (tern_served_lora **at = &loras->first; *at;) {
        tern_served_lora *l = *at;
        if (l->listed || l->n_answers) {
            at = &l->next;
            continue;
        }
        *at = l->next;
        l->next = gone;
        gone = l;
    }
    pthread_mutex_unlock(&loras->lock);
    for (tern_served_lora *l = gone, *next; l; l = next) {
        next = l->next;
        free_lora(l);
    }
}

void tern_loras_close(tern_loras *loras)
{
    tern_loras_reap(loras);
    /* Nothing is added, read or freed but by this thread now. */
    for (tern_served_lora *l = loras->first; l; l = l->next) {
        tern_lora_close(l->lora);
        set_adapter(loras, l, NULL);
    }
}
