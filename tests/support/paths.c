/* Paths of fixtures and scratch files. */
#include "base/bytes.h"
#include "base/file.h"
#include "support/places.h"
#include "support/seeds.h"
#include "support/test.h"

#include <sys/stat.h>
#include <unistd.h>

static uint32_t n_skipped;
static bool in_setup;

void test_skip_at(const char *why, const char *file, int line)
{
    print_message("skipped: %s\n", why);
    n_skipped++;
    if (in_setup) {
        fflush(NULL);
        exit(TEST_SKIPPED);
    }
    _skip(file, line);
}

uint32_t test_n_skipped(void)
{
    return n_skipped;
}

void test_in_setup(bool yes)
{
    in_setup = yes;
}

void test_missing(const char *what)
{
    const char *ci = getenv("CI");
    if (ci && strcmp(ci, "true") == 0) fail_msg("%s", what);
    test_skip(what);
}

static char *slot(void)
{
    static char slots[8][1024];
    static unsigned at;
    return slots[at++ % 8];
}

/* Where the golden files lie: those that the build has made, or the larger ones. */
static const char *goldens_dir = TERN_BUILD_DIR "/goldens";
static bool on_shared;

bool test_use_shared(void)
{
    const char *dir = getenv("TERN_SHARED");
    goldens_dir = dir ? dir : TERN_SOURCE_DIR "/../shared";
    on_shared = true;
    return access(goldens_dir, F_OK) == 0;
}

bool test_on_shared(void)
{
    return on_shared;
}

void test_on_simulated_gpu(void)
{
    if (getenv("TERN_TEST_DEVICES_ONLY")) test_skip("a GPU is simulated, and only devices are tested");
}

const char *test_fixture(const char *name)
{
    char *path = slot();
    snprintf(path, 1024, "%s/fixtures/%s", goldens_dir, name);
    return path;
}

const char *const test_made_families[] = {"qwen2", "qwen3",        "mistral",      "granite", "smollm3",
                                          "phi3",  "gemma3-parts", "llama-biases", NULL};

const char *const test_made_experts[] = {"qwen3moe", "maple", NULL};

const char *const test_made_ternary[] = {"qwen3-bitnet", "gemma3-bitnet", NULL};

const char *test_made(const char *name)
{
    char *path = slot();
    snprintf(path, 1024, "%s/tests/data/models/%s", TERN_SOURCE_DIR, name);
    return path;
}

const char *test_model(const char *name)
{
    char *path = slot();
    snprintf(path, 1024, "%s/models/%s", goldens_dir, name);
    return path;
}

static char scratch_of[128];

void test_scratch_for(const char *program, const char *group, const char *variant)
{
    const char *base = strrchr(program, '/');
    snprintf(scratch_of, sizeof scratch_of, "/%s.%s%s%s", base ? base + 1 : program, group, *variant ? "." : "",
             variant);
}

const char *test_scratch(const char *name)
{
    const char *own = getenv("TERN_TEST_SCRATCH");
    char folder[512], *path = slot();
    int n = snprintf(folder, sizeof folder, "%s/scratch%s", TERN_BUILD_DIR, own ? own : "");
    mkdir(folder, 0777);
    snprintf(folder + n, sizeof folder - (size_t)n, "%s", scratch_of);
    mkdir(folder, 0777);
    snprintf(path, 1024, "%s/%s", folder, name);
    return path;
}

void test_write_file(const char *path, const void *bytes, size_t n)
{
    FILE *f = fopen(path, "wb");
    if (!f) fail_msg("%s cannot be made", path);
    assert_int_equal(fwrite(bytes, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
}

void test_write_text(const char *path, const char *text)
{
    test_write_file(path, text, strlen(text));
}

const char *test_fuzz_seed(const char *fuzzer, const char *name)
{
    char archive[1024];
    tern_error err = {0};
    tern_buf file = {0};
    const char *path = test_scratch(name);
    snprintf(archive, sizeof archive, "%s/tests/fuzz/corpus/%s.tar", TERN_SOURCE_DIR, fuzzer);
    assert_ok(tern_file_read(&file, archive, (size_t)1 << 28, &err), err);
    seed_cursor cursor = seed_begin(file.data, file.size);
    seed s = {0};
    bool found = false;
    while (!found && seed_next(&cursor, &s)) found = strcmp(s.name, name) == 0;
    if (!found) fail_msg("%s: no seed %s in it", archive, name);
    test_write_file(path, s.data, s.size);
    tern_buf_deinit(&file);
    return path;
}
