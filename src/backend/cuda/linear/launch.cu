// Starts the kernel that was chosen for a product.
#include "backend/cuda/linear/common.cuh"

int tern_cuda_product_launch(const tern_cuda_product *l, tern_cuda_product_kernel kernel,
                             const tern_cuda_product_device *d, void *stream)
{
    const cudaStream_t s = (cudaStream_t)stream;
    switch (kernel) {
    case TERN_CUDA_PRODUCT_TERNARY_VEC: return tern_cuda_ternary_vec(l, d, s);
    case TERN_CUDA_PRODUCT_TERNARY_MMA: return tern_cuda_ternary_mma(l, d, s);
    case TERN_CUDA_PRODUCT_TERNARY_WGMMA: return tern_cuda_ternary_wgmma(l, d, s);
    case TERN_CUDA_PRODUCT_DENSE_VEC: return tern_cuda_dense_vec(l, d, s);
    case TERN_CUDA_PRODUCT_DENSE_MMA: return tern_cuda_dense_mma(l, d, s);
    case TERN_CUDA_PRODUCT_DENSE_WGMMA: return tern_cuda_dense_wgmma(l, d, s);
    default: return cudaErrorInvalidValue;
    }
}
