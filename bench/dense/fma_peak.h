/* Loops of f32 multiply-adds that touch registers only: what a level's float kernels can reach at most. */
#ifndef TERN_BENCH_FMA_PEAK_H
#define TERN_BENCH_FMA_PEAK_H

#include <stdint.h>

/* Runs the loop n times. With n = 0: the multiply-adds of one turn. Else a number that depends on the results. */
typedef uint64_t (*tern_bench_fma_fn)(uint64_t n);

/* NULL where nobody wrote the loop. */
tern_bench_fma_fn tern_bench_fma_of(const char *level);

#endif
