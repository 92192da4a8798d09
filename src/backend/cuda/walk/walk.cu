/* The kernel that walks over steps, one block on each processor. */
#include "backend/cuda/walk/attention.cuh"
#include "backend/cuda/walk/dense.cuh"
#include "backend/cuda/walk/rows.cuh"
#include "backend/cuda/walk/sample.cuh"
#include "backend/cuda/walk/ternary.cuh"

constexpr uint32_t STEP_WORDS = sizeof(tern_cuda_step) / 16;
static_assert(sizeof(tern_cuda_step) % 16 == 0 && STEP_WORDS <= 256, "steps are copied 16 bytes a thread");

static __device__ __forceinline__ void fetch_step(tern_cuda_step *to, const tern_cuda_step *from)
{
    if (threadIdx.x < STEP_WORDS) copy16(shared_address(to) + threadIdx.x * 16, (const uint4 *)from + threadIdx.x);
    copies_commit();
}

template <int F, bool H> static __device__ __forceinline__ void take_step(walker &w, const tern_cuda_step &s)
{
    switch (s.kind) {
    case TERN_CUDA_STEP_TERNARY: walk_ternary(w, s.of.linear); break;
    case TERN_CUDA_STEP_ATTENTION: walk_attention<H>(w, s.of.attention); break;
    case TERN_CUDA_STEP_DENSE: walk_dense<F>(w, s.of.linear); break;
    case TERN_CUDA_STEP_EMBED: walk_embed(w, s.of.embed); break;
    case TERN_CUDA_STEP_NORM: walk_norm(w, s.of.norm); break;
    case TERN_CUDA_STEP_QUANTIZE: walk_quantize(w, s.of.quantize); break;
    case TERN_CUDA_STEP_SAMPLE: walk_sample(w, s.of.sample); break;
    default: walk_elements(w, s.kind, s.of.elements); break;
    }
}

/* A step is fetched two steps before it is taken, its norm's weights one step before. */
template <int F, bool H> static __device__ __forceinline__ void take_steps(const tern_cuda_walk &p, walker &w)
{
    __shared__ __align__(16) tern_cuda_step steps[3];
    const uint32_t n = p.n_steps * p.times;
    fetch_step(&steps[0], p.steps);
    fetch_step(&steps[1], p.steps + 1 % p.n_steps);
    copies_wait<0>();
    walk_sync();
    ask_for_norm(w, steps[0]);
    copies_wait<0>();
    walk_sync();
    for (uint32_t i = 0, at = 0; i < n; i++) {
        const tern_cuda_step &step = steps[i % 3], *next = &steps[(i + 1) % 3];
        at = at + 1 == p.n_steps ? 0 : at + 1;
        if (i + 2 < n) fetch_step(&steps[(i + 2) % 3], p.steps + (at + 1 == p.n_steps ? 0 : at + 1));
        if (i + 1 < n) ask_for_norm(w, *next);
        w.waits = i && !step.goes_on;
        take_step<F, H>(w, step);
        copies_wait<0>();
        if (i + 1 == n) break;
        walk_sync();
        if (next->goes_on) continue;
        w.arrive();
        if (at) continue;
        w.waits = true; /* SAMPLE may have ended the run */
        w.wait();
        if (__ldcg(p.count) == 0) return;
        w.positions = NULL; /* another token's */
    }
}

template <int F, bool H>
static __global__ void __launch_bounds__(WALK_THREADS + 32, 1) walk(const __grid_constant__ tern_cuda_walk p)
{
    extern __shared__ __align__(16) uint8_t memory[];
    __shared__ walk_ring ring;
    __shared__ walk_room room;
    if (*p.count == 0) return;
    if (threadIdx.x == 0) ring.begin(p.granules);
    __syncthreads();
    if (threadIdx.x >= WALK_THREADS) {
        stream_weights(p, &ring, memory);
        return;
    }
    /* none can have waited twice: what it finds lies below the first target */
    const unsigned long long found = *(volatile unsigned long long *)p.arrived;
    walker w = {p.arrived,
                found / gridDim.x * gridDim.x,
                0,
                &room,
                memory + p.granules * GRANULE,
                (float *)(memory + p.granules * GRANULE + p.shared_bytes),
                p.norm_bytes[0] / 4,
                {&ring, memory, p.granules, 0, 0, 0},
                NULL,
                0,
                0,
                0,
                NULL};
    take_steps<F, H>(p, w);
    if (threadIdx.x == 0) ring.ends = 1;
}

uint32_t tern_cuda_step_shared(const tern_cuda_step *step)
{
    const tern_cuda_walk_linear *l = &step->of.linear;
    const tern_cuda_attention *a = &step->of.attention.attention;
    switch (step->kind) {
    case TERN_CUDA_STEP_TERNARY:
        return ternary_planes(l->product) +
               ((l->product.gated ? 2 : 1) * (l->each < TERN_CUDA_WALK_ROWS ? l->each : TERN_CUDA_WALK_ROWS) +
                UNIT_ROWS) *
                   4;
    case TERN_CUDA_STEP_DENSE: return dense_width(l->product) * 4 + (l->each + WALK_WARPS) * 16;
    case TERN_CUDA_STEP_ATTENTION: return attention_bytes(a->head_dim, a->k_cache.f32);
    default: return 0;
    }
}

typedef void (*walk_kernel)(const tern_cuda_walk);

static walk_kernel kernel_of(const tern_cuda_walk *p)
{
    if (p->format == TERN_GPU_F16) return p->f32_caches ? walk<TERN_GPU_F16, false> : walk<TERN_GPU_F16, true>;
    if (p->format == TERN_GPU_Q8_0) return p->f32_caches ? walk<TERN_GPU_Q8_0, false> : walk<TERN_GPU_Q8_0, true>;
    return walk<TERN_CUDA_WALK_ANY, false>;
}

cudaError_t tern_cuda_run_walk(const tern_cuda_walk *p, cudaStream_t stream)
{
    const void *kernel = (const void *)kernel_of(p);
    const uint32_t bytes = p->granules * GRANULE + p->shared_bytes + p->norm_bytes[0] + p->norm_bytes[1];
    const cudaError_t e = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes);
    if (e != cudaSuccess) return e;
    void *params[] = {(void *)p};
    return cudaLaunchCooperativeKernel(kernel, dim3(p->blocks), dim3(WALK_THREADS + 32), params, bytes, stream);
}
