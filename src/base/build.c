/* The name of this build, with the mark that the build has made. */
#include "base/build.h"

#include <stdio.h>

extern const char tern__build_mark[]; /* build_mark.c */

const char tern_build_compiler[] =
#if defined(__clang__)
    "clang " __clang_version__;
#else
    "gcc " __VERSION__;
#endif

void tern_build_name(char *out, uint32_t out_bytes)
{
    snprintf(out, out_bytes, "%s, %s, %s", TERN_VERSION, tern_build_compiler, tern__build_mark);
}
