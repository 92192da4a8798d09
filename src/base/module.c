/* Opening modules, and telling those of another build. */
#include "base/module.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#if defined(__linux__)
#include <sys/auxv.h>
#endif

#include "base/program.h"
#include "base/show.h"

extern const char tern_module_mark[]; /* module_mark.c */

/* Whether the library at this address is the program: the one that the system entered. */
static bool is_program(const void *base)
{
#if defined(__linux__)
    Dl_info program;
    const void *entry = (const void *)getauxval(AT_ENTRY); /* NOLINT(performance-no-int-to-ptr) */
    return dladdr(entry, &program) && program.dli_fbase == base;
#else
    (void)base;
    return true;
#endif
}

/* The folder of what has this code. */
static bool find_home(char out[static TERN_MODULE_PATH_BYTES])
{
    Dl_info own;
    if (!dladdr(tern_module_mark, &own)) own.dli_fbase = NULL;
    const bool found = !own.dli_fbase || is_program(own.dli_fbase) ? tern_program_path(out, TERN_MODULE_PATH_BYTES)
                                                                   : realpath(own.dli_fname, out) != NULL;
    char *slash = found ? strrchr(out, '/') : NULL;
    if (slash) *slash = 0;
    return slash != NULL;
}

bool tern_module_find(const char *file, char out[static TERN_MODULE_PATH_BYTES])
{
    static const char *const places[] = {"", "../lib/tern/", "../tern/"};
    char home[TERN_MODULE_PATH_BYTES], path[2 * TERN_MODULE_PATH_BYTES];
    if (!find_home(home)) return false;
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        const int n = snprintf(path, sizeof path, "%s/%s%s", home, places[i], file);
        if (n > 0 && (size_t)n < sizeof path && realpath(path, out)) return true;
    }
    return false;
}

static tern_status fail_find(const tern_module *m, tern_error *err)
{
    char home[TERN_MODULE_PATH_BYTES];
    if (!find_home(home)) strcpy(home, "the program's folder");
    return tern_fail(err, TERN_UNSUPPORTED, "%s: no %s in %s, or in lib/tern beside it; %s", m->use, m->file, home,
                     m->get);
}

static tern_status fail_open(const tern_module *m, const char *path, tern_error *err)
{
    const char *why = dlerror();
    return tern_fail(err, TERN_UNSUPPORTED, "%s: %s; %s %s", path, why ? why : "no module", m->use, m->library);
}

static tern_status check_mark(const tern_module *m, const char *path, const char *found, tern_error *err)
{
    if (found && strcmp(found, tern_module_mark) == 0) return TERN_OK;
    return tern_fail(err, TERN_UNSUPPORTED,
                     "%s belongs to another build of Tern: %s found, %s expected; the %s that was built with this "
                     "program expected there",
                     path, found ? tern_show_z(found).text : "no mark", tern_module_mark, m->file);
}

tern_status tern_module_open(const tern_module *m, void *function, tern_error *err)
{
    char path[TERN_MODULE_PATH_BYTES];
    if (!tern_module_find(m->file, path)) return fail_find(m, err);
    void *library = dlopen(path, RTLD_NOW | (m->global ? RTLD_GLOBAL : RTLD_LOCAL));
    if (!library) return fail_open(m, path, err);
    TERN_TRY(check_mark(m, path, dlsym(library, TERN_MODULE_MARK), err));
    void *found = dlsym(library, m->function);
    if (!found) return fail_open(m, path, err);
    memcpy(function, &found, sizeof found); /* ISO C has no cast for this */
    return TERN_OK;
}
