/* The Vulkan backend's cache files: written, found again, and no harm done by damaged ones. */
#include <dirent.h>
#include <unistd.h>

#include "backend/vulkan/cache.h"
#include "base/alloc.h"
#include "base/file.h"
#include "support/op_case.h"
#include "support/test.h"

static tern_vulkan_physical device = {
    .properties = {.vendorID = 1, .deviceID = 2, .driverVersion = 3, .deviceName = "made up"}};

static char *path_in(const char *folder)
{
    char *path = tern_vulkan__cache_file(&device, folder, "test");
    assert_non_null(path);
    return path;
}

static void content_comes_back(void **state)
{
    (void)state;
    tern_error err = {0};
    tern_buf back = {0};
    char *path = path_in(test_scratch("vulkan-cache/deep/er"));
    unlink(path);
    assert_false(tern_vulkan__cache_read(&device, path, &back));
    assert_ok(tern_vulkan__cache_write(&device, path, "four score", 10, &err), err);
    assert_true(tern_vulkan__cache_read(&device, path, &back));
    assert_int_equal(back.size, 10);
    assert_memory_equal(back.data, "four score", 10);
    tern_buf_deinit(&back);
    tern_free(path);
}

static void another_driver_has_another_file(void **state)
{
    (void)state;
    char *path = path_in("folder");
    device.properties.driverVersion++;
    char *other = path_in("folder");
    assert_string_not_equal(path, other);
    tern_error err = {0};
    tern_buf back = {0};
    char *scratch = path_in(test_scratch("vulkan-cache"));
    assert_ok(tern_vulkan__cache_write(&device, scratch, "x", 1, &err), err);
    device.properties.driverVersion--;
    assert_false(tern_vulkan__cache_read(&device, scratch, &back)); /* also under the name of this one */
    tern_buf_deinit(&back);
    tern_free(scratch);
    tern_free(path);
    tern_free(other);
}

/* Any byte changed, any end cut off, anything added: as if there were none. */
static void damage_is_found(void **state)
{
    (void)state;
    tern_error err = {0};
    tern_buf whole = {0}, back = {0};
    char *path = path_in(test_scratch("vulkan-cache"));
    assert_ok(tern_vulkan__cache_write(&device, path, "content", 7, &err), err);
    assert_ok(tern_file_read(&whole, path, 1000, &err), err);
    for (size_t i = 0; i <= 2 * whole.size; i++) {
        FILE *f = fopen(path, "wb");
        assert_non_null(f);
        size_t cut = i < whole.size ? whole.size : i - whole.size;
        for (size_t k = 0; k < cut; k++) fputc(k == i ? whole.data[k] ^ 0x40 : whole.data[k], f);
        if (i == 2 * whole.size) fputc('x', f);
        fclose(f);
        if (tern_vulkan__cache_read(&device, path, &back)) fail_msg("damage %zu was not seen", i);
    }
    tern_buf_deinit(&back);
    tern_buf_deinit(&whole);
    tern_free(path);
}

static tern_backend *open_with(const char *folder)
{
    tern_error err = {0};
    tern_backend *b;
    tern_vulkan_options options = {.cache_dir = folder};
    tern_status status = tern_vulkan_open(&b, &options, &err);
    if (status == TERN_NOT_FOUND) test_missing(err.message);
    assert_ok(status, err);
    return b;
}

static void add_on(tern_backend *b)
{
    tern_rng rng;
    test_seed(&rng);
    test_case c;
    test_case_open(&c, &rng, &(test_case_shape){.max_tokens = 2});
    tern_view x = test_case_rows(&c, "x", TERN_ROWS_TOKENS, 70, TEST_ORDINARY);
    tern_view sum = test_case_output(&c, "sum", TERN_ROWS_TOKENS, TERN_DTYPE_F32, 70);
    test_case_add(
        &c, (tern_op){
                .kind = TERN_OP_ADD, .n_in = TERN_ADD_INPUTS, .in = {[TERN_ADD_A] = x, [TERN_ADD_B] = x}, .out = sum});
    test_case_compare(&c, b, 2, 2, (test_tolerance){0});
    test_case_close(&c);
}

/* Names of files in a folder that end in `end`; each is overwritten with `garbage` unless that is NULL. */
static size_t files(const char *folder, const char *end, const char *garbage)
{
    DIR *dir = opendir(folder);
    size_t n = 0;
    for (struct dirent *e; dir && (e = readdir(dir));) {
        size_t length = strlen(e->d_name);
        if (e->d_name[0] == '.' || length < strlen(end) || strcmp(e->d_name + length - strlen(end), end) != 0) continue;
        n++;
        if (!garbage) continue;
        char *path = tern_path_join(folder, e->d_name);
        test_write_text(path, garbage);
        tern_free(path);
    }
    if (dir) closedir(dir);
    return n;
}

static void pipelines_are_kept(void **state)
{
    (void)state;
    const char *folder = test_scratch("vulkan-cache/pipelines");
    tern_backend_counters counters;
    for (int start = 0; start < 3; start++) {
        tern_backend *b = open_with(folder);
        add_on(b);
        b->counters(b, &counters);
        assert_int_equal(counters.pipelines, 1); /* what the graph needs, once */
        b->close(b);
        if (start == 0) print_message("%zu files in %s\n", files(folder, ".pipelines", NULL), folder);
        if (start == 1) files(folder, "", "not what anybody wrote here");
    }
}

static void nothing_is_kept_without_a_folder(void **state)
{
    (void)state;
    tern_backend *b = open_with("");
    add_on(b);
    b->close(b);
    b = open_with("/proc/nowhere/to/write");
    add_on(b);
    b->close(b);
}

static const struct CMUnitTest tests[] = {cmocka_unit_test(content_comes_back),
                                          cmocka_unit_test(another_driver_has_another_file),
                                          cmocka_unit_test(damage_is_found), cmocka_unit_test(pipelines_are_kept),
                                          cmocka_unit_test(nothing_is_kept_without_a_folder)};

TEST_GROUP(cache, "gpu swiftshader", tests, .teardown = test_backends_close);
