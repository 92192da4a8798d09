/* Reading adapters, and making grammars and prompts, beside the steps of their model. */
#include "serve/models/helper.h"

#include "serve/server.h"

static void read_loras(tern_host *h, tern_answer *a)
{
    tern_loras *loras = &h->server->loras;
    for (uint32_t i = 0; i < a->n_loras && a->error.code == TERN_OK; i++)
        (void)tern_loras_load(loras, a->served[i].lora, h->engine, &a->error);
}

static void prepare(tern_host *h, tern_answer *a)
{
    (void)tern_answer_prepare(a, h, &a->error);
}

void tern_helpers_init(tern_host *h)
{
    h->helpers[TERN_WAITS_FOR_LORAS].work = read_loras;
    h->helpers[TERN_WAITS_FOR_PROMPTS].work = prepare;
    h->helpers[TERN_WAITS_FOR_GRAMMAR].work = prepare;
    for (unsigned i = 0; i < TERN_N_HELPERS; i++) {
        h->helpers[i].host = h;
        h->helpers[i].end = &h->helpers[i].first;
    }
}

static void *run(void *helper)
{
    tern_helper *l = helper;
    tern_host *h = l->host;
    pthread_mutex_lock(&h->lock);
    while (!h->stopping || l->first) {
        tern_answer *a = l->first;
        if (!a) {
            pthread_cond_wait(&h->changed, &h->lock);
            continue;
        }
        l->first = a->next;
        if (!l->first) l->end = &l->first;
        if (!h->stopping && !tern_exchange_is_gone(a->exchange)) {
            pthread_mutex_unlock(&h->lock);
            l->work(h, a);
            pthread_mutex_lock(&h->lock);
        }
        l->n--;
        tern_host__enqueue(h, a);
    }
    pthread_mutex_unlock(&h->lock);
    return NULL;
}

tern_status tern_helper_submit(tern_host *h, tern_answer *a, tern_error *err)
{
    tern_helper *l = &h->helpers[a->waits];
    pthread_mutex_lock(&h->lock);
    if (!l->started) l->started = pthread_create(&l->thread, NULL, run, l) == 0;
    const bool started = l->started;
    if (started) {
        a->next = NULL;
        *l->end = a;
        l->end = &a->next;
        l->n++;
        pthread_cond_broadcast(&h->changed);
    }
    pthread_mutex_unlock(&h->lock);
    return started ? TERN_OK : tern_fail(err, TERN_OUT_OF_MEMORY, "no thread to prepare answers of %s", h->name);
}

uint32_t tern_helpers_count(const tern_host *h)
{
    uint32_t n = 0;
    for (unsigned i = 0; i < TERN_N_HELPERS; i++) n += h->helpers[i].n;
    return n;
}

void tern_helpers_drain(tern_host *h)
{
    pthread_mutex_lock(&h->lock);
    while (tern_helpers_count(h)) pthread_cond_wait(&h->changed, &h->lock);
    pthread_mutex_unlock(&h->lock);
}

void tern_helpers_close(tern_host *h)
{
    pthread_mutex_unlock(&h->lock);
    for (unsigned i = 0; i < TERN_N_HELPERS; i++) {
        if (h->helpers[i].started) pthread_join(h->helpers[i].thread, NULL);
        h->helpers[i].started = false;
    }
    pthread_mutex_lock(&h->lock);
}
