/* Which loop measures the peak of a level. */
#include "peak.h"

#include <stddef.h>
#include <string.h>

static const struct {
    const char *level;
    tern_bench_peak_fn fn;
} peaks[] = {
#if defined(__x86_64__)
    {"avx2", tern_bench__peak_avx2},
    {"avxvnni", tern_bench__peak_avxvnni},
    {"avx512", tern_bench__peak_avx512},
    {"avx512vbmi", tern_bench__peak_avx512},
#elif defined(__aarch64__)
    {"neon", tern_bench__peak_neon},
    {"dotprod", tern_bench__peak_dotprod},
#endif
    {NULL, NULL},
};

tern_bench_peak_fn tern_bench_peak_of(const char *level)
{
    for (size_t i = 0; peaks[i].level; i++)
        if (!strcmp(peaks[i].level, level)) return peaks[i].fn;
    return NULL;
}
