/* Chunks that blocks are cut from one after another; a chunk is freed with its last block. */
#include "backend/cpu/candidates/layout_memory.h"

#include "base/alloc.h"

static const uint64_t chunk_bytes = 32 << 20;

struct tern_cpu__chunk {
    uint8_t *data;
    uint64_t size, used;
    size_t n_blocks;
};

void tern_cpu__layout_memory_init(tern_cpu__layout_memory *m)
{
    *m = (tern_cpu__layout_memory){0};
    pthread_mutex_init(&m->lock, NULL);
}

static void chunk_free(tern_cpu__chunk *c)
{
    if (!c) return;
    tern_free_aligned(c->data);
    tern_free(c);
}

void tern_cpu__layout_memory_deinit(tern_cpu__layout_memory *m)
{
    chunk_free(m->current);
    pthread_mutex_destroy(&m->lock);
}

static tern_cpu__chunk *chunk_make(uint64_t bytes)
{
    tern_cpu__chunk *c = tern_calloc(1, sizeof *c);
    if (!c) return NULL;
    c->size = bytes > chunk_bytes ? bytes : chunk_bytes;
    c->data = c->size <= SIZE_MAX / 2 ? tern_alloc_aligned((size_t)c->size, 64) : NULL;
    if (c->data) return c;
    tern_free(c);
    return NULL;
}

static tern_cpu__chunk *find(tern_cpu__layout_memory *m, uint64_t bytes)
{
    if (m->current && bytes <= m->current->size - m->current->used) return m->current;
    tern_cpu__chunk *c = chunk_make(bytes);
    if (!c) return NULL;
    if (m->current && m->current->n_blocks == 0) chunk_free(m->current);
    return m->current = c;
}

tern_status tern_cpu__layout_alloc(tern_cpu__layout_memory *m, uint64_t bytes, tern_cpu__layout_block *out,
                                   tern_error *err)
{
    const uint64_t whole = (bytes + 63) / 64 * 64;
    pthread_mutex_lock(&m->lock);
    tern_cpu__chunk *c = find(m, whole);
    if (c) {
        *out = (tern_cpu__layout_block){.data = c->data + c->used, .chunk = c};
        c->used += whole;
        c->n_blocks++;
    }
    pthread_mutex_unlock(&m->lock);
    return c ? TERN_OK : tern_fail_alloc(err, bytes);
}

void tern_cpu__layout_free(tern_cpu__layout_memory *m, tern_cpu__layout_block *block)
{
    tern_cpu__chunk *c = block->chunk;
    *block = (tern_cpu__layout_block){0};
    if (!c) return;
    pthread_mutex_lock(&m->lock);
    const bool last = --c->n_blocks == 0;
    if (last) c->used = 0;
    if (last && c != m->current) chunk_free(c);
    pthread_mutex_unlock(&m->lock);
}
