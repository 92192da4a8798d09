// Ternary weights times many int8 rows on the tensor cores of sm_90a: wgmma, with codes as int8 in registers and x in
// shared memory.
//
// A block has 128 rows of weights, 64 for each of its two warpgroups (gated: 64 of each part), and NT tokens, 128
// columns at a time. x comes by the copy engine (a tensor map of the int8 rows, 128-byte swizzle, rows beyond the last
// are zeros), STAGES steps on their way. A lane's words of an I2_S group are its fragments of four products, one for
// each quarter; they are asked for AHEAD steps before.
#include "backend/cuda/linear/common.cuh"
#include "backend/cuda/linear/wgmma.cuh"
#include "backend/cuda/tensor_map.cuh"

enum { STAGES = 6, AHEAD = 4, THREADS = 256, GROUP = 128 };

#ifdef __CUDA_ARCH_FEAT_SM90_ALL
// NT rows of x, columns c .. c + 127, to shared memory.
static __device__ __forceinline__ void fetch_x(uint32_t to, const CUtensorMap *map, uint32_t c, uint32_t token,
                                               uint32_t full, uint32_t bytes)
{
    barrier_expect(full, bytes);
    asm volatile(
        "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0],[%1,{%2,%3}],[%4];" ::"r"(to),
        "l"(map), "r"(c), "r"(token), "r"(full)
        : "memory");
}

// A lane's words of a group: of two rows, the 4 columns t of each quarter and the 4 that are 16 further.
struct Words {
    uint32_t v[4];
};

static __device__ __forceinline__ Words load_words(const uint8_t *low, const uint8_t *high, uint32_t group)
{
    Words w;
    w.v[0] = __ldg((const unsigned int *)(low + group * 32));
    w.v[1] = __ldg((const unsigned int *)(high + group * 32));
    w.v[2] = __ldg((const unsigned int *)(low + group * 32 + 16));
    w.v[3] = __ldg((const unsigned int *)(high + group * 32 + 16));
    return w;
}

// Where a step is among the stages.
struct Place {
    uint32_t stage, parity;
};

template <int NT> struct Block {
    int d[NT / 2];
    const uint8_t *low, *high;
    uint32_t stages, full, empty, groups, token;
    Place at;
};

template <int NT> static __device__ __forceinline__ void keep(int (&d)[NT])
{
#pragma unroll
    for (int i = 0; i < NT; i++) asm volatile("" : "+r"(d[i])::"memory");
}

// Multiplies a group; the step before is done then, and its stage is filled anew.
template <int NT>
static __device__ __forceinline__ void multiply_group(Block<NT> &b, const CUtensorMap *map, uint32_t group,
                                                      uint32_t (&a)[16], Words &w)
{
    const uint32_t bytes = NT * GROUP;
#pragma unroll
    for (int i = 0; i < 16; i++) a[i] = w.v[i & 3] >> (6 - 2 * (i >> 2)) & 0x03030303u;
    if (group + AHEAD < b.groups) w = load_words(b.low, b.high, group + AHEAD);
    barrier_wait(b.full + 8 * b.at.stage, b.at.parity);
#pragma unroll
    for (int i = 0; i < 16; i++) asm volatile("" : "+r"(a[i])::"memory");
    keep(b.d);
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
    for (int i = 0; i < 4; i++) wgmma(b.d, a + 4 * i, descriptor(b.stages + b.at.stage * bytes + 32 * i));
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
    asm volatile("wgmma.wait_group.sync.aligned 1;" ::: "memory");
    if (group > 0) {
        const uint32_t before = b.at.stage == 0 ? STAGES - 1 : b.at.stage - 1;
        const uint32_t parity = b.at.stage == 0 ? b.at.parity ^ 1 : b.at.parity;
        if ((threadIdx.x & 127) == 0) barrier_arrive(b.empty + 8 * before);
        if (threadIdx.x == 0 && group - 1 + STAGES < b.groups) {
            barrier_wait(b.empty + 8 * before, parity);
            fetch_x(b.stages + before * bytes, map, (group - 1 + STAGES) * GROUP, b.token, b.full + 8 * before, bytes);
        }
    }
    if (++b.at.stage == STAGES) b.at = Place{0, b.at.parity ^ 1};
}

// All groups: fragments of two steps take turns, as the products read them while they run.
template <int NT> static __device__ __forceinline__ void multiply_row(Block<NT> &b, const CUtensorMap *map)
{
    Words w[AHEAD];
    uint32_t a0[16], a1[16];
#pragma unroll
    for (uint32_t i = 0; i < AHEAD; i++) w[i] = load_words(b.low, b.high, min(i, b.groups - 1));
    for (uint32_t group = 0; group + 1 < b.groups; group += 2) { // no branch may lie around a product
        multiply_group<NT>(b, map, group, a0, w[0]);
        multiply_group<NT>(b, map, group + 1, a1, w[1]);
        const Words even = w[0], odd = w[1];
        w[0] = w[2], w[1] = w[3];
        w[2] = even, w[3] = odd;
    }
    asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
    keep(b.d);
    if (b.groups % 2 == 0) return;
    multiply_group<NT>(b, map, b.groups - 1, a0, w[0]);
    asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
    keep(b.d);
}

// Number i of a warpgroup's fragments: its token and row within the block's tile.
static __device__ __forceinline__ uint32_t token_of(uint32_t i)
{
    return i / 4 * 8 + 2 * (threadIdx.x & 3) + (i & 1);
}

static __device__ __forceinline__ uint32_t row_of(uint32_t i)
{
    return (threadIdx.x >> 5 & 3) * 16 + (threadIdx.x >> 2 & 7) + (i >> 1 & 1) * 8;
}

template <int NT>
static __device__ __forceinline__ void finish_block(const Linear &l, const Block<NT> &b, Tile at, uint32_t count,
                                                    int *pool)
{
    const uint32_t half = threadIdx.x / 128, mine = threadIdx.x % 128;
    if (l.gated) {
        __syncthreads(); // nobody reads x any more
        if (half == 1) {
#pragma unroll
            for (int i = 0; i < NT / 2; i++) pool[i * 128 + mine] = b.d[i];
        }
        __syncthreads();
        if (half == 1) return;
    }
    const tern_cuda_part &part = l.parts[at.part];
#pragma unroll
    for (int k = 0; k < 2; k++) {
        const uint32_t r = at.first + (l.gated ? 0 : half * 64) + row_of(2 * k);
        if (r >= part.rows) continue;
        const float scale = scale_of(part, r), up_scale = l.gated ? scale_of(l.parts[1], r) : 0;
#pragma unroll
        for (int j = 0; j < NT / 4; j++) {
            const int i = j / 2 * 4 + 2 * k + (j & 1);
            const uint32_t token = b.token + token_of(i);
            if (token >= count) continue;
            const int less = __ldg(l.x_sums + token);
            const float inverse = __ldg(l.x_scales + token), y = (float)(b.d[i] - less) * (inverse * scale);
            if (l.gated) finish_gated(l, token, r, y, (float)(pool[i * 128 + mine] - less) * (inverse * up_scale));
            else finish(l, token, at.col + r, biased(part, r, y));
        }
    }
}
#endif

template <int NT>
static __global__ void __launch_bounds__(THREADS, 1)
    ternary_wgmma(const __grid_constant__ Linear l, const __grid_constant__ CUtensorMap map)
{
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
    extern __shared__ __align__(1024) uint8_t stages[];
    __shared__ uint64_t barriers[2 * STAGES];
    const uint32_t half = threadIdx.x / 128, count = row_count(l);
    Block<NT> b = {};
    b.token = blockIdx.y * NT;
    if (b.token >= count) return;
    b.stages = shared_address(stages);
    b.full = shared_address(barriers);
    b.empty = b.full + 8 * STAGES;
    b.groups = l.row_bytes / 32;
    if (threadIdx.x == 0) {
        for (uint32_t i = 0; i < STAGES; i++) {
            barrier_init(b.full + 8 * i, 1);
            barrier_init(b.empty + 8 * i, 2);
        }
        asm volatile("fence.mbarrier_init.release.cluster;");
        for (uint32_t i = 0; i < STAGES && i < b.groups; i++)
            fetch_x(b.stages + i * NT * GROUP, &map, i * GROUP, b.token, b.full + 8 * i, NT * GROUP);
    }
    __syncthreads();
    const Tile at = tile_of(l, blockIdx.x, l.gated ? 64 : 128);
    const tern_cuda_part &part = l.parts[l.gated ? half : at.part];
    const uint32_t r = at.first + (l.gated ? 0 : half * 64) + row_of(0);
    b.low = part.w + (size_t)min(r, part.rows - 1) * l.row_bytes + (threadIdx.x & 3) * 4;
    b.high = part.w + (size_t)min(r + 8, part.rows - 1) * l.row_bytes + (threadIdx.x & 3) * 4;
    multiply_row<NT>(b, &map);
    finish_block<NT>(l, b, at, count, (int *)stages);
#endif
}

template <int NT> static cudaError_t start(const Linear *l, cudaStream_t s)
{
    static const encode_fn encode = find_encode();
    if (!encode) return cudaErrorNotSupported;
    CUtensorMap map;
    const cuuint64_t dims[2] = {l->x_stride, l->n}, strides[1] = {l->x_stride};
    const cuuint32_t box[2] = {GROUP, NT}, ones[2] = {1, 1};
    if (encode(&map, CU_TENSOR_MAP_DATA_TYPE_UINT8, 2, (void *)l->x, dims, strides, box, ones,
               CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
               CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) != CUDA_SUCCESS)
        return cudaErrorInvalidValue;
    const int shared = STAGES * NT * GROUP;
    const cudaError_t e = cudaFuncSetAttribute(ternary_wgmma<NT>, cudaFuncAttributeMaxDynamicSharedMemorySize, shared);
    if (e != cudaSuccess) return e;
    const dim3 grid(tiles_of(l, l->gated ? 64 : 128), (l->n + NT - 1) / NT);
    ternary_wgmma<NT><<<grid, THREADS, shared, s>>>(*l, map);
    return cudaGetLastError();
}

// How long a width takes: rounds of the device, each as long as its tokens and some more.
static uint32_t cost(const Linear *l, uint32_t processors, uint32_t width)
{
    const uint32_t blocks = tiles_of(l, l->gated ? 64 : 128) * ((l->n + width - 1) / width);
    return (blocks + processors - 1) / processors * (width + 32);
}

cudaError_t tern_cuda_ternary_wgmma(const Linear *l, const tern_cuda_product_device *d, cudaStream_t s)
{
    const uint32_t n = d->multiprocessors, wide = cost(l, n, 256), middle = cost(l, n, 128), small = cost(l, n, 64);
    if (wide <= middle && wide <= small) return start<256>(l, s);
    return middle <= small ? start<128>(l, s) : start<64>(l, s);
}
