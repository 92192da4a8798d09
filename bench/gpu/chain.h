/* What the benchmarks of a GPU share: a graph whose ops follow each other, the buffers of its values, and its time. */
#ifndef TERN_BENCH_GPU_CHAIN_H
#define TERN_BENCH_GPU_CHAIN_H

#include <stdint.h>

#include "backend/counters.h"
#include "backend/gpu/caps.h"
#include "backend/vulkan/vulkan.h"
#include "graph/graph.h"
#include "ops/op.h"

enum { CHAIN_MAX_VALUES = 2304 };

/* `program`, `gpu` and `tokens` are the caller's to set; the rest is of the open graph. */
typedef struct chain {
    const char *program; /* for messages */
    tern_backend *gpu;
    uint32_t tokens;
    tern_graph graph;
    tern_binding bindings[CHAIN_MAX_VALUES];
    tern_error err;
} chain;

/* Ends the program, with the chain's error, unless the status is OK. */
void chain_check(const chain *c, tern_status status);

/* What the device in a place of the list (-d) is said to be able to do, and, printed, what it is. */
tern_gpu_caps chain_caps(chain *c, const char *device);

/* Begins a graph for `tokens` rows, param_bytes for each of its parameters: counts are written, the rest is not. */
void chain_open(chain *c, uint64_t param_bytes);
/* Frees the graph and its buffers. */
void chain_close(chain *c);

/* A value with a buffer, or weight, of its own. */
tern_view chain_add(chain *c, tern_value value);
/* Rows [tokens][cols] of floats in [low, low + 1); as int8 they are whatever their bits say. */
tern_view chain_rows(chain *c, tern_dtype dtype, uint32_t cols, float low);
void chain_op(chain *c, const tern_op *op);
void chain_write_param(chain *c, tern_param which, const void *data, uint64_t bytes);

/* Seconds for each op: of the fastest run of as many as fit into `at_least` seconds, after one that does not count. */
double chain_seconds(chain *c, double at_least);

/* What each pipeline of a device opened with `profile` has cost. */
typedef struct chain_profile {
    tern_profile_row rows[64];
    size_t n;
} chain_profile;

chain_profile chain_profile_now(chain *c);
/* Prints what it cost since `before`. */
void chain_print_profile(chain *c, const chain_profile *before);

#endif
