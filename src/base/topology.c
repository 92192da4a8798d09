/* The CPU's name and its cores, as the operating system tells them. */
#if !defined(__EMSCRIPTEN__)
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

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
    if (out_bytes == 0) return;
    snprintf(out, out_bytes, "unknown");
    FILE *f = fopen("/proc/cpuinfo", "re");
    if (!f) return;
    char line[512];
    while (fgets(line, sizeof line, f)) {
        char *colon = strchr(line, ':');
        if (!colon || strncmp(line, "model name", 10) != 0) continue;
        colon += 1 + strspn(colon + 1, " \t");
        colon[strcspn(colon, "\n")] = 0;
        if (*colon) snprintf(out, out_bytes, "%s", colon);
        break;
    }
    fclose(f);
}

/* The first line of a file that the kernel shows; false: there is none. */
static bool read_line(const char *path, char *line, int line_bytes)
{
    FILE *f = fopen(path, "re");
    if (!f) return false;
    const bool got = fgets(line, line_bytes, f) != NULL;
    fclose(f);
    return got;
}

uint64_t tern_cpu_cache(void)
{
    uint64_t most = 0;
    for (int i = 0; i < 8; i++) {
        char path[80], line[64], *end;
        snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu0/cache/index%d/size", i);
        if (!read_line(path, line, sizeof line)) break;
        uint64_t n = strtoull(line, &end, 10); /* "2048K" */
        n <<= *end == 'K' ? 10 : *end == 'M' ? 20 : 0;
        if (n > most) most = n;
    }
    return most;
}

static uint32_t online_cpus(void)
{
    long n = sysconf(_SC_NPROCESSORS_ONLN);
    return n > 0 ? (uint32_t)n : 1;
}

/* The memory of the container; no limit ("max", or no file) is UINT64_MAX. */
static uint64_t container_memory(void)
{
    char line[64];
    const uint64_t bytes = read_line("/sys/fs/cgroup/memory.max", line, sizeof line) ? strtoull(line, NULL, 10) : 0;
    return bytes ? bytes : UINT64_MAX;
}

uint64_t tern_cpu_memory(void)
{
    long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    uint64_t bytes = pages > 0 && page > 0 ? (uint64_t)pages * (uint64_t)page : 0, limit = container_memory();
    return limit < bytes ? limit : bytes;
}

/* The number that a line of the file has after this name; 0: there is none. */
static uint64_t named_number(const char *path, const char *name)
{
    char line[128];
    uint64_t n = 0;
    FILE *f = fopen(path, "re");
    if (!f) return 0;
    while (n == 0 && fgets(line, sizeof line, f))
        if (strncmp(line, name, strlen(name)) == 0) n = strtoull(line + strlen(name), NULL, 10);
    fclose(f);
    return n;
}

/* The memory that the container may take beside what it has taken; files that it could forget do not count as taken. */
static uint64_t container_memory_free(void)
{
    char line[64];
    const uint64_t limit = container_memory();
    if (limit == UINT64_MAX || !read_line("/sys/fs/cgroup/memory.current", line, sizeof line)) return UINT64_MAX;
    const uint64_t used = strtoull(line, NULL, 10), files = named_number("/sys/fs/cgroup/memory.stat", "file ");
    const uint64_t held = used > files ? used - files : 0;
    return limit > held ? limit - held : 1;
}

uint64_t tern_cpu_memory_free(void)
{
    const uint64_t bytes = named_number("/proc/meminfo", "MemAvailable:") * 1024, left = container_memory_free();
    return left < bytes ? left : bytes;
}

#if defined(__linux__)
#include <sched.h>

/* CPUs' worth of time that the container may use in a period, rounded up; no limit is UINT32_MAX. */
static uint32_t container_cpus(void)
{
    char line[64], *end;
    if (!read_line("/sys/fs/cgroup/cpu.max", line, sizeof line)) return UINT32_MAX;
    unsigned long long quota = strtoull(line, &end, 10), period = strtoull(end, NULL, 10); /* "max 100000": 0 and 0 */
    if (quota == 0 || period == 0 || quota / period >= UINT32_MAX) return UINT32_MAX;
    return (uint32_t)((quota + period - 1) / period);
}

/* Does the kernel's list "0-1,64" hold a CPU below `cpu` that this process may use as well? */
static bool lower_sibling(const char *list, uint32_t cpu, const cpu_set_t *mask)
{
    for (const char *at = list; *at >= '0' && *at <= '9';) {
        char *end;
        unsigned long first = strtoul(at, &end, 10), last = first;
        if (*end == '-') last = strtoul(end + 1, &end, 10);
        for (unsigned long i = first; i <= last && i < cpu; i++)
            if (CPU_ISSET(i, mask)) return true;
        at = end + (*end == ',');
    }
    return false;
}

/* The first usable hardware thread of a core stands for the core. An unreadable topology makes every thread a core. */
static bool leads_core(uint32_t cpu, const cpu_set_t *mask)
{
    char path[96], list[1024];
    snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%u/topology/thread_siblings_list", cpu);
    return !read_line(path, list, sizeof list) || !lower_sibling(list, cpu, mask);
}

uint32_t tern_cpu_core_ids(uint32_t *ids, uint32_t cap)
{
    cpu_set_t mask;
    if (sched_getaffinity(0, sizeof mask, &mask) != 0) return 0;
    uint32_t n = 0;
    for (uint32_t cpu = 0; cpu < CPU_SETSIZE && n < cap; cpu++)
        if (CPU_ISSET(cpu, &mask) && leads_core(cpu, &mask)) ids[n++] = cpu;
    return n;
}

uint32_t tern_cpu_threads(void)
{
    cpu_set_t mask;
    bool known = sched_getaffinity(0, sizeof mask, &mask) == 0;
    uint32_t n = known ? (uint32_t)CPU_COUNT(&mask) : online_cpus(), limit = container_cpus();
    return n < limit ? n : limit;
}
#else
uint32_t tern_cpu_core_ids(uint32_t *ids, uint32_t cap)
{
    (void)ids;
    (void)cap;
    return 0;
}

uint32_t tern_cpu_threads(void)
{
    return online_cpus();
}
#endif

uint32_t tern_cpu_cores(void)
{
    uint32_t ids[1024];
    uint32_t n = tern_cpu_core_ids(ids, 1024), threads = tern_cpu_threads();
    return n && n < threads ? n : threads;
}
#endif
