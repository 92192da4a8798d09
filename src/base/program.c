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
