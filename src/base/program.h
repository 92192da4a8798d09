/* The program that runs: where its file is. */
#ifndef TERN_BASE_PROGRAM_H
#define TERN_BASE_PROGRAM_H

#include <stdbool.h>
#include <stddef.h>

/* The path of the program's file into out (n bytes, ended by 0), links followed where the system can say so; false
 * where it is not known or too long. */
bool tern_program_path(char *out, size_t n);

#endif
