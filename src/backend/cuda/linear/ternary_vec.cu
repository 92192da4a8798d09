// Ternary weights times few int8 rows.
//
//   out[t][r] = (sum_c code[r][c] q[t][c] - sum_c q[t][c]) * (inv_scale[t] * scale),  code = w + 1; then the epilogue
//
// A block has 16 rows of a part (gated: of both); its warps share the columns, 256 at a time. A lane reads 16 bytes of
// an I2_S group, that is 16 columns of each quarter, and 16 bytes of x for each quarter: what it multiplies lies in the
// fragment of an m16n8k32 whose columns are taken in that order, so nothing is rearranged. Weights are asked for
// two steps ahead. Integers are exact in any order.
#include "backend/cuda/linear/common.cuh"

enum { TILE_ROWS = 16, STEP_CHUNKS = 4, MAX_WARPS = 16, AHEAD = 2 };

// The weights of a step: 16 bytes of rows lane / 4 and lane / 4 + 8.
struct Codes {
    uint4 low, high;
};

template <int NT, int PARTS> struct Sums {
    int v[PARTS][NT][4];
};

static __device__ __forceinline__ Codes load_codes(const uint8_t *low, const uint8_t *high, uint32_t chunk,
                                                   uint32_t chunks)
{
    Codes w = {};
    if (chunk < chunks) {
        w.low = stream16(low + chunk * 16);
        w.high = stream16(high + chunk * 16);
    }
    return w;
}

static __device__ __forceinline__ void multiply(int *c, const Codes &w, int quarter, uint4 x)
{
    const int s = 6 - 2 * quarter;
    const uint32_t M = 0x03030303u;
    const uint32_t a0[4] = {w.low.x >> s & M, w.high.x >> s & M, w.low.y >> s & M, w.high.y >> s & M};
    const uint32_t a1[4] = {w.low.z >> s & M, w.high.z >> s & M, w.low.w >> s & M, w.high.w >> s & M};
    mma_u8s8(c, a0, x.x, x.y);
    mma_u8s8(c, a1, x.z, x.w);
}

// x: the rows of this lane group's token, NULL: none.
template <int NT, int PARTS>
static __device__ __forceinline__ void multiply_step(Sums<NT, PARTS> &sums, const Codes *w, const int8_t *const *x,
                                                     uint32_t chunk, uint32_t chunks)
{
    const uint32_t at = (chunk >> 1) * 128 + (chunk & 1) * 16;
#pragma unroll
    for (int q = 0; q < 4; q++)
#pragma unroll
        for (int n = 0; n < NT; n++) {
            uint4 v = make_uint4(0, 0, 0, 0);
            if (x[n] && chunk < chunks) v = *(const uint4 *)(x[n] + at + q * 32);
#pragma unroll
            for (int p = 0; p < PARTS; p++) multiply(sums.v[p][n], w[p], q, v);
        }
}

// Sums of all warps, then the epilogue; pool: [warps][PARTS][8 NT tokens][16 rows].
template <int NT, int PARTS>
static __device__ __forceinline__ void share_and_finish(const Linear &l, const Sums<NT, PARTS> &sums, int *pool,
                                                        Tile at, uint32_t first_token, uint32_t tokens)
{
    const uint32_t warp = threadIdx.x >> 5, lane = threadIdx.x & 31, g = lane >> 2, t = lane & 3;
    const uint32_t plane = NT * 8 * TILE_ROWS;
#pragma unroll
    for (int p = 0; p < PARTS; p++)
#pragma unroll
        for (int n = 0; n < NT; n++)
#pragma unroll
            for (int i = 0; i < 4; i++) {
                const uint32_t token = n * 8 + 2 * t + (i & 1);
                if (token < tokens)
                    pool[(warp * PARTS + p) * plane + token * TILE_ROWS + g + (i >> 1) * 8] = sums.v[p][n][i];
            }
    __syncthreads();
    for (uint32_t o = threadIdx.x; o < tokens * TILE_ROWS; o += blockDim.x) {
        const uint32_t r = at.first + o % TILE_ROWS, token = first_token + o / TILE_ROWS;
        if (r >= l.parts[at.part].rows) continue;
        int sum[PARTS] = {};
        for (uint32_t w = 0; w < blockDim.x / 32; w++)
#pragma unroll
            for (int p = 0; p < PARTS; p++) sum[p] += pool[(w * PARTS + p) * plane + o];
        const float inverse = l.x_scales[token];
        const int less = l.x_sums[token];
        const tern_cuda_part &part = l.parts[at.part];
        const float y = (float)(sum[0] - less) * (inverse * scale_of(part, r));
        if (PARTS == 2) {
            finish_gated(l, token, r, y, (float)(sum[PARTS - 1] - less) * (inverse * scale_of(l.parts[1], r)));
        } else {
            finish(l, token, at.col + r, biased(part, r, y));
        }
    }
}

template <int NT, int PARTS> static __global__ void ternary_vec(const __grid_constant__ Linear l)
{
    extern __shared__ __align__(16) int pool[];
    const uint32_t warps = blockDim.x / 32, warp = threadIdx.x >> 5, lane = threadIdx.x & 31;
    const Tile at = tile_of(l, blockIdx.x, TILE_ROWS);
    const uint32_t chunks = l.row_bytes / 16, steps = (chunks + STEP_CHUNKS - 1) / STEP_CHUNKS;
    const uint32_t last = l.parts[at.part].rows - 1, low = min(at.first + (lane >> 2), last),
                   high = min(at.first + (lane >> 2) + 8, last);
    const uint8_t *rows[PARTS][2];
#pragma unroll
    for (int p = 0; p < PARTS; p++) {
        rows[p][0] = l.parts[at.part + p].w + (size_t)low * l.row_bytes;
        rows[p][1] = l.parts[at.part + p].w + (size_t)high * l.row_bytes;
    }
    Codes w[AHEAD][PARTS];
    uint32_t chunk = warp * STEP_CHUNKS + (lane & 3);
#pragma unroll
    for (int i = 0; i < AHEAD; i++)
#pragma unroll
        for (int p = 0; p < PARTS; p++)
            w[i][p] = load_codes(rows[p][0], rows[p][1], chunk + i * warps * STEP_CHUNKS, chunks);

    const uint32_t first_token = blockIdx.y * NT * 8, count = row_count(l);
    if (first_token >= count) return;
    const uint32_t tokens = min(count - first_token, (uint32_t)NT * 8);
    const int8_t *x = (const int8_t *)l.x + (size_t)first_token * l.x_stride;
    const int8_t *mine[NT];
#pragma unroll
    for (int n = 0; n < NT; n++) {
        const uint32_t token = n * 8 + (lane >> 2);
        mine[n] = token < tokens ? x + (size_t)token * l.x_stride : NULL;
    }
    Sums<NT, PARTS> sums = {};
    for (uint32_t s = warp; s < steps; s += AHEAD * warps) {
#pragma unroll
        for (int i = 0; i < AHEAD; i++) {
            multiply_step<NT, PARTS>(sums, w[i], mine, chunk + i * warps * STEP_CHUNKS, chunks);
#pragma unroll
            for (int p = 0; p < PARTS; p++)
                w[i][p] = load_codes(rows[p][0], rows[p][1], chunk + (i + AHEAD) * warps * STEP_CHUNKS, chunks);
        }
        chunk += AHEAD * warps * STEP_CHUNKS;
    }
    share_and_finish<NT, PARTS>(l, sums, pool, at, first_token, tokens);
}

template <int NT, int PARTS> static cudaError_t start(const Linear *l, cudaStream_t s)
{
    const uint32_t steps = (l->row_bytes / 16 + STEP_CHUNKS - 1) / STEP_CHUNKS;
    const uint32_t most = NT * PARTS > 2 ? MAX_WARPS / 2 : MAX_WARPS, rounds = (steps + most - 1) / most;
    uint32_t warps = (steps + rounds - 1) / rounds;
    const size_t shared = (size_t)warps * PARTS * NT * 8 * TILE_ROWS * sizeof(int);
    if (shared > 48 * 1024) {
        const cudaError_t e =
            cudaFuncSetAttribute(ternary_vec<NT, PARTS>, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)shared);
        if (e != cudaSuccess) return e;
    }
    const dim3 grid(tiles_of(l, TILE_ROWS), (l->n + NT * 8 - 1) / (NT * 8));
    ternary_vec<NT, PARTS><<<grid, warps * 32, shared, s>>>(*l);
    return cudaGetLastError();
}

cudaError_t tern_cuda_ternary_vec(const Linear *l, const tern_cuda_product_device *, cudaStream_t s)
{
    if (l->n <= 8) return l->gated ? start<1, 2>(l, s) : start<1, 1>(l, s);
    if (l->n <= 16) return l->gated ? start<2, 2>(l, s) : start<2, 1>(l, s);
    return l->gated ? start<4, 2>(l, s) : start<4, 1>(l, s);
}
