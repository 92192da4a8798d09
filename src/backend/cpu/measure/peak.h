/* Loops of multiply-adds that touch registers only: what a level's kernels can reach at most. */
#ifndef TERN_BACKEND_CPU_MEASURE_PEAK_H
#define TERN_BACKEND_CPU_MEASURE_PEAK_H

#include <stdint.h>

/* Runs the loop n times. With n = 0: the multiply-adds of one turn. Else a number that depends on the results. */
typedef uint64_t (*tern_cpu_peak_fn)(uint64_t n);

/* Integer multiply-adds; f32 ones. NULL where nobody wrote the loop. */
tern_cpu_peak_fn tern_cpu_peak_of(const char *level);
tern_cpu_peak_fn tern_cpu_fma_peak_of(const char *level);

uint64_t tern_cpu__peak_sse41(uint64_t n);
uint64_t tern_cpu__peak_avx2(uint64_t n);
uint64_t tern_cpu__peak_avxvnni(uint64_t n);
uint64_t tern_cpu__peak_avx512(uint64_t n);
uint64_t tern_cpu__peak_amx(uint64_t n);
uint64_t tern_cpu__peak_neon(uint64_t n);
uint64_t tern_cpu__peak_dotprod(uint64_t n);
uint64_t tern_cpu__peak_i8mm(uint64_t n);
uint64_t tern_cpu__peak_simd128(uint64_t n);
uint64_t tern_cpu__fma_peak_sse41(uint64_t n);
uint64_t tern_cpu__fma_peak_avx2(uint64_t n);
uint64_t tern_cpu__fma_peak_avx512(uint64_t n);
uint64_t tern_cpu__fma_peak_neon(uint64_t n);
uint64_t tern_cpu__fma_peak_simd128(uint64_t n);

#endif
