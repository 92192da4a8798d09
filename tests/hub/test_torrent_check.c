/* What a torrent may hold: the same of descriptions that no engine would give. */
#include <string.h>

#include "hub/torrent/check.h"
#include "support/test.h"

#define MIB (1 << 20)

/* A description, and a part of the error; NULL: it is a package. */
typedef struct described {
    const char *name, *alter;
    tern_torrent_file files[4];
    const char *error;
    bool single;
} described;

static const described torrents[] = {
    {"m", NULL, {{"manifest.json", 5, false}, {"b.bin", MIB, false}, {"a.bin", 0, false}}, NULL, false},
    {"m", NULL, {{"b.bin", 1, false}}, "1 file and no manifest.json", false},
    {"m", NULL, {{"manifest.json", 5, false}}, "one file found", true},
    {"m", NULL, {{"manifest.json", 0, false}}, "manifest.json is empty", false},
    {"m", NULL, {{"manifest.json", 32 * MIB + 1, false}}, "at most 33554432 expected", false},
    {"m", NULL, {{"manifest.json", 5, false}, {"a.bin", UINT64_MAX, false}}, "at most 1073741824 expected", false},
    {"m", NULL, {{"manifest.json", 5, false}, {"a.bin", 1, true}}, "a.bin is a link", false},
    {"m", NULL, {{"a", 1, false}, {"manifest.json", 5, false}, {"a", 2, false}}, "two files with the name a", false},
    {"m", "x", {{"manifest.json", 5, false}, {"a", 2, false}}, "it holds \"x\", which is not a file name", false},
    {"m", NULL, {{"manifest.json", 5, false}, {"../a", 2, false}}, "it holds \"../a\"", false},
    {"m", NULL, {{"manifest.json", 5, false}, {"a/b", 2, false}}, "it holds \"a/b\"", false},
    {"m", NULL, {{"manifest.json", 5, false}, {"/a", 2, false}}, "it holds \"/a\"", false},
    {"m", NULL, {{"manifest.json", 5, false}, {"a\x1b[2J", 2, false}}, "it holds \"a\\x1b[2J\"", false},
    {"m", NULL, {{"manifest.json", 5, false}, {"", 2, false}}, "it holds \"\"", false},
    {"..", NULL, {{"manifest.json", 5, false}}, "its folder is \"..\"", false},
    {"a/b", NULL, {{"manifest.json", 5, false}}, "its folder is \"a/b\"", false},
    {".locks", NULL, {{"manifest.json", 5, false}}, "its folder is \".locks\"", false},
    {"", NULL, {{"manifest.json", 5, false}}, "its folder is \"\"", false},
};

static void check(const described *d)
{
    tern_torrent_info info = {.name = d->name, .alter = d->alter, .single = d->single, .files = d->files};
    tern_hub_files files;
    size_t manifest;
    tern_error err = {0};
    while (info.n_files < 4 && d->files[info.n_files].path) info.n_files++;
    const tern_status status = tern_torrent_check(&info, &files, &manifest, &err);
    if (d->error) {
        if (status == TERN_OK || !strstr(err.message, d->error))
            fail_msg("\"%s\" found, \"%s\" expected", err.message, d->error);
        assert_null(files.items);
        return;
    }
    if (status != TERN_OK) fail_msg("%s", err.message);
    assert_string_equal(d->files[manifest].path, "manifest.json");
    assert_int_equal(files.n, info.n_files);
    tern_hub_files_deinit(&files);
}

static void test_descriptions(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof torrents / sizeof *torrents; i++) check(&torrents[i]);
}

static void test_too_many(void **state)
{
    (void)state;
    tern_torrent_info info = {.name = "m", .n_files = TERN_MANIFEST_MAX_SHARDS + 2};
    tern_hub_files files;
    size_t manifest;
    tern_error err = {0};
    assert_int_equal(tern_torrent_check(&info, &files, &manifest, &err), TERN_LIMIT);
}

/* Shards of a manifest beside the files of a torrent, a.bin of 1 byte and b.bin of 2. */
static tern_status compare(const tern_manifest_shard *shards, size_t n, tern_error *err)
{
    tern_hub_files files = {0};
    const tern_manifest manifest = {.shards = (tern_manifest_shard *)shards, .n_shards = n};
    static const char *const names[] = {"a.bin", "b.bin", "manifest.json"};
    for (size_t i = 0; i < 3; i++) assert_int_equal(tern_hub_files_add(&files, names[i], i + 1, NULL, err), TERN_OK);
    const tern_status status = tern_torrent_check_manifest(&manifest, &files, err);
    tern_hub_files_deinit(&files);
    return status;
}

static void test_manifests(void **state)
{
    (void)state;
    tern_error err = {0};
    const tern_manifest_shard right[] = {{.file = "b.bin", .bytes = 2}, {.file = "a.bin", .bytes = 1}};
    const tern_manifest_shard other[] = {{.file = "a.bin", .bytes = 1}, {.file = "c.bin", .bytes = 2}};
    const tern_manifest_shard longer[] = {{.file = "a.bin", .bytes = 1}, {.file = "b.bin", .bytes = 3}};
    assert_int_equal(compare(right, 2, &err), TERN_OK);
    assert_int_equal(compare(right, 1, &err), TERN_MALFORMED);
    assert_int_equal(compare(other, 2, &err), TERN_MALFORMED);
    assert_non_null(strstr(err.message, "c.bin that the torrent lacks"));
    assert_int_equal(compare(longer, 2, &err), TERN_MALFORMED);
    assert_non_null(strstr(err.message, "b.bin has 2 bytes, the manifest says 3"));
}

static const struct CMUnitTest cases[] = {
    cmocka_unit_test(test_descriptions),
    cmocka_unit_test(test_too_many),
    cmocka_unit_test(test_manifests),
};
TEST_GROUP(torrent_check, "", cases);
