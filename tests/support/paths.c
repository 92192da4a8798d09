/* Paths of fixtures and scratch files. */
#include "support/test.h"

#include <sys/stat.h>

static char *slot(void)
{
    static char slots[8][1024];
    static unsigned at;
    return slots[at++ % 8];
}

static const char *shared_dir(void)
{
    const char *dir = getenv("TERN_SHARED");
    return dir ? dir : TERN_SOURCE_DIR "/../shared";
}

const char *test_fixture(const char *name)
{
    char *path = slot();
    snprintf(path, 1024, "%s/fixtures/%s", shared_dir(), name);
    return path;
}

const char *test_model(const char *name)
{
    char *path = slot();
    snprintf(path, 1024, "%s/models/%s", shared_dir(), name);
    return path;
}

const char *test_scratch(const char *name)
{
    char *path = slot();
    mkdir(TERN_BUILD_DIR "/scratch", 0777);
    snprintf(path, 1024, "%s/scratch/%s", TERN_BUILD_DIR, name);
    return path;
}
