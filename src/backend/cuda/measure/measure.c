/* The highest rates of the device. */
#include "backend/cuda/cuda_internal.h"
#include "backend/cuda/measure/dots.h"

enum { THREADS_IN_ALL = 2048 * 256, RATE_STEPS = 1 << 16, LARGE = 64 << 20 };
static const uint64_t own_bytes = (uint64_t)1 << 30;

typedef struct subject {
    tern_measure what;
    const void *data;
    uint64_t bytes;
    tern_cuda_dots dots;
    uint32_t *sink;
} subject;

static cudaError_t once(const subject *s, cudaStream_t stream)
{
    switch (s->what) {
    case TERN_MEASURE_READ: return tern_cuda_run_reads(s->data, s->bytes, s->sink, stream);
    case TERN_MEASURE_DOTS: return tern_cuda_run_dots(&s->dots, s->sink, stream);
    default: return tern_cuda_run_fmas(RATE_STEPS, s->sink, stream);
    }
}

/* Bytes or multiply-adds of one launch. */
static double units(const subject *s)
{
    switch (s->what) {
    case TERN_MEASURE_READ: return (double)s->bytes;
    case TERN_MEASURE_DOTS: return s->dots.multiply_adds;
    default: return (double)THREADS_IN_ALL * RATE_STEPS;
    }
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
    return ok && passed > 0 ? n * units(s) / passed : 0;
}

double tern_cuda__measure(tern_cuda *cuda, tern_measure what, tern_buffer *const *buffers, size_t n, double seconds)
{
    subject s = {.what = what, .dots = tern_cuda__dots(&cuda->limits)};
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
