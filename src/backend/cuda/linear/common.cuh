// What the kernels of products share: loads, tensor core instructions, the epilogue.
#ifndef TERN_BACKEND_CUDA_LINEAR_COMMON_CUH
#define TERN_BACKEND_CUDA_LINEAR_COMMON_CUH

#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include "backend/cuda/device.cuh"
#include "backend/cuda/launch.cuh"
#include "backend/cuda/linear/product.h"

typedef tern_cuda_product Linear;

// Weights are read once: they pass L1.
static __device__ __forceinline__ uint4 stream16(const void *p)
{
    uint4 v;
    asm volatile("ld.global.nc.L1::no_allocate.L2::256B.v4.u32 {%0,%1,%2,%3},[%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "l"(p));
    return v;
}

static __device__ __forceinline__ uint32_t shared_address(const void *p)
{
    return (uint32_t)__cvta_generic_to_shared(p);
}

// 16 bytes into shared memory, not waited for.
static __device__ __forceinline__ void copy16(uint32_t to, const void *from)
{
    asm volatile("cp.async.cg.shared.global [%0],[%1],16;" ::"r"(to), "l"(from) : "memory");
}

static __device__ __forceinline__ void copies_commit()
{
    asm volatile("cp.async.commit_group;" ::: "memory");
}

template <int LEFT> static __device__ __forceinline__ void copies_wait()
{
    asm volatile("cp.async.wait_group %0;" ::"n"(LEFT) : "memory");
}

// c += a (16 x 32 of u8, a row for each lane / 4 and 8 further) times b (32 x 8 of s8).
static __device__ __forceinline__ void mma_u8s8(int *c, const uint32_t *a, uint32_t b0, uint32_t b1)
{
    asm volatile("mma.sync.aligned.m16n8k32.row.col.s32.u8.s8.s32 {%0,%1,%2,%3},{%4,%5,%6,%7},{%8,%9},{%0,%1,%2,%3};"
                 : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

static __device__ __forceinline__ void mma_f16(float *c, const uint32_t *a, uint32_t b0, uint32_t b1)
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3},{%4,%5,%6,%7},{%8,%9},{%0,%1,%2,%3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

static __device__ __forceinline__ void mma_bf16(float *c, const uint32_t *a, uint32_t b0, uint32_t b1)
{
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3},{%4,%5,%6,%7},{%8,%9},{%0,%1,%2,%3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

static __device__ __forceinline__ uint32_t row_count(const Linear &l)
{
    return l.count ? min(*l.count * l.times, l.n) : l.n;
}

static __device__ __forceinline__ uint32_t first_row(const Linear &l)
{
    return l.first ? *l.first * l.times : 0;
}

// As the CPU's activations (ops/ref/ref.h), within the float budget of devices.
static __device__ __forceinline__ float activated(uint32_t kind, float g)
{
    if (kind == TERN_ACT_RELU2) {
        const float r = g > 0 ? g : 0;
        return r * r;
    }
    if (kind == TERN_ACT_SILU) return g / (1 + expf(-g));
    const float h = fminf(fmaxf(g, -20.0f), 20.0f);
    return g / (1 + expf(-(h + h * h * h * 0.044715f) * 1.5957691216f));
}

// GATE of any activation; those beyond GELU have a limit.
static __device__ __forceinline__ float gate_of(const Linear &l, float gate, float up)
{
    return l.activation > TERN_ACT_GELU ? tern_gate(l.activation, gate, up, l.limit)
                                        : activated(l.activation, gate) * up;
}

static __device__ __forceinline__ float scale_of(const tern_cuda_part &p, uint32_t r)
{
    return p.row_scales ? __ldg(p.row_scales + r) : p.scale;
}

static __device__ __forceinline__ float biased(const tern_cuda_part &p, uint32_t r, float y)
{
    return p.bias ? y + __ldg(p.bias + r) : y;
}

// What is added to row t, column `col` of out. Out may be what is added to: who writes several of them asks for all
// before, or waits for each.
static __device__ __forceinline__ float residual_of(const Linear &l, uint32_t t, uint32_t col)
{
    return l.residual ? l.residual[(size_t)t * l.residual_stride + col] : 0;
}

static __device__ __forceinline__ void put(const Linear &l, uint32_t t, uint32_t col, float y)
{
    l.out[(size_t)t * l.out_stride + col] = y;
}

static __device__ __forceinline__ void finish(const Linear &l, uint32_t t, uint32_t col, float y)
{
    put(l, t, col, y + residual_of(l, t, col));
}

// Of row r of part 0 and of part 1, among those of all experts; sums have their scales.
static __device__ __forceinline__ float gated_of(const Linear &l, uint32_t r, float gate, float up)
{
    const float g = biased(l.parts[0], r, gate), u = biased(l.parts[1], r, up);
    return gate_of(l, g, u);
}

// Which tile of `tile_rows` rows of which part a block has.
struct Tile {
    uint32_t part, first, col; // col: of the part's first row in out
    uint32_t before;           // rows of the part's experts before the one that it is of
};

static __device__ __forceinline__ Tile tile_of(const Linear &l, uint32_t block, uint32_t tile_rows, uint32_t expert = 0)
{
    Tile at = {0, 0, 0, 0};
    while (!l.gated && at.part + 1 < l.n_parts) {
        const uint32_t tiles = (l.parts[at.part].rows + tile_rows - 1) / tile_rows;
        if (block < tiles) break;
        block -= tiles;
        at.col += l.parts[at.part].rows;
        at.part++;
    }
    at.first = block * tile_rows;
    at.before = expert * l.parts[at.part].rows;
    return at;
}

// Row i of a tile, which the part may end before, among those of its part.
static __device__ __forceinline__ size_t row_of_all(const Linear &l, const Tile &at, uint32_t r)
{
    return (size_t)at.before + min(r, l.parts[at.part].rows - 1);
}

// The rows of x and out that a block has: neighbours, or what a list of an expert's has.
struct TileRows {
    uint32_t expert, first, count; // of neighbours: those before `count`
    const uint32_t *list;          // [rows of a tile]; NULL: none
    __device__ __forceinline__ uint32_t at(uint32_t i) const
    {
        return list ? list[i] : first + i < count ? first + i : UINT32_MAX;
    }
    // The row of x of row i of out, of any row where there is none.
    __device__ __forceinline__ uint32_t x_at(const Linear &l, uint32_t i) const
    {
        const uint32_t row = at(i);
        return list ? (row == UINT32_MAX ? list[0] : row) / l.x_times : min(first + i, count - 1);
    }
};

// Those of tile `tile` of `tiles`; false: it has none.
static __device__ __forceinline__ bool rows_of_tile(const Linear &l, uint32_t tile, uint32_t tiles, uint32_t tile_rows,
                                                    TileRows *rows)
{
    const uint32_t n = row_count(l), first = first_row(l);
    if (l.routes) {
        *rows = {l.groups[tile], 0, 0, l.groups + tiles + tile * tile_rows};
        return rows->expert < l.n_experts;
    }
    *rows = {0, first + tile * tile_rows, first + n, NULL};
    return tile * tile_rows < n;
}

// Tiles of rows of x, at most.
static inline uint32_t row_tiles_of(const Linear *l, uint32_t tile_rows)
{
    return l->routes ? tern_cuda_group_tiles(l->n, l->n_experts, tile_rows) : (l->n + tile_rows - 1) / tile_rows;
}

// How many there are.
static inline uint32_t tiles_of(const Linear *l, uint32_t tile_rows)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < (l->gated ? 1u : l->n_parts); i++) n += (l->parts[i].rows + tile_rows - 1) / tile_rows;
    return n;
}

// The launchers, one for each kernel.
extern "C" {
cudaError_t tern_cuda_ternary_vec(const Linear *l, const tern_cuda_product_device *d, cudaStream_t s);
cudaError_t tern_cuda_ternary_mma(const Linear *l, const tern_cuda_product_device *d, cudaStream_t s);
cudaError_t tern_cuda_ternary_wgmma(const Linear *l, const tern_cuda_product_device *d, cudaStream_t s);
cudaError_t tern_cuda_dense_vec(const Linear *l, const tern_cuda_product_device *d, cudaStream_t s);
cudaError_t tern_cuda_dense_mma(const Linear *l, const tern_cuda_product_device *d, cudaStream_t s);
cudaError_t tern_cuda_dense_wgmma(const Linear *l, const tern_cuda_product_device *d, cudaStream_t s);
// `rows` rows of l's weights from `from` on, which are in blocks, as f16 of l->cols columns.
cudaError_t tern_cuda_unpack_halves(const Linear *l, const uint8_t *from, uint32_t rows, uint8_t *to, cudaStream_t s);
// Writes l->groups, in tiles of so many rows.
cudaError_t tern_cuda_group_rows(const Linear *l, uint32_t tile_rows, cudaStream_t s);
}

#endif
