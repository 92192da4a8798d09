/* Memory of the device, and the way there and back. */
#include <string.h>

#include "backend/cuda/cuda_internal.h"
#include "base/alloc.h"

tern_status tern_cuda__buffer_make(tern_cuda *cuda, uint64_t bytes, tern_buffer **out, tern_error *err)
{
    void *data = NULL;
    tern_buffer *buffer = tern_calloc(1, sizeof *buffer);
    if (!buffer) return tern_fail_alloc(err, sizeof *buffer);
    const cudaError_t e = cudaMalloc(&data, bytes ? bytes : 16);
    if (e != cudaSuccess) {
        (void)cudaGetLastError();
        tern_free(buffer);
        return e == cudaErrorMemoryAllocation
                   ? tern_fail(err, TERN_OUT_OF_MEMORY, "cuda: no room for %llu bytes on the device",
                               (unsigned long long)bytes)
                   : tern_cuda__status(e, "memory", err);
    }
    *buffer = (tern_buffer){.data = data, .bytes = bytes};
    cuda->counters.buffers++;
    cuda->counters.allocations++;
    *out = buffer;
    return TERN_OK;
}

void tern_cuda__buffer_free(tern_buffer *buffer)
{
    if (!buffer) return;
    tern_cuda__buffer_free(buffer->screen);
    cudaFree(buffer->data);
    tern_free(buffer);
}

tern_status tern_cuda__write(tern_cuda *cuda, uint8_t *to, const void *data, uint64_t bytes, tern_error *err)
{
    if (!bytes) return TERN_OK;
    TERN_TRY(tern_cuda__join(cuda, err));
    cuda->counters.uploaded_bytes += bytes;
    return tern_cuda__status(cudaMemcpyAsync(to, data, bytes, cudaMemcpyHostToDevice, cuda->stream), "writing", err);
}

tern_status tern_cuda__read(tern_cuda *cuda, const uint8_t *from, void *data, uint64_t bytes, tern_error *err)
{
    TERN_TRY(tern_cuda__join(cuda, err));
    if (bytes) {
        TERN_TRY(tern_cuda__status(cudaMemcpyAsync(data, from, bytes, cudaMemcpyDeviceToHost, cuda->stream), "reading",
                                   err));
        cuda->counters.downloaded_bytes += bytes;
    }
    return tern_cuda__status(cudaStreamSynchronize(cuda->stream), "the device", err);
}
