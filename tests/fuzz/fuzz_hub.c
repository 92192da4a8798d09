/* Any bytes as the hub's list of a repository, and as a name of a model: what is accepted keeps to the cache, choosing
 * ends, and nothing leaks. Up to the first NUL byte the input is the name, behind it the list. */
#include <string.h>

#include "base/alloc.h"
#include "fuzz/fuzz.h"
#include "hub/choose.h"

static void check_files(tern_hub_files *files, const tern_hub_name *name)
{
    tern_hub_choice choice;
    tern_error err = {0};
    for (size_t i = 0; i < files->n; i++) {
        const tern_hub_file *file = &files->items[i];
        FUZZ_CHECK(tern_hub_path_is_safe(file->path) && file->path[0] != '/' && !strstr(file->path, "/../"));
        FUZZ_CHECK(tern_hub_is_hex(file->sum, 40) || tern_hub_is_hex(file->sum, 64));
    }
    const tern_status status = tern_hub_choose(files, name, &choice, &err);
    FUZZ_CHECK(status == TERN_OK || (err.code == status && err.message[0]));
    FUZZ_CHECK(status != TERN_OK || (choice.model < files->n && files->items[choice.model].wanted));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const int64_t live = tern_alloc_live();
    const uint8_t *end = size ? memchr(data, 0, size) : NULL;
    tern_hub_files files;
    tern_hub_name name;
    tern_error err = {0};
    char folder[256];
    if (!end) return 0;
    if (tern_hub_name_parse(&name, (const char *)data, &err) != TERN_OK) {
        FUZZ_CHECK(err.message[0]);
        tern_hub_name_parse(&name, "a/b", &err);
    }
    tern_hub_folder(name.repository, folder);
    FUZZ_CHECK(!strchr(folder, '/') && strncmp(folder, "models--", 8) == 0 && !strstr(folder, ".."));
    FUZZ_CHECK(!name.file[0] || tern_hub_path_is_safe(name.file));
    FUZZ_CHECK(tern_hub_path_is_safe(name.revision));
    if (tern_hub_files_parse(&files, end + 1, size - (size_t)(end + 1 - data), &err) == TERN_OK)
        check_files(&files, &name);
    else FUZZ_CHECK(err.message[0]);
    tern_hub_files_deinit(&files);
    FUZZ_CHECK(tern_alloc_live() == live);
    return 0;
}
