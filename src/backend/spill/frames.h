/* Frames: places on a device for pages of keys and values, and whose page makes way for another one. Layers run one
 * after the other, again and again, so that what is needed last is known: what makes way is the page whose next use is
 * furthest ahead. */
#ifndef TERN_BACKEND_SPILL_FRAMES_H
#define TERN_BACKEND_SPILL_FRAMES_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

enum { TERN_NO_FRAME = UINT32_MAX };

/* The pages of one layer of a session. */
typedef struct tern_spill_layer {
    struct tern_spill_layer *next, **self; /* in the list of its frames */
    uint32_t n_pages;
    uint32_t *frame_of;    /* [n_pages] or TERN_NO_FRAME */
    uint32_t *needed;      /* [n_pages] the turn that last needed it */
    uint32_t turn;         /* counts the steps that it was in, from 1 on */
    uint32_t n_there;      /* pages with a frame */
    uint32_t n_fresh;      /* of them, those that its last turn needed */
    uint32_t cycle, place; /* the cycle that it was in last, and where */
} tern_spill_layer;

typedef struct tern_frame {
    tern_spill_layer *layer; /* NULL: free */
    uint32_t page;
    bool dirty; /* the device wrote it since it was last the same elsewhere */
} tern_frame;

/* Where the search for pages that make way stands. */
typedef struct tern_frames_search {
    uint32_t stage;
    const tern_spill_layer *layer; /* of the list of all; or so many places back in the step: */
    uint32_t back, page;
    bool dirty;
} tern_frames_search;

typedef struct tern_frames {
    uint32_t n, n_free;
    tern_frame *frames;             /* [n] */
    uint32_t *free;                 /* [n_free] those without a page, the next one last */
    tern_spill_layer *layers;       /* all that there are */
    tern_spill_layer *const *order; /* [n_order] the layers of the step that runs, as they run */
    uint32_t n_order, cycle;        /* which step that is */
    uint32_t at, n_busy;            /* layers [at, at + n_busy) keep what they need */
    tern_frames_search search;
    uint64_t evictions;
} tern_frames;

/* On failure there is nothing to free. Errors: OUT_OF_MEMORY. */
tern_status tern_frames_init(tern_frames *frames, uint32_t n, tern_error *err);
void tern_frames_deinit(tern_frames *frames); /* zeroed is fine */

/* A layer of which no page is there, which must outlive what the frames hold of it. On failure there is nothing to
 * free. Errors: OUT_OF_MEMORY. */
tern_status tern_frames_add(tern_frames *frames, tern_spill_layer *layer, uint32_t n_pages, tern_error *err);
/* Its frames are free; a zeroed layer is left alone. */
void tern_frames_remove(tern_frames *frames, tern_spill_layer *layer);

/* A step begins, in which these layers run in this order; they are borrowed until the next one. */
void tern_frames_begin(tern_frames *frames, tern_spill_layer *const *order, uint32_t n);
/* From here on the pages that layers [at, at + n) of the step need stay. */
void tern_frames_keep(tern_frames *frames, uint32_t at, uint32_t n);
/* The layer begins to need pages: none so far. */
void tern_frames_turn(tern_spill_layer *layer);
/* It needs this one. Returns whether it was needed already. */
bool tern_frames_need(tern_spill_layer *layer, uint32_t page);

/* A page that makes way for another: none that is kept; TERN_NO_FRAME: there is none. Free frames come first, whose
 * layer is NULL. The frame still has its page. */
uint32_t tern_frames_victim(tern_frames *frames);
/* Gives a frame to a page that is needed and has none; what was there is not there any more. */
void tern_frames_give(tern_frames *frames, uint32_t frame, tern_spill_layer *layer, uint32_t page);
/* The page has no frame any more. */
void tern_frames_drop(tern_frames *frames, tern_spill_layer *layer, uint32_t page);

#endif
