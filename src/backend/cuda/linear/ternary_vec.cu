// Ternary weights times few int8 rows.
//
//   out[t][r] = (sum_c code[r][c] q[t][c] - sum_c q[t][c]) * (inv_scale[t] * scale),  code = w + 1; then the epilogue
//
// A block has MT tiles of 16 rows of a part (gated: of both); its warps share the columns, 256 at a time. A lane reads
// 16 bytes of an I2_S group, that is 16 columns of each quarter, and 16 bytes of x for each quarter: what it multiplies
// lies in the fragment of an m16n8k32 whose columns are taken in that order, so nothing is rearranged. Weights are
// asked for two steps ahead, x a quarter. Integers are exact in any order. With a route a block has one row, and the
// rows of its expert.
#include "backend/cuda/linear/common.cuh"

enum { TILE_ROWS = 16, STEP_CHUNKS = 4, AHEAD = 2, AT_ONCE = 4 };

// The most warps of a block with so many fragments of sums.
static constexpr uint32_t most_warps(int fragments)
{
    return fragments > 8 ? 10 : fragments > 2 ? 8 : 16;
}

// The weights of a step: 16 bytes of rows lane / 4 and lane / 4 + 8.
struct Codes {
    uint4 low, high;
};

// Of TILES tiles of weights, those of part 0 first, and NT of eight tokens.
template <int NT, int TILES> struct Sums {
    int v[TILES][NT][4];
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

// What a lane has of the rows of x: those of a token of each eight.
struct Rows {
    const int8_t *first;
    uint32_t apart, token, tokens; // apart: bytes from a lane's token to its next
};

template <int NT>
static __device__ __forceinline__ void load_x(uint4 (&v)[NT], const Rows &x, uint32_t at, bool is_there)
{
#pragma unroll
    for (int n = 0; n < NT; n++) {
        v[n] = make_uint4(0, 0, 0, 0);
        if (is_there && x.token + n * 8 < x.tokens) v[n] = *(const uint4 *)(x.first + n * x.apart + at);
    }
}

template <int NT, int TILES>
static __device__ __forceinline__ void multiply_step(Sums<NT, TILES> &sums, const Codes *w, const Rows &x,
                                                     uint32_t chunk, uint32_t chunks)
{
    const uint32_t at = (chunk >> 1) * 128 + (chunk & 1) * 16;
    const bool is_there = chunk < chunks;
    uint4 v[2][NT];
    load_x(v[0], x, at, is_there);
#pragma unroll
    for (int q = 0; q < 4; q++) {
        if (q < 3) load_x(v[(q + 1) % 2], x, at + (q + 1) * 32, is_there);
#pragma unroll
        for (int n = 0; n < NT; n++)
#pragma unroll
            for (int i = 0; i < TILES; i++) multiply(sums.v[i][n], w[i], q, v[q % 2][n]);
    }
}

// R: with a route.
template <bool R> static __device__ __forceinline__ uint32_t x_row_of(const Linear &l, uint32_t token)
{
    return R ? token / l.x_times : token;
}

// One of them, in the place `sums` of each plane of [warps][PARTS].
template <int PARTS, bool R>
static __device__ __forceinline__ float output_of(const Linear &l, const int *sums, uint32_t plane, Tile at, uint32_t r,
                                                  uint32_t token)
{
    int sum[PARTS] = {};
    for (uint32_t w = 0; w < blockDim.x / 32; w++)
#pragma unroll
        for (int p = 0; p < PARTS; p++) sum[p] += sums[(w * PARTS + p) * plane];
    const float inverse = l.x_scales[x_row_of<R>(l, token)];
    const int less = l.x_sums[x_row_of<R>(l, token)];
    const tern_cuda_part &part = l.parts[at.part];
    if (R) r += at.before;
    const float y = (float)(sum[0] - less) * (inverse * scale_of(part, r));
    if (PARTS == 1) return biased(part, r, y);
    return gated_of(l, r, y, (float)(sum[PARTS - 1] - less) * (inverse * scale_of(l.parts[1], r)));
}

// Sums of all warps, then the epilogue; pool: [warps][PARTS][8 NT tokens][16 MT rows].
template <int NT, int PARTS, int MT, bool R>
static __device__ __forceinline__ void share_and_finish(const Linear &l, const Sums<NT, PARTS * MT> &sums, int *pool,
                                                        Tile at, uint32_t first_token, uint32_t tokens)
{
    const uint32_t warp = threadIdx.x >> 5, lane = threadIdx.x & 31, g = lane >> 2, t = lane & 3;
    const uint32_t rows = MT * TILE_ROWS, plane = NT * 8 * rows;
#pragma unroll
    for (int k = 0; k < PARTS * MT; k++)
#pragma unroll
        for (int n = 0; n < NT; n++)
#pragma unroll
            for (int i = 0; i < 4; i++) {
                const uint32_t token = n * 8 + 2 * t + (i & 1), row = k % MT * TILE_ROWS + g + (i >> 1) * 8;
                if (token < tokens) pool[(warp * PARTS + k / MT) * plane + token * rows + row] = sums.v[k][n][i];
            }
    __syncthreads();
    const uint32_t last = l.parts[at.part].rows - at.first;
    for (uint32_t first = threadIdx.x; first < tokens * rows; first += AT_ONCE * blockDim.x) {
        float more[AT_ONCE];
#pragma unroll
        for (uint32_t k = 0; k < AT_ONCE; k++) {
            const uint32_t o = first + k * blockDim.x;
            const bool is_there = o < tokens * rows && o % rows < last;
            more[k] = is_there ? residual_of(l, first_token + o / rows, at.col + at.first + o % rows) : 0;
        }
#pragma unroll
        for (uint32_t k = 0; k < AT_ONCE; k++) {
            const uint32_t o = first + k * blockDim.x, token = first_token + o / rows;
            if (o >= tokens * rows || o % rows >= last) continue;
            put(l, token, at.col + at.first + o % rows,
                output_of<PARTS, R>(l, pool + o, plane, at, at.first + o % rows, token) + more[k]);
        }
    }
}

// The weights of a block: rows [tile][half], and what this warp has asked for of them.
template <int TILES> struct Weights {
    const uint8_t *rows[TILES][2];
    Codes ahead[AHEAD][TILES];
    uint32_t chunks;

    __device__ __forceinline__ void ask(int i, uint32_t chunk)
    {
#pragma unroll
        for (int k = 0; k < TILES; k++) ahead[i][k] = load_codes(rows[k][0], rows[k][1], chunk, chunks);
    }
};

// Tokens of which there are at most half as many as there is room for are multiplied as those of half the room.
template <int NT, int PARTS, int MT, bool R>
static __device__ __forceinline__ void multiply_rows(const Linear &l, Weights<PARTS * MT> &w, int *pool, Tile at,
                                                     uint32_t first_token, uint32_t tokens)
{
    if constexpr (NT > 1) {
        if (tokens <= NT * 4) {
            multiply_rows<NT / 2, PARTS, MT, R>(l, w, pool, at, first_token, tokens);
            return;
        }
    }
    const uint32_t warps = blockDim.x / 32, warp = threadIdx.x >> 5, lane = threadIdx.x & 31, token = lane >> 2;
    const uint32_t steps = (w.chunks + STEP_CHUNKS - 1) / STEP_CHUNKS;
    const Rows x = {(const int8_t *)l.x + (size_t)x_row_of<R>(l, first_token + token) * l.x_stride, 8 * l.x_stride, token,
                    tokens};
    uint32_t chunk = warp * STEP_CHUNKS + (lane & 3);
    Sums<NT, PARTS *MT> sums = {};
    for (uint32_t s = warp; s < steps; s += AHEAD * warps) {
#pragma unroll
        for (int i = 0; i < AHEAD; i++) {
            multiply_step<NT, PARTS * MT>(sums, w.ahead[i], x, chunk + i * warps * STEP_CHUNKS, w.chunks);
            w.ask(i, chunk + (i + AHEAD) * warps * STEP_CHUNKS);
        }
        chunk += AHEAD * warps * STEP_CHUNKS;
    }
    share_and_finish<NT, PARTS, MT, R>(l, sums, pool, at, first_token, tokens);
}

template <int NT, int PARTS, int MT, bool R>
static __global__ void __launch_bounds__(most_warps(NT *PARTS *MT) * 32) ternary_vec(const __grid_constant__ Linear l)
{
    extern __shared__ __align__(16) int pool[];
    const uint32_t warps = blockDim.x / 32, warp = threadIdx.x >> 5, lane = threadIdx.x & 31;
    if (R) tern_follow(); // which weights it has is not known before
    const uint32_t expert = R && blockIdx.y < row_count(l) ? l.routes[2 * blockIdx.y] : 0;
    if (R && expert >= l.n_experts) return; // none: another run's row
    const Tile at = tile_of(l, blockIdx.x, MT * TILE_ROWS, expert);
    const uint32_t last = l.parts[at.part].rows - 1, chunk = warp * STEP_CHUNKS + (lane & 3);
    Weights<PARTS * MT> w;
    w.chunks = l.row_bytes / 16;
#pragma unroll
    for (int k = 0; k < PARTS * MT; k++)
#pragma unroll
        for (int half = 0; half < 2; half++) {
            const uint32_t row = min(at.first + k % MT * TILE_ROWS + (lane >> 2) + half * 8, last);
            w.rows[k][half] = l.parts[at.part + k / MT].w + (size_t)(at.before + row) * l.row_bytes;
        }
    const uint32_t each = R ? 1 : NT * 8, first_token = blockIdx.y * each;
    if (first_token && !R) tern_follow(); // there may be nothing to do
    const uint32_t most = first_token ? row_count(l) : l.n;
    if (first_token >= most) return;
#pragma unroll
    for (int i = 0; i < AHEAD; i++) w.ask(i, chunk + i * warps * STEP_CHUNKS);

    if (!first_token && !R) tern_follow();
    const uint32_t count = row_count(l);
    if (first_token >= count) return;
    multiply_rows<NT, PARTS, MT, R>(l, w, pool, at, first_token, min(count - first_token, each));
}

template <int NT, int PARTS, int MT, bool R = false> static cudaError_t start(const Linear *l, cudaStream_t s)
{
    const uint32_t steps = (l->row_bytes / 16 + STEP_CHUNKS - 1) / STEP_CHUNKS;
    const uint32_t most = most_warps(NT * PARTS * MT), rounds = (steps + most - 1) / most;
    const uint32_t warps = (steps + rounds - 1) / rounds;
    const size_t shared = (size_t)warps * PARTS * MT * NT * 8 * TILE_ROWS * sizeof(int);
    if (shared > 48 * 1024) {
        const cudaError_t e =
            cudaFuncSetAttribute(ternary_vec<NT, PARTS, MT, R>, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)shared);
        if (e != cudaSuccess) return e;
    }
    const dim3 grid(tiles_of(l, MT * TILE_ROWS), R ? l->n : (l->n + NT * 8 - 1) / (NT * 8));
    return tern_launch(ternary_vec<NT, PARTS, MT, R>, grid, warps * 32, shared, s, *l);
}

enum { LONG_COLS = 4096 };

cudaError_t tern_cuda_ternary_vec(const Linear *l, const tern_cuda_product_device *, cudaStream_t s)
{
    const uint32_t n = l->usual;
    if (l->routes) return l->gated ? start<1, 2, 1, true>(l, s) : start<1, 1, 1, true>(l, s);
    if (n <= 8) return l->gated ? start<1, 2, 1>(l, s) : start<1, 1, 1>(l, s);
    if (n <= 16) return l->gated ? start<2, 2, 1>(l, s) : start<2, 1, 1>(l, s);
    if (l->gated) return start<4, 2, 1>(l, s);
    return n > 32 && l->cols >= LONG_COLS ? start<8, 1, 2>(l, s) : start<4, 1, 1>(l, s);
}
