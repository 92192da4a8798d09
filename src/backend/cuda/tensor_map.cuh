/* The copy engine of sm_90: barriers that count bytes, tensor maps, and descriptors of what it leaves in shared memory.
 */
#ifndef TERN_BACKEND_CUDA_TENSOR_MAP_CUH
#define TERN_BACKEND_CUDA_TENSOR_MAP_CUH

#include <cuda.h>
#include <cuda_runtime.h>

#include <cstdint>

/* cuTensorMapEncodeTiled of the driver, which the program is not linked with; NULL: it has none. */
typedef CUresult (*encode_fn)(CUtensorMap *, CUtensorMapDataType, cuuint32_t, void *, const cuuint64_t *,
                              const cuuint64_t *, const cuuint32_t *, const cuuint32_t *, CUtensorMapInterleave,
                              CUtensorMapSwizzle, CUtensorMapL2promotion, CUtensorMapFloatOOBfill);

static inline encode_fn find_encode(void)
{
    void *fn = NULL;
    cudaDriverEntryPointQueryResult found;
    if (cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &fn, 12000, cudaEnableDefault, &found) !=
        cudaSuccess)
        return NULL;
    return found == cudaDriverEntryPointSuccess ? (encode_fn)fn : NULL;
}

static __device__ __forceinline__ void barrier_init(uint32_t at, uint32_t n)
{
    asm volatile("mbarrier.init.shared::cta.b64 [%0],%1;" ::"r"(at), "r"(n));
}

static __device__ __forceinline__ void barrier_arrive(uint32_t at)
{
    asm volatile("mbarrier.arrive.shared::cta.b64 _,[%0];" ::"r"(at) : "memory");
}

static __device__ __forceinline__ void barrier_expect(uint32_t at, uint32_t bytes)
{
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _,[%0],%1;" ::"r"(at), "r"(bytes) : "memory");
}

static __device__ __forceinline__ void barrier_wait(uint32_t at, uint32_t parity)
{
    asm volatile("{\n.reg .pred done;\nWAIT:\nmbarrier.try_wait.parity.shared::cta.b64 done,[%0],%1;\n"
                 "@done bra DONE;\nbra WAIT;\nDONE:\n}" ::"r"(at),
                 "r"(parity)
                 : "memory");
}

/* Rows have 128 bytes, swizzled. */
static __device__ __forceinline__ uint64_t descriptor(uint32_t at)
{
    return (uint64_t)((at & 0x3FFFF) >> 4) | (uint64_t)1 << 16 | (uint64_t)64 << 32 | (uint64_t)1 << 62;
}

#endif
