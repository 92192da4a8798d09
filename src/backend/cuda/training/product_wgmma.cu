/* Products of planes on the tensor cores of sm_90a: wgmma of halves or of bf16, tiles by the copy engine.
 *
 * A block has 128 rows of A and NT of B: one thread asks for 64 steps at a time of all planes, two warpgroups multiply
 * 64 rows of A each. Those 64 steps are summed by themselves and added to the rest in f32; a width of 256 goes in
 * halves, as its sums and those of 64 steps do not fit the registers. In bf16, one plane each, all steps are summed
 * where they are multiplied. Blocks that share the steps of a sum are a
 * cluster and add up through each other's shared memory, in one order. */
#include "backend/cuda/launch.cuh"
#include "backend/cuda/linear/wgmma_halves.cuh"
#include "backend/cuda/tensor_map.cuh"
#include "backend/cuda/training/fragments.cuh"
#include "backend/cuda/training/wgmma.cuh"

enum { TOKENS = 128, STEP = CHUNK, ROW_BYTES = STEP * 2, THREADS = 384, MOST_SHARED = 224 << 10 };
enum { A_BYTES = TOKENS * ROW_BYTES, LEAST = 64, LEAST_STEPS = 4, MOST_SPLITS = 8 }; /* A_BYTES: of a plane */

/* NA: planes of A; 1 is of bf16. */
template <int NA, int NB, int NT> struct Shape {
    static constexpr int width = NT > 192 ? NT / 2 : NT; /* of one wgmma */
    static constexpr int a = NA * A_BYTES, stage = a + NB * NT * ROW_BYTES, stages = MOST_SHARED / stage,
                         bytes = stages * stage;
    static constexpr int numbers = TOKENS * NT / CONSUMERS; /* of C, a thread's */
};

#ifdef __CUDA_ARCH_FEAT_SM90_ALL
/* Columns k .. of rows r .. of all planes. */
static __device__ __forceinline__ void fetch(uint32_t to, const CUtensorMap *map, uint32_t k, uint32_t r, uint32_t full)
{
    asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes "
                 "[%0],[%1,{%2,%3,%4}],[%5];" ::"r"(to),
                 "l"(map), "r"(k), "r"(r), "r"(0), "r"(full)
                 : "memory");
}

template <int N> static __device__ __forceinline__ void keep(float (&d)[N])
{
#pragma unroll
    for (int i = 0; i < N; i++) asm volatile("" : "+f"(d[i])::"memory");
}

/* 64 steps of 64 rows of A and W of B, the smallest numbers first. */
template <int NB, int NT, int W>
static __device__ __forceinline__ void multiply_stage(float (&sum)[W / 2], uint32_t a, uint32_t b)
{
    const uint32_t a_plane = TOKENS * ROW_BYTES, b_plane = NT * ROW_BYTES;
    keep(sum);
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
    for (int k = 0; k < STEP / 16; k++) {
        const uint32_t at = k * 32;
        if (NB == 2) wgmma_f16(sum, descriptor(a + at), descriptor(b + b_plane + at), k > 0);
        wgmma_f16(sum, descriptor(a + a_plane + at), descriptor(b + at), NB == 2 || k > 0);
        wgmma_f16(sum, descriptor(a + at), descriptor(b + at), 1);
    }
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

template <int N> static __device__ __forceinline__ void finish_stage(float (&sum)[N])
{
    asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
    keep(sum);
}

/* One thread asks for all that its block multiplies. */
template <int NA, int NB, int NT>
static __device__ __forceinline__ void ask(const place &at, uint32_t base, uint32_t full, uint32_t empty,
                                           const CUtensorMap *a_map, const CUtensorMap *b_map)
{
    using S = Shape<NA, NB, NT>;
    for (uint32_t s = 0; s < at.steps; s++) {
        const uint32_t stage = s % S::stages, turn = s / S::stages, to = base + stage * S::stage;
        if (turn > 0) barrier_wait(empty + 8 * stage, (turn - 1) & 1);
        barrier_expect(full + 8 * stage, S::stage);
        fetch(to, a_map, at.first + s * STEP, at.m0, full + 8 * stage);
        fetch(to + S::a, b_map, at.first + s * STEP, at.n0, full + 8 * stage);
    }
}

/* Warpgroups take turns in beginning a stage, so that one adds up while the other multiplies. */
static __device__ __forceinline__ void wait_turn(uint32_t group)
{
    asm volatile("bar.sync %0,%1;" ::"r"(2 + group), "n"((int)CONSUMERS) : "memory");
}

static __device__ __forceinline__ void pass_turn(uint32_t group)
{
    asm volatile("bar.arrive %0,%1;" ::"r"(3 - group), "n"((int)CONSUMERS) : "memory");
}

template <int NB, int NT>
static __device__ __forceinline__ void multiply(const product &p, const place &at,
                                                float (&c)[Shape<PLANES, NB, NT>::numbers], uint32_t base,
                                                uint32_t full, uint32_t empty)
{
    using S = Shape<PLANES, NB, NT>;
    constexpr int W = S::width, PARTS = NT / W;
    const uint32_t group = threadIdx.x / 128, m = at.m0 + group * 64;
    float sum[W / 2];
#pragma unroll
    for (int i = 0; i < S::numbers; i++) c[i] = 0;
#pragma unroll
    for (int i = 0; i < W / 2; i++) sum[i] = 0;
    if (group == 1) pass_turn(1);
    for (uint32_t s = 0; s < at.steps; s++) {
        const uint32_t stage = s % S::stages, from = base + stage * S::stage, k = at.first + s * STEP;
        const float by[2] = {inverse_of(p, k, m + row_of(0)), inverse_of(p, k, m + row_of(2))};
        barrier_wait(full + 8 * stage, s / S::stages & 1);
#pragma unroll
        for (int part = 0; part < PARTS; part++) {
            wait_turn(group);
            multiply_stage<NB, NT, W>(sum, from + group * 64 * ROW_BYTES, from + S::a + part * W * ROW_BYTES);
            if (group == 0 || s + 1 < at.steps || part + 1 < PARTS) pass_turn(group);
            finish_stage(sum);
            if (part == PARTS - 1 && threadIdx.x % 128 == 0) barrier_arrive(empty + 8 * stage);
#pragma unroll
            for (int i = 0; i < W / 2; i++) c[part * (W / 2) + i] = fmaf(sum[i], by[i >> 1 & 1], c[part * (W / 2) + i]);
        }
    }
}

/* Sums of bf16 stay where they are; a stage is free when the next one is being multiplied. */
template <int NT>
static __device__ __forceinline__ void multiply_bf16(const place &at, float (&c)[Shape<1, 1, NT>::numbers],
                                                     uint32_t base, uint32_t full, uint32_t empty)
{
    using S = Shape<1, 1, NT>;
    const uint32_t group = threadIdx.x / 128;
#pragma unroll
    for (int i = 0; i < S::numbers; i++) c[i] = 0;
    keep(c);
    for (uint32_t s = 0; s < at.steps; s++) {
        const uint32_t stage = s % S::stages, a = base + stage * S::stage + group * 64 * ROW_BYTES;
        const uint32_t b = base + stage * S::stage + S::a;
        barrier_wait(full + 8 * stage, s / S::stages & 1);
        asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
        for (int k = 0; k < STEP / 16; k++) wgmma_halves<true>(c, descriptor(a + 32 * k), descriptor(b + 32 * k));
        asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
        asm volatile("wgmma.wait_group.sync.aligned 1;" ::: "memory");
        if (s > 0 && threadIdx.x % 128 == 0) barrier_arrive(empty + 8 * ((s - 1) % S::stages));
    }
    asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
    keep(c);
}

template <int NA, int NB, int NT>
static __device__ __forceinline__ void multiply_all(const product &p, const place &at,
                                                    float (&c)[Shape<NA, NB, NT>::numbers], uint32_t base,
                                                    uint32_t full, uint32_t empty)
{
    if constexpr (NA == 1) multiply_bf16<NT>(at, c, base, full, empty);
    else multiply<NB, NT>(p, at, c, base, full, empty);
}
#endif

template <int NA, int NB, int NT>
static __global__ void __launch_bounds__(THREADS, 1)
    multiply_wgmma(const __grid_constant__ product p, const __grid_constant__ CUtensorMap a_map,
                   const __grid_constant__ CUtensorMap b_map)
{
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
    using S = Shape<NA, NB, NT>;
    extern __shared__ __align__(1024) uint8_t memory[];
    __shared__ uint64_t barriers[2 * S::stages];
    const uint32_t base = (uint32_t)__cvta_generic_to_shared(memory), first = blockIdx.z * p.k_each;
    const uint32_t full = (uint32_t)__cvta_generic_to_shared(barriers), empty = full + 8 * S::stages;
    const place at = {blockIdx.x * TOKENS, blockIdx.y * NT, first,
                      (min(p.k, first + p.k_each) - first + STEP - 1) / STEP};
    if (at.m0 >= rows_of(p)) return; /* and so does all of its cluster */
    if (threadIdx.x == 0) {
        for (uint32_t i = 0; i < S::stages; i++) {
            barrier_init(full + 8 * i, 1);
            barrier_init(empty + 8 * i, 2);
        }
        asm volatile("fence.mbarrier_init.release.cluster;");
    }
    __syncthreads();
    if (threadIdx.x >= CONSUMERS) {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 24;");
        if (threadIdx.x == CONSUMERS) ask<NA, NB, NT>(at, base, full, empty, &a_map, &b_map);
        __syncwarp();
        if (p.splits > 1) cluster_sync(), cluster_sync();
    } else {
        asm volatile("setmaxnreg.inc.sync.aligned.u32 240;");
        float c[S::numbers];
        multiply_all<NA, NB, NT>(p, at, c, base, full, empty);
        put_all(p, at, (float *)memory, c);
    }
#endif
}

static bool make_map(CUtensorMap *map, const product *of, const planes *p, uint32_t n_planes, uint32_t rows,
                     uint32_t box_rows)
{
    const CUtensorMapDataType type = of->bf16 ? CU_TENSOR_MAP_DATA_TYPE_BFLOAT16 : CU_TENSOR_MAP_DATA_TYPE_FLOAT16;
    static const encode_fn encode = find_encode();
    const cuuint64_t dims[3] = {of->k, rows, n_planes}, strides[2] = {(cuuint64_t)p->ld * 2, (cuuint64_t)p->plane * 2};
    const cuuint32_t box[3] = {STEP, box_rows, n_planes}, ones[3] = {1, 1, 1};
    return encode && encode(map, type, 3, p->data, dims, strides, box, ones, CU_TENSOR_MAP_INTERLEAVE_NONE,
                            CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
                            CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) == CUDA_SUCCESS;
}

template <int NA, int NB, int NT> static cudaError_t start(const product *p, cudaStream_t stream)
{
    CUtensorMap a, b;
    if (!make_map(&a, p, &p->a, NA, p->m, TOKENS) || !make_map(&b, p, &p->b, NB, p->n, NT))
        return cudaErrorInvalidValue;
    const int shared = Shape<NA, NB, NT>::bytes;
    const cudaError_t e =
        cudaFuncSetAttribute(multiply_wgmma<NA, NB, NT>, cudaFuncAttributeMaxDynamicSharedMemorySize, shared);
    if (e != cudaSuccess) return e;
    const dim3 grid((p->m + TOKENS - 1) / TOKENS, (p->n + NT - 1) / NT, p->splits);
    return tern_launch_together(multiply_wgmma<NA, NB, NT>, grid, dim3(THREADS), shared, stream, false, p->splits, *p,
                                a, b);
}

/* The device's processors; 0 where it lacks the instructions, or the program was not compiled for them. */
static uint32_t processors_of_device(void)
{
    int device = 0, major = 0, minor = 0, n = 0;
    cudaFuncAttributes code;
    if (cudaGetDevice(&device) != cudaSuccess) return 0;
    cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device);
    cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device);
    cudaDeviceGetAttribute(&n, cudaDevAttrMultiProcessorCount, device);
    if (major * 10 + minor != 90) return 0;
    if (cudaFuncGetAttributes(&code, multiply_wgmma<PLANES, 2, 128>) != cudaSuccess) return 0;
    return code.ptxVersion >= 90 ? (uint32_t)n : 0;
}

/* How many clusters of so many blocks run at once, about: as on an H200. The card is not asked, since cards of one kind
 * differ in which processors they lack, and should choose alike. */
static uint32_t clusters_at_once(uint32_t processors, uint32_t blocks)
{
    static const uint32_t of_132[MOST_SPLITS] = {132, 66, 39, 30, 22, 17, 15, 15};
    const uint32_t n = processors * of_132[blocks - 1] / 132;
    return n ? n : 1;
}

/* Nanoseconds, about: rounds of the device, each as long as its steps. The figures are fitted to products of ten shapes
 * on an H200, in all widths and splits. */
static double cost(const product *p, uint32_t processors, uint32_t width)
{
    const uint32_t clusters = (p->m + TOKENS - 1) / TOKENS * ((p->n + width - 1) / width);
    const uint32_t steps = (p->k + STEP - 1) / STEP, each = (steps + p->splits - 1) / p->splits;
    const uint32_t at_once = clusters_at_once(processors, p->splits), rounds = (clusters + at_once - 1) / at_once;
    const double of_step = p->bf16 ? width * 2.5 + 30 : width * (p->n_planes + 1) * 2.5 + 60;
    return rounds * (each * of_step + 4000 + width * 20 + (p->splits > 1 ? 900 : 0));
}

static uint32_t choose(product *p, uint32_t processors)
{
    const uint32_t widths[] = {128, 160, 192, 256}, steps = (p->k + STEP - 1) / STEP;
    product best = *p;
    uint32_t width = 0;
    double least = 0;
    for (uint32_t i = 0; i < (p->n_planes == 1 ? 4u : 1u); i++) {
        if (p->bf16 && widths[i] == 160) continue;
        for (uint32_t splits = 1; splits <= MOST_SPLITS; splits++) {
            if (splits > 1 && steps / splits < LEAST_STEPS) break;
            p->k_each = (steps + splits - 1) / splits * STEP;
            p->splits = (p->k + p->k_each - 1) / p->k_each;
            const double now = cost(p, processors, widths[i]);
            if (width && now >= least) continue;
            least = now;
            width = widths[i];
            best = *p;
        }
    }
    *p = best;
    return width;
}

static bool takes_pairs(const product *p)
{
    const size_t addresses = (size_t)p->c | (size_t)p->residual;
    return (addresses & 7) == 0 && p->c_stride % 2 == 0 && p->residual_stride % 2 == 0 && p->n % 2 == 0;
}

static cudaError_t start_width(const product *p, uint32_t width, cudaStream_t stream)
{
    if (p->n_planes == 2) return start<PLANES, 2, 128>(p, stream);
    switch (width) {
    case 128: return p->bf16 ? start<1, 1, 128>(p, stream) : start<PLANES, 1, 128>(p, stream);
    case 160: return start<PLANES, 1, 160>(p, stream);
    case 192: return p->bf16 ? start<1, 1, 192>(p, stream) : start<PLANES, 1, 192>(p, stream);
    default: return p->bf16 ? start<1, 1, 256>(p, stream) : start<PLANES, 1, 256>(p, stream);
    }
}

bool tern_cuda_multiply_wgmma(product *p, cudaStream_t stream, cudaError_t *result)
{
    if (p->m < LEAST || p->n < LEAST || p->k < LEAST) return false;
    const uint32_t processors = processors_of_device();
    if (!processors) return false;
    const uint32_t width = choose(p, processors);
    p->pairs = takes_pairs(p);
    *result = start_width(p, width, stream);
    return true;
}
