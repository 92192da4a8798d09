/* Which build of Tern runs. */
#ifndef TERN_BASE_BUILD_H
#define TERN_BASE_BUILD_H

#include <stdint.h>

/* Writes "0.1.0, gcc 12.2.0, 1a2b...": version, compiler, and what the linker has put into the program that tells it
 * from other builds
 * ("" where it put nothing). Two builds that differ in machine code have different names where there is such a mark. */
void tern_build_name(char *out, uint32_t out_bytes);

#endif
