// Ternary weights times many int8 rows on tensor cores by mma.sync: a block has 128 tokens and 128 rows of weights
// (gated: 64 of each part), 128 columns at a time, which come by asynchronous copies, SLOTS of them on their way.
// Codes stay two bits in shared memory and become bytes in registers: a lane takes two words of a row's group, that is
// eight columns of each quarter, and the same columns of x, so the fragments' columns are in that order. With a route a
// tile has rows of one expert, which a list says (experts.cu).
#include "backend/cuda/linear/common.cuh"

enum { TOKENS = 128, TILE_ROWS = 128, SLOTS = 3, X_STRIDE = 160, W_STRIDE = 32, THREADS = 256 };
static_assert((int)TOKENS == (int)TERN_CUDA_GROUP_ROWS_Q8, "a tile of an expert's rows is a block's");
enum { X_BYTES = TOKENS * X_STRIDE, SLOT = X_BYTES + TILE_ROWS * W_STRIDE, SHARED = SLOTS * SLOT };

struct Source {
    const int8_t *x[4]; // of the rows that this thread copies, with its 16 bytes
    const uint8_t *w;
    uint32_t to_x, to_w;
};

// Row i of the block's tile of weights: its part and row.
static __device__ __forceinline__ uint2 weight_row(const Linear &l, Tile at, uint32_t i)
{
    const uint32_t part = l.gated ? i / (TILE_ROWS / 2) : at.part;
    const uint32_t r = at.first + (l.gated ? i % (TILE_ROWS / 2) : i);
    return make_uint2(part, r);
}

static __device__ __forceinline__ Source source_of(const Linear &l, Tile at, const TileRows &rows)
{
    Source s;
    const uint32_t i = threadIdx.x;
#pragma unroll
    for (int k = 0; k < 4; k++) {
        s.x[k] = (const int8_t *)l.x + (size_t)rows.x_at(l, i / 8 + 32 * k) * l.x_stride + i % 8 * 16;
    }
    const uint2 row = weight_row(l, at, i / 2);
    s.w = l.parts[row.x].w + row_of_all(l, at, row.y) * l.row_bytes + i % 2 * 16;
    s.to_x = i / 8 * X_STRIDE + i % 8 * 16;
    s.to_w = X_BYTES + i / 2 * W_STRIDE + i % 2 * 16;
    return s;
}

static __device__ __forceinline__ void fetch(const Source &s, uint32_t slot, uint32_t group)
{
#pragma unroll
    for (int k = 0; k < 4; k++) copy16(slot + s.to_x + 32 * k * X_STRIDE, s.x[k] + group * 128);
    copy16(slot + s.to_w, s.w + group * 32);
}

// Warps are 2 (rows) x 4 (tokens): 64 rows (gated: 32 of each part) and 32 tokens each.
static __device__ __forceinline__ uint32_t row_in_tile(bool gated, uint32_t warp, int m)
{
    return gated ? m / 2 * 64 + (warp & 1) * 32 + m % 2 * 16 : (warp & 1) * 64 + m * 16;
}

static __device__ __forceinline__ void multiply_slot(int (&c)[4][4][4], const uint8_t *slot, bool gated, uint32_t warp,
                                                     uint32_t lane)
{
    const uint32_t g = lane >> 2, t = lane & 3, M = 0x03030303u;
    uint2 low[4], high[4];
#pragma unroll
    for (int m = 0; m < 4; m++) {
        const uint8_t *w = slot + X_BYTES + (row_in_tile(gated, warp, m) + g) * W_STRIDE + t * 8;
        low[m] = *(const uint2 *)w;
        high[m] = *(const uint2 *)(w + 8 * W_STRIDE);
    }
    const uint8_t *x = slot + ((warp >> 1) * 32 + g) * X_STRIDE + t * 8;
#pragma unroll
    for (int q = 0; q < 4; q++) {
        uint2 b[4];
#pragma unroll
        for (int n = 0; n < 4; n++) b[n] = *(const uint2 *)(x + n * 8 * X_STRIDE + q * 32);
        const int s = 6 - 2 * q;
#pragma unroll
        for (int m = 0; m < 4; m++) {
            const uint32_t a[4] = {low[m].x >> s & M, high[m].x >> s & M, low[m].y >> s & M, high[m].y >> s & M};
#pragma unroll
            for (int n = 0; n < 4; n++) mma_u8s8(c[m][n], a, b[n].x, b[n].y);
        }
    }
}

static __device__ __forceinline__ float value_of(const tern_cuda_part &part, uint32_t r, int sum, int less,
                                                 float inverse)
{
    return (float)(sum - less) * (inverse * scale_of(part, r));
}

static __device__ __forceinline__ void finish_fragment(const Linear &l, Tile at, const int (&c)[4][4][4],
                                                       uint32_t token, uint32_t x_row, uint32_t warp, uint32_t g,
                                                       int n, int i)
{
    const int less = l.x_sums[x_row];
    const float inverse = l.x_scales[x_row];
#pragma unroll
    for (int m = 0; m < 4; m++) {
        if (l.gated && m >= 2) break;
        const uint2 row = weight_row(l, at, row_in_tile(l.gated, warp, m) + g + (i >> 1) * 8);
        const tern_cuda_part &part = l.parts[row.x];
        if (row.y >= part.rows) continue;
        const uint32_t of_all = at.before + row.y;
        const float y = value_of(part, of_all, c[m][n][i], less, inverse);
        if (l.gated) {
            const int up = c[(m + 2) & 3][n][i];
            finish(l, token, row.y, gated_of(l, of_all, y, value_of(l.parts[1], of_all, up, less, inverse)));
        } else {
            finish(l, token, at.col + row.y, biased(part, of_all, y));
        }
    }
}

static __global__ void __launch_bounds__(THREADS, 2) ternary_mma(const __grid_constant__ Linear l)
{
    extern __shared__ __align__(16) uint8_t slots[];
    const uint32_t warp = threadIdx.x >> 5, lane = threadIdx.x & 31, base = shared_address(slots);
    const uint32_t groups = l.row_bytes / 32;
    TileRows rows;
    if (!rows_of_tile(l, blockIdx.y, gridDim.y, TOKENS, &rows)) return;
    const Tile at = tile_of(l, blockIdx.x, l.gated ? TILE_ROWS / 2 : TILE_ROWS, rows.expert);
    const Source from = source_of(l, at, rows);
    int c[4][4][4] = {};
#pragma unroll
    for (uint32_t i = 0; i < SLOTS - 1; i++) {
        if (i < groups) fetch(from, base + i * SLOT, i);
        copies_commit();
    }
    uint32_t slot = 0;
    for (uint32_t k = 0; k < groups; k++) {
        copies_wait<SLOTS - 2>();
        __syncthreads();
        const uint32_t next = slot == 0 ? SLOTS - 1 : slot - 1; // multiplied the last time
        if (k + SLOTS - 1 < groups) fetch(from, base + next * SLOT, k + SLOTS - 1);
        copies_commit();
        multiply_slot(c, slots + slot * SLOT, l.gated, warp, lane);
        slot = slot == SLOTS - 1 ? 0 : slot + 1;
    }
#pragma unroll
    for (int n = 0; n < 4; n++)
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const uint32_t k = (warp >> 1) * 32 + n * 8 + (lane & 3) * 2 + (i & 1), token = rows.at(k);
            if (token != UINT32_MAX) finish_fragment(l, at, c, token, rows.x_at(l, k), warp, lane >> 2, n, i);
        }
}

cudaError_t tern_cuda_ternary_mma(const Linear *l, const tern_cuda_product_device *, cudaStream_t s)
{
    cudaError_t e = cudaFuncSetAttribute(ternary_mma, cudaFuncAttributeMaxDynamicSharedMemorySize, SHARED);
    if (e == cudaSuccess && l->routes) e = tern_cuda_group_rows(l, TOKENS, s);
    if (e != cudaSuccess) return e;
    const dim3 grid(tiles_of(l, l->gated ? TILE_ROWS / 2 : TILE_ROWS), row_tiles_of(l, TOKENS));
    ternary_mma<<<grid, THREADS, SHARED, s>>>(*l);
    return cudaGetLastError();
}
