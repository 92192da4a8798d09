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

static void spoil(const char *path)
{
    test_write_text(path, "not what anybody wrote here");
}

static void take_away(const char *path)
{
    unlink(path);
}

/* How many files of a folder end in `end`; what is done with each, unless `what` is NULL. */
static size_t files(const char *folder, const char *end, void (*what)(const char *path))
{
    DIR *dir = opendir(folder);
    size_t n = 0;
    for (struct dirent *e; dir && (e = readdir(dir));) {
        size_t length = strlen(e->d_name);
        if (e->d_name[0] == '.' || length < strlen(end) || strcmp(e->d_name + length - strlen(end), end) != 0) continue;
        n++;
        if (!what) continue;
        char *path = tern_path_join(folder, e->d_name);
        what(path);
        tern_free(path);
    }
    if (dir) closedir(dir);
    return n;
}

/* A driver that keeps what it compiles, as those of software do not: its cache holds `body` behind the header once a
 * pipeline was made, and a pipeline is found where the cache was opened with that. */
static const char body[] = "what a driver compiled";
static struct {
    tern_vulkan *vk;
    PFN_vkCreatePipelineCache create;
    PFN_vkGetPipelineCacheData get;
    PFN_vkCreateComputePipelines make;
    bool known;      /* the cache was opened with the body */
    uint32_t n_made; /* pipelines that were compiled */
} driver;

static VKAPI_ATTR VkResult VKAPI_CALL create_cache(VkDevice of, const VkPipelineCacheCreateInfo *info,
                                                   const VkAllocationCallbacks *callbacks, VkPipelineCache *cache)
{
    const VkPipelineCacheCreateInfo empty = {.sType = VK_STRUCTURE_TYPE_PIPELINE_CACHE_CREATE_INFO};
    const size_t n = info->initialDataSize;
    driver.known =
        n > sizeof body && memcmp((const char *)info->pInitialData + n - sizeof body, body, sizeof body) == 0;
    return driver.create(of, &empty, callbacks, cache);
}

static VKAPI_ATTR VkResult VKAPI_CALL cache_data(VkDevice of, VkPipelineCache cache, size_t *n, void *data)
{
    size_t header = 0;
    VkResult result = driver.get(of, cache, &header, NULL);
    if (data && result == VK_SUCCESS) result = driver.get(of, cache, &header, data);
    if (data) memcpy((char *)data + header, body, sizeof body);
    *n = header + sizeof body;
    return result;
}

static VKAPI_ATTR VkResult VKAPI_CALL make_pipelines(VkDevice of, VkPipelineCache cache, uint32_t n,
                                                     const VkComputePipelineCreateInfo *info,
                                                     const VkAllocationCallbacks *callbacks, VkPipeline *pipelines)
{
    const VkPipelineCreationFeedbackCreateInfo *told = info->pNext;
    VkComputePipelineCreateInfo plain = *info;
    plain.pNext = NULL;
    assert_int_equal(n, 1);
    if (driver.known)
        told->pPipelineCreationFeedback->flags =
            VK_PIPELINE_CREATION_FEEDBACK_VALID_BIT | VK_PIPELINE_CREATION_FEEDBACK_APPLICATION_PIPELINE_CACHE_HIT_BIT;
    driver.n_made += !driver.known;
    return driver.make(of, cache, n, &plain, callbacks, pipelines);
}

static tern_backend *open_on_keeping_driver(const char *folder)
{
    tern_error err = {0};
    tern_backend *b = open_with("");
    tern_vulkan *vk = driver.vk = tern_vulkan__self(b);
    driver.create = vk->fn.CreatePipelineCache;
    driver.get = vk->fn.GetPipelineCacheData;
    driver.make = vk->fn.CreateComputePipelines;
    driver.n_made = 0;
    vk->fn.CreatePipelineCache = create_cache;
    vk->fn.GetPipelineCacheData = cache_data;
    vk->fn.CreateComputePipelines = make_pipelines;
    vk->fn.DestroyPipelineCache(vk->device, vk->cache, NULL);
    vk->physical.feedback = true;
    assert_ok(tern_vulkan__cache_open(vk, folder, &err), err);
    return b;
}

/* Compiled at the first start and after the files were damaged, found at the second start and the last. */
static void pipelines_are_kept(void **state)
{
    (void)state;
    const char *folder = test_scratch("vulkan-cache/pipelines");
    static const uint64_t hits[] = {0, 1, 0, 1};
    files(folder, "", take_away); /* of an earlier run */
    for (int start = 0; start < 4; start++) {
        tern_backend_counters counters;
        tern_backend *b = open_on_keeping_driver(folder);
        assert_true(driver.known == (hits[start] == 1));
        add_on(b);
        b->counters(b, &counters);
        assert_int_equal(counters.pipelines, 1); /* what the graph needs, once */
        assert_int_equal(counters.pipeline_hits, hits[start]);
        assert_int_equal(driver.n_made, 1 - hits[start]);
        b->close(b);
        assert_int_equal(files(folder, ".pipelines", NULL), 1);
        if (start == 1) files(folder, "", spoil);
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
