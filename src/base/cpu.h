/* The abilities of this CPU, as a set of named features. */
#ifndef TERN_BASE_CPU_H
#define TERN_BASE_CPU_H

#include <stdint.h>

#include "base/error.h"

/* One list: X(NAME, bit, "name"). A kernel level needs a set of these. */
#define TERN_CPU_FEATURE_LIST(X)                                                                                       \
    X(SSE41, 0, "sse4.1") /* with SSSE3 */                                                                             \
    X(AVX2, 1, "avx2")    /* with FMA and F16C */                                                                      \
    X(AVX_VNNI, 2, "avx-vnni")                                                                                         \
    X(AVX512, 3, "avx512") /* F, BW, VL, DQ, CD */                                                                     \
    X(AVX512_VNNI, 4, "avx512-vnni")                                                                                   \
    X(AVX512_VBMI, 5, "avx512-vbmi") /* with VBMI2 */                                                                  \
    X(AMX_INT8, 6, "amx-int8")       /* tiles, of which the kernel lets this process keep the data */                  \
    X(NEON, 7, "neon")                                                                                                 \
    X(NEON_DOTPROD, 8, "neon-dotprod")                                                                                 \
    X(SIMD128, 9, "simd128") /* of WebAssembly */                                                                      \
    X(NEON_I8MM, 10, "neon-i8mm")

typedef enum tern_cpu_feature {
#define TERN_CPU_ENUM(name, bit, words) TERN_CPU_##name = 1 << (bit),
    TERN_CPU_FEATURE_LIST(TERN_CPU_ENUM)
#undef TERN_CPU_ENUM
} tern_cpu_feature;

/* The features of this machine, as a set of tern_cpu_feature bits; asks the CPU and the operating system. Linux lends
 * the tiles of AMX to processes that ask for them: the first call does, for all threads, and where Linux refuses there
 * is no amx-int8. */
uint32_t tern_cpu_features(void);

/* Parses a --cpu-features value: a level ("scalar", "sse4.1", "avx2", "avx-vnni", "avx512-vnni", "avx512-vbmi",
 * "amx-int8", "neon", "neon-dotprod", "neon-i8mm", "simd128": that level and all below it), "native", or "-name" lists
 * that remove features from the native set ("-avx512-vbmi,-avx-vnni"). The result never holds a feature that `native`
 * lacks: asking for one is an error. */
tern_status tern_cpu_features_parse(const char *text, uint32_t native, uint32_t *features, tern_error *err);

/* Writes "avx2 avx-vnni ..." or "scalar" to out. */
void tern_cpu_features_print(uint32_t features, char *out, uint32_t out_bytes);

/* The operating system with its release and the machine's architecture, "Linux 6.1.0 x86_64", or "unknown". */
void tern_system_name(char *out, uint32_t out_bytes);
/* The CPU's name from the operating system, or "unknown". */
void tern_cpu_name(char *out, uint32_t out_bytes);
/* Physical cores this process may run on, no more than a container's CPU limit; at least 1. */
uint32_t tern_cpu_cores(void);
/* Logical CPUs (hardware threads) this process may run on, limited in the same way; at least 1. */
uint32_t tern_cpu_threads(void);
/* Bytes of memory that this machine has, no more than a container's limit; 0: not known. */
uint64_t tern_cpu_memory(void);
/* Bytes of it that could be had now without swapping, no more than the container has left; 0: not known. */
uint64_t tern_cpu_memory_free(void);
/* Bytes of the largest cache of one core, which others may share; 0: not known. */
uint64_t tern_cpu_cache(void);
/* Writes one logical CPU number for each physical core, at most cap, to ids; returns how many (0: not known here). */
uint32_t tern_cpu_core_ids(uint32_t *ids, uint32_t cap);

#endif
