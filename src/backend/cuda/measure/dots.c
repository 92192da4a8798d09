/* How a launch measures the int8 rate of tensor cores. */
#include "backend/cuda/measure/dots.h"

enum { WARPS = TERN_CUDA_DOTS_THREADS / 32, WARPS_A_GROUP = 4 };

tern_cuda_dots tern_cuda__dots(const tern_cuda_product_device *d)
{
    /* A wgmma.m64n256k32 of a warpgroup, four of them a step; a mma.m16n8k32 of a warp. Blocks that follow one another
     * on a multiprocessor keep it busy while others end. */
    const tern_cuda_product prompt = {.n_parts = 1, .parts = {{.rows = 1}}, .q8 = true, .n = 512, .usual = 512};
    tern_cuda_dots dots = {.wgmma = tern_cuda_product_select(&prompt, d) == TERN_CUDA_PRODUCT_TERNARY_WGMMA,
                           .blocks = 8 * d->multiprocessors};
    dots.steps = dots.wgmma ? 512 : 4096;
    const double a_step =
        dots.wgmma ? WARPS / WARPS_A_GROUP * 4.0 * 64 * 256 * 32 : WARPS * (double)TERN_CUDA_DOTS_SUMS * 16 * 8 * 32;
    dots.multiply_adds = a_step * dots.steps * dots.blocks;
    return dots;
}
