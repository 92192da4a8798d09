// 16-bit weights times rows in 16 bits on the tensor cores of sm_90a: wgmma, both operands in shared memory.
//
// A block has 128 rows of weights (gated: 64 of each part), 64 for each of the two warpgroups that multiply, and NT
// tokens, STEP columns at a time. One thread fetches both by the copy engine (tensor maps, 128-byte swizzle; what lies
// beyond the last row or column is zeros). In the end sums go through shared memory, so that rows of out are written
// whole. Two blocks share a multiprocessor, except those of 256 tokens, so that one multiplies while the other ends.
// Blocks of the first tokens ask for weights before the kernels before have ended, and for x afterwards.
//
// Where tiles are few, the columns are split among the blocks of a cluster (split K), each of which adds up, in their
// order, what all of them have of a share of the tokens, and writes those.
//
// Weights in blocks are unpacked first, as many rows at a time as there is room for (unpack_halves.cu).
#include "backend/cuda/cluster.cuh"
#include "backend/cuda/linear/common.cuh"
#include "backend/cuda/linear/wgmma_halves.cuh"
#include "backend/cuda/tensor_map.cuh"

enum { CONSUMERS = 256, STEP = 64, ROW_BYTES = STEP * 2, TILE = 128, HALF_TILE = TILE / 2 };
enum { W_BYTES = TILE * ROW_BYTES, HALF_BYTES = HALF_TILE * ROW_BYTES, PITCH = TILE + 4, SHARED = 200 << 10 };

// A stage: weights, then x.
template <int NT> struct Shape {
    static constexpr int blocks = NT > 128 ? 1 : 2; // of a multiprocessor
    static constexpr bool moves = blocks == 1;      // registers, from the warps that fetch to those that multiply
    static constexpr int threads = CONSUMERS + (moves ? 128 : 32);
    static constexpr uint32_t x = NT * ROW_BYTES, stage = W_BYTES + x, stages = SHARED / blocks / stage;
    static constexpr int bytes = stages * stage;
    static_assert(NT * PITCH * 4 <= bytes, "sums have the room of stages");
};

// One for each part, and one for x.
struct Maps {
    CUtensorMap w[TERN_CUDA_PRODUCT_PARTS], x;
};

// Where a step is among the stages.
struct Place {
    uint32_t stage, parity;
};

// A block's memory and barriers.
struct Room {
    uint32_t stages, full, empty;
};

#ifdef __CUDA_ARCH_FEAT_SM90_ALL
template <int NT> static __device__ __forceinline__ Place next_place(Place at)
{
    return at.stage + 1 == Shape<NT>::stages ? Place{0, at.parity ^ 1} : Place{at.stage + 1, at.parity};
}

// The part and the first row of half i of a tile.
static __device__ __forceinline__ uint2 half_of(const Linear &l, Tile at, uint32_t i)
{
    return l.gated ? make_uint2(i, at.first) : make_uint2(at.part, at.first + i * HALF_TILE);
}

// Columns c .. c + 63 of rows r .. to shared memory.
static __device__ __forceinline__ void fetch(uint32_t to, const CUtensorMap *map, uint32_t c, uint32_t r, uint32_t full)
{
    asm volatile(
        "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0],[%1,{%2,%3}],[%4];" ::"r"(to),
        "l"(map), "r"(c), "r"(r), "r"(full)
        : "memory");
}

// The weights of a step; its stage waits for x as well.
template <int NT>
static __device__ __forceinline__ void fetch_weights(const Linear &l, const Maps &maps, Tile at, uint32_t step,
                                                     uint32_t stage, Room room)
{
    const uint2 low = half_of(l, at, 0), high = half_of(l, at, 1);
    const uint32_t to = room.stages + stage * Shape<NT>::stage, full = room.full + 8 * stage, c = step * STEP;
    barrier_expect(full, Shape<NT>::stage);
    fetch(to, &maps.w[low.x], c, low.y, full);
    fetch(to + HALF_BYTES, &maps.w[high.x], c, high.y, full);
}

// By one thread: all stages, as they become free. The first `asked` steps have asked for their weights.
template <int NT>
static __device__ __forceinline__ void fetch_stages(const Linear &l, const Maps &maps, Tile at, cluster_share steps,
                                                    uint32_t asked, uint32_t token, Room room)
{
    Place p = {0, 1};
    for (uint32_t step = steps.from; step < steps.to; step++, p = next_place<NT>(p)) {
        const uint32_t x = room.stages + p.stage * Shape<NT>::stage + W_BYTES;
        if (step >= steps.from + asked) {
            barrier_wait(room.empty + 8 * p.stage, p.parity);
            fetch_weights<NT>(l, maps, at, step, p.stage, room);
        }
        fetch(x, &maps.x, step * STEP, token, room.full + 8 * p.stage);
    }
}

template <int N> static __device__ __forceinline__ void keep(float (&d)[N])
{
#pragma unroll
    for (int i = 0; i < N; i++) asm volatile("" : "+f"(d[i])::"memory");
}

// Each stage is free when the next one is being multiplied.
template <int NT, bool BF>
static __device__ __forceinline__ void multiply_stages(float (&d)[NT / 2], uint32_t steps, Room room)
{
    const uint32_t group = threadIdx.x / 128;
    Place at = {0, 0};
    uint32_t before = 0;
    keep(d);
    for (uint32_t step = 0; step < steps; step++) {
        const uint32_t w = room.stages + at.stage * Shape<NT>::stage + group * HALF_BYTES;
        const uint32_t x = room.stages + at.stage * Shape<NT>::stage + W_BYTES;
        barrier_wait(room.full + 8 * at.stage, at.parity);
        asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
        for (int i = 0; i < STEP / 16; i++) wgmma_halves<BF>(d, descriptor(w + 32 * i), descriptor(x + 32 * i));
        asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
        asm volatile("wgmma.wait_group.sync.aligned 1;" ::: "memory");
        if (step > 0 && threadIdx.x % 32 == 0) barrier_arrive(room.empty + 8 * before);
        before = at.stage;
        at = next_place<NT>(at);
    }
    asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
    keep(d);
}

static __device__ __forceinline__ void consumers_sync()
{
    asm volatile("bar.sync 1,%0;" ::"n"((int)CONSUMERS) : "memory");
}

// Sums to shared memory, [token][row of the tile]; gated: the rows of the gate come first.
template <int NT> static __device__ __forceinline__ void put_sums(const float (&d)[NT / 2], float *sums)
{
    const uint32_t warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    float *to = sums + 2 * (lane % 4) * PITCH + warp * 16 + lane / 4;
#pragma unroll
    for (int i = 0; i < NT / 2; i++) to[(i / 4 * 8 + (i & 1)) * PITCH + (i & 2 ? 8 : 0)] = d[i];
}

// Adds up the sums of all blocks of the cluster, in their order, for the block's share of the tokens.
static __device__ __forceinline__ void gather_sums(float *sums, cluster_share mine)
{
    enum { FOURS = TILE / 4 };
    cluster_sync();
    for (uint32_t i = threadIdx.x; i < (mine.to - mine.from) * FOURS; i += CONSUMERS) {
        float4 *to = (float4 *)(sums + (mine.from + i / FOURS) * PITCH) + i % FOURS;
        int4 all[TERN_CUDA_PRODUCT_SPLITS];
        float4 total = make_float4(0, 0, 0, 0);
#pragma unroll
        for (uint32_t k = 0; k < TERN_CUDA_PRODUCT_SPLITS; k++)
            all[k] = k < gridDim.z ? four_of_block((const int *)to, k) : make_int4(0, 0, 0, 0);
#pragma unroll
        for (uint32_t k = 0; k < TERN_CUDA_PRODUCT_SPLITS; k++) {
            total.x += __int_as_float(all[k].x), total.y += __int_as_float(all[k].y);
            total.z += __int_as_float(all[k].z), total.w += __int_as_float(all[k].w);
        }
        *to = total;
    }
    consumers_sync();
}

// The terms added to a lane's sums: of rows lane, lane + 32, .. of the tile, `n` of which are written, from column
// `col` of out on.
struct Endings {
    float bias[4];
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
        e.bias[i] = biased(p, row, 0);
        e.n += !l.gated || i < 2;
    }
    return e;
}

// `activated` by the fast exponential and division: their errors, 1e-6 of the result, are below those of sums.
static __device__ __forceinline__ float quickly_activated(uint32_t kind, float g)
{
    if (kind == TERN_ACT_RELU2) return activated(kind, g);
    const float x = kind == TERN_ACT_SILU ? g : (g + g * g * g * 0.044715f) * 1.5957691216f;
    return __fdividef(g, 1 + __expf(-x));
}

static __device__ __forceinline__ void finish_token(const Linear &l, const Endings &e, const float *sums, float scale,
                                                    const float (&more)[4], uint32_t t)
{
    float y[4], *out = l.out + (size_t)t * l.out_stride + e.col;
#pragma unroll
    for (int i = 0; i < 4; i++) y[i] = sums[32 * i] * scale + e.bias[i];
    if (l.gated)
        y[0] = quickly_activated(l.activation, y[0]) * y[2], y[1] = quickly_activated(l.activation, y[1]) * y[3];
#pragma unroll
    for (uint32_t i = 0; i < 4; i++)
        if (i < e.n) out[32 * i] = y[i] + more[i];
}

// A warp for each token, several at once: what is added to is asked for before any of it is written.
template <int NT>
static __device__ __forceinline__ void finish_tokens(const Linear &l, const Endings &e, const float *sums,
                                                     cluster_share mine, uint32_t first)
{
    enum { AT_ONCE = 8, WARPS = CONSUMERS / 32 };
    const uint32_t lane = threadIdx.x % 32, n = mine.to;
    for (uint32_t from = mine.from + threadIdx.x / 32; from < n; from += AT_ONCE * WARPS) {
        float more[AT_ONCE][4] = {}, scale[AT_ONCE] = {};
#pragma unroll
        for (uint32_t k = 0; k < AT_ONCE; k++) {
            const uint32_t t = from + k * WARPS;
            if (t < n) scale[k] = l.x_scales[first + t];
#pragma unroll
            for (uint32_t i = 0; i < 4; i++)
                if (l.residual && i < e.n && t < n)
                    more[k][i] = l.residual[(size_t)(first + t) * l.residual_stride + e.col + 32 * i];
        }
#pragma unroll
        for (uint32_t k = 0; k < AT_ONCE; k++) {
            const uint32_t t = from + k * WARPS;
            if (t < n) finish_token(l, e, sums + t * PITCH + lane, scale[k], more[k], first + t);
        }
    }
}

template <int NT, bool BF>
static __device__ __forceinline__ void multiply_tile(const Linear &l, Tile at, cluster_share steps, uint32_t first,
                                                     uint32_t count, Room room, float *sums)
{
    float d[NT / 2] = {};
    const cluster_share mine = share_of_cluster(count > first ? min(count - first, (uint32_t)NT) : 0);
    multiply_stages<NT, BF>(d, steps.to - steps.from, room);
    const Endings e = endings_of(l, at);
    consumers_sync(); // nobody reads x and weights any more
    put_sums<NT>(d, sums);
    if (gridDim.z > 1) gather_sums(sums, mine);
    else consumers_sync();
    finish_tokens<NT>(l, e, sums, mine, first);
    if (gridDim.z > 1) cluster_sync(); // its sums may be read until then
}

// The weights of steps from `from` on on their way to L2.
static __device__ __forceinline__ void ask_for_weights(const Linear &l, Tile at, uint32_t from)
{
    enum { LINES = 4 };
    for (uint32_t i = threadIdx.x; i < TILE * LINES; i += blockDim.x) {
        const uint2 half = half_of(l, at, i / LINES / HALF_TILE);
        const uint32_t row = min(half.y + i / LINES % HALF_TILE, l.parts[half.x].rows - 1);
        const uint32_t byte = min((from + i % LINES) * ROW_BYTES, l.row_bytes - 1);
        asm volatile("prefetch.global.L2 [%0];" ::"l"(l.parts[half.x].w + (size_t)row * l.row_bytes + byte));
    }
}
#endif

// early: weights do not wait for the kernels before.
template <int NT, bool BF>
static __global__ void __launch_bounds__(Shape<NT>::threads, Shape<NT>::blocks)
    dense_wgmma(const __grid_constant__ Linear l, const __grid_constant__ Maps maps, bool early)
{
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
    using S = Shape<NT>;
    extern __shared__ __align__(1024) uint8_t stages[];
    __shared__ uint64_t barriers[2 * S::stages];
    const uint32_t base = shared_address(barriers), first = blockIdx.x * NT;
    const Room room = {shared_address(stages), base, base + 8 * (uint32_t)S::stages};
    const Tile at = tile_of(l, blockIdx.y, l.gated ? HALF_TILE : TILE);
    const cluster_share steps = share_of_cluster((l.cols + STEP - 1) / STEP);
    const uint32_t asked = early && blockIdx.x == 0 ? min((uint32_t)S::stages, steps.to - steps.from) : 0;
    if (threadIdx.x == CONSUMERS) {
        for (uint32_t i = 0; i < S::stages; i++) {
            barrier_init(room.full + 8 * i, 1);
            barrier_init(room.empty + 8 * i, CONSUMERS / 32);
        }
        asm volatile("fence.mbarrier_init.release.cluster;\nfence.proxy.async.shared::cta;" ::: "memory");
        for (uint32_t i = 0; i < asked; i++) fetch_weights<NT>(l, maps, at, steps.from + i, i, room);
    }
    if (asked) ask_for_weights(l, at, steps.from + asked);
    __syncthreads();
    tern_follow();
    const uint32_t count = row_count(l);
    if (first >= count && !asked) return; // and so does all of its cluster
    if (threadIdx.x >= CONSUMERS) {
        if (S::moves) asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
        if (threadIdx.x == CONSUMERS) fetch_stages<NT>(l, maps, at, steps, asked, first, room);
    } else {
        if (S::moves) asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
        multiply_tile<NT, BF>(l, at, steps, first, count, room, (float *)stages);
    }
#endif
}

// Rows of `cols` numbers of 16 bits, `bytes` apart; a box has `box_rows` of them.
static bool make_map(CUtensorMap *map, const void *data, uint32_t cols, uint32_t rows, uint64_t bytes,
                     uint32_t box_rows)
{
    static const encode_fn encode = find_encode();
    const cuuint64_t dims[2] = {cols, rows}, strides[1] = {bytes};
    const cuuint32_t box[2] = {STEP, box_rows}, ones[2] = {1, 1};
    return encode && encode(map, CU_TENSOR_MAP_DATA_TYPE_FLOAT16, 2, (void *)data, dims, strides, box, ones,
                            CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
                            CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) == CUDA_SUCCESS;
}

template <int NT, bool BF> static cudaError_t start(const Linear *l, uint32_t splits, bool early, cudaStream_t s)
{
    Maps maps = {};
    if (!make_map(&maps.x, l->x, l->cols, l->n, (uint64_t)l->x_stride * 2, NT)) return cudaErrorInvalidValue;
    for (uint32_t i = 0; i < l->n_parts; i++)
        if (!make_map(&maps.w[i], l->parts[i].w, l->cols, l->parts[i].rows, l->row_bytes, HALF_TILE))
            return cudaErrorInvalidValue;
    const dim3 grid((l->n + NT - 1) / NT, tiles_of(l, l->gated ? HALF_TILE : TILE), splits);
    const int shared = Shape<NT>::bytes;
    const cudaError_t e =
        cudaFuncSetAttribute(dense_wgmma<NT, BF>, cudaFuncAttributeMaxDynamicSharedMemorySize, shared);
    if (e != cudaSuccess) return e;
    return tern_launch_together(dense_wgmma<NT, BF>, grid, Shape<NT>::threads, shared, s, true, splits, *l, maps,
                                early);
}

template <bool BF> static cudaError_t start_width(const Linear *l, tern_cuda_tiling t, bool early, cudaStream_t s)
{
    switch (t.tokens) {
    case 16: return start<16, BF>(l, t.splits, early, s);
    case 32: return start<32, BF>(l, t.splits, early, s);
    case 64: return start<64, BF>(l, t.splits, early, s);
    case 128: return start<128, BF>(l, t.splits, early, s);
    default: return start<256, BF>(l, t.splits, early, s);
    }
}

static cudaError_t multiply(const Linear *l, const tern_cuda_product_device *d, bool early, cudaStream_t s)
{
    const tern_cuda_tiling t = tern_cuda_halves_tiling(l, d);
    return l->format == TERN_GPU_BF16 ? start_width<true>(l, t, early, s) : start_width<false>(l, t, early, s);
}

// The next rows of all parts for which there is room, from row `from` of part `part` on, unpacked: their product.
struct Piece {
    uint32_t part, from, col;
};

static cudaError_t take_piece(const Linear *l, Piece *at, Linear *out, cudaStream_t s)
{
    const uint32_t row_bytes = l->cols * 2, together = l->gated ? 2 : 1;
    uint32_t room = (uint32_t)(TERN_CUDA_UNPACKED_BYTES / row_bytes) / TILE * TILE / together;
    uint8_t *to = l->unpacked;
    cudaError_t e = cudaSuccess;
    *out = *l;
    out->format = TERN_GPU_F16;
    out->row_bytes = row_bytes;
    out->n_parts = 0;
    out->out += at->col;
    if (out->residual) out->residual += at->col;
    while (room && at->part < l->n_parts && !e) {
        const uint32_t left = l->parts[at->part].rows - at->from, n = left < room ? left : room;
        for (uint32_t i = 0; i < together && !e; i++, to += (size_t)n * row_bytes) {
            tern_cuda_part *part = &out->parts[out->n_parts++];
            *part = l->parts[at->part + i];
            e = tern_cuda_unpack_halves(l, part->w + (size_t)at->from * l->row_bytes, n, to, s);
            if (part->bias) part->bias += at->from;
            part->w = to;
            part->rows = n;
        }
        room -= n;
        at->col += n;
        at->from += n;
        if (n == left) at->part += together, at->from = 0;
        if (l->gated) break; // its two parts are all that a product has
    }
    return e;
}

cudaError_t tern_cuda_dense_wgmma(const Linear *l, const tern_cuda_product_device *d, cudaStream_t s)
{
    if (l->format == TERN_GPU_F16 || l->format == TERN_GPU_BF16) return multiply(l, d, true, s);
    Linear piece;
    Piece at = {0, 0, 0};
    cudaError_t e = cudaSuccess;
    while (at.part < l->n_parts && !e) {
        e = take_piece(l, &at, &piece, s);
        if (!e) e = multiply(&piece, d, false, s); // unpacked by the kernel before
    }
    return e;
}
