/* Operands and rates of the gated delta rule (ops/ref/recurrent/recurrent.h). */
#ifndef TERN_BACKEND_CUDA_RECURRENT_DELTA_CUH
#define TERN_BACKEND_CUDA_RECURRENT_DELTA_CUH

#include "backend/cuda/recurrent/run.cuh"

/* ln(1 + e^x) as max(x, 0) + 2 atanh(s), s = e / (2 + e), e = e^-|x|: no digit is lost where the result is small. */
static __device__ inline float softplus_of(float x)
{
    const float e = tern_exp(-fabsf(x)), s = e / (2.0f + e), t = s * s;
    float sum = 1.0f / 17;
    sum = sum * t + 1.0f / 15;
    sum = sum * t + 1.0f / 13;
    sum = sum * t + 1.0f / 11;
    sum = sum * t + 1.0f / 9;
    sum = sum * t + 1.0f / 7;
    sum = sum * t + 1.0f / 5;
    sum = sum * t + 1.0f / 3;
    sum = sum * t + 1.0f;
    return x != x ? x : fmaxf(x, 0.0f) + 2.0f * s * sum;
}

static __device__ __forceinline__ float sigmoid_of(float x)
{
    return 1.0f / (1.0f + tern_exp(-x));
}

static __device__ __forceinline__ float rate_of(const tern_cuda_delta &p, uint32_t head)
{
    return p.log_decay ? -tern_exp(p.decay[head]) : p.decay[head];
}

/* The logarithm of what the state of a head is multiplied by in row t. */
static __device__ inline float log_decay(const tern_cuda_delta &p, uint32_t t, uint32_t head)
{
    return rate_of(p, head) * softplus_of(p.a.data[(size_t)t * p.a.stride + head] + p.dt[head]);
}

static __device__ __forceinline__ float beta_of(const tern_cuda_delta &p, uint32_t t, uint32_t head)
{
    return sigmoid_of(p.b.data[(size_t)t * p.b.stride + head]);
}

static __device__ __forceinline__ uint32_t key_head(const tern_cuda_delta &p, uint32_t head)
{
    return p.tiled ? head % p.n_key_heads : head / (p.n_heads / p.n_key_heads);
}

static __device__ __forceinline__ const float *head_row(tern_cuda_rows rows, uint32_t t, uint32_t head, uint32_t dim)
{
    return rows.data + (size_t)t * rows.stride + (size_t)head * dim;
}

/* The numbers of a key of a head in a state, from column c on. */
static __device__ __forceinline__ float *state_at(const tern_cuda_delta &p, uint32_t state, uint32_t head, uint32_t key,
                                                  uint32_t c)
{
    return p.state + (size_t)state * p.state_stride + ((size_t)head * p.keys + key) * p.values + c;
}

/* Training keeps the state before row t as this one, or not at all. */
static __device__ __forceinline__ uint32_t state_kept(const tern_cuda_delta &p, uint32_t t, uint32_t n)
{
    const bool is_kept = !p.runs.positions && t % TERN_CUDA_DELTA_CHUNK == 0 && t + TERN_CUDA_DELTA_CHUNK <= n;
    return is_kept ? t / TERN_CUDA_DELTA_CHUNK : NO_STATE;
}

static __device__ __forceinline__ void add_product(float4 &to, float a, float4 b)
{
    to.x += a * b.x;
    to.y += a * b.y;
    to.z += a * b.z;
    to.w += a * b.w;
}

static __device__ __forceinline__ float4 scaled_by(float4 x, float a)
{
    return make_float4(x.x * a, x.y * a, x.z * a, x.w * a);
}

template <bool ALIGNED> static __device__ __forceinline__ void put_four(float *to, float4 x)
{
    if (ALIGNED) *(float4 *)to = x;
    else to[0] = x.x, to[1] = x.y, to[2] = x.z, to[3] = x.w;
}

/* Whether heads of rows lie at multiples of 16 bytes. */
static inline bool has_aligned_heads(const tern_cuda_delta *p)
{
    return p->keys % 4 == 0 && tern_is_aligned(p->q) && tern_is_aligned(p->k) && tern_is_aligned(p->v) &&
           tern_is_aligned(p->out);
}

/* Whether the run whose first row is `first` is computed in chunks. */
static __device__ __forceinline__ bool is_chunked(const tern_cuda_delta &p, uint32_t first, uint32_t n)
{
    if (p.chunked == 0) return true;
    return p.chunked <= n - first && p.runs.sequences[first + p.chunked - 1] == p.runs.sequences[first];
}

cudaError_t tern_delta_chunks(const tern_cuda_delta *p, cudaStream_t stream);

#endif
