/* The program that runs: where its file is. */
#ifndef TERN_BASE_PROGRAM_H
#define TERN_BASE_PROGRAM_H

#include <stdbool.h>
#include <stddef.h>

/* The path of the program's file into out (n bytes, ended by 0), links followed where the system can say so; false
 * where it is not known or too long. */
bool tern_program_path(char *out, size_t n);
/* The path of a module that is opened at run time, "NAME.so": beside the program, as in a build folder, or in
 * ../lib/tern, as it is installed; false where it is in neither. */
bool tern_program_module(const char *file, char *out, size_t n);

#endif
