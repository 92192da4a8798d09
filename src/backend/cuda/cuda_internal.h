/* The CUDA backend inside: one device, one stream, one lock. */
#ifndef TERN_BACKEND_CUDA_CUDA_INTERNAL_H
#define TERN_BACKEND_CUDA_CUDA_INTERNAL_H

#include <pthread.h>

#include "backend/counters.h"
#include "backend/cuda/cuda.h"
#include "backend/cuda/kernels.h"
#include "backend/cuda/linear/product.h"
#include "backend/cuda/linear/screen.h"
#include "backend/cuda/ranks/passes.h"
#include "backend/cuda/recurrent/recurrent.h"
#include "backend/cuda/training/training.h"
#include "backend/cuda/walk/walk.h"
#include "backend/gpu/workers.h"
#include "backend/peers.h"
#include "ops/graph.h"
#include "ops/op.h"

enum {
    TERN_CUDA_STAGINGS = 2,
    TERN_CUDA_STAGING_BYTES = 16 << 20, /* of each: pinning takes 0.4 ms a MB */
    TERN_CUDA_BLOCK_HEADS = 64 /* heads of caches with blocks are multiples of this: their rows are whole words */
};

struct tern_buffer {
    uint8_t *data; /* on the device */
    uint64_t bytes;
    tern_gpu_layout layout;     /* weights */
    struct tern_buffer *screen; /* of an output table, once a graph has asked for it: its memory */
    tern_cuda_screen_table screen_table;
};

/* Copies beside what runs. */
typedef struct tern_cuda_beside {
    cudaStream_t stream; /* NULL: none so far */
    cudaEvent_t ran[2];  /* the ends of runs in turns: ran[n_ran % 2] is that of the one before the last */
    uint32_t n_ran;      /* noted so far */
    cudaEvent_t arrived;
    bool busy; /* copies that the next run must wait for */
} tern_cuda_beside;

typedef struct tern_cuda_peers tern_cuda_peers; /* ranks/peers.h */

typedef struct tern_cuda {
    tern_backend base;
    pthread_mutex_t lock; /* sessions on several threads take turns */
    cudaStream_t stream;
    tern_cuda_beside beside;
    tern_cuda_peers *peers; /* NULL: not joined with other ranks */
    tern_gpu_workers workers;
    /* Pinned memory in turns: one part is packed while another is on its way. Made when first needed. */
    uint8_t *staging[TERN_CUDA_STAGINGS];
    cudaEvent_t copied[TERN_CUDA_STAGINGS]; /* what was in it has arrived */
    uint32_t next_staging;
    int index;
    tern_cuda_device device;
    tern_cuda_product_device limits;
    tern_backend_counters counters;
    bool profile;
    tern_profile_row *rows;
    size_t n_rows, cap_rows;
    tern_kernel_choice *choices; /* [n_choices], of this device */
    size_t n_choices;
} tern_cuda;

/* ALL_GATHER. */
typedef struct tern_cuda_all_gather {
    const tern_cuda_peers *peers;
    const float *x;
    tern_cuda_place_blocks place;
} tern_cuda_all_gather;

/* How one op is launched: the parameters of its kernel by value, made once. */
typedef struct tern_cuda_launch {
    cudaError_t (*run)(const void *params, cudaStream_t stream);
    const tern_op *op; /* the first of those that it runs */
    uint32_t n_ops;
    const char *kernel;
    uint64_t weight_bytes;
    tern_kernel_choice product; /* of LINEAR: what a choice of its kernel goes by; tokens 0: there is none */
    union {
        tern_cuda_embed embed;
        tern_cuda_norm norm;
        tern_cuda_rounded_norm rounded_norm;
        tern_cuda_quantize quantize;
        tern_cuda_elements elements;
        tern_cuda_route route;
        tern_cuda_linear linear;
        tern_cuda_screened screened;
        tern_cuda_rope rope;
        tern_cuda_attention attention;
        tern_cuda_split split;
        tern_cuda_hadamard hadamard;
        tern_cuda_conv conv;
        tern_cuda_delta delta;
        tern_cuda_conv_backward conv_backward;
        tern_cuda_delta_backward delta_backward;
        tern_cuda_sample sample;
        tern_cuda_sample_rows sample_rows;
        tern_cuda_walk walk;
        tern_cuda_train_rows train_rows;
        tern_cuda_norm_backward norm_backward;
        tern_cuda_row_sums row_sums;
        tern_cuda_gradient gradient;
        tern_cuda_head head;
        tern_cuda_routed routed;
        tern_cuda_choice choice;
        tern_cuda_varlen varlen;
        tern_cuda_update update; /* until tern_cuda__join_updates */
        tern_cuda_updates updates;
        tern_cuda_all_gather all_gather;
    } params;
} tern_cuda_launch;

/* State that the walks of a graph share. */
typedef struct tern_cuda_walking {
    tern_cuda_step *steps, *on_device; /* the host's until they are written */
    uint32_t n_steps;
    float *partials;           /* of attention, behind the words */
    unsigned long long *words; /* device: how often blocks have waited; blocks that SAMPLE has done with */
    unsigned long long *found; /* of SAMPLE */
} tern_cuda_walking;

/* Device state that the ops of the optimiser share. */
typedef struct tern_cuda_update_table {
    tern_cuda_update *table;
    uint32_t *totals;
} tern_cuda_update_table;

struct tern_prepared {
    const tern_cuda_product_device *device; /* of its backend */
    const tern_cuda *cuda;                  /* NULL in tests without one */
    const tern_graph *graph;
    const tern_binding *bindings;
    tern_cuda_launch *launches; /* [n_launches], in the graph's order */
    size_t n_launches;
    tern_cuda_walking walking;
    tern_cuda_update_table updates;
    uint64_t weight_bytes;
    void *scratch; /* of one op at a time: parts of sums, planes of numbers */
    cudaGraphExec_t exec;
    size_t *profile_rows; /* [n_launches]; of a backend that takes times */
    cudaEvent_t *events;  /* [n_launches + 1] */
};

/* One row for each op (ops.c): its limits of shape, and how its launch is made. */
typedef struct tern_cuda_op_row {
    void (*lower)(const tern_prepared *p, const tern_op *op, tern_cuda_launch *out); /* NULL: the backend lacks it */
    tern_status (*supports)(const tern_graph *graph, const tern_op *op, tern_error *err); /* NULL: any */
} tern_cuda_op_row;
extern const tern_cuda_op_row tern_cuda__ops[TERN_OP_COUNT];

/* OUT_OF_MEMORY, or INTERNAL with CUDA's words; OK for success. */
tern_status tern_cuda__status(cudaError_t e, const char *what, tern_error *err);

/* ---- what the module gives: tern_cuda_module of cuda.h */
tern_status tern_cuda_open(tern_backend **backend, const tern_cuda_options *options, tern_error *err);
void tern_cuda_key(const tern_backend *backend, char out[static TERN_KERNEL_DEVICE_BYTES]);
tern_status tern_cuda_choose(tern_backend *backend, const tern_kernel_choice *choices, size_t n, tern_error *err);
bool tern_cuda_alternative(const tern_backend *backend, const char *kernel, size_t i,
                           char out[static TERN_KERNEL_NAME_BYTES]);
tern_cuda_start *tern_cuda_start_begin(const char *device);
void tern_cuda_start_end(tern_cuda_start *start);
tern_status tern_cuda_devices(tern_cuda_device *devices, size_t cap, size_t *n, tern_error *err);

/* ---- device.c */
/* Whether kernels that were compiled for these capabilities ("80 90a", the last one as PTX too) run on a device. */
bool tern_cuda__has_code(const char *capabilities, uint32_t major, uint32_t minor);
tern_status tern_cuda__pick(const char *wanted, int *index, tern_cuda_device *device, tern_error *err);

/* ---- buffer.c; the caller holds the lock */
tern_status tern_cuda__buffer_make(tern_cuda *cuda, uint64_t bytes, tern_buffer **out, tern_error *err);
void tern_cuda__buffer_free(tern_buffer *buffer);
tern_status tern_cuda__write(tern_cuda *cuda, uint8_t *to, const void *data, uint64_t bytes, tern_error *err);
tern_status tern_cuda__read(tern_cuda *cuda, const uint8_t *from, void *data, uint64_t bytes, tern_error *err);

/* ---- copies.c; the caller holds the lock. Work on the side stream waits for all runs except the last one noted.
 */
tern_status tern_cuda__write_beside(tern_cuda *cuda, uint8_t *to, const void *data, uint64_t bytes, tern_error *err);
tern_status tern_cuda__read_beside(tern_cuda *cuda, const uint8_t *from, void *data, uint64_t bytes, tern_error *err);
/* The next work on the stream of runs waits for what was written beside it. */
tern_status tern_cuda__join(tern_cuda *cuda, tern_error *err);
tern_status tern_cuda__note_run(tern_cuda *cuda, tern_error *err);
/* For what is launched there: behind all runs, or all but the last one noted; what comes next is behind it. */
tern_status tern_cuda__beside(tern_cuda *cuda, bool but_last, cudaStream_t *stream, tern_error *err);
void tern_cuda__beside_close(tern_cuda *cuda);
void tern_cuda__pin(void *data, uint64_t bytes, bool pinned);

/* ---- ranks/peers.c, exchange.c: as in tern_backend_peers; the caller holds the lock */
void tern_cuda__peers_identify(tern_cuda *cuda, char name[static TERN_PEER_NAME_BYTES],
                               char why[static TERN_PEERS_WHY_BYTES]);
tern_status tern_cuda__peers_join(tern_cuda *cuda, tern_ranks *ranks, tern_error *err);
tern_status tern_cuda__peers_add(tern_cuda *cuda, const tern_collective_tensor *tensors, size_t n,
                                 const tern_collective_passes *passes, tern_error *err);
tern_status tern_cuda__peers_spread(tern_cuda *cuda, const tern_collective_tensor *tensors, size_t n, tern_error *err);
tern_status tern_cuda__peers_finish(tern_cuda *cuda, tern_error *err);
void tern_cuda__peers_close(tern_cuda *cuda);

/* ---- weight.c */
tern_status tern_cuda__layout(tern_gpu_layout *layout, const tern_weight *w, tern_error *err);
tern_status tern_cuda__weight_make(tern_cuda *cuda, const tern_weight *w, tern_buffer **out, tern_error *err);
tern_status tern_cuda__weight_write(tern_cuda *cuda, tern_buffer *buffer, const tern_weight *part, uint32_t first,
                                    tern_error *err);

/* ---- prepare.c */
tern_status tern_cuda__supports(tern_backend *b, const tern_graph *graph, const tern_op *op, tern_error *err);
tern_status tern_cuda__prepare(tern_cuda *cuda, const tern_graph *graph, const tern_binding *bindings,
                               tern_prepared **out, tern_error *err);
void tern_cuda__prepared_free(tern_prepared *p);
tern_status tern_cuda__run(tern_cuda *cuda, tern_prepared *p, uint32_t n_steps, tern_error *err);

/* ---- walk/lower.c */
/* Whether an op of a graph of one token can be part of a walk on this device. */
bool tern_cuda__walks(const tern_cuda *cuda, const tern_graph *graph, const tern_op *op);
tern_status tern_cuda__walking_make(tern_cuda *cuda, tern_prepared *p, tern_error *err);
/* Adds the op's steps to `launch`, which it begins where it has none. */
void tern_cuda__walk_on(const tern_cuda *cuda, tern_prepared *p, const tern_op *op, tern_cuda_launch *launch);
/* Once all ops have theirs. */
tern_status tern_cuda__walking_write(tern_cuda *cuda, tern_prepared *p, tern_error *err);
void tern_cuda__walking_free(tern_cuda_walking *w);

/* ---- measure/measure.c */
double tern_cuda__measure(tern_cuda *cuda, tern_measure what, tern_buffer *const *buffers, size_t n, double seconds);

/* ---- operands.c: what the params of kernels are made of */
uint8_t *tern_cuda__address(const tern_prepared *p, uint32_t value);
tern_cuda_rows tern_cuda__rows(const tern_prepared *p, tern_view view);
tern_cuda_q8 tern_cuda__q8(const tern_prepared *p, tern_view view);
tern_cuda_count tern_cuda__count(const tern_prepared *p, tern_rows rows);
/* The rows of an op that may have a group. */
tern_cuda_count tern_cuda__group_count(const tern_prepared *p, const tern_op *op);
tern_cuda_weight tern_cuda__weight(const tern_prepared *p, tern_view view);
const float *tern_cuda__floats(const tern_prepared *p, tern_view view); /* NULL: no columns */
const uint32_t *tern_cuda__param(const tern_prepared *p, tern_param param);
bool tern_cuda__is_q8(const tern_graph *graph, tern_view view);

/* ---- lowering, by family */
void tern_cuda__lower_embed(const tern_prepared *p, const tern_op *op, tern_cuda_launch *out);
void tern_cuda__lower_norm(const tern_prepared *p, const tern_op *op, tern_cuda_launch *out);
void tern_cuda__lower_quantize(const tern_prepared *p, const tern_op *op, tern_cuda_launch *out);
void tern_cuda__lower_gate(const tern_prepared *p, const tern_op *op, tern_cuda_launch *out);
void tern_cuda__lower_add(const tern_prepared *p, const tern_op *op, tern_cuda_launch *out);
void tern_cuda__lower_scale(const tern_prepared *p, const tern_op *op, tern_cuda_launch *out);
void tern_cuda__lower_gather(const tern_prepared *p, const tern_op *op, tern_cuda_launch *out);
void tern_cuda__lower_route(const tern_prepared *p, const tern_op *op, tern_cuda_launch *out);
void tern_cuda__lower_combine(const tern_prepared *p, const tern_op *op, tern_cuda_launch *out);
void tern_cuda__lower_linear(const tern_prepared *p, const tern_op *op, tern_cuda_launch *out);
/* The kernel of a LINEAR that has its operands. */
void tern_cuda__choose_product(const tern_prepared *p, const tern_op *op, tern_cuda_launch *out);
/* Bytes of scratch of a LINEAR whose rows may be put together by expert; 0: none. */
size_t tern_cuda__group_scratch(const tern_graph *graph, const tern_op *op);
/* A norm before a LINEAR with halves writes that one's rows in 16 bits, where it can: into the scratch of both. */
void tern_cuda__join_norm(tern_cuda_launch *before, tern_cuda_launch *launch);
bool tern_cuda__round_in_norm(tern_cuda_launch *before, const tern_cuda_linear *linear);
/* Bytes of scratch of a LINEAR with halves. */
size_t tern_cuda__rounded_scratch(const tern_graph *graph, const tern_op *op);
tern_status tern_cuda__linear_supports(const tern_graph *graph, const tern_op *op, tern_error *err);
/* ---- linear/screen.c */
tern_status tern_cuda__screen_supports(const tern_graph *graph, const tern_op *op, tern_error *err);
/* Makes the screens of a graph's tables that have none yet. */
tern_status tern_cuda__screens_make(tern_cuda *cuda, const tern_prepared *p, tern_error *err);
size_t tern_cuda__screen_scratch(const tern_op *op);
/* The parts of a LINEAR that has been lowered. */
void tern_cuda__lower_screened(const tern_prepared *p, const tern_op *op, tern_cuda_launch *out);
void tern_cuda__lower_rope(const tern_prepared *p, const tern_op *op, tern_cuda_launch *out);
void tern_cuda__lower_kv_write(const tern_prepared *p, const tern_op *op, tern_cuda_launch *out);
void tern_cuda__lower_rope_kv(const tern_prepared *p, const tern_op *op, tern_cuda_launch *out);
void tern_cuda__lower_attention(const tern_prepared *p, const tern_op *op, tern_cuda_launch *out);
void tern_cuda__rope_attention(const tern_prepared *p, const tern_op *op, tern_cuda_rope *rope,
                               tern_cuda_attention *attention);
tern_status tern_cuda__rope_supports(const tern_graph *graph, const tern_op *op, tern_error *err);
tern_status tern_cuda__attention_supports(const tern_graph *graph, const tern_op *op, tern_error *err);
/* Floats of scratch; 0: none. */
size_t tern_cuda__attention_partials(const tern_graph *graph, const tern_op *op);
/* ---- recurrent */
void tern_cuda__lower_split(const tern_prepared *p, const tern_op *op, tern_cuda_launch *out);
void tern_cuda__lower_hadamard(const tern_prepared *p, const tern_op *op, tern_cuda_launch *out);
void tern_cuda__lower_conv(const tern_prepared *p, const tern_op *op, tern_cuda_launch *out);
void tern_cuda__lower_gated_delta(const tern_prepared *p, const tern_op *op, tern_cuda_launch *out);
void tern_cuda__lower_varlen_delta(const tern_prepared *p, const tern_op *op, tern_cuda_launch *out);
tern_status tern_cuda__hadamard_supports(const tern_graph *graph, const tern_op *op, tern_error *err);
tern_status tern_cuda__conv_supports(const tern_graph *graph, const tern_op *op, tern_error *err);
tern_status tern_cuda__delta_supports(const tern_graph *graph, const tern_op *op, tern_error *err);
tern_status tern_cuda__delta_backward_supports(const tern_graph *graph, const tern_op *op, tern_error *err);
void tern_cuda__lower_conv_backward(const tern_prepared *p, const tern_op *op, tern_cuda_launch *out);
void tern_cuda__lower_delta_backward(const tern_prepared *p, const tern_op *op, tern_cuda_launch *out);
/* Bytes of scratch of an op of a layer that recurs; 0: none. */
size_t tern_cuda__recurrent_scratch(const tern_graph *graph, const tern_op *op);
/* ---- training */
void tern_cuda__lower_dropout(const tern_prepared *p, const tern_op *op, tern_cuda_launch *out);
void tern_cuda__lower_fake_quantize(const tern_prepared *p, const tern_op *op, tern_cuda_launch *out);
void tern_cuda__lower_softcap_backward(const tern_prepared *p, const tern_op *op, tern_cuda_launch *out);
void tern_cuda__lower_gate_backward(const tern_prepared *p, const tern_op *op, tern_cuda_launch *out);
tern_status tern_cuda__gate_backward_supports(const tern_graph *graph, const tern_op *op, tern_error *err);
void tern_cuda__lower_cross_entropy(const tern_prepared *p, const tern_op *op, tern_cuda_launch *out);
void tern_cuda__lower_norm_backward(const tern_prepared *p, const tern_op *op, tern_cuda_launch *out);
void tern_cuda__lower_bias_backward(const tern_prepared *p, const tern_op *op, tern_cuda_launch *out);
void tern_cuda__lower_embed_backward(const tern_prepared *p, const tern_op *op, tern_cuda_launch *out);
void tern_cuda__lower_linear_dx(const tern_prepared *p, const tern_op *op, tern_cuda_launch *out);
/* Whether a LINEAR is multiplied as the planes of training are, and how. */
bool tern_cuda__is_head(const tern_graph *graph, const tern_op *op);
void tern_cuda__lower_head(const tern_prepared *p, const tern_op *op, tern_cuda_launch *out);
void tern_cuda__lower_linear_dw(const tern_prepared *p, const tern_op *op, tern_cuda_launch *out);
void tern_cuda__lower_varlen(const tern_prepared *p, const tern_op *op, tern_cuda_launch *out);
void tern_cuda__lower_sum_squares(const tern_prepared *p, const tern_op *op, tern_cuda_launch *out);
void tern_cuda__lower_update(const tern_prepared *p, const tern_op *op, tern_cuda_launch *out);
/* training/updates.c: once all ops have their launches. alone: each stays one. */
tern_status tern_cuda__join_updates(tern_prepared *p, bool alone, tern_error *err);
void tern_cuda__updates_free(tern_cuda_update_table *updates);
void tern_cuda__lower_requantize(const tern_prepared *p, const tern_op *op, tern_cuda_launch *out);
void tern_cuda__lower_routed_dx(const tern_prepared *p, const tern_op *op, tern_cuda_launch *out);
void tern_cuda__lower_routed_dw(const tern_prepared *p, const tern_op *op, tern_cuda_launch *out);
void tern_cuda__lower_routed_bias(const tern_prepared *p, const tern_op *op, tern_cuda_launch *out);
void tern_cuda__lower_route_backward(const tern_prepared *p, const tern_op *op, tern_cuda_launch *out);
void tern_cuda__lower_combine_backward(const tern_prepared *p, const tern_op *op, tern_cuda_launch *out);
size_t tern_cuda__routed_scratch(const tern_graph *graph, const tern_op *op);
tern_status tern_cuda__routed_supports(const tern_graph *graph, const tern_op *op, tern_error *err);
tern_status tern_cuda__varlen_supports(const tern_graph *graph, const tern_op *op, tern_error *err);
tern_status tern_cuda__update_supports(const tern_graph *graph, const tern_op *op, tern_error *err);
/* Bytes of scratch of an op of training; 0: none. */
size_t tern_cuda__training_scratch(const tern_graph *graph, const tern_op *op);
/* Bytes of scratch of VARLEN_ATTENTION and its backward: of rounded rows, and before them of the backward. */
size_t tern_cuda__varlen_scratch(uint32_t rows, const tern_op *op);
size_t tern_cuda__backward_scratch(uint32_t rows, const tern_op *op);

/* Bytes of scratch of a SAMPLE of each row; 0: none. */
size_t tern_cuda__sample_scratch(const tern_graph *graph, const tern_op *op);
/* ---- ranks/all_gather.c */
tern_status tern_cuda__all_gather_supports(const tern_cuda *cuda, const tern_op *op, tern_error *err);
size_t tern_cuda__all_gather_scratch(const tern_graph *graph, const tern_op *op);
void tern_cuda__lower_all_gather(const tern_prepared *p, const tern_op *op, tern_cuda_launch *out);

void tern_cuda__lower_sample(const tern_prepared *p, const tern_op *op, tern_cuda_launch *out);

#endif
