/* Inside the spilling backend: what its files share. */
#ifndef TERN_BACKEND_SPILL_SPILL_INTERNAL_H
#define TERN_BACKEND_SPILL_SPILL_INTERNAL_H

#include <pthread.h>

#include "backend/spill/frames.h"
#include "backend/spill/spill.h"
#include "backend/wrap.h"
#include "base/backing.h"

enum { TERN_SPILL_K, TERN_SPILL_V, TERN_SPILL_HALVES };

/* The room on the device for pages of one size: frame i is page i of both buffers. Where the largest layer with such
 * pages does not fit, a page is cut into those of groups of its heads, which are layers of their own to the frames. */
typedef struct tern_spill_pool {
    struct tern_spill_pool *next;
    uint64_t page_bytes[TERN_SPILL_HALVES];
    uint32_t groups;                         /* 1: none */
    uint64_t unit_bytes[TERN_SPILL_HALVES];  /* of a frame: page_bytes / groups */
    tern_buffer *buffers[TERN_SPILL_HALVES]; /* of the inner backend */
    tern_frames frames;
} tern_spill_pool;

/* Keys and values of a layer, or of one group of its heads. */
typedef struct tern_spill_cache {
    tern_spill_layer pages; /* first: frames know caches by it */
    uint64_t first;         /* where its pages begin on the host, in units */
    tern_spill_pool *pool;
    tern_buffer *halves[TERN_SPILL_HALVES];
    bool *known;      /* [n_pages] the host has, or will get, what was written there; else zeros */
    uint8_t *covered; /* [n_pages] positions that the step writes */
} tern_spill_cache;

/* A buffer of the inner backend, or one half of a cache. */
struct tern_buffer {
    tern_buffer *inner;        /* first (backend/wrap.h); NULL: half of a cache */
    tern_buffer *next, **self; /* halves: in the list of all */
    uint64_t bytes;
    uint8_t *copy; /* what the host wrote, of parameters of prepared graphs */
    uint64_t page_bytes;
    uint64_t unit_bytes;      /* of a page of a group */
    tern_backing host;        /* [groups][pages] units */
    bool written;             /* by the host */
    bool *pinned;             /* [chunks of host] */
    tern_spill_cache *caches; /* [groups of its pool], of both halves; NULL: not made yet */
};

/* Pages that a part needs, as the step has them. */
typedef struct tern_spill_need {
    const struct tern_spill_part *part; /* NULL: nothing */
    uint32_t *pages;                    /* [n] in the order of sequences and positions */
    uint32_t n, n_brought;              /* of them, so many were not there */
} tern_spill_need;

/* A run of ops that use the cache of at most one layer. */
typedef struct tern_spill_part {
    tern_wrap_part base;
    tern_spill_cache *cache; /* NULL: none */
    uint32_t place;          /* among the layers of its pool */
    uint32_t table;          /* the value that says where pages of sequences are, in the graph; in this part it is */
    uint32_t frames;         /* another one, the same table with frames in place of pages */
    uint32_t window;         /* of its attention; 0: all positions */
    bool attends, writes;
    bool only_outputs;     /* nothing to do in a step without logits */
    uint32_t *frame_table; /* what was written there last */
} tern_spill_part;

/* The layers of a graph whose pages have a size, as they run. */
typedef struct tern_spill_order {
    tern_spill_pool *pool;
    tern_spill_layer **layers; /* [n] */
    uint32_t n;
} tern_spill_order;

struct tern_prepared {
    const tern_graph *graph;
    const tern_binding *bindings;
    tern_op *ops; /* [n_ops] copies of the graph's, with tables of their own, once for each group of heads */
    size_t n_ops;
    size_t *copies;     /* [n_ops of the graph + 1] where the copies of each begin */
    tern_value *values; /* caches as long as their pool; behind the graph's a table for each layer */
    size_t n_values;
    tern_binding *at;     /* [n_values] on the inner backend */
    tern_buffer *params;  /* of the inner backend: the graph's parameters, and behind them the tables */
    uint64_t param_bytes; /* with the tables */
    tern_spill_part *parts;
    size_t n_parts;
    tern_spill_order *orders; /* [n_orders] */
    size_t n_orders;
    tern_spill_need needs[2]; /* of the part that runs and of the next one */
    uint32_t *first, *last;   /* [n_sequences] page of a sequence that a part reads, or none: first > last */
};

typedef struct tern_spill {
    tern_wrap wrap;
    char *disk;
    uint64_t room, taken; /* bytes of the device: in all, of pools */
    tern_spill_info info;
    pthread_mutex_t lock; /* all below: sessions take turns, step by step */
    tern_spill_pool *pools;
    tern_buffer *halves; /* all that there are */
    uint8_t *zeros;      /* [zero_bytes] a page that nobody has written */
    uint64_t zero_bytes;
    uint64_t hits, misses, prefetched, in_bytes, out_bytes, wait_ns;
} tern_spill;

static inline tern_spill *tern_spill__of(tern_backend *b)
{
    return (tern_spill *)b;
}

static inline tern_spill_cache *tern_spill__cache_of(tern_spill_layer *layer)
{
    return (tern_spill_cache *)layer;
}

/* pool.c; under the lock. A pool for pages as two halves have them, unless there is one: its share of the room that is
 * left, by the bytes of all halves that have none. Groups of heads, n_kv_heads or fewer, are as large as they can be.
 * Errors: OUT_OF_MEMORY, UNSUPPORTED (there is one, of another number of heads), those of the backend. */
tern_status tern_spill__make_pool(tern_spill *s, const tern_buffer *k, const tern_buffer *v, uint32_t n_kv_heads,
                                  tern_error *err);
void tern_spill__free_pools(tern_spill *s);
tern_spill_pool *tern_spill__pool_for(const tern_spill *s, const tern_buffer *k, const tern_buffer *v);
/* The halves of the cache that an op uses, in values[]; false: none. */
bool tern_spill__halves_of(const tern_op *op, const tern_binding *bindings, uint32_t values[TERN_SPILL_HALVES]);

/* cache.c; under the lock. */
tern_status tern_spill__half_make(tern_spill *s, uint64_t bytes, uint64_t page_bytes, tern_buffer **out,
                                  tern_error *err);
void tern_spill__half_free(tern_spill *s, tern_buffer *half);
/* The caches of two halves, one for each group of heads, made unless they are there. Errors: INTERNAL (halves of
 * different caches), OUT_OF_MEMORY. */
tern_status tern_spill__caches_of_halves(tern_spill *s, tern_buffer *k, tern_buffer *v, tern_spill_cache **out,
                                         tern_error *err);
/* Bytes of a half, as the device last wrote them. */
tern_status tern_spill__half_read(tern_spill *s, const tern_buffer *half, uint64_t offset, void *data, uint64_t bytes,
                                  tern_error *err);
tern_status tern_spill__half_write(tern_spill *s, tern_buffer *half, uint64_t offset, const void *data, uint64_t bytes,
                                   tern_error *err);

/* move.c; under the lock. Gives a frame to each page that a part needs, and copies there what was written before.
 * `beside`: while another part runs, and only as many as there are frames that nothing keeps. */
tern_status tern_spill__bring(tern_spill *s, tern_spill_need *need, bool beside, tern_error *err);
/* The host has what the frame of a page has. */
tern_status tern_spill__save(tern_spill *s, tern_spill_cache *cache, uint32_t page, tern_error *err);
/* Before a half goes. */
void tern_spill__unpin(const tern_spill *s, tern_buffer *half);
/* The disk begins to bring what the part lacks. */
void tern_spill__want(const tern_spill_need *need);

/* heads.c: an op that uses a cache, as ops of each group of its heads, which compute the same, in their order. At most
 * TERN_SPILL_MORE_OPS + 2 * groups; those that use no cache are of group TERN_SPILL_NO_GROUP. */
enum { TERN_SPILL_MORE_OPS = 4, TERN_SPILL_NO_GROUP = UINT32_MAX };
typedef void tern_spill_emit(void *context, const tern_op *op, uint32_t group);
void tern_spill__split_heads(const tern_op *op, uint32_t groups, tern_spill_emit *emit, void *context);

/* cut.c: the parts of a prepared graph, with a pool and caches for what they use. Errors: those of these. */
tern_status tern_spill__cut(tern_spill *s, tern_prepared *p, tern_error *err);

/* prepare.c, run.c */
tern_status tern_spill__prepare(tern_backend *b, const tern_graph *graph, const tern_binding *bindings,
                                tern_prepared **out, tern_error *err);
void tern_spill__prepared_free(tern_backend *b, tern_prepared *prepared);
tern_status tern_spill__run(tern_backend *b, tern_prepared *prepared, uint32_t n_steps, tern_error *err);

#endif
