/* The optimiser, to the bits of ops/ref/update.h: norms of gradients and steps. */
#include "backend/cuda/training/exact.cuh"
#include "backend/cuda/training/table.cuh"

enum { BLOCK = 256, LANES = 128, AHEAD = 16, EACH = 4 };

/* ---- SUM_SQUARES: runs of 4096 in 128 lanes and a tree, then the sums of the runs in the same way */
static __device__ __forceinline__ float open_ended(float x)
{
    return (__float_as_uint(x) & 0x7f800000u) == 0x7f800000u ? __uint_as_float(0x7f800000u) : x;
}

static __device__ __forceinline__ float square_of(float g)
{
    const float infinity = __uint_as_float(0x7f800000u), x = open_ended(g);
    if (x == infinity) return x;
    const float y = __fmul_rn(x, x);
    return open_ended(y) == infinity ? infinity : flushed(y);
}

/* Sums the run that begins at `first`, by all threads of a block. With `clears` its numbers become 0. */
template <bool SQUARES>
static __device__ float sum_run(float *x, uint64_t n, uint64_t first, bool clears, float (&lanes)[LANES])
{
    float sum = 0;
    for (uint32_t at = threadIdx.x; at < TERN_CUDA_RUN; at += LANES * AHEAD) { /* a 0 more changes no sum */
        float some[AHEAD];
#pragma unroll
        for (uint32_t i = 0; i < AHEAD; i++) some[i] = first + at + i * LANES < n ? x[first + at + i * LANES] : 0;
#pragma unroll
        for (uint32_t i = 0; i < AHEAD; i++) sum = open_ended(__fadd_rn(sum, SQUARES ? square_of(some[i]) : some[i]));
        for (uint32_t i = 0; clears && i < AHEAD; i++)
            if (first + at + i * LANES < n) x[first + at + i * LANES] = 0;
    }
    __syncthreads(); /* lanes of the run before are read */
    lanes[threadIdx.x] = sum;
    for (uint32_t half = LANES / 2; half > 0; half /= 2) {
        __syncthreads();
        if (threadIdx.x < half)
            lanes[threadIdx.x] = open_ended(__fadd_rn(lanes[threadIdx.x], lanes[threadIdx.x + half]));
    }
    __syncthreads();
    return lanes[0];
}

static __device__ __forceinline__ uint64_t runs_of(uint64_t n) { return (n + TERN_CUDA_RUN - 1) / TERN_CUDA_RUN; }

static __global__ void __launch_bounds__(LANES) sum_runs(const tern_cuda_updates all)
{
    __shared__ float lanes[LANES];
    const tern_cuda_update p = update_of<false>(all);
    const uint32_t run = blockIdx.x - p.first;
    const float sum = sum_run<true>(p.g, p.n, (uint64_t)run * TERN_CUDA_RUN, p.clears, lanes);
    if (threadIdx.x == 0) (runs_of(p.n) > 1 ? (float *)p.totals : p.result)[run] = sum;
}

/* The sums of the runs in the same way, until there is one: a block for each op. */
static __global__ void __launch_bounds__(LANES) sum_sums(const tern_cuda_updates all)
{
    __shared__ float lanes[LANES];
    const tern_cuda_update p = all.all[blockIdx.x];
    float *sums = (float *)p.totals;
    for (uint64_t n = runs_of(p.n); n > 1; sums += n, n = runs_of(n))
        for (uint64_t run = 0; run < runs_of(n); run++) {
            const float sum = sum_run<false>(sums, n, run * TERN_CUDA_RUN, false, lanes);
            if (threadIdx.x == 0) (runs_of(n) > 1 ? sums + n : p.result)[run] = sum;
            __syncthreads(); /* all read it next */
        }
}

cudaError_t tern_cuda_run_sum_squares(const tern_cuda_updates *p, cudaStream_t stream)
{
    sum_runs<<<p->blocks, LANES, 0, stream>>>(*p);
    sum_sums<<<p->n, LANES, 0, stream>>>(*p);
    return cudaGetLastError();
}

/* ---- UPDATE: a block of threads has a block of states */
static __device__ float most_of_block(float x)
{
    __shared__ float room[32];
    __syncthreads();
    return tern_block_max(fabsf(flushed(x)), room);
}

static __device__ __forceinline__ float square_value(uint32_t q)
{
    const float root = __fmul_rn((float)q, 0x1.010102p-8f), square = __fmul_rn(root, root);
    return __fmul_rn(square, square);
}

static __device__ float load_state(tern_cuda_stored type, const void *from, const float *scales, uint64_t i)
{
    if (type == TERN_CUDA_BF16) return __uint_as_float((uint32_t)((const uint16_t *)from)[i] << 16);
    if (type == TERN_CUDA_M8) {
        const float root = __fmul_rn((float)((const int8_t *)from)[i], 0x1.020408p-7f);
        return mul_of(__fmul_rn(fabsf(root), root), flushed(scales[i / BLOCK]));
    }
    if (type == TERN_CUDA_V8) return mul_of(square_value(((const uint8_t *)from)[i]), flushed(scales[i / BLOCK]));
    return ((const float *)from)[i];
}

static __device__ uint16_t bf16_random(float v, uint32_t random)
{
    const uint32_t bits = __float_as_uint(v);
    if ((bits & 0x7f800000u) == 0x7f800000u) return bf16_nearest(v);
    uint32_t up = bits + (random & 0xffffu);
    if ((up & 0x7f800000u) == 0x7f800000u) up = (bits & 0x80000000u) | 0x7f7f0000u;
    return (uint16_t)(up >> 16);
}

static __device__ int8_t state_code(float x, float s)
{
    if (s == 0) return 0;
    const float code = rintf(__fmul_rn(127.0f, __fsqrt_rn(div_of(fabsf(x), s))));
    return (int8_t)(x < 0 ? -code : code);
}

static __device__ uint8_t square_code(float x, float s, uint32_t random)
{
    if (!(x > 0)) return 0;
    const float y = div_of(x, s);
    uint32_t q = (uint32_t)__fmul_rn(255.0f, __fsqrt_rn(__fsqrt_rn(y)));
    const float a = square_value(q), gap = sub_of(square_value(q + 1), a);
    q += mul_of(__fmul_rn((float)(random >> 16), 0x1p-16f), gap) < sub_of(y, a);
    return (uint8_t)(q < 1 ? 1 : q > 255 ? 255 : q);
}

/* random NULL-like (`nearest`): BF16 to the nearest. All threads of the block take part. */
static __device__ void store_state(tern_cuda_stored type, void *to, float *scales, uint64_t i, bool mine, float x,
                                   uint32_t random, bool nearest)
{
    if (type == TERN_CUDA_M8 || type == TERN_CUDA_V8) {
        const float s = most_of_block(mine ? x : 0);
        if (threadIdx.x == 0) scales[i / BLOCK] = s;
        if (!mine) return;
        if (type == TERN_CUDA_M8) ((int8_t *)to)[i] = state_code(flushed(x), s);
        else ((uint8_t *)to)[i] = square_code(flushed(x), s, random);
    } else if (mine && type == TERN_CUDA_BF16) {
        ((uint16_t *)to)[i] = nearest ? bf16_nearest(x) : bf16_random(x, random);
    } else if (mine) {
        ((float *)to)[i] = x;
    }
}

typedef struct numbers {
    float w, m, v;
} numbers;

static __device__ void adamw(const tern_cuda_update &p, const tern_cuda_train_params *f, float g, numbers &x)
{
    const float m = flushed(x.m), v = flushed(x.v);
    x.m = add_of(m, mul_of(flushed(f->blend1), sub_of(g, m)));
    x.v = add_of(mul_of(v, flushed(f->beta2)), mul_of(mul_of(flushed(f->blend2), g), g));
    const float root = x.v < 0 ? 0 : __fsqrt_rn(x.v);
    const float size = add_of(div_of(flushed(root), flushed(f->root)), flushed(f->eps));
    const float step = mul_of(flushed(f->pace), div_of(x.m, size));
    x.w = sub_of(mul_of(flushed(x.w), p.decays ? flushed(f->keep) : 1.0f), step);
}

static __device__ void sgd(const tern_cuda_update &p, float g, numbers &x)
{
    const float w = flushed(x.w);
    float d = add_of(flushed(g), mul_of(p.decays ? flushed(p.params->decay) : 0, w));
    if (p.m) d = x.m = add_of(mul_of(flushed(p.params->momentum), flushed(x.m)), d);
    x.w = sub_of(w, mul_of(flushed(p.params->lr), d));
}

/* States have any type; a block of threads has a block of states. */
static __device__ void update_states(const tern_cuda_update &p, uint64_t first, uint32_t each)
{
    for (uint64_t i = first + threadIdx.x; i < first + each && i - threadIdx.x < p.n; i += BLOCK) {
        const bool mine = i < p.n;
        const uint32_t seed = p.params->seed + p.stream, r = random_bits(~seed, (uint32_t)i);
        numbers x = {0, 0, 0};
        if (mine) {
            x.w = load_state(p.w_type, p.w, NULL, i);
            if (p.m) x.m = load_state(p.m_type, p.m, p.m_scales, i);
            if (p.v) x.v = load_state(p.v_type, p.v, p.v_scales, i);
            const float g = mul_of(flushed(p.g[i]), flushed(p.params->clip));
            p.g[i] = 0;
            if (p.adamw) adamw(p, p.params, g, x);
            else sgd(p, g, x);
        }
        if (p.m_type == TERN_CUDA_M8 || p.v_type == TERN_CUDA_V8) __syncthreads(); /* scales are read */
        store_state(p.w_type, p.w, NULL, i, mine, x.w, random_bits(seed, (uint32_t)i), false);
        if (p.m) store_state(p.m_type, p.m, p.m_scales, i, mine, x.m, 0, true);
        if (p.v) store_state(p.v_type, p.v, p.v_scales, i, mine, x.v, p.v_type == TERN_CUDA_BF16 ? r >> 16 : r, false);
    }
}

/* AdamW where all is f32: a thread has four neighbours. */
static __device__ __forceinline__ void update_floats(const tern_cuda_update &p, const tern_cuda_train_params &f,
                                                     uint64_t i)
{
    float4 *w = (float4 *)((float *)p.w + i), *m = (float4 *)((float *)p.m + i), *v = (float4 *)((float *)p.v + i);
    float4 *gradient = (float4 *)(p.g + i);
    const float4 g4 = *gradient, w4 = *w, m4 = *m, v4 = *v;
    const float g[EACH] = {g4.x, g4.y, g4.z, g4.w};
    numbers x[EACH] = {{w4.x, m4.x, v4.x}, {w4.y, m4.y, v4.y}, {w4.z, m4.z, v4.z}, {w4.w, m4.w, v4.w}};
#pragma unroll
    for (int k = 0; k < EACH; k++) adamw(p, &f, mul_of(flushed(g[k]), flushed(f.clip)), x[k]);
    *gradient = make_float4(0, 0, 0, 0);
    *w = make_float4(x[0].w, x[1].w, x[2].w, x[3].w);
    *m = make_float4(x[0].m, x[1].m, x[2].m, x[3].m);
    *v = make_float4(x[0].v, x[1].v, x[2].v, x[3].v);
}

static __device__ __forceinline__ bool is_floats(const tern_cuda_update &p)
{
    const bool f32 = p.w_type == TERN_CUDA_F32 && p.m_type == TERN_CUDA_F32 && p.v_type == TERN_CUDA_F32;
    const size_t at = (size_t)p.w | (size_t)p.m | (size_t)p.v | (size_t)p.g;
    return p.adamw && f32 && p.m && p.v && p.n % EACH == 0 && at % sizeof(float4) == 0;
}

static __global__ void __launch_bounds__(BLOCK) update(const tern_cuda_updates all)
{
    const tern_cuda_update p = update_of<false>(all);
    const uint64_t first = (uint64_t)(blockIdx.x - p.first) * all.each;
    if (!is_floats(p)) {
        update_states(p, first, all.each);
        return;
    }
    const tern_cuda_train_params f = *p.params;
    const uint64_t end = first + all.each < p.n ? first + all.each : p.n;
    for (uint64_t i = first + threadIdx.x * EACH; i < end; i += BLOCK * EACH) update_floats(p, f, i);
}

cudaError_t tern_cuda_run_update(const tern_cuda_updates *p, cudaStream_t stream)
{
    update<<<p->blocks, BLOCK, 0, stream>>>(*p);
    return cudaGetLastError();
}
