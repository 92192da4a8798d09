/* Products of planes by mma.sync: a block has 128 x 128 of C, a warp 64 x 32, 32 steps at a time, of which two more are
 * on their way into shared memory. Also the sum of what blocks have that share the steps of a product. */
#include "backend/cuda/training/product.cuh"

enum { TILE = 128, STEP = 32, STAGES = 3, THREADS = 256, PLANE_BYTES = TILE * STEP * 2 };

/* Planes of A, of B, and the inverses of A's rows. NA: planes of A; 1 is of bf16. */
template <int NA, int NB> struct Stage {
    static constexpr uint32_t inverses = (NA + NB) * PLANE_BYTES, bytes = inverses + TILE * sizeof(float);
};

/* How many blocks there should be of a product at least. */
enum { BLOCKS = 264, MOST_SPLITS = 16, LEAST_STEPS = 8 };

static __device__ __forceinline__ void copy_or_zeros(uint32_t to, const void *from, bool is_there)
{
    asm volatile("cp.async.cg.shared.global [%0],[%1],16,%2;" ::"r"(to), "l"(from), "r"(is_there ? 16 : 0) : "memory");
}

static __device__ __forceinline__ void matrices(uint32_t (&r)[4], uint32_t from)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3},[%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(from)
                 : "memory");
}

static __device__ __forceinline__ float number(uint32_t from)
{
    float x;
    asm volatile("ld.shared.f32 %0,[%1];" : "=f"(x) : "r"(from) : "memory");
    return x;
}

static __device__ __forceinline__ void mma(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1)
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3},{%4,%5,%6,%7},{%8,%9},"
                 "{%0,%1,%2,%3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

static __device__ __forceinline__ void mma_bf16(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1)
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3},{%4,%5,%6,%7},{%8,%9},"
                 "{%0,%1,%2,%3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

/* Where 8 numbers lie in a tile [128][32]: no two of eight neighbouring rows in the same banks. */
static __device__ __forceinline__ uint32_t in_tile(uint32_t row, uint32_t eight)
{
    return row * 64 + ((eight ^ (row >> 1 & 3)) << 4);
}

/* Rows [first, ...) and steps [at, ...) of a plane. */
static __device__ __forceinline__ void load_tile(const planes &p, uint32_t plane, uint32_t first, uint32_t end,
                                                 uint32_t at, uint32_t to)
{
#pragma unroll
    for (uint32_t i = 0; i < 2; i++) {
        const uint32_t j = threadIdx.x + i * THREADS, row = j / 4, eight = j % 4, c = at + eight * 8;
        const bool is_there = first + row < end && c < p.ld;
        const size_t from = is_there ? plane * p.plane + (size_t)(first + row) * p.ld + c : 0;
        copy_or_zeros(to + in_tile(row, eight), p.data + from, is_there);
    }
}

template <int NA, int NB>
static __device__ __forceinline__ void load_stage(const product &p, uint32_t m0, uint32_t n0, uint32_t at, uint32_t to)
{
    for (uint32_t plane = 0; plane < NA; plane++) load_tile(p.a, plane, m0, p.m, at, to + plane * PLANE_BYTES);
    for (uint32_t plane = 0; plane < NB; plane++) load_tile(p.b, plane, n0, p.n, at, to + (NA + plane) * PLANE_BYTES);
    if (NA == 1 || threadIdx.x >= TILE) return;
    const float *inverse = p.a.inverse + (size_t)(at / CHUNK) * p.m + min(m0 + threadIdx.x, p.m - 1);
    asm volatile("cp.async.ca.shared.global [%0],[%1],4;" ::"r"(to + Stage<NA, NB>::inverses + threadIdx.x * 4),
                 "l"(inverse)
                 : "memory");
}

/* 16 rows of A and 16 steps. */
static __device__ __forceinline__ void fragment_a(uint32_t (&a)[4], uint32_t tile, uint32_t m, uint32_t k)
{
    const uint32_t lane = threadIdx.x % 32;
    matrices(a, tile + in_tile(m + lane % 16, k / 8 + lane / 16));
}

/* 16 rows of B and 16 steps: two for each 8 rows. */
static __device__ __forceinline__ void fragment_b(uint32_t (&b)[4], uint32_t tile, uint32_t n, uint32_t k)
{
    const uint32_t lane = threadIdx.x % 32;
    matrices(b, tile + in_tile(n + lane % 8 + lane / 16 * 8, k / 8 + lane / 8 % 2));
}

/* 16 steps of halves are summed by themselves, the smallest numbers first; bf16 is added up as it comes. */
template <int NA, int NB>
static __device__ __forceinline__ void multiply_stage(float (&c)[4][4][4], uint32_t tiles, uint32_t m, uint32_t n)
{
#pragma unroll
    for (uint32_t k = 0; k < STEP; k += 16) {
        uint32_t b[NB][2][4];
#pragma unroll
        for (uint32_t plane = 0; plane < NB; plane++)
#pragma unroll
            for (uint32_t j = 0; j < 2; j++) fragment_b(b[plane][j], tiles + (NA + plane) * PLANE_BYTES, n + j * 16, k);
#pragma unroll
        for (uint32_t i = 0; i < 4; i++) {
            uint32_t a[NA][4];
#pragma unroll
            for (uint32_t plane = 0; plane < NA; plane++)
                fragment_a(a[plane], tiles + plane * PLANE_BYTES, m + i * 16, k);
            if (NA == 1) {
#pragma unroll
                for (uint32_t j = 0; j < 4; j++)
                    mma_bf16(c[i][j], a[0], b[0][j / 2][j % 2 * 2], b[0][j / 2][j % 2 * 2 + 1]);
                continue;
            }
            const uint32_t of_row = tiles + Stage<NA, NB>::inverses + (m + i * 16 + threadIdx.x % 32 / 4) * 4;
            const float by[2] = {number(of_row), number(of_row + 32)};
#pragma unroll
            for (uint32_t j = 0; j < 4; j++) {
                float sum[4] = {};
                if (NB == 2) mma(sum, a[0], b[NB - 1][j / 2][j % 2 * 2], b[NB - 1][j / 2][j % 2 * 2 + 1]);
                mma(sum, a[NA - 1], b[0][j / 2][j % 2 * 2], b[0][j / 2][j % 2 * 2 + 1]);
                mma(sum, a[0], b[0][j / 2][j % 2 * 2], b[0][j / 2][j % 2 * 2 + 1]);
#pragma unroll
                for (uint32_t e = 0; e < 4; e++) c[i][j][e] = fmaf(sum[e], by[e / 2], c[i][j][e]);
            }
        }
    }
}

static __device__ __forceinline__ float finished(const product &p, uint32_t r, uint32_t col, float x)
{
    x = scaled(p, col, x);
    return p.residual ? x + p.residual[r * p.residual_stride + col] : x;
}

static __device__ __forceinline__ void put(const product &p, uint32_t rows, uint32_t r, uint32_t col, float x)
{
    if (r >= rows || col >= p.n) return;
    if (p.splits > 1) p.partials[((size_t)blockIdx.z * p.m + r) * p.n + col] = x;
    else p.c[r * p.c_stride + col] = finished(p, r, col, x);
}

template <int NA, int NB> static __global__ void __launch_bounds__(THREADS, 2) multiply_planes(product p)
{
    extern __shared__ __align__(128) uint8_t memory[];
    constexpr uint32_t bytes = Stage<NA, NB>::bytes;
    const uint32_t base = (uint32_t)__cvta_generic_to_shared(memory), warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const uint32_t m0 = blockIdx.x * TILE, n0 = blockIdx.y * TILE, rows = rows_of(p);
    const uint32_t first = blockIdx.z * p.k_each, end = min(p.k, first + p.k_each);
    const uint32_t steps = end > first ? (end - first + STEP - 1) / STEP : 0;
    const uint32_t m = warp / 4 * 64, n = warp % 4 * 32;
    float c[4][4][4] = {};
    if (m0 >= rows) return;
    for (uint32_t s = 0; s < STAGES - 1; s++) {
        if (s < steps) load_stage<NA, NB>(p, m0, n0, first + s * STEP, base + s * bytes);
        asm volatile("cp.async.commit_group;" ::: "memory");
    }
    for (uint32_t s = 0; s < steps; s++) {
        asm volatile("cp.async.wait_group %0;" ::"n"(STAGES - 2) : "memory");
        __syncthreads();
        const uint32_t next = s + STAGES - 1;
        if (next < steps) load_stage<NA, NB>(p, m0, n0, first + next * STEP, base + next % STAGES * bytes);
        asm volatile("cp.async.commit_group;" ::: "memory");
        multiply_stage<NA, NB>(c, base + s % STAGES * bytes, m, n);
    }
#pragma unroll
    for (uint32_t i = 0; i < 4; i++)
#pragma unroll
        for (uint32_t j = 0; j < 4; j++)
#pragma unroll
            for (uint32_t e = 0; e < 4; e++)
                put(p, rows, m0 + m + i * 16 + lane / 4 + e / 2 * 8, n0 + n + j * 8 + lane % 4 * 2 + e % 2, c[i][j][e]);
}

static __global__ void add_partials(product p)
{
    const uint32_t r = blockIdx.y, col = blockIdx.x * THREADS + threadIdx.x;
    if (r >= rows_of(p) || col >= p.n) return;
    float x = 0;
    for (uint32_t z = 0; z < p.splits; z++) x += p.partials[((size_t)z * p.m + r) * p.n + col];
    p.c[r * p.c_stride + col] = finished(p, r, col, x);
}

/* Products of few tiles share the steps of their sums. */
static void share_steps(product *p)
{
    const uint32_t tiles = (p->m + TILE - 1) / TILE * ((p->n + TILE - 1) / TILE), steps = (p->k + STEP - 1) / STEP;
    uint32_t splits = BLOCKS / tiles;
    if (splits > steps / LEAST_STEPS) splits = steps / LEAST_STEPS;
    if (splits > MOST_SPLITS) splits = MOST_SPLITS;
    if (splits < 1 || !p->partials) splits = 1;
    p->k_each = (steps + splits - 1) / splits * STEP;
    p->splits = (p->k + p->k_each - 1) / p->k_each;
}

template <int NA, int NB> static cudaError_t start(const product *p, cudaStream_t stream)
{
    const int shared = STAGES * Stage<NA, NB>::bytes;
    const cudaError_t e =
        cudaFuncSetAttribute(multiply_planes<NA, NB>, cudaFuncAttributeMaxDynamicSharedMemorySize, shared);
    if (e != cudaSuccess) return e;
    const dim3 grid((p->m + TILE - 1) / TILE, (p->n + TILE - 1) / TILE, p->splits);
    multiply_planes<NA, NB><<<grid, THREADS, shared, stream>>>(*p);
    return cudaGetLastError();
}

cudaError_t tern_cuda_multiply(product *p, cudaStream_t stream)
{
    cudaError_t e = cudaSuccess;
    if (tern_cuda_multiply_wgmma(p, stream, &e)) return e;
    share_steps(p);
    e = p->bf16 ? start<1, 1>(p, stream) : p->n_planes == 1 ? start<PLANES, 1>(p, stream) : start<PLANES, 2>(p, stream);
    if (e != cudaSuccess || p->splits == 1) return e;
    add_partials<<<dim3((p->n + THREADS - 1) / THREADS, p->m), THREADS, 0, stream>>>(*p);
    return cudaGetLastError();
}
