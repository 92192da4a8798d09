/* Counters of a backend while it runs, and the time of each of its kernels. */
#ifndef TERN_BACKEND_COUNTERS_H
#define TERN_BACKEND_COUNTERS_H

#include <stdint.h>

#include "ops/op_kind.h"

typedef struct tern_encoding tern_encoding; /* quant/encoding.h */

/* Counters since opening; a backend fills what it has. */
typedef struct tern_backend_counters {
    uint64_t runs, ops;
    uint64_t weight_bytes;         /* of weights read by the runs so far */
    uint64_t op_ns[TERN_OP_COUNT]; /* time spent in each kind of op; LINEAR without the output head */
    uint64_t head_ns;
    /* of layers of which a squared ReLU makes rows and columns irrelevant (--ffn): all of one-token steps, and those
     * read
     */
    uint64_t ffn_rows, ffn_rows_read, ffn_columns, ffn_columns_read;
    /* of devices that are not the host */
    uint64_t dispatches, barriers, submits;
    uint64_t layer_dispatches, layer_barriers; /* of them for, and before, ops of a layer */
    uint64_t uploaded_bytes, downloaded_bytes;
    uint64_t buffers, reused; /* made so far; of them in memory that was held already */
    uint64_t allocations;     /* of device memory and of objects made while running; 0 for each token is the aim */
    uint64_t pipelines, pipeline_hits; /* made so far; of them found in the cache of an earlier start */
    uint64_t untried;                  /* kernels that are used and that nothing could be told about (give_up) */
    uint64_t crossed_bytes;            /* carried over between the sides of a split backend */
    /* of a paged backend: experts that a layer of a step needed and that were there, or had to be copied; those that
     * made way for them; bytes copied, as their file has them */
    uint64_t expert_hits, expert_misses, expert_evictions, expert_bytes;
    uint64_t expert_prefetched; /* copied before a layer needed them */
    /* of a backend that spills (backend/spill): pages of keys and values that a layer of a step needed and that were
     * there, or had to be copied, or were copied before it needed them; those that made way for others; bytes copied to
     * the device and back; and how long layers waited for them */
    uint64_t kv_hits, kv_misses, kv_prefetched, kv_evictions, kv_in_bytes, kv_out_bytes, kv_wait_ns;
} tern_backend_counters;

/* The cost of one kind of dispatch (or op) since opening. */
typedef struct tern_profile_row {
    char name[48];        /* "ffn_down": the value that it makes, without the layer; or the kind of op */
    const char *pipeline; /* the kernel; static storage */
    uint64_t n, ns;
    uint64_t weight_bytes; /* read */
    /* The product whose kernel can be chosen, by the key of the choice (backend/kernel_choice.h); else NULL and 0. */
    const tern_encoding *encoding;
    uint32_t rows, cols, tokens;
} tern_profile_row;

#endif
