// Ternary weights times many int8 rows on the tensor cores of sm_90a: wgmma, with codes as int8 in registers and x in
// shared memory.
//
// A block has 128 rows of weights (gated: 64 of each part), 64 for each of the two warpgroups that multiply, and NT
// tokens, 128 columns at a time. One warp fetches: x by the copy engine (a tensor map of the int8 rows, 128-byte
// swizzle, rows beyond the last are zeros), weights as they are stored, 32 bytes of each row. A lane's words of an I2_S
// group are its fragments of four products, one for each quarter. In the end sums go through shared memory, so that
// rows of out are written whole, by a loop that is short: code that runs once has to be fetched once.
//
// Where tiles are few, the columns are split among the blocks of a cluster (split K), each of which adds up what all of
// them have of a share of the tokens, and writes those. Sums are integers: they are the same in any order.
#include "backend/cuda/cluster.cuh"
#include "backend/cuda/linear/common.cuh"
#include "backend/cuda/linear/wgmma.cuh"
#include "backend/cuda/tensor_map.cuh"

enum { CONSUMERS = 256, THREADS = 384, GROUP = 128, TILE = 128, CODES = TILE * 32, STAGES = 8, PITCH = TILE + 4 };
enum { FETCHES = CONSUMERS, NOTES = CONSUMERS + 32 }; // first threads of the warps that fetch, and that note scales

// A stage: x, then codes.
template <int NT> struct Shape {
    static constexpr uint32_t x = NT * GROUP, stage = x + CODES, stages = NT > 128 ? 6 : STAGES;
    static constexpr int bytes = stages * stage;
    static_assert(NT * PITCH * 4 <= bytes, "sums have the room of stages");
};

struct Token {
    int less;
    float inverse;
};

// Where a step is among the stages.
struct Place {
    uint32_t stage, parity;
};

// Of a block: its memory, and its barriers.
struct Room {
    uint32_t stages, full, empty, noted;
};

#ifdef __CUDA_ARCH_FEAT_SM90_ALL
template <int NT> static __device__ __forceinline__ Place next_place(Place at)
{
    return at.stage + 1 == Shape<NT>::stages ? Place{0, at.parity ^ 1} : Place{at.stage + 1, at.parity};
}

// The row of weights in place i of a tile: its part and row. Gated: a lane's two rows are of the two parts.
static __device__ __forceinline__ uint2 row_in_place(const Linear &l, Tile at, uint32_t i)
{
    return l.gated ? make_uint2(i / 8 % 2, at.first + i / 16 * 8 + i % 8) : make_uint2(at.part, at.first + i);
}

// NT rows of x, columns c .. c + 127, to shared memory.
static __device__ __forceinline__ void fetch_x(uint32_t to, const CUtensorMap *map, uint32_t c, uint32_t token,
                                               uint32_t full)
{
    asm volatile(
        "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0],[%1,{%2,%3}],[%4];" ::"r"(to),
        "l"(map), "r"(c), "r"(token), "r"(full)
        : "memory");
}

// By a warp: all stages, as they become free. The halves of every other four rows' codes change places, so that a
// warp's words lie in different banks.
template <int NT>
static __device__ __forceinline__ void fetch_stages(const Linear &l, const CUtensorMap *map, Tile at,
                                                    cluster_share groups, Room room)
{
    const uint32_t lane = threadIdx.x % 32, turned = lane / 4 % 2 * 16;
    const uint8_t *rows[4];
#pragma unroll
    for (int i = 0; i < 4; i++) {
        const uint2 r = row_in_place(l, at, lane + 32 * i);
        rows[i] = l.parts[r.x].w + (size_t)min(r.y, l.parts[r.x].rows - 1) * l.row_bytes;
    }
    Place p = {0, 1};
    for (uint32_t group = groups.from; group < groups.to; group++, p = next_place<NT>(p)) {
        const uint32_t to = room.stages + p.stage * Shape<NT>::stage, full = room.full + 8 * p.stage;
        barrier_wait(room.empty + 8 * p.stage, p.parity);
        if (lane == 0) {
            barrier_expect(full, Shape<NT>::x);
            fetch_x(to, map, group * GROUP, blockIdx.y * NT, full);
        }
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const uint32_t place = to + Shape<NT>::x + (lane + 32 * i) * 32;
            copy16(place + turned, rows[i] + group * 32);
            copy16(place + (turned ^ 16), rows[i] + group * 32 + 16);
        }
        asm volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" ::"r"(full) : "memory");
    }
    asm volatile("cp.async.wait_all;" ::: "memory");
}

template <int NT>
static __device__ __forceinline__ void note_tokens(const Linear &l, uint32_t count, Token *tokens, Room room)
{
    for (uint32_t i = threadIdx.x - NOTES; i < NT; i += THREADS - NOTES) {
        const uint32_t t = min(blockIdx.y * NT + i, count - 1);
        tokens[i] = Token{__ldg(l.x_sums + t), __ldg(l.x_scales + t)};
    }
    barrier_arrive(room.noted);
}

template <int N> static __device__ __forceinline__ void keep(int (&d)[N])
{
#pragma unroll
    for (int i = 0; i < N; i++) asm volatile("" : "+r"(d[i])::"memory");
}

// A lane's words of a stage: of two rows, the 4 columns t of each quarter and the 4 that are 16 further; as bytes.
static __device__ __forceinline__ void load_codes(uint32_t (&a)[16], uint32_t codes)
{
    const uint32_t lane = threadIdx.x % 32;
    const uint32_t at = codes + (threadIdx.x / 32 * 16 + lane / 4) * 32 + lane % 4 * 4 + lane / 16 * 16;
    uint32_t w[4];
#pragma unroll
    for (int i = 0; i < 4; i++)
        asm volatile("ld.shared.u32 %0,[%1];" : "=r"(w[i]) : "r"((at ^ i / 2 * 16) + i % 2 * 256) : "memory");
#pragma unroll
    for (int i = 0; i < 16; i++) {
        a[i] = w[i & 3] >> (6 - 2 * (i >> 2)) & 0x03030303u;
        asm volatile("" : "+r"(a[i])::"memory");
    }
}

// Multiplies the next stage; the one before is done then, and free.
template <int NT>
static __device__ __forceinline__ void multiply_stage(int (&d)[NT / 2], uint32_t (&a)[16], Room room, Place &at,
                                                      bool is_first)
{
    const uint32_t from = room.stages + at.stage * Shape<NT>::stage;
    barrier_wait(room.full + 8 * at.stage, at.parity);
    load_codes(a, from + Shape<NT>::x);
    keep(d);
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
    for (int i = 0; i < 4; i++) wgmma(d, a + 4 * i, descriptor(from + 32 * i));
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
    asm volatile("wgmma.wait_group.sync.aligned 1;" ::: "memory");
    if (!is_first && threadIdx.x % 32 == 0)
        barrier_arrive(room.empty + 8 * (at.stage == 0 ? Shape<NT>::stages - 1 : at.stage - 1));
    at = next_place<NT>(at);
}

// All stages: fragments of two take turns, as the products read them while they run.
template <int NT> static __device__ __forceinline__ void multiply_stages(int (&d)[NT / 2], uint32_t groups, Room room)
{
    uint32_t a0[16], a1[16];
    Place at = {0, 0};
    for (uint32_t i = 0; i + 1 < groups; i += 2) { // no branch may lie around a product
        multiply_stage<NT>(d, a0, room, at, i == 0);
        multiply_stage<NT>(d, a1, room, at, false);
    }
    asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
    keep(d);
    if (groups % 2 == 0) return;
    multiply_stage<NT>(d, a0, room, at, groups == 1);
    asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
    keep(d);
}

static __device__ __forceinline__ void consumers_sync()
{
    asm volatile("bar.sync 1,%0;" ::"n"((int)CONSUMERS) : "memory");
}

// Sums to shared memory, [token][row of the tile]; gated: the rows of the gate come first.
template <int NT> static __device__ __forceinline__ void put_sums(const int (&d)[NT / 2], bool gated, int *sums)
{
    const uint32_t warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    int *low = sums + 2 * (lane % 4) * PITCH + warp * (gated ? 8 : 16) + lane / 4;
    int *high = low + (gated ? TILE / 2 : 8);
#pragma unroll
    for (int i = 0; i < NT / 2; i++) (i & 2 ? high : low)[(i / 4 * 8 + (i & 1)) * PITCH] = d[i];
}

// What a lane's sums are multiplied with, and what is added: of rows lane, lane + 32, .. of the tile, `n` of which are
// written, from column `col` of out on.
struct Endings {
    float scale[4], bias[4];
    uint32_t col, n;
};

static __device__ __forceinline__ Endings endings_of(const Linear &l, Tile at)
{
    const uint32_t lane = threadIdx.x % 32;
    Endings e = {};
    e.col = at.col + at.first + lane;
#pragma unroll
    for (int i = 0; i < 4; i++) {
        const uint32_t row = at.first + lane + 32 * (l.gated ? i % 2 : i);
        const tern_cuda_part &p = l.parts[l.gated ? i / 2 : at.part];
        if (row >= p.rows) continue;
        e.scale[i] = scale_of(p, row);
        e.bias[i] = biased(p, row, 0);
        e.n += !l.gated || i < 2;
    }
    return e;
}

static __device__ __forceinline__ void finish_token(const Linear &l, const Endings &e, const int *sums, Token k,
                                                    const float (&more)[4], uint32_t t)
{
    float y[4], *out = l.out + (size_t)t * l.out_stride + e.col;
#pragma unroll
    for (int i = 0; i < 4; i++) y[i] = (float)(sums[32 * i] - k.less) * (k.inverse * e.scale[i]) + e.bias[i];
    if (l.gated) y[0] = activated(l.activation, y[0]) * y[2], y[1] = activated(l.activation, y[1]) * y[3];
#pragma unroll
    for (uint32_t i = 0; i < 4; i++)
        if (i < e.n) out[32 * i] = y[i] + more[i];
}

// A warp for each token, several at once: what is added to is asked for before any of it is written.
template <int NT>
static __device__ __forceinline__ void finish_tokens(const Linear &l, const Endings &e, const int *sums,
                                                     cluster_share mine, const Token *tokens)
{
    enum { AT_ONCE = 8, WARPS = CONSUMERS / 32 };
    const uint32_t lane = threadIdx.x % 32, first = blockIdx.y * NT, n = mine.to;
    for (uint32_t from = mine.from + threadIdx.x / 32; from < n; from += AT_ONCE * WARPS) {
        float more[AT_ONCE][4] = {};
#pragma unroll
        for (uint32_t k = 0; k < AT_ONCE; k++)
#pragma unroll
            for (uint32_t i = 0; i < 4; i++)
                if (l.residual && i < e.n && from + k * WARPS < n)
                    more[k][i] = l.residual[(size_t)(first + from + k * WARPS) * l.residual_stride + e.col + 32 * i];
#pragma unroll
        for (uint32_t k = 0; k < AT_ONCE; k++) {
            const uint32_t t = from + k * WARPS;
            if (t < n) finish_token(l, e, sums + t * PITCH + lane, tokens[t], more[k], first + t);
        }
    }
}

// Codes of the tile on their way to L2.
static __device__ __forceinline__ void ask_for_codes(const Linear &l, Tile at, cluster_share groups)
{
    const uint32_t lines = (groups.to - groups.from + 3) / 4;
    for (uint32_t i = threadIdx.x; i < TILE * lines; i += THREADS) {
        const uint2 r = row_in_place(l, at, i / lines);
        const uint8_t *row = l.parts[r.x].w + (size_t)min(r.y, l.parts[r.x].rows - 1) * l.row_bytes;
        asm volatile("prefetch.global.L2 [%0];" ::"l"(row + groups.from * 32 + i % lines * 128));
    }
}

// Of the block's share of the tokens: adds what the others of the cluster have.
static __device__ __forceinline__ void gather_sums(int *sums, cluster_share mine)
{
    enum { FOURS = TILE / 4 };
    cluster_sync();
    for (uint32_t i = threadIdx.x; i < (mine.to - mine.from) * FOURS; i += CONSUMERS) {
        int4 *to = (int4 *)(sums + (mine.from + i / FOURS) * PITCH) + i % FOURS, total = *to,
             more[TERN_CUDA_PRODUCT_SPLITS];
#pragma unroll
        for (uint32_t k = 1; k < TERN_CUDA_PRODUCT_SPLITS; k++) {
            const uint32_t other = blockIdx.z + k < gridDim.z ? blockIdx.z + k : blockIdx.z + k - gridDim.z;
            more[k] = k < gridDim.z ? four_of_block((const int *)to, other) : make_int4(0, 0, 0, 0);
        }
#pragma unroll
        for (uint32_t k = 1; k < TERN_CUDA_PRODUCT_SPLITS; k++)
            total.x += more[k].x, total.y += more[k].y, total.z += more[k].z, total.w += more[k].w;
        *to = total;
    }
    consumers_sync();
}

template <int NT>
static __device__ __forceinline__ void multiply_tile(const Linear &l, Tile at, cluster_share groups, uint32_t count,
                                                     Room room, int *sums, const Token *tokens)
{
    int d[NT / 2] = {};
    const Endings e = endings_of(l, at);
    const cluster_share mine = share_of_cluster(min(count - blockIdx.y * NT, (uint32_t)NT));
    multiply_stages<NT>(d, groups.to - groups.from, room);
    barrier_wait(room.noted, 0);
    consumers_sync(); // nobody reads x any more
    put_sums<NT>(d, l.gated, sums);
    if (gridDim.z > 1) gather_sums(sums, mine);
    else consumers_sync();
    finish_tokens<NT>(l, e, sums, mine, tokens);
    if (gridDim.z > 1) cluster_sync(); // its sums may be read until then
}
#endif

template <int NT>
static __global__ void __launch_bounds__(THREADS, 1)
    ternary_wgmma(const __grid_constant__ Linear l, const __grid_constant__ CUtensorMap map)
{
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
    extern __shared__ __align__(1024) uint8_t stages[];
    __shared__ uint64_t barriers[2 * STAGES + 1];
    __shared__ Token tokens[NT];
    const uint32_t base = shared_address(barriers);
    const Room room = {shared_address(stages), base, base + 8 * STAGES, base + 16 * STAGES};
    const Tile at = tile_of(l, blockIdx.x, l.gated ? TILE / 2 : TILE);
    const cluster_share groups = share_of_cluster(l.row_bytes / 32);
    if (blockIdx.y == 0) ask_for_codes(l, at, groups);
    tern_follow();
    const uint32_t count = row_count(l);
    if (blockIdx.y * NT >= count) return;
    if (threadIdx.x == 0) {
        for (uint32_t i = 0; i < STAGES; i++) {
            barrier_init(room.full + 8 * i, 1 + 32);
            barrier_init(room.empty + 8 * i, CONSUMERS / 32);
        }
        barrier_init(room.noted, THREADS - NOTES);
        asm volatile("fence.mbarrier_init.release.cluster;");
    }
    __syncthreads();
    if (threadIdx.x >= CONSUMERS) {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
        if (threadIdx.x < NOTES) fetch_stages<NT>(l, &map, at, groups, room);
        else note_tokens<NT>(l, count, tokens, room);
    } else {
        asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
        multiply_tile<NT>(l, at, groups, count, room, (int *)stages, tokens);
    }
#endif
}

template <int NT> static cudaError_t start(const Linear *l, uint32_t splits, cudaStream_t s)
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
    const dim3 grid(tiles_of(l, l->gated ? TILE / 2 : TILE), (l->n + NT - 1) / NT, splits);
    const cudaError_t e =
        cudaFuncSetAttribute(ternary_wgmma<NT>, cudaFuncAttributeMaxDynamicSharedMemorySize, Shape<NT>::bytes);
    if (e != cudaSuccess) return e;
    return tern_launch_together(ternary_wgmma<NT>, grid, THREADS, Shape<NT>::bytes, s, true, splits, *l, map);
}

struct width {
    uint32_t tokens;
    cudaError_t (*start)(const Linear *l, uint32_t splits, cudaStream_t s);
};

static const width widths[] = {{32, start<32>},   {64, start<64>},   {96, start<96>},
                               {128, start<128>}, {192, start<192>}, {256, start<256>}};

cudaError_t tern_cuda_ternary_wgmma(const Linear *l, const tern_cuda_product_device *d, cudaStream_t s)
{
    const tern_cuda_tiling tiling = tern_cuda_product_tiling(l, d);
    for (const width &w : widths)
        if (w.tokens == tiling.tokens) return w.start(l, tiling.splits, s);
    return cudaErrorInvalidValue;
}

// Every width fills a processor with a block.
static uint32_t clusters_at_once(uint32_t blocks)
{
    cudaLaunchAttribute together = {};
    together.id = cudaLaunchAttributeClusterDimension;
    together.val.clusterDim.x = together.val.clusterDim.y = 1;
    together.val.clusterDim.z = blocks;
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3(1, 1, blocks);
    config.blockDim = THREADS;
    config.dynamicSmemBytes = Shape<64>::bytes;
    config.attrs = &together;
    config.numAttrs = 1;
    int n = 0;
    if (cudaFuncSetAttribute(ternary_wgmma<64>, cudaFuncAttributeMaxDynamicSharedMemorySize, Shape<64>::bytes) ||
        cudaOccupancyMaxActiveClusters(&n, ternary_wgmma<64>, &config))
        n = 0;
    return (uint32_t)n;
}

void tern_cuda_product_clusters(tern_cuda_product_device *d)
{
    for (uint32_t i = 1; d->capability == 90 && i <= TERN_CUDA_PRODUCT_SPLITS; i++)
        d->clusters[i] = clusters_at_once(i);
    cudaGetLastError(); // a device without them is no error
}
