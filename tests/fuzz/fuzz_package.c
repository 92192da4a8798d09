/* Any bytes as a package that `tern inspect` is shown: a manifest, a NUL, and the GGUF file, which is cut into shards
 * whose sums are right. What is printed holds no control characters, as text and as JSON. */
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "apps/app.h"
#include "base/alloc.h"
#include "base/file.h"
#include "base/sha256.h"
#include "format/json.h"
#include "format/manifest.h"
#include "fuzz/fuzz.h"

enum { MOST_SHARDS = 3 };

static char folder[64];

static void remove_folder(void)
{
    char path[96];
    for (int i = -1; i < MOST_SHARDS; i++) {
        if (i < 0) snprintf(path, sizeof path, "%s/" TERN_MANIFEST_NAME, folder);
        else snprintf(path, sizeof path, "%s/%d", folder, i);
        unlink(path);
    }
    rmdir(folder);
}

static void make_folder(void)
{
    const char *parent = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
    snprintf(folder, sizeof folder, "%s/tern-fuzz-XXXXXX", parent);
    FUZZ_CHECK(mkdtemp(folder));
    atexit(remove_folder);
}

static void write_file(const char *name, const void *bytes, size_t n)
{
    char path[96];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *f = fopen(path, "wb");
    FUZZ_CHECK(f && fwrite(bytes, 1, n, f) == n && fclose(f) == 0);
}

/* Shards of `each` bytes, and what the manifest says of them. */
static void write_shards(json_t *root, const uint8_t *data, size_t size, size_t each)
{
    json_t *list = json_array();
    char name[4] = "0";
    for (size_t at = 0; at < size; at += each, name[0]++) {
        const size_t n = size - at < each ? size - at : each;
        char digits[TERN_SHA256_DIGITS + 1];
        write_file(name, data + at, n);
        FUZZ_CHECK(tern_sha256(data + at, n, digits, NULL) == TERN_OK);
        json_array_append_new(list,
                              json_pack("{s:s, s:I, s:s}", "file", name, "bytes", (json_int_t)n, "sha256", digits));
    }
    json_object_set_new(root, "shards", list);
    json_object_set_new(root, "bytes", json_integer((json_int_t)size));
    json_object_set_new(root, "shard_bytes", json_integer((json_int_t)each));
}

/* False: nothing to inspect. */
static bool write_package(const uint8_t *data, size_t size)
{
    const uint8_t *nul = size ? memchr(data, 0, size) : NULL;
    const size_t n = nul ? (size_t)(nul - data) : size, rest = nul ? size - n - 1 : 0;
    json_t *root = NULL;
    if (tern_json_parse(&root, data, n, "manifest", NULL) != TERN_OK || !json_is_object(root)) {
        tern_json_free(root);
        return false;
    }
    if (rest) write_shards(root, nul + 1, rest, (rest + n % MOST_SHARDS) / (n % MOST_SHARDS + 1));
    char *text = json_dumps(root, JSON_REAL_PRECISION(17));
    if (text) write_file(TERN_MANIFEST_NAME, text, strlen(text));
    tern_free(text);
    tern_json_free(root);
    return text != NULL;
}

/* No control character, of one byte or of two in UTF-8, but line breaks. */
static void check_output(const char *text, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const uint8_t c = (uint8_t)text[i], after = i + 1 < n ? (uint8_t)text[i + 1] : 0;
        FUZZ_CHECK((c >= 0x20 && c != 0x7f) || c == '\n');
        FUZZ_CHECK(c != 0xc2 || after < 0x80 || after >= 0xa0);
    }
}

static void inspect(bool json)
{
    char *text = NULL;
    size_t n = 0;
    FILE *real = stdout;
    tern_error err = {0};
    const tern_options options = {.model = folder, .json = json};
    stdout = open_memstream(&text, &n);
    FUZZ_CHECK(stdout);
    const tern_status status = tern_command_inspect.run(&options, &err);
    fclose(stdout);
    stdout = real;
    FUZZ_CHECK(status == TERN_OK || (err.code == status && err.message[0]));
    check_output(err.message, strlen(err.message));
    check_output(text, n);
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (!*folder) make_folder();
    tern_json_use_allocator();
    const int64_t live = tern_alloc_live();
    if (write_package(data, size)) {
        inspect(false);
        inspect(true);
    }
    FUZZ_CHECK(tern_alloc_live() == live);
    return 0;
}
