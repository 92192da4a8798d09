/* Ops of training that go element by element or row by row. */
#include "backend/cuda/training/exact.cuh"
#include "backend/cuda/training/training.h"

enum { THREADS = 256, WIDE = 1024 };

static dim3 grid_of(tern_cuda_count c, uint32_t cols)
{
    return dim3((cols + THREADS - 1) / THREADS, c.most);
}

static __device__ __forceinline__ float at(tern_cuda_rows r, uint32_t t, uint32_t c)
{
    return r.data[(size_t)t * r.stride + c];
}

static __global__ void dropout(tern_cuda_train_rows p)
{
    const uint32_t t = blockIdx.y, c = blockIdx.x * THREADS + threadIdx.x;
    if (t >= tern_rows_now(p.count) || c >= p.cols) return;
    const uint32_t seed = p.params->dropout_seed + p.stream;
    const float x = at(p.a, t, c);
    p.out.data[(size_t)t * p.out.stride + c] =
        random_bits(seed, t * p.cols + c) >= p.threshold ? __fmul_rn(x, p.factor) : 0;
}

cudaError_t tern_cuda_run_dropout(const tern_cuda_train_rows *p, cudaStream_t stream)
{
    dropout<<<grid_of(p->count, p->cols), THREADS, 0, stream>>>(*p);
    return cudaGetLastError();
}

static __device__ __forceinline__ float finite(float v)
{
    if (v != v) return 0;
    return fminf(fmaxf(v, -3.402823466e38f), 3.402823466e38f);
}

static __global__ void fake_quantize(tern_cuda_train_rows p)
{
    __shared__ float room[32];
    const uint32_t t = blockIdx.x;
    if (t >= tern_rows_now(p.count)) return;
    float most = 1e-5f;
    for (uint32_t c = threadIdx.x; c < p.cols; c += THREADS) most = fmaxf(most, fabsf(finite(at(p.a, t, c))));
    const float scale = __fdiv_rn(127.0f, tern_block_max(most, room)), inverse = __fdiv_rn(1.0f, scale);
    const float blend = p.params->blend;
    for (uint32_t c = threadIdx.x; c < p.cols; c += THREADS) {
        const float x = at(p.a, t, c);
        const float level = (float)max(-128, min(127, __float2int_rn(__fmul_rn(finite(x), scale))));
        p.out.data[(size_t)t * p.out.stride + c] =
            __fadd_rn(x, __fmul_rn(blend, __fsub_rn(__fmul_rn(level, inverse), x)));
    }
}

cudaError_t tern_cuda_run_fake_quantize(const tern_cuda_train_rows *p, cudaStream_t stream)
{
    fake_quantize<<<p->count.most, THREADS, 0, stream>>>(*p);
    return cudaGetLastError();
}

static __global__ void softcap_backward(tern_cuda_train_rows p)
{
    const uint32_t t = blockIdx.y, c = blockIdx.x * THREADS + threadIdx.x;
    if (t >= tern_rows_now(p.count) || c >= p.cols) return;
    const float y = tern_softcap(at(p.a, t, c) * p.scale, p.softcap), u = y / p.softcap;
    float dx = at(p.b, t, c) * (1.0f - u * u) * p.scale;
    if (p.residual.data) dx += at(p.residual, t, c);
    p.out.data[(size_t)t * p.out.stride + c] = dx;
}

cudaError_t tern_cuda_run_softcap_backward(const tern_cuda_train_rows *p, cudaStream_t stream)
{
    softcap_backward<<<grid_of(p->count, p->cols), THREADS, 0, stream>>>(*p);
    return cudaGetLastError();
}

/* dgate and dup as ops/ref/backward_gate.c. */
static __device__ float2 gate_gradient(uint32_t activation, float g, float u, float dy, float limit)
{
    if (activation == TERN_ACT_RELU2) {
        const float r = g > 0 ? g : 0;
        return make_float2(dy * u * (r + r), dy * (r * r));
    }
    if (activation == TERN_ACT_SILU) {
        const float s = 1.0f / (1.0f + tern_exp(-g));
        return make_float2(dy * u * (s * (1.0f + g * (1.0f - s))), dy * (g * s));
    }
    if (activation == TERN_ACT_GELU) {
        const float w = (g + g * g * g * 0.044715f) * 1.5957691216f, s = 1.0f / (1.0f + tern_exp(-w));
        const float slope = 1.5957691216f * (1.0f + 3 * 0.044715f * (g * g));
        return make_float2(dy * u * (s + s * (1.0f - s) * g * slope), dy * (g * s));
    }
    if (activation == TERN_ACT_SIGMOID) {
        const float s = 1.0f / (1.0f + tern_exp(-g));
        return make_float2(dy * u * (s * (1.0f - s)), dy * s);
    }
    const float x = g > limit ? limit : g, y = u > limit ? limit : u < -limit ? -limit : u;
    const bool oai = activation == TERN_ACT_SWIGLU_OAI;
    const float w = oai ? x * 1.702f : x, s = 1.0f / (1.0f + tern_exp(-w));
    return make_float2(g > limit ? 0 : dy * (oai ? y + 1.0f : y) * (s * (1.0f + w * (1.0f - s))),
                       u > limit || u < -limit ? 0 : dy * (x * s));
}

static __global__ void gate_backward(tern_cuda_train_rows p)
{
    const uint32_t t = blockIdx.y, c = blockIdx.x * THREADS + threadIdx.x;
    if (t >= tern_rows_now(p.count) || c >= p.cols) return;
    const float2 d = gate_gradient(p.activation, at(p.a, t, c), at(p.b, t, c), at(p.c, t, c), p.limit);
    p.out.data[(size_t)t * p.out.stride + c] = p.residual.data ? at(p.residual, t, c) + d.x : d.x;
    p.second.data[(size_t)t * p.second.stride + c] = d.y;
}

/* A gate of one column: its slope times the dot product of dy and up. A block for each row. */
static __global__ void one_gate_backward(tern_cuda_train_rows p)
{
    __shared__ float room[32];
    const uint32_t t = blockIdx.x;
    if (t >= tern_rows_now(p.count)) return;
    const float2 of_one = gate_gradient(p.activation, at(p.a, t, 0), 1.0f, 1.0f, p.limit);
    float dot = 0;
    for (uint32_t c = threadIdx.x; c < p.cols; c += THREADS) {
        const float dy = at(p.c, t, c);
        dot += dy * at(p.b, t, c);
        p.second.data[(size_t)t * p.second.stride + c] = dy * of_one.y;
    }
    dot = tern_block_sum(dot, room);
    if (threadIdx.x) return;
    p.out.data[(size_t)t * p.out.stride] = p.residual.data ? at(p.residual, t, 0) + dot * of_one.x : dot * of_one.x;
}

cudaError_t tern_cuda_run_gate_backward(const tern_cuda_train_rows *p, cudaStream_t stream)
{
    if (p->one_gate) {
        one_gate_backward<<<p->count.most, THREADS, 0, stream>>>(*p);
        return cudaGetLastError();
    }
    gate_backward<<<grid_of(p->count, p->cols), THREADS, 0, stream>>>(*p);
    return cudaGetLastError();
}

static __global__ void __launch_bounds__(WIDE) cross_entropy(tern_cuda_train_rows p)
{
    __shared__ float room[32], sums[32];
    const uint32_t t = blockIdx.x;
    if (t >= tern_rows_now(p.count)) return;
    float *z = p.a.data + (size_t)t * p.a.stride;
    const int32_t label = p.labels[t];
    if (label < 0 || (uint32_t)label >= p.cols) {
        for (uint32_t c = threadIdx.x; c < p.cols; c += WIDE) z[c] = 0;
        if (threadIdx.x == 0) p.out.data[(size_t)t * p.out.stride] = 0;
        return;
    }
    const float wanted = z[label], weight = p.params->loss_weight;
    float most = __uint_as_float(0xff800000u), sum = 0;
    for (uint32_t c = threadIdx.x; c < p.cols; c += WIDE) most = fmaxf(most, z[c]);
    most = tern_block_max(most, room);
    for (uint32_t c = threadIdx.x; c < p.cols; c += WIDE) sum += tern_exp(z[c] - most);
    sum = tern_block_sum(sum, sums);
    const float r = 1.0f / sum;
    for (uint32_t c = threadIdx.x; c < p.cols; c += WIDE)
        z[c] = weight * (tern_exp(z[c] - most) * r - (c == (uint32_t)label ? 1.0f : 0.0f));
    if (threadIdx.x == 0)
        p.out.data[(size_t)t * p.out.stride] = (float)(log((double)sum) + (double)most - (double)wanted);
}

cudaError_t tern_cuda_run_cross_entropy(const tern_cuda_train_rows *p, cudaStream_t stream)
{
    cross_entropy<<<p->count.most, WIDE, 0, stream>>>(*p);
    return cudaGetLastError();
}
