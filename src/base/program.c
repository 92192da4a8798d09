/* Where the running program's file is. */
#include "base/program.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>
#if defined(__linux__)
#include <sys/auxv.h>
#endif

/* By what name it was started: all that there is without /proc, as in a chroot. */
static const char *started_as(void)
{
#if defined(__linux__)
    return (const char *)getauxval(AT_EXECFN); /* NOLINT(performance-no-int-to-ptr) */
#else
    return NULL;
#endif
}

bool tern_program_path(char *out, size_t n)
{
    const ssize_t found = n ? readlink("/proc/self/exe", out, n - 1) : -1;
    const char *name = found > 0 ? NULL : started_as();
    if (found > 0) out[found] = 0;
    else if (!name || strlen(name) >= n) return false;
    else memcpy(out, name, strlen(name) + 1);
    return true;
}

bool tern_program_module(const char *file, char *out, size_t n)
{
    static const char *const places[] = {"", "../lib/tern/"};
    char program[4096];
    if (!tern_program_path(program, sizeof program)) return false;
    const char *slash = strrchr(program, '/');
    if (!slash) return false;
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        const int length = snprintf(out, n, "%.*s/%s%s", (int)(slash - program), program, places[i], file);
        if (length > 0 && (size_t)length < n && access(out, F_OK) == 0) return true;
    }
    return false;
}
