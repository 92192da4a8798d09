/* How kernels follow each other on a stream: programmatic dependent launch (CUDA C++ Programming Guide, "Programmatic
 * Dependent Launch and Synchronization"), compute capability 9.0 and later; an ordinary launch elsewhere. */
#ifndef TERN_BACKEND_CUDA_LAUNCH_CUH
#define TERN_BACKEND_CUDA_LAUNCH_CUH

#include <cuda_runtime_api.h>

/* A kernel that tern_launch started waits here until the kernels before have ended, and lets the next one take what room
 * is left meanwhile. Every block comes here, before it reads or writes what other kernels do, and before it ends:
 * whoever waits for this kernel relies on it for those before. */
static __device__ __forceinline__ void tern_follow()
{
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

static inline bool tern_launches_early(void)
{
    int device = 0, major = 0;
    return cudaGetDevice(&device) == cudaSuccess &&
           cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device) == cudaSuccess && major >= 9;
}

/* Launches a kernel: early, as far as the device allows it, if it calls tern_follow; `together` blocks of a column of
 * the grid (z) are a cluster: 1, or of compute capability 9.0 and later up to 8. */
template <typename... Params, typename... Args>
static inline cudaError_t tern_launch_together(void (*kernel)(Params...), dim3 grid, dim3 block, size_t shared,
                                               cudaStream_t stream, bool early, unsigned together, const Args &...args)
{
    cudaLaunchAttribute attributes[2] = {};
    unsigned n = 0;
    if (early && tern_launches_early()) {
        attributes[n].id = cudaLaunchAttributeProgrammaticStreamSerialization;
        attributes[n++].val.programmaticStreamSerializationAllowed = 1;
    }
    if (together > 1) {
        attributes[n].id = cudaLaunchAttributeClusterDimension;
        attributes[n].val.clusterDim.x = attributes[n].val.clusterDim.y = 1;
        attributes[n++].val.clusterDim.z = together;
    }
    cudaLaunchConfig_t config = {};
    config.gridDim = grid;
    config.blockDim = block;
    config.dynamicSmemBytes = shared;
    config.stream = stream;
    config.attrs = attributes;
    config.numAttrs = n;
    return cudaLaunchKernelEx(&config, kernel, static_cast<Params>(args)...);
}

/* A kernel that calls tern_follow. */
template <typename... Params, typename... Args>
static inline cudaError_t tern_launch(void (*kernel)(Params...), dim3 grid, dim3 block, size_t shared,
                                      cudaStream_t stream, const Args &...args)
{
    return tern_launch_together(kernel, grid, block, shared, stream, true, 1, args...);
}

#endif
