/* The border between tern-cuda.so and the program that opens it: tern_cuda_module of cuda.h, and the program's
 * functions that the backend calls. It has none of them itself, so that there is one of each table and counter;
 * base/error.c alone, which keeps nothing, is compiled into both. */
#ifndef TERN_BACKEND_CUDA_MODULE_H
#define TERN_BACKEND_CUDA_MODULE_H

#include "backend/collective.h"
#include "backend/cuda/cuda.h"
#include "backend/gpu/choices.h"
#include "backend/gpu/layout.h"
#include "backend/gpu/workers.h"
#include "backend/peers.h"
#include "base/alloc.h"
#include "base/pool.h"
#include "ops/op.h"
#include "ops/update_shape.h"
#include "quant/encoding.h"

/* X(result, `return` or nothing, name, parameters, arguments) */
#define TERN_CUDA_HOST_LIST(X)                                                                                         \
    X(void *, return, tern_calloc, (size_t count, size_t bytes), (count, bytes))                                       \
    X(void, , tern_free, (void *p), (p))                                                                               \
    X(char *, return, tern_strdup, (const char *s), (s))                                                               \
    X(void, , tern_pool_close, (tern_pool * pool), (pool))                                                             \
    X(const tern_encoding *, return, tern_encoding_by_name, (const char *name), (name))                                \
    X(const tern_cache_type *, return, tern_cache_type_of, (tern_dtype dtype), (dtype))                                \
    X(const char *, return, tern_op_name, (tern_op_kind kind), (kind))                                                 \
    X(tern_halves, return, tern_op_halves_of, (const tern_encoding *encoding), (encoding))                             \
    X(float, return, tern_op_score_scale, (const tern_op *op), (op))                                                   \
    X(tern_status, return, tern_update_shape_of,                                                                       \
      (tern_update_shape * shape, const tern_graph *graph, const tern_op *op, tern_error *err),                        \
      (shape, graph, op, err))                                                                                         \
    X(void, , tern_collective_begin,                                                                                   \
      (tern_collective_place * places, uint32_t n_owners, const tern_collective_tensor *tensors, size_t n),            \
      (places, n_owners, tensors, n))                                                                                  \
    X(bool, return, tern_collective_next,                                                                              \
      (tern_collective_place * places, tern_collective_piece * pieces, uint32_t n_owners, size_t most),                \
      (places, pieces, n_owners, most))                                                                                \
    X(tern_collective_part, return, tern_collective_next_part, (tern_collective_place * place, size_t most),           \
      (place, most))                                                                                                   \
    X(tern_status, return, tern_gpu_layout_of,                                                                         \
      (tern_gpu_layout * layout, const tern_weight *w, const tern_gpu_caps *caps, tern_error *err),                    \
      (layout, w, caps, err))                                                                                          \
    X(uint32_t, return, tern_gpu_token_class, (uint32_t tokens), (tokens))                                             \
    X(tern_status, return, tern_gpu_workers_pack,                                                                      \
      (tern_gpu_workers * workers, const tern_gpu_layout *layout, const tern_weight *w, uint32_t first, uint32_t n,    \
       uint8_t *out, tern_error *err),                                                                                 \
      (workers, layout, w, first, n, out, err))

typedef struct tern_cuda_host {
#define TERN_CUDA_HOST_MEMBER(result, give, name, parameters, arguments) result(*name) parameters;
    TERN_CUDA_HOST_LIST(TERN_CUDA_HOST_MEMBER)
#undef TERN_CUDA_HOST_MEMBER
} tern_cuda_host;

/* The one function of the module; the host's functions are there for ever. */
#define TERN_CUDA_MODULE_OPEN "tern_cuda_module_open"
typedef const tern_cuda_module *(*tern_cuda_module_open_fn)(const tern_cuda_host *host);

#endif
