// Weights of any encoding times many f32 rows on tensor cores: out[t][r] = sum_c w[r][c] x[t][c], then the epilogue.
//
// A float of x times the power of two that brings the largest of its row's STEP columns below 2^15 is the sum of two
// halves, the first its 11 leading bits, but for about 2^-21 of it or 2^-38 of the largest. Codes and f16 weights are
// halves; bf16 and MXFP4 ones times 64 are, down to 2^-20; others times 64 are two halves as well, of which the product
// of the second ones is left out: the rule of backend/gpu/linear/linear_float_coop.wesl. Sums in f32.
//
// ONE: x is there in 16 bits (round.cu), weights are rounded to f16 or are bf16, and there is one product.
//
// A block has 64 tokens and 64 rows of weights (gated: 32 of each part), its four warps 32 x 32 each, STEP columns at a
// time; the next ones are on their way in registers. Where blocks are few, the columns are split among those of a
// cluster, each of which adds up, in their order, what all have of a share of the sums. With a route a tile has rows of
// one expert, which a list says (experts.cu).
#include "backend/cuda/cluster.cuh"
#include "backend/cuda/linear/units.cuh"

enum { TOKENS = 64, TILE_ROWS = 64, STEP = 128, STRIDE = STEP + 8, THREADS = 128 };
enum { PLANE = TOKENS * STRIDE }; // halves
static_assert((int)TOKENS == (int)TERN_CUDA_GROUP_ROWS, "a tile of an expert's rows is a block's");

template <int F, bool ONE> struct Weights {
    static constexpr bool bf16 = ONE && F == TERN_GPU_BF16;
    static constexpr bool two =
        !(ONE || F == TERN_GPU_TERNARY || F == TERN_GPU_F16 || F == TERN_GPU_BF16 || F == TERN_GPU_MXFP4);
    static constexpr float times = ONE || F == TERN_GPU_TERNARY || F == TERN_GPU_F16 ? 1.0f : 64.0f;
    static constexpr int units = STEP / (Format<F>::columns * Format<F>::parts); // of a row in a step
    static constexpr int mine = TILE_ROWS * units / THREADS;                     // of a thread
    static constexpr int x_planes = ONE ? 1 : 2;
    static constexpr int shared = ONE ? 2 * PLANE : 4 * PLANE; // halves
};

static __device__ __forceinline__ uint32_t pack_halves(float a, float b)
{
    const __half2 h = __floats2half2_rn(a, b);
    return *(const uint32_t *)&h;
}

static __device__ __forceinline__ float leading(float v)
{
    return __uint_as_float(__float_as_uint(v) & 0xffffe000u);
}

// N numbers as halves at `to`, and what is left of them a plane further.
template <int N, bool TWO> static __device__ __forceinline__ void store_halves(__half *to, const float *v)
{
    uint32_t first[N / 2], rest[N / 2];
#pragma unroll
    for (int i = 0; i < N / 2; i++) {
        const float a = TWO ? leading(v[2 * i]) : v[2 * i], b = TWO ? leading(v[2 * i + 1]) : v[2 * i + 1];
        first[i] = pack_halves(a, b);
        rest[i] = TWO ? pack_halves(v[2 * i] - a, v[2 * i + 1] - b) : 0;
    }
#pragma unroll
    for (int i = 0; i < N / 8; i++) {
        *(uint4 *)(to + 8 * i) = make_uint4(first[4 * i], first[4 * i + 1], first[4 * i + 2], first[4 * i + 3]);
        if (TWO)
            *(uint4 *)(to + PLANE + 8 * i) = make_uint4(rest[4 * i], rest[4 * i + 1], rest[4 * i + 2], rest[4 * i + 3]);
    }
}

// --- x: a row for two threads, each 64 columns in runs of 8 that take turns

// Whether eight columns that start at a multiple of eight are two loads of 16 bytes.
static __device__ __forceinline__ bool is_aligned(const Linear &l)
{
    return ((size_t)l.x & 15) == 0 && l.x_stride % 4 == 0;
}

static __device__ __forceinline__ void fetch_x(const Linear &l, const float *row, uint32_t c, bool aligned, float *v)
{
    if (aligned && c + 8 <= l.cols) {
        const float4 a = *(const float4 *)(row + c), b = *(const float4 *)(row + c + 4);
        v[0] = a.x, v[1] = a.y, v[2] = a.z, v[3] = a.w;
        v[4] = b.x, v[5] = b.y, v[6] = b.z, v[7] = b.w;
        return;
    }
#pragma unroll
    for (int k = 0; k < 8; k++) v[k] = c + k < l.cols ? row[c + k] : 0;
}

// Stores a step's rows as halves, and the inverses of what they were multiplied with.
static __device__ __forceinline__ void store_x(const Linear &l, const float *row, uint32_t from, bool aligned,
                                               __half *to, float *inverse)
{
    const uint32_t side = threadIdx.x & 1;
    float top = 0, v[8][8];
#pragma unroll
    for (int run = 0; run < 8; run++) fetch_x(l, row, from + side * 8 + run * 16, aligned, v[run]);
#pragma unroll
    for (int run = 0; run < 8; run++)
#pragma unroll
        for (int k = 0; k < 8; k++) top = fmaxf(top, fabsf(v[run][k]));
    top = fmaxf(top, __shfl_xor_sync(~0u, top, 1));
    // 2^(14 - exponent), kept among numbers whose inverse is one too
    const int exponent = (int)(__float_as_uint(top) >> 23 & 255);
    const int power = min(max(127 + 14 - (exponent - 127), 1), 253);
    const float factor = __uint_as_float((uint32_t)power << 23);
    if (side == 0) inverse[threadIdx.x / 2] = __uint_as_float((uint32_t)(254 - power) << 23);
#pragma unroll
    for (int run = 0; run < 8; run++) {
#pragma unroll
        for (int k = 0; k < 8; k++) v[run][k] *= factor;
        store_halves<8, true>(to + threadIdx.x / 2 * STRIDE + run * 16 + side * 8, v[run]);
    }
}

// As above, of rows in 16 bits, which end with zeros.
struct Runs {
    uint4 run[8];
};

static __device__ __forceinline__ void fetch_halves(const Linear &l, uint32_t row, uint32_t from, Runs &r)
{
    const uint16_t *x = (const uint16_t *)l.x + (size_t)row * l.x_stride;
#pragma unroll
    for (int run = 0; run < 8; run++) {
        const uint32_t c = from + (threadIdx.x & 1) * 8 + run * 16;
        r.run[run] = c < l.x_stride ? *(const uint4 *)(x + c) : make_uint4(0, 0, 0, 0);
    }
}

static __device__ __forceinline__ void store_runs(const Runs &r, __half *to)
{
#pragma unroll
    for (int run = 0; run < 8; run++)
        *(uint4 *)(to + threadIdx.x / 2 * STRIDE + run * 16 + (threadIdx.x & 1) * 8) = r.run[run];
}

// --- weights

template <int F, bool ONE> struct Mine {
    Unit u[Weights<F, ONE>::mine];
};

// N numbers that are bf16.
template <int N> static __device__ __forceinline__ void store_bf16(__half *to, const float *v)
{
    uint32_t w[N / 2];
#pragma unroll
    for (int i = 0; i < N / 2; i++)
        w[i] = __float_as_uint(v[2 * i]) >> 16 | (__float_as_uint(v[2 * i + 1]) & 0xffff0000u);
#pragma unroll
    for (int i = 0; i < N / 8; i++)
        *(uint4 *)(to + 8 * i) = make_uint4(w[4 * i], w[4 * i + 1], w[4 * i + 2], w[4 * i + 3]);
}

static __device__ __forceinline__ const uint8_t *weight_row(const Linear &l, Tile at, uint32_t i)
{
    const uint32_t part = l.gated ? i / (TILE_ROWS / 2) : at.part, r = at.first + (l.gated ? i % (TILE_ROWS / 2) : i);
    return l.parts[part].w + row_of_all(l, at, r) * l.row_bytes;
}

template <int F, bool ONE>
static __device__ __forceinline__ void fetch_w(const Linear &l, Tile at, uint32_t step, Mine<F, ONE> &m)
{
    using W = Weights<F, ONE>;
    const uint32_t units = units_of<F>(l.cols, l.row_bytes);
#pragma unroll
    for (int k = 0; k < W::mine; k++) {
        const uint32_t j = threadIdx.x + k * THREADS, i = step * W::units + j % W::units;
        Unit none = {};
        m.u[k] = i < units ? load_unit<F>(weight_row(l, at, j / W::units), i, l.cols, l.row_bytes) : none;
    }
}

template <int F, bool ONE>
static __device__ __forceinline__ void store_w(const Linear &l, uint32_t step, const Mine<F, ONE> &m, __half *to)
{
    using W = Weights<F, ONE>;
    constexpr int N = Format<F>::columns;
    const uint32_t units = units_of<F>(l.cols, l.row_bytes);
#pragma unroll
    for (int k = 0; k < W::mine; k++) {
        const uint32_t j = threadIdx.x + k * THREADS, i = step * W::units + j % W::units;
#pragma unroll
        for (int part = 0; part < Format<F>::parts; part++) {
            float v[N] = {};
            if (i < units) numbers_of<F>(m.u[k], i, part, v);
#pragma unroll
            for (int n = 0; n < N; n++) v[n] *= W::times;
            __half *place = to + j / W::units * STRIDE + column_of<F>(i, part) - step * STEP;
            if (W::bf16) store_bf16<N>(place, v);
            else store_halves<N, W::two>(place, v);
        }
    }
}

// --- products

static __device__ __forceinline__ void load4(uint32_t *r, const __half *at)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3},[%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(shared_address(at)));
}

// Two times 16 rows of x (first halves, then what is left) and two times 16 rows of weights, `apart` rows apart.
template <bool ONE, bool TWO, bool BF>
static __device__ __forceinline__ void multiply(float (&c)[2][4][4], const __half *x, const __half *w, uint32_t apart,
                                                uint32_t lane)
{
    const __half *xa = x + (lane & 15) * STRIDE + (lane >> 4) * 8;
    const __half *wb = w + ((lane >> 4) * 8 + (lane & 7)) * STRIDE + (lane >> 3 & 1) * 8;
#pragma unroll 2
    for (int k = 0; k < STEP; k += 16) {
        uint32_t a[2][2][4], b[2][2][4]; // [tile][plane]
#pragma unroll
        for (int i = 0; i < 2; i++)
#pragma unroll
            for (int p = 0; p < 2; p++) {
                if (p == 0 || !ONE) load4(a[i][p], xa + p * PLANE + i * 16 * STRIDE + k);
                if (p == 0 || TWO) load4(b[i][p], wb + p * PLANE + i * apart * STRIDE + k);
            }
#pragma unroll
        for (int m = 0; m < 2; m++)
#pragma unroll
            for (int n = 0; n < 4; n++) {
                const uint32_t *b0 = b[n / 2][0] + n % 2 * 2, *b1 = b[n / 2][1] + n % 2 * 2;
                if (BF) mma_bf16(c[m][n], a[m][0], b0[0], b0[1]);
                else mma_f16(c[m][n], a[m][0], b0[0], b0[1]);
                if (!ONE) mma_f16(c[m][n], a[m][1], b0[0], b0[1]);
                if (TWO) mma_f16(c[m][n], a[m][0], b1[0], b1[1]);
            }
    }
}

// Where a lane's sum n, i of a tile goes.
static __device__ __forceinline__ uint32_t row_of(const Linear &l, Tile at, uint32_t side, int n, int i)
{
    return at.first + side * (l.gated ? 16 : 32) + n * 8 + (threadIdx.x & 3) * 2 + (i & 1);
}

// Of one token, sums n of 0 .. 3 (gated: of both parts).
template <int F, bool ONE>
static __device__ __forceinline__ void finish_tile(const Linear &l, Tile at, const float (&c)[4][4],
                                                   const float (&more)[4][4], uint32_t token, uint32_t side, int i)
{
    const float unit = ONE ? l.x_scales[token] : 1 / Weights<F, ONE>::times;
    const tern_cuda_part &part = l.parts[at.part];
#pragma unroll
    for (int n = 0; n < 4; n++) {
        const uint32_t r = row_of(l, at, side, n, i);
        if ((l.gated && n >= 2) || r >= part.rows) break;
        const uint32_t of_all = at.before + r;
        float y = c[n][i] * unit * scale_of(part, of_all);
        if (l.gated) y = gated_of(l, of_all, y, c[(n + 2) & 3][i] * unit * scale_of(l.parts[1], of_all));
        else y = biased(part, of_all, y);
        put(l, token, at.col + r, y + more[n][i]);
    }
}

// The sums of the block's share of the tokens of a lane, of which it has eight: m, i is number 4 m + i.
static __device__ __forceinline__ void gather_sums(float (&c)[2][4][4], cluster_share mine, float *room)
{
    __syncthreads(); // nobody reads x or weights any more
#pragma unroll
    for (int k = 0; k < 32; k++) room[k * THREADS + threadIdx.x] = c[k / 16][k / 4 % 4][k % 4];
    cluster_sync();
#pragma unroll
    for (int k = 0; k < 32; k++) {
        const uint32_t token = k / 16 * 4 + k % 4;
        float sum = 0;
        if (token >= mine.from && token < mine.to)
#pragma unroll
            for (uint32_t b = 0; b < TERN_CUDA_PRODUCT_SPLITS; b++)
                sum += b < gridDim.z ? float_of_block(room + k * THREADS + threadIdx.x, b) : 0;
        c[k / 16][k / 4 % 4][k % 4] = sum;
    }
}

template <int F, bool ONE>
static __device__ __forceinline__ void finish_tiles(const Linear &l, Tile at, const float (&c)[2][4][4],
                                                    const TileRows &tokens, uint32_t from, uint32_t side,
                                                    cluster_share mine)
{
    const uint32_t first = from + (threadIdx.x & 31) / 4, rows = l.parts[at.part].rows;
    float more[2][4][4];
#pragma unroll
    for (int m = 0; m < 2; m++)
#pragma unroll
        for (int n = 0; n < 4; n++)
#pragma unroll
            for (int i = 0; i < 4; i++) {
                const uint32_t token = tokens.at(first + m * 16 + (i >> 1) * 8), r = row_of(l, at, side, n, i);
                const bool is_there = token != UINT32_MAX && r < rows && !(l.gated && n >= 2);
                more[m][n][i] = is_there ? residual_of(l, token, at.col + r) : 0;
            }
#pragma unroll
    for (int m = 0; m < 2; m++)
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const uint32_t token = tokens.at(first + m * 16 + (i >> 1) * 8), number = m * 4 + i;
            if (token != UINT32_MAX && number >= mine.from && number < mine.to)
                finish_tile<F, ONE>(l, at, c[m], more[m], token, side, i);
        }
}

// total += the products of a step, x times what the rows were multiplied with taken back.
template <bool TWO>
static __device__ __forceinline__ void add_step(float (&total)[2][4][4], const __half *x, const __half *w,
                                                uint32_t apart, const float *inverse)
{
    const uint32_t lane = threadIdx.x & 31;
    float c[2][4][4] = {};
    multiply<false, TWO, false>(c, x, w, apart, lane);
#pragma unroll
    for (int m = 0; m < 2; m++)
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const float by = inverse[m * 16 + (lane >> 2) + (i >> 1) * 8];
#pragma unroll
            for (int n = 0; n < 4; n++) total[m][n][i] = fmaf(c[m][n][i], by, total[m][n][i]);
        }
}

template <int F, bool ONE> static __global__ void __launch_bounds__(THREADS) dense_mma(const __grid_constant__ Linear l)
{
    using W = Weights<F, ONE>;
    extern __shared__ __align__(16) __half tiles[];
    __shared__ float inverse[TOKENS];
    __half *xs = tiles, *ws = tiles + W::x_planes * PLANE;
    const uint32_t warp = threadIdx.x >> 5, lane = threadIdx.x & 31, side = warp & 1, low = (warp >> 1) * 32;
    TileRows rows;
    if (!rows_of_tile(l, blockIdx.y, gridDim.y, TOKENS, &rows)) return;
    const Tile at = tile_of(l, blockIdx.x, l.gated ? TILE_ROWS / 2 : TILE_ROWS, rows.expert);
    const uint32_t x_row = rows.x_at(l, threadIdx.x / 2), apart = l.gated ? 32 : 16;
    const float *row = (const float *)l.x + (size_t)x_row * l.x_stride;
    const __half *xw = xs + low * STRIDE, *ww = ws + side * (l.gated ? 16 : 32) * STRIDE;
    const cluster_share steps = share_of_cluster((l.cols + STEP - 1) / STEP), sums = share_of_cluster(8);
    const bool aligned = is_aligned(l);
    float total[2][4][4] = {};
    Mine<F, ONE> mine;
    Runs runs;
    fetch_w<F, ONE>(l, at, steps.from, mine);
    if (ONE) fetch_halves(l, x_row, steps.from * STEP, runs);
    for (uint32_t step = steps.from; step < steps.to; step++) {
        __syncthreads();
        if (ONE) store_runs(runs, xs);
        else store_x(l, row, step * STEP, aligned, xs, inverse);
        store_w<F, ONE>(l, step, mine, ws);
        if (step + 1 < steps.to) fetch_w<F, ONE>(l, at, step + 1, mine);
        if (ONE && step + 1 < steps.to) fetch_halves(l, x_row, (step + 1) * STEP, runs);
        __syncthreads();
        if (ONE) multiply<true, false, W::bf16>(total, xw, ww, apart, lane);
        else add_step<W::two>(total, xw, ww, apart, inverse + low);
    }
    if (gridDim.z > 1) gather_sums(total, sums, (float *)tiles);
    finish_tiles<F, ONE>(l, at, total, rows, low, side, sums);
    if (gridDim.z > 1) cluster_sync(); // its sums may be read until then
}

template <int F, bool ONE> static cudaError_t start(const Linear *l, const tern_cuda_product_device *d, cudaStream_t s)
{
    const int shared = Weights<F, ONE>::shared * (int)sizeof(__half);
    const cudaError_t e = cudaFuncSetAttribute(dense_mma<F, ONE>, cudaFuncAttributeMaxDynamicSharedMemorySize, shared);
    if (e != cudaSuccess) return e;
    const uint32_t splits = tern_cuda_product_splits(l, d);
    const dim3 grid(tiles_of(l, l->gated ? TILE_ROWS / 2 : TILE_ROWS), row_tiles_of(l, TOKENS), splits);
    return tern_launch_together(dense_mma<F, ONE>, grid, THREADS, shared, s, false, splits, *l);
}

static cudaError_t start_halves(const Linear *l, const tern_cuda_product_device *d, cudaStream_t s)
{
    switch (l->format) {
#define START(format)                                                                                                  \
    case TERN_GPU_##format: return start<TERN_GPU_##format, true>(l, d, s);
        START(F16)
        START(BF16)
        TERN_CUDA_BLOCK_FORMATS(START)
#undef START
    default: return cudaErrorInvalidValue;
    }
}

cudaError_t tern_cuda_dense_mma(const Linear *l, const tern_cuda_product_device *d, cudaStream_t s)
{
    const cudaError_t e = l->routes ? tern_cuda_group_rows(l, TOKENS, s) : cudaSuccess;
    if (e != cudaSuccess) return e;
    if (l->halves) return start_halves(l, d, s);
    switch (l->format) {
#define START(format)                                                                                                  \
    case TERN_GPU_##format: return start<TERN_GPU_##format, false>(l, d, s);
        TERN_CUDA_DENSE_FORMATS(START)
        START(TERNARY)
#undef START
    default: return cudaErrorInvalidValue;
    }
}
