/* The CPU as a browser tells of it: how many threads it has, and no more. */
#if defined(__EMSCRIPTEN__)
#include <emscripten/heap.h>
#include <stdio.h>
#include <sys/utsname.h>
#if defined(__EMSCRIPTEN_PTHREADS__)
#include <emscripten/threading.h>
#endif

#include "base/cpu.h"

void tern_system_name(char *out, uint32_t out_bytes)
{
    struct utsname u;
    if (out_bytes == 0) return;
    if (uname(&u) == 0) snprintf(out, out_bytes, "%s %s %s", u.sysname, u.release, u.machine);
    else snprintf(out, out_bytes, "unknown");
}

void tern_cpu_name(char *out, uint32_t out_bytes)
{
    if (out_bytes) snprintf(out, out_bytes, "WebAssembly");
}

uint64_t tern_cpu_cache(void)
{
    return 0;
}

uint64_t tern_cpu_memory(void)
{
    return emscripten_get_heap_max();
}

/* The bytes by which the heap can still grow. */
uint64_t tern_cpu_memory_free(void)
{
    return emscripten_get_heap_max() - emscripten_get_heap_size();
}

uint32_t tern_cpu_core_ids(uint32_t *ids, uint32_t cap)
{
    (void)ids;
    (void)cap;
    return 0;
}

uint32_t tern_cpu_threads(void)
{
#if defined(__EMSCRIPTEN_PTHREADS__)
    int n = emscripten_num_logical_cores();
    return n > 0 ? (uint32_t)n : 1;
#else
    return 1;
#endif
}

uint32_t tern_cpu_cores(void)
{
    return tern_cpu_threads();
}
#endif
