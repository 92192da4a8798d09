/* Reading adapters beside the steps of their model. */
#include "serve/models/lora_reader.h"

#include "serve/server.h"

static void read_loras(tern_host *h, tern_answer *a)
{
    tern_loras *loras = &h->server->loras;
    for (uint32_t i = 0; i < a->n_loras && a->error.code == TERN_OK; i++)
        (void)tern_loras_load(loras, a->served[i].lora, h->engine, &a->error);
}

static void *read_submitted(void *host)
{
    tern_host *h = host;
    tern_lora_reader *l = &h->reader;
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
            read_loras(h, a);
            pthread_mutex_lock(&h->lock);
        }
        l->n--;
        tern_host__enqueue(h, a);
    }
    pthread_mutex_unlock(&h->lock);
    return NULL;
}

tern_status tern_lora_reader_submit(tern_host *h, tern_answer *a, tern_error *err)
{
    tern_lora_reader *l = &h->reader;
    pthread_mutex_lock(&h->lock);
    if (!l->started) {
        l->end = &l->first;
        l->started = pthread_create(&l->thread, NULL, read_submitted, h) == 0;
    }
    const bool started = l->started;
    if (started) {
        a->next = NULL;
        *l->end = a;
        l->end = &a->next;
        l->n++;
        pthread_cond_broadcast(&h->changed);
    }
    pthread_mutex_unlock(&h->lock);
    return started ? TERN_OK : tern_fail(err, TERN_OUT_OF_MEMORY, "no thread to read adapters of %s", h->name);
}

void tern_lora_reader_drain(tern_host *h)
{
    pthread_mutex_lock(&h->lock);
    while (h->reader.n) pthread_cond_wait(&h->changed, &h->lock);
    pthread_mutex_unlock(&h->lock);
}

void tern_lora_reader_close(tern_host *h)
{
    if (!h->reader.started) return;
    pthread_mutex_unlock(&h->lock);
    pthread_join(h->reader.thread, NULL);
    pthread_mutex_lock(&h->lock);
    h->reader.started = false;
}
