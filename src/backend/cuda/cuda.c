/* The CUDA backend's table of functions: each takes the lock, so that sessions on several threads take turns. */
#include "backend/cuda/cuda_internal.h"
#include "backend/range.h"
#include "base/alloc.h"
#include "base/pool.h"
#include "ops/op.h"

tern_status tern_cuda__status(cudaError_t e, const char *what, tern_error *err)
{
    if (e == cudaSuccess) return TERN_OK;
    return tern_fail(err, e == cudaErrorMemoryAllocation ? TERN_OUT_OF_MEMORY : TERN_INTERNAL, "cuda: %s: %s", what,
                     cudaGetErrorString(e));
}

static tern_cuda *lock(const tern_backend *b)
{
    tern_cuda *cuda = (tern_cuda *)(uintptr_t)b;
    pthread_mutex_lock(&cuda->lock);
    cudaSetDevice(cuda->index);
    return cuda;
}

static tern_status unlock(tern_cuda *cuda, tern_status status)
{
    pthread_mutex_unlock(&cuda->lock);
    return status;
}

static void cuda_close(tern_backend *b)
{
    if (!b) return;
    tern_cuda *cuda = (tern_cuda *)b;
    if (cuda->stream) {
        cudaSetDevice(cuda->index);
        cudaStreamSynchronize(cuda->stream);
        for (int i = 0; i < TERN_CUDA_STAGINGS; i++) {
            cudaFreeHost(cuda->staging[i]);
            if (cuda->copied[i]) cudaEventDestroy(cuda->copied[i]);
        }
        tern_cuda__peers_close(cuda);
        tern_cuda__beside_close(cuda);
        cudaStreamDestroy(cuda->stream);
    }
    tern_pool_close(cuda->workers.pool);
    pthread_mutex_destroy(&cuda->lock);
    tern_free(cuda->rows);
    tern_free(cuda->choices);
    tern_free(cuda);
}

static tern_status buffer_create(tern_backend *b, uint64_t bytes, tern_buffer **out, tern_error *err)
{
    tern_cuda *cuda = lock(b);
    tern_buffer *buffer = NULL;
    tern_status status = tern_cuda__buffer_make(cuda, bytes, &buffer, err);
    if (status == TERN_OK)
        status = tern_cuda__status(cudaMemsetAsync(buffer->data, 0, bytes, cuda->stream), "zeroing", err);
    if (status == TERN_OK) *out = buffer;
    else tern_cuda__buffer_free(buffer);
    return unlock(cuda, status);
}

static void buffer_free(tern_backend *b, tern_buffer *buffer)
{
    if (!buffer) return;
    tern_cuda *cuda = lock(b);
    cudaStreamSynchronize(cuda->stream);
    tern_cuda__buffer_free(buffer);
    unlock(cuda, TERN_OK);
}

static tern_status buffer_write(tern_backend *b, tern_buffer *buffer, uint64_t offset, const void *data, uint64_t bytes,
                                tern_error *err)
{
    TERN_TRY(tern_backend_check_range(buffer->bytes, offset, bytes, err));
    tern_cuda *cuda = lock(b);
    return unlock(cuda, tern_cuda__write(cuda, buffer->data + offset, data, bytes, err));
}

static tern_status buffer_read(tern_backend *b, const tern_buffer *buffer, uint64_t offset, void *data, uint64_t bytes,
                               tern_error *err)
{
    TERN_TRY(tern_backend_check_range(buffer->bytes, offset, bytes, err));
    tern_cuda *cuda = lock(b);
    return unlock(cuda, tern_cuda__read(cuda, buffer->data + offset, data, bytes, err));
}

static tern_status write_beside(tern_backend *b, tern_buffer *buffer, uint64_t offset, const void *data, uint64_t bytes,
                                tern_error *err)
{
    TERN_TRY(tern_backend_check_range(buffer->bytes, offset, bytes, err));
    tern_cuda *cuda = lock(b);
    return unlock(cuda, tern_cuda__write_beside(cuda, buffer->data + offset, data, bytes, err));
}

static tern_status read_beside(tern_backend *b, const tern_buffer *buffer, uint64_t offset, void *data, uint64_t bytes,
                               tern_error *err)
{
    TERN_TRY(tern_backend_check_range(buffer->bytes, offset, bytes, err));
    tern_cuda *cuda = lock(b);
    return unlock(cuda, tern_cuda__read_beside(cuda, buffer->data + offset, data, bytes, err));
}

static void pin(tern_backend *b, void *data, uint64_t bytes, bool pinned)
{
    tern_cuda *cuda = lock(b);
    tern_cuda__pin(data, bytes, pinned);
    unlock(cuda, TERN_OK);
}

static const tern_backend_copies copies = {.write_beside = write_beside, .read_beside = read_beside, .pin = pin};

static void identify(tern_backend *b, char name[static TERN_PEER_NAME_BYTES], char why[static TERN_PEERS_WHY_BYTES])
{
    tern_cuda *cuda = lock(b);
    tern_cuda__peers_identify(cuda, name, why);
    unlock(cuda, TERN_OK);
}

static tern_status join(tern_backend *b, tern_ranks *ranks, tern_error *err)
{
    tern_cuda *cuda = lock(b);
    return unlock(cuda, tern_cuda__peers_join(cuda, ranks, err));
}

static tern_status add(tern_backend *b, const tern_collective_tensor *tensors, size_t n,
                       const tern_collective_passes *passes, tern_error *err)
{
    tern_cuda *cuda = lock(b);
    return unlock(cuda, tern_cuda__peers_add(cuda, tensors, n, passes, err));
}

static tern_status spread(tern_backend *b, const tern_collective_tensor *tensors, size_t n, tern_error *err)
{
    tern_cuda *cuda = lock(b);
    return unlock(cuda, tern_cuda__peers_spread(cuda, tensors, n, err));
}

static tern_status finish(tern_backend *b, tern_error *err)
{
    tern_cuda *cuda = lock(b);
    return unlock(cuda, tern_cuda__peers_finish(cuda, err));
}

static const tern_backend_peers peers = {
    .identify = identify, .join = join, .add = add, .spread = spread, .finish = finish};

static tern_status wait_for_all(tern_cuda *cuda, tern_error *err)
{
    TERN_TRY(tern_cuda__join(cuda, err));
    return tern_cuda__status(cudaStreamSynchronize(cuda->stream), "the device", err);
}

static tern_status weight_create(tern_backend *b, const tern_weight *w, tern_buffer **out, tern_error *err)
{
    tern_cuda *cuda = lock(b);
    return unlock(cuda, tern_cuda__weight_make(cuda, w, out, err));
}

static tern_status weight_write(tern_backend *b, tern_buffer *buffer, const tern_weight *part, uint32_t first,
                                tern_error *err)
{
    tern_cuda *cuda = lock(b);
    return unlock(cuda, tern_cuda__weight_write(cuda, buffer, part, first, err));
}

static tern_status prepare(tern_backend *b, const tern_graph *graph, const tern_binding *bindings, tern_prepared **out,
                           tern_error *err)
{
    tern_cuda *cuda = lock(b);
    return unlock(cuda, tern_cuda__prepare(cuda, graph, bindings, out, err));
}

static void prepared_free(tern_backend *b, tern_prepared *prepared)
{
    if (!prepared) return;
    tern_cuda *cuda = lock(b);
    cudaStreamSynchronize(cuda->stream);
    tern_cuda__prepared_free(prepared);
    unlock(cuda, TERN_OK);
}

static tern_status run(tern_backend *b, tern_prepared *prepared, uint32_t n_steps, tern_error *err)
{
    tern_cuda *cuda = lock(b);
    return unlock(cuda, tern_cuda__run(cuda, prepared, n_steps, err));
}

static tern_status wait(tern_backend *b, tern_error *err)
{
    tern_cuda *cuda = lock(b);
    return unlock(cuda, wait_for_all(cuda, err));
}

static uint64_t memory_free(const tern_backend *b)
{
    size_t free_bytes = 0, total = 0;
    tern_cuda *cuda = lock(b);
    if (cudaMemGetInfo(&free_bytes, &total) != cudaSuccess) free_bytes = 0;
    unlock(cuda, TERN_OK);
    return free_bytes;
}

static tern_status weight_bytes(const tern_backend *b, const tern_weight *w, uint64_t *bytes, tern_error *err)
{
    (void)b;
    tern_gpu_layout layout;
    TERN_TRY(tern_cuda__layout(&layout, w, err));
    *bytes = layout.bytes;
    return TERN_OK;
}

static void counters(const tern_backend *b, tern_backend_counters *out)
{
    tern_cuda *cuda = lock(b);
    *out = cuda->counters;
    unlock(cuda, TERN_OK);
}

static double measure(tern_backend *b, tern_measure what, tern_buffer *const *buffers, size_t n, double seconds)
{
    tern_cuda *cuda = lock(b);
    const double rate = tern_cuda__measure(cuda, what, buffers, n, seconds);
    unlock(cuda, TERN_OK);
    return rate;
}

static size_t profile(const tern_backend *b, tern_profile_row *rows, size_t cap)
{
    tern_cuda *cuda = lock(b);
    const size_t n = cuda->n_rows;
    for (size_t i = 0; i < n && i < cap; i++) rows[i] = cuda->rows[i];
    unlock(cuda, TERN_OK);
    return n;
}

static const tern_backend functions = {.copies = &copies,
                                       .peers = &peers,
                                       .close = cuda_close,
                                       .buffer_create = buffer_create,
                                       .buffer_free = buffer_free,
                                       .buffer_write = buffer_write,
                                       .buffer_read = buffer_read,
                                       .weight_create = weight_create,
                                       .weight_write = weight_write,
                                       .supports = tern_cuda__supports,
                                       .prepare = prepare,
                                       .prepared_free = prepared_free,
                                       .run = run,
                                       .wait = wait,
                                       .memory_free = memory_free,
                                       .weight_bytes = weight_bytes,
                                       .counters = counters,
                                       .measure = measure,
                                       .profile = profile};

static tern_status open_device(tern_cuda *cuda, const tern_cuda_options *options, tern_error *err)
{
    TERN_TRY(tern_cuda__pick(options->device, &cuda->index, &cuda->device, err));
    TERN_TRY(tern_cuda__status(cudaSetDevice(cuda->index), cuda->device.name, err));
    int shared = 0;
    TERN_TRY(tern_cuda__status(cudaDeviceGetAttribute(&shared, cudaDevAttrMaxSharedMemoryPerBlockOptin, cuda->index),
                               cuda->device.name, err));
    cuda->limits = (tern_cuda_product_device){.capability = cuda->device.major * 10 + cuda->device.minor,
                                              .multiprocessors = cuda->device.processors,
                                              .shared_bytes = (uint32_t)shared};
    tern_cuda_product_clusters(&cuda->limits);
    return tern_cuda__status(cudaStreamCreateWithFlags(&cuda->stream, cudaStreamNonBlocking), "a stream", err);
}

tern_status tern_cuda_open(tern_backend **backend, const tern_cuda_options *options, tern_error *err)
{
    *backend = NULL;
    tern_cuda *cuda = tern_calloc(1, sizeof *cuda);
    if (!cuda) return tern_fail_alloc(err, sizeof *cuda);
    pthread_mutex_init(&cuda->lock, NULL);
    cuda->base = functions;
    cuda->workers.n_threads = options->n_threads;
    cuda->profile = options->profile;
    tern_status status = open_device(cuda, options, err);
    if (status == TERN_OK) status = tern_cuda_choose(&cuda->base, options->choices, options->n_choices, err);
    cuda->base.info = (tern_backend_info){.name = "cuda",
                                          .device = cuda->device.name,
                                          .driver = cuda->device.driver,
                                          .memory = cuda->device.memory,
                                          .fusions = TERN_FUSION_LINEAR_NORM | TERN_FUSION_ROPE_ATTENTION,
                                          .max_steps = TERN_SAMPLE_MAX_STEPS,
                                          .samples_rows = true,
                                          .groups_rows = true,
                                          .halves = true,
                                          .screens = true,
                                          .cache_blocks = TERN_CUDA_BLOCK_HEADS,
                                          .copies_weights = true,
                                          .unified = cuda->device.unified};
    if (status == TERN_OK) *backend = &cuda->base;
    else cuda_close(&cuda->base);
    return status;
}
