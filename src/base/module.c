/* Opening modules, and telling those of another build. */
#include "base/module.h"

#include <dlfcn.h>
#include <string.h>

#include "base/program.h"
#include "base/show.h"

extern const char tern_module_mark[]; /* module_mark.c */

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
                     "program expected there, beside the program or in ../lib/tern",
                     path, found ? tern_show_z(found).text : "no mark", tern_module_mark, m->file);
}

tern_status tern_module_open(const tern_module *m, void *function, tern_error *err)
{
    char path[4200];
    if (!tern_program_module(m->file, path, sizeof path))
        return tern_fail(err, TERN_UNSUPPORTED,
                         "%s: no %s beside the program or in ../lib/tern; a build with %s expected", m->use, m->file,
                         m->build);
    void *library = dlopen(path, RTLD_NOW | (m->global ? RTLD_GLOBAL : RTLD_LOCAL));
    if (!library) return fail_open(m, path, err);
    TERN_TRY(check_mark(m, path, dlsym(library, TERN_MODULE_MARK), err));
    void *found = dlsym(library, m->function);
    if (!found) return fail_open(m, path, err);
    memcpy(function, &found, sizeof found); /* ISO C has no cast for this */
    return TERN_OK;
}
