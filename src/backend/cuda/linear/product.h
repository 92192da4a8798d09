/* Products of weights and rows of activations on CUDA (LINEAR of ops/operands.h): what a launch is told, and which
 * kernel it gets. Plain data; usable from C. */
#ifndef TERN_BACKEND_CUDA_PRODUCT_H
#define TERN_BACKEND_CUDA_PRODUCT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "backend/cuda/formats.h"
#include "backend/cuda/kernels.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { TERN_CUDA_PRODUCT_PARTS = 3, TERN_CUDA_PRODUCT_SPLITS = 8 };

typedef struct tern_cuda_part {
    const uint8_t *w;        /* device: `rows` rows of row_bytes, from a multiple of 16 bytes on */
    const float *row_scales; /* device, [rows]; NULL: `scale` */
    const float *bias;       /* device, [rows]; NULL: none */
    float scale;             /* of ternary weights; 1 of others */
    uint32_t rows;
} tern_cuda_part;

/* One LINEAR. All pointers are of the device.
 *
 *   out[t * out_stride + r] for the rows of all parts one after the other, or act(part 0) * part 1 where it is gated
 *   (two parts of as many rows); t < *count * times (NULL: n). The residual may be out itself. */
typedef struct tern_cuda_product {
    uint32_t format; /* tern_gpu_format: rows as backend/gpu/layout.h lays them out */
    uint32_t n_parts;
    tern_cuda_part parts[TERN_CUDA_PRODUCT_PARTS];
    uint32_t cols, row_bytes; /* row_bytes: a multiple of 16; ternary: of 32 */
    uint32_t n, usual;        /* the most rows of x; those that most steps have */
    const uint32_t *count;    /* times `times`: the rows of this run */
    const uint32_t *first;    /* times `times`: where they begin; NULL: at row 0. Only for f32 rows */
    uint32_t times;
    bool gated, q8; /* q8: x is int8 rows (TERN_DTYPE_Q8), for ternary weights */
    uint32_t activation;
    float limit; /* of activations that have one, which products with a route alone have */
    /* With a route row t has expert routes[2 t], none from n_experts on, and reads row t / x_times of x; `rows` of a
     * part are those of one expert, which lie one after the other. */
    const uint32_t *routes; /* NULL: none */
    uint32_t n_experts, x_times;
    /* The rows put together by expert, for kernels of many: the expert of each tile (UINT32_MAX: none), then the rows
     * of the tiles (UINT32_MAX: no row). Scratch of tern_cuda_group_words words; NULL: there is none. */
    uint32_t *groups;
    const void *x; /* f32 rows of x_stride elements (any alignment of 4), or int8 rows of x_stride, a multiple of
                    * 128, zeros from cols on, or rows of 16-bit numbers of x_stride, a multiple of 8, the same */
    uint32_t x_stride;
    const float *x_scales; /* q8: [n] inverse scales and [n] sums; halves: [n] scales */
    const int32_t *x_sums;
    uint32_t halves;       /* tern_halves: x and weights are multiplied in 16 bits; x of f16 has scales */
    uint8_t *unpacked;     /* with halves: scratch of TERN_CUDA_UNPACKED_BYTES */
    const float *residual; /* NULL: none */
    uint32_t residual_stride, out_stride;
    float *out;
} tern_cuda_product;

enum { TERN_CUDA_GROUP_ROWS = 64, TERN_CUDA_GROUP_ROWS_Q8 = 128, TERN_CUDA_MOST_EXPERTS = 1024 };

/* Tiles that n rows of experts take at most. */
static inline uint32_t tern_cuda_group_tiles(uint32_t n, uint32_t n_experts, uint32_t tile_rows)
{
    return n / tile_rows + (n < n_experts ? n : n_experts);
}

static inline size_t tern_cuda_group_words(uint32_t n, uint32_t n_experts, bool q8)
{
    const uint32_t rows = q8 ? TERN_CUDA_GROUP_ROWS_Q8 : TERN_CUDA_GROUP_ROWS;
    return (size_t)tern_cuda_group_tiles(n, n_experts, rows) * (1 + rows);
}

/* Properties of the device, as far as choices depend on them. */
typedef struct tern_cuda_product_device {
    uint32_t capability; /* 80, 86, 89, 90, 100, 120 */
    uint32_t multiprocessors;
    uint32_t shared_bytes; /* the most of a block */
    /* The clusters of 1 to so many blocks, each of which fills a multiprocessor, that run at once; 0: none. */
    uint32_t clusters[TERN_CUDA_PRODUCT_SPLITS + 1];
} tern_cuda_product_device;
/* Asks the current device for its clusters; the other members are known. */
void tern_cuda_product_clusters(tern_cuda_product_device *d);

typedef enum tern_cuda_product_kernel {
    TERN_CUDA_PRODUCT_TERNARY_VEC,   /* int8 rows, few: tensor cores, K split among the warps of a block */
    TERN_CUDA_PRODUCT_TERNARY_MMA,   /* int8 rows, many: mma.sync */
    TERN_CUDA_PRODUCT_TERNARY_WGMMA, /* int8 rows, from a few on, on sm_90a: wgmma */
    TERN_CUDA_PRODUCT_DENSE_VEC,     /* f32 rows, few */
    TERN_CUDA_PRODUCT_DENSE_MMA,     /* f32 rows, many: two halves each on tensor cores; or 16-bit rows */
    TERN_CUDA_PRODUCT_DENSE_WGMMA,   /* 16-bit rows, from a few on, on sm_90a: wgmma */
    TERN_CUDA_PRODUCT_KERNELS
} tern_cuda_product_kernel;

/* The product that an op is. False when these kernels lack it: weights of several formats, a gate with a limit without
 * a route, int8 rows times dense weights, rows too long for a block's shared memory. */
bool tern_cuda_product_of(const tern_cuda_linear *p, const tern_cuda_product_device *d, tern_cuda_product *out);
/* The parts from `first` on that have one format, as a product of their own; gives the part after them. */
uint32_t tern_cuda_alike_parts(const tern_cuda_linear *p, uint32_t first, tern_cuda_linear *out);
/* The kernel for these rows; host alone, no device is asked. */
tern_cuda_product_kernel tern_cuda_product_select(const tern_cuda_product *l, const tern_cuda_product_device *d);
/* How TERN_CUDA_PRODUCT_TERNARY_WGMMA cuts it: tokens of a tile, and blocks of a cluster that share its columns. */
typedef struct tern_cuda_tiling {
    uint32_t tokens, splits;
} tern_cuda_tiling;
tern_cuda_tiling tern_cuda_product_tiling(const tern_cuda_product *l, const tern_cuda_product_device *d);
/* Tokens and splits of TERN_CUDA_PRODUCT_DENSE_WGMMA. */
tern_cuda_tiling tern_cuda_halves_tiling(const tern_cuda_product *l, const tern_cuda_product_device *d);
/* Blocks of a cluster that share the columns in TERN_CUDA_PRODUCT_DENSE_MMA. */
uint32_t tern_cuda_product_splits(const tern_cuda_product *l, const tern_cuda_product_device *d);
/* Whether a kernel can have the product in the place of that one; false of no kernel. */
bool tern_cuda_product_serves(const tern_cuda_product *l, uint32_t kernel, const tern_cuda_product_device *d);
/* Starts it on a stream (a cudaStream_t); gives a cudaError_t, 0: success. */
int tern_cuda_product_launch(const tern_cuda_product *l, tern_cuda_product_kernel kernel,
                             const tern_cuda_product_device *d, void *stream);

#ifdef __cplusplus
}
#endif

#endif
