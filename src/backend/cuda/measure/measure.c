/* How fast the device is at most. */
#include "backend/cuda/cuda_internal.h"

enum { THREADS_IN_ALL = 2048 * 256, RATE_STEPS = 1 << 16, LARGE = 64 << 20 };
static const uint64_t own_bytes = (uint64_t)1 << 30;

typedef struct subject {
    tern_measure what;
    const void *data;
    uint64_t bytes;
    uint32_t *sink;
} subject;

static cudaError_t once(const subject *s, cudaStream_t stream)
{
    if (s->what == TERN_MEASURE_READ) return tern_cuda_run_reads(s->data, s->bytes, s->sink, stream);
    return tern_cuda_run_rate(s->what == TERN_MEASURE_DOTS, RATE_STEPS, s->sink, stream);
}

/* Runs it until the time is over; units per second. */
static double timed(tern_cuda *cuda, const subject *s, double seconds)
{
    cudaEvent_t from, to;
    float ms = 0;
    double passed = 0, n = 0;
    if (cudaEventCreate(&from) != cudaSuccess || cudaEventCreate(&to) != cudaSuccess) return 0;
    bool ok = once(s, cuda->stream) == cudaSuccess;
    while (ok && passed < seconds) {
        cudaEventRecord(from, cuda->stream);
        for (int i = 0; i < 4 && ok; i++) ok = once(s, cuda->stream) == cudaSuccess;
        cudaEventRecord(to, cuda->stream);
        ok = ok && cudaEventSynchronize(to) == cudaSuccess && cudaEventElapsedTime(&ms, from, to) == cudaSuccess &&
             ms > 0;
        passed += (double)ms * 1e-3;
        n += 4;
    }
    cudaEventDestroy(from);
    cudaEventDestroy(to);
    const double units = s->what == TERN_MEASURE_READ ? (double)s->bytes : (double)THREADS_IN_ALL * RATE_STEPS;
    return ok && passed > 0 ? n * units / passed : 0;
}

double tern_cuda__measure(tern_cuda *cuda, tern_measure what, tern_buffer *const *buffers, size_t n, double seconds)
{
    subject s = {.what = what};
    void *own = NULL, *sink = NULL;
    for (size_t i = 0; i < n; i++)
        if (buffers[i]->bytes > s.bytes) s.data = buffers[i]->data, s.bytes = buffers[i]->bytes;
    if (what == TERN_MEASURE_READ && s.bytes < LARGE) {
        if (cudaMalloc(&own, own_bytes) != cudaSuccess) return 0;
        s.data = own;
        s.bytes = own_bytes;
    }
    double rate = 0;
    if (cudaMalloc(&sink, sizeof *s.sink) == cudaSuccess) {
        s.sink = sink;
        rate = timed(cuda, &s, seconds);
    }
    cudaFree(sink);
    cudaFree(own);
    return rate;
}
