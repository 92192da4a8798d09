/* Which build of Tern runs. */
#ifndef TERN_BASE_BUILD_H
#define TERN_BASE_BUILD_H

#include <stdint.h>

/* "gcc 12.2.0" */
extern const char tern_build_compiler[];

/* Writes "0.1.0, gcc 12.2.0, 1a2b...": version, compiler, and a mark of the kernels' sources and the compiler's flags
 * (cmake/build-mark.cmake). Programs with the same name have the same kernels of the CPU. */
void tern_build_name(char *out, uint32_t out_bytes);

#endif
