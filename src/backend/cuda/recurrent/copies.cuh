/* Copies into shared memory that go on beside other work. */
#ifndef TERN_BACKEND_CUDA_RECURRENT_COPIES_CUH
#define TERN_BACKEND_CUDA_RECURRENT_COPIES_CUH

#include <cuda_runtime_api.h>
#include <stdint.h>

/* 16 bytes, both at multiples of 16; zeros unless `is_there`. */
static __device__ __forceinline__ void ask_four(float *to, const float *from, bool is_there)
{
    asm volatile("cp.async.cg.shared.global [%0],[%1],16,%2;" ::"r"((uint32_t)__cvta_generic_to_shared(to)), "l"(from),
                 "r"(is_there ? 16 : 0)
                 : "memory");
}

/* All that this thread has asked for. */
static __device__ __forceinline__ void wait_for_copies()
{
    asm volatile("cp.async.wait_all;" ::: "memory");
}

#endif
