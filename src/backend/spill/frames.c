/* Frames: places on a device for pages of keys and values, and whose page makes way for another one. */
#include "backend/spill/frames.h"

#include <assert.h>

#include "base/alloc.h"

/* The order of eviction: free frames; pages that the last turn of their layer did not need, and those of layers that
 * are not in the step; then what is needed latest, of each layer first what need not be copied back. */
enum { STAGE_FREE, STAGE_STALE, STAGE_LATEST, STAGE_NONE };

tern_status tern_frames_init(tern_frames *f, uint32_t n, tern_error *err)
{
    *f = (tern_frames){.n = n};
    f->frames = tern_calloc(n + 1, sizeof *f->frames);
    f->free = tern_calloc(n + 1, sizeof *f->free);
    if (!f->frames || !f->free) {
        tern_frames_deinit(f);
        return tern_fail_alloc(err, n * (sizeof *f->frames + sizeof *f->free));
    }
    while (n) f->free[f->n_free++] = --n;
    return TERN_OK;
}

void tern_frames_deinit(tern_frames *f)
{
    tern_free(f->frames);
    tern_free(f->free);
    *f = (tern_frames){0};
}

tern_status tern_frames_add(tern_frames *f, tern_spill_layer *layer, uint32_t n_pages, tern_error *err)
{
    *layer = (tern_spill_layer){.n_pages = n_pages};
    layer->frame_of = tern_calloc(n_pages, sizeof *layer->frame_of);
    layer->needed = tern_calloc(n_pages, sizeof *layer->needed);
    if (!layer->frame_of || !layer->needed) {
        tern_free(layer->frame_of);
        tern_free(layer->needed);
        *layer = (tern_spill_layer){0};
        return tern_fail_alloc(err, 2 * n_pages * sizeof *layer->needed);
    }
    for (uint32_t i = 0; i < n_pages; i++) layer->frame_of[i] = TERN_NO_FRAME;
    layer->next = f->layers;
    layer->self = &f->layers;
    if (layer->next) layer->next->self = &layer->next;
    f->layers = layer;
    return TERN_OK;
}

void tern_frames_remove(tern_frames *f, tern_spill_layer *layer)
{
    if (!layer->self) return;
    for (uint32_t i = 0; i < layer->n_pages; i++)
        if (layer->frame_of[i] != TERN_NO_FRAME) tern_frames_drop(f, layer, i);
    *layer->self = layer->next;
    if (layer->next) layer->next->self = layer->self;
    tern_free(layer->frame_of);
    tern_free(layer->needed);
    *layer = (tern_spill_layer){0};
    f->search = (tern_frames_search){0};
}

void tern_frames_begin(tern_frames *f, tern_spill_layer *const *order, uint32_t n)
{
    f->order = order;
    f->n_order = n;
    f->cycle++;
    for (uint32_t i = 0; i < n; i++) {
        order[i]->cycle = f->cycle;
        order[i]->place = i;
    }
    tern_frames_keep(f, 0, 0);
}

void tern_frames_keep(tern_frames *f, uint32_t at, uint32_t n)
{
    f->at = at;
    f->n_busy = n;
    f->search = (tern_frames_search){0};
}

void tern_frames_turn(tern_spill_layer *layer)
{
    layer->turn++;
    layer->n_fresh = 0;
}

bool tern_frames_need(tern_spill_layer *layer, uint32_t page)
{
    assert(page < layer->n_pages);
    if (layer->needed[page] == layer->turn) return true;
    layer->needed[page] = layer->turn;
    layer->n_fresh += layer->frame_of[page] != TERN_NO_FRAME;
    return false;
}

static bool in_step(const tern_frames *f, const tern_spill_layer *layer)
{
    return layer->cycle == f->cycle && f->n_order;
}

/* The next page of the layer, from search.page on, that is stale, or as dirty as wanted. */
static uint32_t next_of(tern_frames *f, const tern_spill_layer *layer)
{
    tern_frames_search *s = &f->search;
    const bool all = !in_step(f, layer);
    for (; s->page < layer->n_pages; s->page++) {
        const uint32_t frame = layer->frame_of[s->page];
        if (frame == TERN_NO_FRAME) continue;
        const bool stale = all || layer->needed[s->page] != layer->turn;
        if (s->stage == STAGE_STALE ? stale : f->frames[frame].dirty == s->dirty) return frame;
    }
    return TERN_NO_FRAME;
}

static uint32_t next_stale(tern_frames *f)
{
    tern_frames_search *s = &f->search;
    for (; s->layer; s->layer = s->layer->next, s->page = 0) {
        if (in_step(f, s->layer) && s->layer->n_there == s->layer->n_fresh) continue;
        const uint32_t frame = next_of(f, s->layer);
        if (frame != TERN_NO_FRAME) return frame;
    }
    return TERN_NO_FRAME;
}

/* The layer before the one that runs was used last, so it is needed last of all; then the one before that. */
static uint32_t next_latest(tern_frames *f)
{
    tern_frames_search *s = &f->search;
    while (s->back + f->n_busy <= f->n_order) {
        const tern_spill_layer *layer = f->order[(f->at + f->n_order - s->back) % f->n_order];
        const uint32_t frame = layer->n_there ? next_of(f, layer) : TERN_NO_FRAME;
        if (frame != TERN_NO_FRAME) return frame;
        s->page = 0;
        s->back += s->dirty;
        s->dirty = !s->dirty;
    }
    return TERN_NO_FRAME;
}

static void next_stage(tern_frames *f)
{
    f->search = (tern_frames_search){.stage = f->search.stage + 1, .back = 1, .layer = f->layers};
}

uint32_t tern_frames_victim(tern_frames *f)
{
    for (; f->search.stage < STAGE_NONE; next_stage(f)) {
        uint32_t frame = TERN_NO_FRAME;
        switch (f->search.stage) {
        case STAGE_FREE: frame = f->n_free ? f->free[f->n_free - 1] : TERN_NO_FRAME; break;
        case STAGE_STALE: frame = next_stale(f); break;
        default: frame = next_latest(f); break;
        }
        if (frame != TERN_NO_FRAME) return frame;
    }
    return TERN_NO_FRAME;
}

/* The frame has no page. */
static void clear(tern_frames *f, uint32_t frame)
{
    tern_spill_layer *layer = f->frames[frame].layer;
    const uint32_t page = f->frames[frame].page;
    layer->n_there--;
    layer->n_fresh -= layer->needed[page] == layer->turn;
    layer->frame_of[page] = TERN_NO_FRAME;
    f->frames[frame] = (tern_frame){0};
}

void tern_frames_give(tern_frames *f, uint32_t frame, tern_spill_layer *layer, uint32_t page)
{
    assert(layer->frame_of[page] == TERN_NO_FRAME);
    if (f->frames[frame].layer) {
        clear(f, frame);
        f->evictions++;
    } else {
        assert(f->n_free && f->free[f->n_free - 1] == frame);
        f->n_free--;
    }
    f->frames[frame] = (tern_frame){.layer = layer, .page = page};
    layer->frame_of[page] = frame;
    layer->n_there++;
    layer->n_fresh += layer->needed[page] == layer->turn;
}

void tern_frames_drop(tern_frames *f, tern_spill_layer *layer, uint32_t page)
{
    const uint32_t frame = layer->frame_of[page];
    if (frame == TERN_NO_FRAME) return;
    clear(f, frame);
    f->free[f->n_free++] = frame;
    f->search = (tern_frames_search){0};
}
