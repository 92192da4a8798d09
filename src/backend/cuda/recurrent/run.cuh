/* The rows of a step that are of one sequence: a run. */
#ifndef TERN_BACKEND_CUDA_RECURRENT_RUN_CUH
#define TERN_BACKEND_CUDA_RECURRENT_RUN_CUH

#include "backend/cuda/device.cuh"
#include "backend/cuda/recurrent/recurrent.h"

enum : uint32_t { NO_STATE = 0xffffffffu, NO_ROW = 0xffffffffu }; /* TERN_NO_STATE */

static __device__ __forceinline__ bool is_of(const tern_cuda_runs &r, uint32_t t, uint32_t n, uint32_t sequence)
{
    return t < n && r.sequences[t] == sequence;
}

static __device__ __forceinline__ bool begins_run(const tern_cuda_runs &r, uint32_t t)
{
    return t == 0 || r.sequences[t] != r.sequences[t - 1];
}

/* The state that the run with row t, its first, goes on from. */
static __device__ __forceinline__ uint32_t state_before(const tern_cuda_runs &r, uint32_t t)
{
    if (!r.positions || r.positions[t] == 0) return NO_STATE;
    return r.before[r.sequences[t]];
}

static __device__ __forceinline__ uint32_t state_after(const tern_cuda_runs &r, uint32_t t)
{
    return r.after ? r.after[t] : NO_STATE;
}

/* The first row of run z, by a whole warp: that of sequence z, or, where there are fewer rows than sequences, of what
 * begins at row z. NO_ROW: there is no such run. */
static __device__ inline uint32_t first_of_run(const tern_cuda_runs &r, uint32_t z, uint32_t n, uint32_t most)
{
    if (most < r.n_sequences) return z < n && begins_run(r, z) ? z : NO_ROW;
    for (uint32_t t0 = 0; t0 < n; t0 += 32) {
        const uint32_t t = t0 + threadIdx.x % 32;
        const uint32_t found = __ballot_sync(0xffffffffu, is_of(r, t, n, z));
        if (found) return t0 + __ffs((int)found) - 1;
    }
    return NO_ROW;
}

/* So many runs at most. */
static inline uint32_t runs_at_most(const tern_cuda_runs &r, uint32_t most)
{
    return most < r.n_sequences ? most : r.n_sequences;
}

#endif
