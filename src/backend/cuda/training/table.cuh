/* Launches over a table of ops: which of them a block belongs to. */
#ifndef TERN_BACKEND_CUDA_TABLE_CUH
#define TERN_BACKEND_CUDA_TABLE_CUH

#include "backend/cuda/training/training.h"

/* The last one whose blocks begin at or before this one. All threads of the block come here. */
template <bool CODES> static __device__ __forceinline__ tern_cuda_update update_of(const tern_cuda_updates &p)
{
    __shared__ uint32_t found;
    if (threadIdx.x == 0) {
        uint32_t low = 0;
        for (uint32_t high = p.n; high - low > 1;) {
            const uint32_t middle = (low + high) / 2;
            if ((CODES ? p.all[middle].first_codes : p.all[middle].first) <= blockIdx.x) low = middle;
            else high = middle;
        }
        found = low;
    }
    __syncthreads();
    return p.all[found];
}

#endif
