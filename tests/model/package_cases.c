/* A package for the tests of packages. */
#include "model/package_cases.h"
#include "support/places.h"

tern_error package_err;

const char package_bundled[] = TERN_SOURCE_DIR "/models/stories.gguf";

char package_dir[4200];

const char *package_in_dir(const char *name)
{
    static char path[4300];
    snprintf(path, sizeof path, "%s/%s", package_dir, name);
    return path;
}

void package_remove_package(void)
{
    char name[32];
    for (int i = 0; i < 200; i++) {
        snprintf(name, sizeof name, "shard_%03d.bin", i);
        unlink(package_in_dir(name));
    }
    unlink(package_in_dir("manifest.json"));
    rmdir(package_dir);
}

int package_setup(void **state)
{
    (void)state;
    snprintf(package_dir, sizeof package_dir, "%s", test_scratch("package"));
    package_remove_package();
    tern_status status =
        tern_package_write(package_bundled, package_dir, &(tern_package_options){.shard_bytes = SHARD}, &package_err);
    if (status != TERN_OK) print_error("%s\n", package_err.message);
    return status != TERN_OK;
}

int package_teardown(void **state)
{
    (void)state;
    package_remove_package();
    return 0;
}

tern_buf package_read_all(const char *path)
{
    tern_buf b = {0};
    assert_ok(tern_file_read(&b, path, SIZE_MAX / 2, &package_err), package_err);
    return b;
}
