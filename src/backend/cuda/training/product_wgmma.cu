/* Products of planes on the tensor cores of sm_90a: wgmma of halves, tiles by the copy engine.
 *
 * A block has 128 rows of A and NT of B: one thread asks for 64 steps at a time of all planes, two warpgroups multiply
 * 64 rows of A each. Those 64 steps are summed by themselves and added to the rest in f32; a width of 256 goes in
 * halves, as its sums and those of 64 steps do not fit the registers. */
#include "backend/cuda/tensor_map.cuh"
#include "backend/cuda/training/product.cuh"
#include "backend/cuda/training/wgmma.cuh"

enum { TOKENS = 128, STEP = 64, ROW_BYTES = STEP * 2, THREADS = 384, MOST_SHARED = 224 << 10 };
enum { A_BYTES = PLANES * TOKENS * ROW_BYTES, LEAST = 64, LEAST_STEPS = 8, MOST_SPLITS = 16 };

template <int NB, int NT> struct Shape {
    static constexpr int width = NT > 160 ? NT / 2 : NT; /* of one wgmma */
    static constexpr int stage = A_BYTES + NB * NT * ROW_BYTES, stages = MOST_SHARED / stage, bytes = stages * stage;
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
    asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
    keep(sum);
}

/* Number i of a warpgroup's fragments: the row has them in pairs. */
static __device__ __forceinline__ uint32_t row_of(int i)
{
    return (threadIdx.x >> 5 & 3) * 16 + (threadIdx.x >> 2 & 7) + (i >> 1 & 1) * 8;
}

static __device__ __forceinline__ uint32_t column_of(int i)
{
    return i / 4 * 8 + 2 * (threadIdx.x & 3) + (i & 1);
}
#endif

template <int NB, int NT>
static __global__ void __launch_bounds__(THREADS, 1)
    multiply_wgmma(const __grid_constant__ product p, const __grid_constant__ CUtensorMap a_map,
                   const __grid_constant__ CUtensorMap b_map)
{
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
    using S = Shape<NB, NT>;
    constexpr int W = S::width, PARTS = NT / W;
    extern __shared__ __align__(1024) uint8_t memory[];
    __shared__ uint64_t barriers[2 * S::stages];
    const uint32_t base = (uint32_t)__cvta_generic_to_shared(memory), group = threadIdx.x / 128;
    const uint32_t full = (uint32_t)__cvta_generic_to_shared(barriers), empty = full + 8 * S::stages;
    const uint32_t m0 = blockIdx.x * TOKENS, n0 = blockIdx.y * NT, rows = rows_of(p);
    const uint32_t first = blockIdx.z * p.k_each, end = min(p.k, first + p.k_each);
    const uint32_t steps = end > first ? (end - first + STEP - 1) / STEP : 0;
    if (m0 >= rows) return;
    if (threadIdx.x == 0) {
        for (uint32_t i = 0; i < S::stages; i++) {
            barrier_init(full + 8 * i, 1);
            barrier_init(empty + 8 * i, 2);
        }
        asm volatile("fence.mbarrier_init.release.cluster;");
    }
    __syncthreads();
    if (group == 2) {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 24;");
        if (threadIdx.x != 256) return;
        for (uint32_t s = 0; s < steps; s++) {
            const uint32_t stage = s % S::stages, turn = s / S::stages, to = base + stage * S::stage;
            if (turn > 0) barrier_wait(empty + 8 * stage, (turn - 1) & 1);
            barrier_expect(full + 8 * stage, S::stage);
            fetch(to, &a_map, first + s * STEP, m0, full + 8 * stage);
            fetch(to + A_BYTES, &b_map, first + s * STEP, n0, full + 8 * stage);
        }
    } else {
        asm volatile("setmaxnreg.inc.sync.aligned.u32 240;");
        float c[PARTS][W / 2], sum[W / 2];
#pragma unroll
        for (int part = 0; part < PARTS; part++)
#pragma unroll
            for (int i = 0; i < W / 2; i++) c[part][i] = 0;
#pragma unroll
        for (int i = 0; i < W / 2; i++) sum[i] = 0;
        for (uint32_t s = 0; s < steps; s++) {
            const uint32_t stage = s % S::stages, at = base + stage * S::stage;
            barrier_wait(full + 8 * stage, s / S::stages & 1);
#pragma unroll
            for (int part = 0; part < PARTS; part++) {
                multiply_stage<NB, NT, W>(sum, at + group * 64 * ROW_BYTES, at + A_BYTES + part * W * ROW_BYTES);
                if (part == PARTS - 1 && threadIdx.x % 128 == 0) barrier_arrive(empty + 8 * stage);
#pragma unroll
                for (int i = 0; i < W / 2; i++) c[part][i] += sum[i];
            }
        }
#pragma unroll
        for (int part = 0; part < PARTS; part++)
#pragma unroll
            for (int i = 0; i < W / 2; i++)
                put(p, rows, m0 + group * 64 + row_of(i), n0 + part * W + column_of(i), c[part][i]);
    }
#endif
}

static bool make_map(CUtensorMap *map, const planes *p, uint32_t n_planes, uint32_t rows, uint32_t k, uint32_t box_rows)
{
    static const encode_fn encode = find_encode();
    const cuuint64_t dims[3] = {k, rows, n_planes}, strides[2] = {(cuuint64_t)p->ld * 2, (cuuint64_t)p->plane * 2};
    const cuuint32_t box[3] = {STEP, box_rows, n_planes}, ones[3] = {1, 1, 1};
    return encode && encode(map, CU_TENSOR_MAP_DATA_TYPE_FLOAT16, 3, p->data, dims, strides, box, ones,
                            CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
                            CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) == CUDA_SUCCESS;
}

template <int NB, int NT> static cudaError_t start(const product *p, cudaStream_t stream)
{
    CUtensorMap a, b;
    const int shared = Shape<NB, NT>::bytes;
    if (!make_map(&a, &p->a, PLANES, p->m, p->k, TOKENS) || !make_map(&b, &p->b, NB, p->n, p->k, NT))
        return cudaErrorInvalidValue;
    const cudaError_t e =
        cudaFuncSetAttribute(multiply_wgmma<NB, NT>, cudaFuncAttributeMaxDynamicSharedMemorySize, shared);
    if (e != cudaSuccess) return e;
    const dim3 grid((p->m + TOKENS - 1) / TOKENS, (p->n + NT - 1) / NT, p->splits);
    multiply_wgmma<NB, NT><<<grid, THREADS, shared, stream>>>(*p, a, b);
    return cudaGetLastError();
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
    if (cudaFuncGetAttributes(&code, multiply_wgmma<2, 128>) != cudaSuccess) return 0;
    return code.ptxVersion >= 90 ? (uint32_t)n : 0;
}

/* Nanoseconds, about: rounds of the device, each as long as its steps; sums of parts are written and read. */
static double cost(const product *p, uint32_t processors, uint32_t width, uint32_t splits)
{
    const uint32_t tiles = (p->m + TOKENS - 1) / TOKENS * ((p->n + width - 1) / width),
                   steps = (p->k + STEP - 1) / STEP;
    const uint32_t rounds = (tiles * splits + processors - 1) / processors, each = (steps + splits - 1) / splits;
    const double of_parts = splits > 1 ? (double)splits * p->m * p->n * 8 / 3000 : 0;
    return rounds * ((double)each * (width + 32) * 7 + 3000) + of_parts;
}

static uint32_t choose(product *p, uint32_t processors)
{
    const uint32_t widths[] = {128, 160, 256}, steps = (p->k + STEP - 1) / STEP;
    uint32_t width = 0;
    double least = 0;
    for (uint32_t i = 0; i < (p->n_planes == 1 ? 3u : 1u); i++)
        for (uint32_t splits = 1; splits <= (p->partials ? MOST_SPLITS : 1u); splits++) {
            const bool too_many = steps / splits < LEAST_STEPS || (uint64_t)splits * p->m * p->n * 4 > PARTIALS_BYTES;
            if (splits > 1 && too_many) break;
            const double now = cost(p, processors, widths[i], splits);
            if (width && now >= least) continue;
            least = now;
            width = widths[i];
            p->splits = splits;
        }
    p->k_each = (steps + p->splits - 1) / p->splits * STEP;
    p->splits = (p->k + p->k_each - 1) / p->k_each;
    return width;
}

bool tern_cuda_multiply_wgmma(product *p, cudaStream_t stream, cudaError_t *result)
{
    if (p->m < LEAST || p->n < LEAST || p->k < LEAST) return false;
    const uint32_t processors = processors_of_device();
    if (!processors) return false;
    const uint32_t width = choose(p, processors);
    *result = p->n_planes == 2 ? start<2, 128>(p, stream)
              : width == 128   ? start<1, 128>(p, stream)
              : width == 160   ? start<1, 160>(p, stream)
                               : start<1, 256>(p, stream);
    return true;
}
