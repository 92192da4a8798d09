/* The interface of a device: 14 functions that make buffers and run prepared graphs, 2 that tell its memory, and 3 its
 * speed. Fusion is never one of them. */
#ifndef TERN_BACKEND_BACKEND_H
#define TERN_BACKEND_BACKEND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

typedef struct tern_graph tern_graph;   /* ops/graph.h */
typedef struct tern_op tern_op;         /* ops/op.h */
typedef struct tern_weight tern_weight; /* quant/weight.h */

typedef struct tern_backend tern_backend;
typedef struct tern_backend_counters tern_backend_counters; /* backend/counters.h, like the next */
typedef struct tern_profile_row tern_profile_row;
typedef struct tern_buffer tern_buffer;
typedef struct tern_prepared tern_prepared;

/* Where a value of a graph lives: a buffer of the backend and a byte offset into it. */
typedef struct tern_binding {
    tern_buffer *buffer;
    uint64_t offset;
} tern_binding;

/* How many experts of a model are on a device at once, of how many (backend/paged). */
typedef struct tern_paged_info {
    uint32_t n_slots, n_all;
    uint64_t slot_bytes, all_bytes; /* of the slots on the device, and of all experts as their file has them */
} tern_paged_info;

/* Keys and values that are not all on a device (backend/spill). */
typedef struct tern_spill_info {
    uint64_t room, taken; /* bytes of the device that they may take, and do so far */
    const char *disk;     /* the folder where all of them lie; NULL: memory of the host */
} tern_spill_info;

enum { TERN_EXCHANGE_BYTES = 224 };

/* Backend properties, fixed after opening, except what `paged` and `spill` point to. */
typedef struct tern_backend_info {
    const char *name;             /* "cpu", "cpu+vulkan" */
    const char *device;           /* its name; NULL: the CPU */
    const char *driver;           /* and its version; NULL: none, or not known */
    uint64_t memory;              /* bytes that it has; 0: not known */
    uint64_t max_buffer;          /* bytes of one buffer that an op can have whole; 0: any */
    uint64_t max_allocation;      /* bytes of one buffer_create; 0: any */
    uint32_t fusions;             /* tern_fusion: what it wants in graphs of one token */
    uint32_t max_steps;           /* of one run; 1 where graphs cannot hold SAMPLE */
    bool samples_rows;            /* SAMPLE with each_row */
    bool groups_rows;             /* LINEAR, SCALE and ADD of f32 rows may have a group (tern_op.group) */
    bool copies_weights;          /* a weight's data may go once all graphs that it is in are prepared */
    bool never_waits;             /* the host cannot wait (a browser): buffer_read and wait give PENDING instead, and
                                     what is written is there for what runs next, never for what runs already */
    const tern_paged_info *paged; /* NULL: all experts are there at once */
    const tern_spill_info *spill; /* NULL: all keys and values are */
    struct tern_pool *pool;       /* its threads of the CPU: the caller's between runs; NULL: it has none */
    bool unified;                 /* its memory is the host's: what does not fit has nowhere to go but a disk */
    bool batch_invariant;         /* a row's bits are its own, with tern_graph.kernel_rows */
    uint32_t cache_blocks;        /* caches of types with blocks: heads are multiples of this; 0: it has none */
    bool mixes_caches;            /* keys of any type beside values of any; otherwise of one, or of two with blocks */
    bool int8_blocks;             /* LINEAR may have int8_blocks */
    bool halves;                  /* LINEAR with halves is its fastest for several rows */
    bool screens;                 /* a LINEAR with `screened` reads less when few logits are wanted */
    bool joined;                  /* with the devices of the other ranks (backend/peers.h) */
    /* With several ranks, what those of this backend exchange by: "NCCL 2.28.9", or "memory of the host" and why. */
    char exchange[TERN_EXCHANGE_BYTES];
} tern_backend_info;

/* How the kernels of a device are tried before they are used (graph/trial/trial.h): what its backend remembers of them,
 * by driver. */
typedef struct tern_backend_trial {
    /* The name of a kernel of that op of a prepared graph that was never seen to compute rightly; NULL: there is none.
     */
    const char *(*doubt)(tern_backend *b, const tern_prepared *prepared, size_t op);
    /* All kernels of a prepared graph gave what the CPU gives. */
    void (*prove)(tern_backend *b, const tern_prepared *prepared);
    /* Nothing can be told of those of an op: there are no doubts about them until the backend is closed. */
    void (*give_up)(tern_backend *b, const tern_prepared *prepared, size_t op);
    /* A copy of a weight without data, in an encoding that the CPU reads: out->data by tern_alloc_aligned, the
     * caller's. NULL in backends without weight_write. */
    tern_status (*weight_read)(tern_backend *b, const tern_buffer *buffer, const tern_weight *weight, tern_weight *out,
                               tern_error *err);
} tern_backend_trial;

/* Copies that go on while the device computes. */
typedef struct tern_backend_copies {
    /* As buffer_write and buffer_read, but behind all runs except the one that was started last, and before the next:
     * what they touch that one must not. `data` of a write must stay as it is until the device was waited for. */
    tern_status (*write_beside)(tern_backend *b, tern_buffer *buffer, uint64_t offset, const void *data, uint64_t bytes,
                                tern_error *err);
    tern_status (*read_beside)(tern_backend *b, const tern_buffer *buffer, uint64_t offset, void *data, uint64_t bytes,
                               tern_error *err);
    /* Memory of the host that is copied from and to often, until the same call with false. Where it cannot be pinned,
     * copies are slower. */
    void (*pin)(tern_backend *b, void *data, uint64_t bytes, bool pinned);
} tern_backend_copies;

/* The highest rates of a device, with the loads and the products that its kernels use. */
typedef enum tern_measure {
    TERN_MEASURE_READ, /* bytes of memory read per second */
    TERN_MEASURE_DOTS, /* int8 multiply-adds per second, nothing read; on tensor cores where products use them */
    TERN_MEASURE_FMA   /* f32 multiply-adds per second, nothing read */
} tern_measure;

typedef struct tern_backend_peers tern_backend_peers;

struct tern_backend {
    tern_backend_info info;
    const tern_backend_trial *trial;   /* NULL: its kernels are trusted */
    const tern_backend_copies *copies; /* NULL: it copies when nothing runs */
    const tern_backend_peers *peers;   /* NULL: its device knows no other */

    void (*close)(tern_backend *b);

    /* A zeroed buffer. Errors: OUT_OF_MEMORY. */
    tern_status (*buffer_create)(tern_backend *b, uint64_t bytes, tern_buffer **out, tern_error *err);
    /* A zeroed buffer for keys or values of a layer, in pages of so many bytes. NULL: buffer_create makes it. */
    tern_status (*cache_create)(tern_backend *b, uint64_t bytes, uint64_t page_bytes, tern_buffer **out,
                                tern_error *err);
    void (*buffer_free)(tern_backend *b, tern_buffer *buffer); /* weights too; NULL is left alone */
    tern_status (*buffer_write)(tern_backend *b, tern_buffer *buffer, uint64_t offset, const void *data, uint64_t bytes,
                                tern_error *err);
    /* Waits for what was run before. PENDING, from a backend that `never_waits`: the bytes are on their way; the same
     * call, made again once the device is done, gives them (`data` may be another place). One such read at a time; what
     * is run or written in between does not change them. */
    tern_status (*buffer_read)(tern_backend *b, const tern_buffer *buffer, uint64_t offset, void *data, uint64_t bytes,
                               tern_error *err);
    /* The read or wait that gave PENDING is no longer wanted. NULL in backends that wait. */
    void (*read_cancel)(tern_backend *b);

    /* A weight, in its file layout; the backend may read w->data in place for as long as the buffer lives, or copy it.
     * w->data NULL, where there is weight_write: room for it. */
    tern_status (*weight_create)(tern_backend *b, const tern_weight *w, tern_buffer **out, tern_error *err);
    /* Fills a weight whose bytes were not at hand, piece by piece, before a graph with it runs. `part` is the weight
     * with rows [first, first + part->rows) alone, in its file layout; its data may go afterwards, and a tail of it
     * says nothing. data NULL: it brings only row_scales [part->rows], which may be written again; row_scales NULL:
     * those stay as they are. Whether the weight has any was said by w->row_scales. NULL in backends that need weights
     * whole. */
    tern_status (*weight_write)(tern_backend *b, tern_buffer *buffer, const tern_weight *part, uint32_t first,
                                tern_error *err);

    /* UNSUPPORTED with the op, its shape and the flag that would move it, when this backend cannot run it. */
    tern_status (*supports)(tern_backend *b, const tern_graph *graph, const tern_op *op, tern_error *err);
    /* Makes a graph ready to run any number of times; bindings[n_values], with buffer NULL for values that no op
     * touches. graph, bindings and buffers must outlive *out. */
    tern_status (*prepare)(tern_backend *b, const tern_graph *graph, const tern_binding *bindings, tern_prepared **out,
                           tern_error *err);
    void (*prepared_free)(tern_backend *b, tern_prepared *prepared);
    /* Starts n_steps steps, each after the one before; more than one only of a graph with SAMPLE. No allocation
     * but in its first run. */
    tern_status (*run)(tern_backend *b, tern_prepared *prepared, uint32_t n_steps, tern_error *err);
    tern_status (*wait)(tern_backend *b, tern_error *err); /* PENDING as buffer_read */

    /* Before anything is allocated: how much there is, and how much a weight takes. Both NULL: not known. */
    /* Bytes that could be had now; 0: not known. */
    uint64_t (*memory_free)(const tern_backend *b);
    /* Bytes that weight_create would take, now that the weight is where it is: 0 for one that is read in place in
     * memory of our own. Errors: those that weight_create has whatever the memory. */
    tern_status (*weight_bytes)(const tern_backend *b, const tern_weight *w, uint64_t *bytes, tern_error *err);

    /* How fast it is. */
    void (*counters)(const tern_backend *b, tern_backend_counters *out);
    /* Measures for about so many seconds. READ reads these buffers, or one of its own where they are too small to leave
     * every cache. 0 when it cannot be measured, such as DOTS of a Vulkan device with matrices of int8. */
    double (*measure)(tern_backend *b, tern_measure what, tern_buffer *const *buffers, size_t n, double seconds);
    /* Up to cap rows, in the order in which they first ran; returns how many there are. GPUs have times only when
     * opened with `profile`. */
    size_t (*profile)(const tern_backend *b, tern_profile_row *rows, size_t cap);
};

#endif
