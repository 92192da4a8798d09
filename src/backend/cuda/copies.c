/* Copies on a stream of their own, beside what runs. */
#include "backend/cuda/cuda_internal.h"

static tern_status open_stream(tern_cuda *cuda, tern_error *err)
{
    tern_cuda_beside *b = &cuda->beside;
    if (b->stream) return TERN_OK;
    TERN_TRY(tern_cuda__status(cudaStreamCreateWithFlags(&b->stream, cudaStreamNonBlocking), "a stream", err));
    for (int i = 0; i < 2; i++)
        TERN_TRY(tern_cuda__status(cudaEventCreateWithFlags(&b->ran[i], cudaEventDisableTiming), "an event", err));
    return tern_cuda__status(cudaEventCreateWithFlags(&b->arrived, cudaEventDisableTiming), "an event", err);
}

void tern_cuda__beside_close(tern_cuda *cuda)
{
    tern_cuda_beside *b = &cuda->beside;
    for (int i = 0; i < 2; i++)
        if (b->ran[i]) cudaEventDestroy(b->ran[i]);
    if (b->arrived) cudaEventDestroy(b->arrived);
    if (b->stream) cudaStreamDestroy(b->stream);
    *b = (tern_cuda_beside){0};
}

/* Behind all runs but the last; behind that one too, where nobody noted the end of the one before. */
static tern_status follow(tern_cuda *cuda, tern_error *err)
{
    tern_cuda_beside *b = &cuda->beside;
    TERN_TRY(open_stream(cuda, err));
    cudaEvent_t after = b->ran[b->n_ran % 2];
    if (b->n_ran < 2) TERN_TRY(tern_cuda__status(cudaEventRecord(after, cuda->stream), "an event", err));
    return tern_cuda__status(cudaStreamWaitEvent(b->stream, after, 0), "an event", err);
}

tern_status tern_cuda__beside(tern_cuda *cuda, bool but_last, cudaStream_t *stream, tern_error *err)
{
    tern_cuda_beside *b = &cuda->beside;
    TERN_TRY(follow(cuda, err));
    *stream = b->stream;
    b->busy = true;
    if (but_last) return TERN_OK;
    TERN_TRY(tern_cuda__status(cudaEventRecord(b->arrived, cuda->stream), "an event", err));
    return tern_cuda__status(cudaStreamWaitEvent(b->stream, b->arrived, 0), "an event", err);
}

tern_status tern_cuda__join(tern_cuda *cuda, tern_error *err)
{
    tern_cuda_beside *b = &cuda->beside;
    if (!b->busy) return TERN_OK;
    b->busy = false;
    TERN_TRY(tern_cuda__status(cudaEventRecord(b->arrived, b->stream), "an event", err));
    return tern_cuda__status(cudaStreamWaitEvent(cuda->stream, b->arrived, 0), "an event", err);
}

tern_status tern_cuda__note_run(tern_cuda *cuda, tern_error *err)
{
    tern_cuda_beside *b = &cuda->beside;
    if (!b->stream) return TERN_OK;
    return tern_cuda__status(cudaEventRecord(b->ran[b->n_ran++ % 2], cuda->stream), "an event", err);
}

tern_status tern_cuda__write_beside(tern_cuda *cuda, uint8_t *to, const void *data, uint64_t bytes, tern_error *err)
{
    TERN_TRY(follow(cuda, err));
    cuda->beside.busy = true;
    cuda->counters.uploaded_bytes += bytes;
    return tern_cuda__status(cudaMemcpyAsync(to, data, bytes, cudaMemcpyHostToDevice, cuda->beside.stream), "writing",
                             err);
}

tern_status tern_cuda__read_beside(tern_cuda *cuda, const uint8_t *from, void *data, uint64_t bytes, tern_error *err)
{
    TERN_TRY(follow(cuda, err));
    cuda->counters.downloaded_bytes += bytes;
    TERN_TRY(tern_cuda__status(cudaMemcpyAsync(data, from, bytes, cudaMemcpyDeviceToHost, cuda->beside.stream),
                               "reading", err));
    return tern_cuda__status(cudaStreamSynchronize(cuda->beside.stream), "the device", err);
}

void tern_cuda__pin(void *data, uint64_t bytes, bool pinned)
{
    const cudaError_t e = pinned ? cudaHostRegister(data, bytes, cudaHostRegisterDefault) : cudaHostUnregister(data);
    if (e != cudaSuccess) (void)cudaGetLastError(); /* copies are slower then */
}
