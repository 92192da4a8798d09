/* Modules: libraries of Tern's own, in files of their own, that a program opens when it needs them, so that it starts
 * without what they are linked with. Each is compiled with a mark of the headers that it shares with the program
 * (cmake/module-mark.cmake), so that one of another build is known before anything of it is called. */
#ifndef TERN_BASE_MODULE_H
#define TERN_BASE_MODULE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"

#define TERN_MODULE_MARK "tern_module_mark"

enum { TERN_MODULE_PATH_BYTES = 4096 }; /* as realpath wants it */

typedef struct tern_module {
    const char *file;     /* "NAME.so" */
    const char *function; /* the one that it has besides its mark */
    const char *use;      /* "torrents": what it is for, and how one gets it: */
    const char *get;      /* "a build with libtorrent (...) or the package tern-torrent has it" */
    const char *library;  /* "need libtorrent-rasterbar (Debian: libtorrent-rasterbar2.0)" */
    bool global;          /* what it is linked with looks for its names itself */
} tern_module;

/* The path of a module's file into out. It is looked for beside what has this code, the program or libtern.so, as in a
 * build folder, and in lib/tern of what is installed: ../lib/tern of bin and lib, ../tern of lib/ARCHITECTURE. False
 * where it is in none of them. */
bool tern_module_find(const char *file, char out[static TERN_MODULE_PATH_BYTES]);

/* Opens the module, for ever, and copies the pointer to its function to *function. Errors: UNSUPPORTED (there is none,
 * what it is linked with is missing, it is of another build of Tern). */
tern_status tern_module_open(const tern_module *module, void *function, tern_error *err);

#endif
