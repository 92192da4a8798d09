/* Names of models of the hub, the rule that chooses files, the hub's list, and the table of known models. */
#include <stdio.h>

#include "base/alloc.h"
#include "base/bytes.h"
#include "base/file.h"
#include "hub/choose.h"
#include "hub/known.h"
#include "support/places.h"
#include "support/test.h"

typedef struct named {
    const char *text, *repository, *file, *tag, *revision; /* repository NULL: refused */
} named;

static const named names[] = {
    {"hf:a/b", "a/b", "", "", "main"},
    {"a/b", "a/b", "", "", "main"},
    {"hf:Org-1/Na.me_2/sub/m.gguf", "Org-1/Na.me_2", "sub/m.gguf", "", "main"},
    {"a/b:Q4_K_M", "a/b", "", "Q4_K_M", "main"},
    {"a/b:Q4_K_M@v1.0", "a/b", "", "Q4_K_M", "v1.0"},
    {"a/b/c d.gguf@refs/pr/1", "a/b", "c d.gguf", "", "refs/pr/1"},
    {"", NULL, "", "", ""},
    {"a", NULL, "", "", ""},
    {"hf:", NULL, "", "", ""},
    {"a/", NULL, "", "", ""},
    {"/b", NULL, "", "", ""},
    {"a/b/", NULL, "", "", ""},
    {"a/b//c", NULL, "", "", ""},
    {"a/b/../c", NULL, "", "", ""},
    {"../b", NULL, "", "", ""},
    {"a--b/c", NULL, "", "", ""},
    {"a/b--c", NULL, "", "", ""},
    {"-a/b", NULL, "", "", ""},
    {"a/b.", NULL, "", "", ""},
    {"a/b:", NULL, "", "", ""},
    {"a/b@", NULL, "", "", ""},
    {"a/b@../x", NULL, "", "", ""},
    {"a/b@x y", NULL, "", "", ""},
    {"a/b?x", NULL, "", "", ""},
    {"a/b/c:Q8_0", NULL, "", "", ""},
    {"a/b/c\\d", NULL, "", "", ""},
    {"a/b/c\nd", NULL, "", "", ""},
};

static void test_names(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const named *n = &names[i];
        tern_hub_name got;
        tern_error err = {0};
        const tern_status status = tern_hub_name_parse(&got, n->text, &err);
        if (status != (n->repository ? TERN_OK : TERN_INVALID_ARGUMENT)) fail_msg("%s: %s", n->text, err.message);
        if (!n->repository) continue;
        assert_string_equal(got.repository, n->repository);
        assert_string_equal(got.file, n->file);
        assert_string_equal(got.tag, n->tag);
        assert_string_equal(got.revision, n->revision);
    }
}

/* Files, a name, and which are wanted: numbers of files as letters a, b, ...; "!" and a part of the error. */
typedef struct choosing {
    const char *files[8], *name, *wanted;
} choosing;

static const choosing choices[] = {
    {{"m.gguf"}, "a/b", "a"},
    {{"README.md", "m-Q4_K_M.gguf", "m-Q8_0.gguf"}, "a/b", "b"},
    {{"m-Q4_K_M.gguf", "m-TQ2_0.gguf"}, "a/b", "b"},
    {{"m-i2_s.gguf", "m-tq1_0.gguf"}, "a/b", "a"},
    {{"m-Q3_K.gguf", "m-Q5_K_M.gguf"}, "a/b", "b"},
    {{"m-F16.gguf", "mmproj-Q8_0.gguf"}, "a/b", "a"},
    {{"m.gguf", "n.gguf"}, "a/b", "!several GGUF files: m.gguf, n.gguf"},
    {{"m-Q8_0.gguf", "n-Q8_0.gguf"}, "a/b:q8_0", "!several GGUF files with the tag q8_0"},
    {{"Q8_0/m.gguf", "x.gguf"}, "a/b:q8_0", "a"},
    {{"m-Q4_K_M_L.gguf"}, "a/b:Q4_K_M", "!no GGUF file with the tag Q4_K_M, but m-Q4_K_M_L.gguf"},
    {{"config.json", "m.gguf", "model.safetensors"}, "a/b", "b"},
    {{"config.json", "model.safetensors", "optimizer.pt", "tokenizer.json"}, "a/b", "abd"},
    {{"config.json", "model.safetensors"}, "a/b:Q8_0", "!but none at all"},
    {{"config.json", "sub/model.safetensors"}, "a/b", "!neither a GGUF nor a SafeTensors file"},
    {{"consolidated.safetensors", "model.safetensors"}, "a/b", "b"},
    {{"m-00001-of-00002.gguf", "m-00002-of-00002.gguf"}, "a/b", "ab"},
    {{"m-00001-of-00002.gguf", "m-00002-of-00002.gguf"}, "a/b/m-00002-of-00002.gguf", "ab"},
    {{"m-00001-of-00003.gguf", "m-00003-of-00003.gguf"}, "a/b", "!part 2 of 3 is not there"},
    {{"m-00003-of-00002.gguf"}, "a/b", "a"},
    {{"a.txt"}, "a/b/a.txt", "a"},
    {{"a.txt"}, "a/b/b.txt", "!no file b.txt, but a.txt"},
    {{NULL}, "a/b", "!no files at all"},
};

static void check_choice(const choosing *c)
{
    tern_hub_files files = {0};
    tern_hub_name name;
    tern_hub_choice choice;
    tern_error err = {0};
    char wanted[9] = "";
    for (size_t i = 0; i < 8 && c->files[i]; i++)
        assert_int_equal(tern_hub_files_add(&files, c->files[i], 1, NULL, &err), TERN_OK);
    tern_hub_files_sort(&files);
    assert_int_equal(tern_hub_name_parse(&name, c->name, &err), TERN_OK);
    const tern_status status = tern_hub_choose(&files, &name, &choice, &err);
    for (size_t i = 0, n = 0; i < files.n; i++)
        if (files.items[i].wanted) wanted[n++] = (char)('a' + i), wanted[n] = 0;
    if (c->wanted[0] == '!') {
        if (status == TERN_OK || !strstr(err.message, c->wanted + 1))
            fail_msg("%s: \"%s\" found, \"%s\" expected", c->name, err.message, c->wanted + 1);
    } else {
        if (status != TERN_OK) fail_msg("%s: %s", c->files[0], err.message);
        assert_string_equal(wanted, c->wanted);
        assert_int_equal(choice.bytes, strlen(wanted));
        assert_true(files.items[choice.model].wanted);
    }
    tern_hub_files_deinit(&files);
}

static void test_choices(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof choices / sizeof *choices; i++) check_choice(&choices[i]);
}

#define COMMIT "\"sha\": \"0123456789abcdef0123456789abcdef01234567\""
#define SHA1   "\"0123456789abcdef0123456789abcdef01234567\""

static const char *const bad_lists[][2] = {
    {"", "line"},
    {"[]", "sha: \"\" found"},
    {"{\"sha\": \"xyz\"}", "sha: \"xyz\" found"},
    {"{" COMMIT "}", "siblings: nothing found, an array expected"},
    {"{" COMMIT ", \"siblings\": [1]}", "a path inside the repository expected"},
    {"{" COMMIT ", \"siblings\": [{\"rfilename\": \"a/../b\", \"size\": 1}]}", "a path inside the repository"},
    {"{" COMMIT ", \"siblings\": [{\"rfilename\": \"a\"}]}", "a: the hub's list has no size"},
    {"{" COMMIT ", \"siblings\": [{\"rfilename\": \"a\", \"size\": -1}]}", "a: the hub's list has no size"},
    {"{" COMMIT ", \"siblings\": [{\"rfilename\": \"a\", \"size\": 1, \"blobId\": \"..\"}]}",
     "\"..\" found as its sum"},
    {"{" COMMIT ", \"siblings\": [{\"rfilename\": \"a\", \"size\": 1, \"blobId\": " SHA1
     "}, {\"rfilename\": \"a\", \"size\": 1, \"blobId\": " SHA1 "}]}",
     "has a twice"},
};

static void test_lists(void **state)
{
    static const char good[] = "{" COMMIT ", \"siblings\": [{\"rfilename\": \"b\", \"size\": 5, \"blobId\": " SHA1
                               "}, {\"rfilename\": \"a/b\", \"size\": 0, \"blobId\": " SHA1 "}]}";
    tern_hub_files files;
    tern_error err = {0};
    (void)state;
    for (size_t i = 0; i < sizeof bad_lists / sizeof *bad_lists; i++) {
        assert_int_not_equal(tern_hub_files_parse(&files, bad_lists[i][0], strlen(bad_lists[i][0]), &err), TERN_OK);
        if (!strstr(err.message, bad_lists[i][1]))
            fail_msg("%s: \"%s\" found, \"%s\" expected", bad_lists[i][0], err.message, bad_lists[i][1]);
        assert_int_equal(files.n, 0);
    }
    assert_int_equal(tern_hub_files_parse(&files, good, sizeof good - 1, &err), TERN_OK);
    assert_int_equal(files.n, 2);
    assert_string_equal(files.items[0].path, "a/b");
    assert_int_equal(files.items[1].bytes, 5);
    tern_hub_files_deinit(&files);
}

/* The table of a page is the table of the program, with or without the names on the hub. */
static void check_page(const char *page, bool has_hub_names)
{
    char path[512], row[1024];
    tern_buf text = {0};
    tern_error err = {0};
    snprintf(path, sizeof path, "%s/%s", TERN_SOURCE_DIR, page);
    assert_int_equal(tern_file_read(&text, path, 1 << 20, &err), TERN_OK);
    assert_int_equal(tern_buf_add(&text, "", 1, &err), TERN_OK);
    for (const tern_hub_known *k = tern_hub_known_models; k->name; k++) {
        snprintf(row, sizeof row, "| `%s` | %s | %s%s%s%s | %s |", k->name, k->what, has_hub_names ? "`" : "",
                 has_hub_names ? k->hub_name : "", has_hub_names ? "` | " : "", k->memory, k->verified);
        if (!strstr((const char *)text.data, row)) fail_msg("%s lacks the row\n%s", page, row);
    }
    tern_buf_deinit(&text);
}

static void test_known(void **state)
{
    (void)state;
    for (const tern_hub_known *k = tern_hub_known_models; k->name; k++) {
        tern_hub_name name;
        tern_error err = {0};
        assert_int_equal(tern_hub_known_parse(&name, k->name, &err), TERN_OK);
        if (name.tag[0]) snprintf(name.file, sizeof name.file, "x-%s.gguf", name.tag);
        assert_ptr_equal(tern_hub_known_of(&name), k);
        assert_string_not_equal(k->memory, "");
    }
    check_page("README.md", false);
    check_page("docs/guides/models.md", true);
}

static const struct CMUnitTest cases[] = {
    cmocka_unit_test(test_names),
    cmocka_unit_test(test_choices),
    cmocka_unit_test(test_lists),
    cmocka_unit_test(test_known),
};
TEST_GROUP(hub, "", cases);
