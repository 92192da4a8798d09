/* Blocks of a cluster (compute capability 9.0 and later), which share what lies in their shared memory. A cluster is a
 * column of the grid (z). */
#ifndef TERN_BACKEND_CUDA_CLUSTER_CUH
#define TERN_BACKEND_CUDA_CLUSTER_CUH

#include <cuda_runtime.h>

#include <cstdint>

/* The share of this block in n things. */
struct cluster_share {
    uint32_t from, to;
};

static __device__ __forceinline__ cluster_share share_of_cluster(uint32_t n)
{
    return {n * blockIdx.z / gridDim.z, n * (blockIdx.z + 1) / gridDim.z};
}

/* All threads of the cluster that have not ended; what they wrote to shared memory is then there. */
static __device__ __forceinline__ void cluster_sync()
{
#if __CUDA_ARCH__ >= 900
    asm volatile("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
#endif
}

/* What another block of the cluster has at the same place of its shared memory. */
static __device__ __forceinline__ int4 four_of_block(const int *place, uint32_t block)
{
    int4 v = make_int4(0, 0, 0, 0);
#if __CUDA_ARCH__ >= 900
    asm volatile("{.reg .u32 there; mapa.shared::cluster.u32 there,%4,%5;"
                 "ld.shared::cluster.v4.s32 {%0,%1,%2,%3},[there];}"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "r"((uint32_t)__cvta_generic_to_shared(place)), "r"(block)
                 : "memory");
#endif
    return v;
}

static __device__ __forceinline__ float float_of_block(const float *place, uint32_t block)
{
    float v = 0;
#if __CUDA_ARCH__ >= 900
    asm volatile("{.reg .u32 there; mapa.shared::cluster.u32 there,%1,%2; ld.shared::cluster.f32 %0,[there];}"
                 : "=f"(v)
                 : "r"((uint32_t)__cvta_generic_to_shared(place)), "r"(block)
                 : "memory");
#endif
    return v;
}

#endif
