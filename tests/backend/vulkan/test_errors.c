/* What the Vulkan backend says and does when the driver fails: functions of the driver are replaced by ones that fail.
 */
#include <string.h>

#include "backend/open.h"
#include "backend/vulkan/device.h"
#include "base/alloc.h"
#include "graph/bound.h"
#include "support/op_case.h"
#include "support/test.h"

static tern_backend *open_own(bool staged)
{
    tern_error err = {0};
    tern_backend *b;
    tern_vulkan_options options = {.cache_dir = "", .staged = staged};
    unsetenv("TERN_VULKAN_STAGED"); /* which is set for all tests in a run of them */
    tern_status status = tern_vulkan_open(&b, &options, &err);
    if (status == TERN_NOT_FOUND) test_missing(err.message);
    assert_ok(status, err);
    return b;
}

static tern_error err;

static void says(tern_status status, tern_status wanted, const char *words)
{
    if (status != wanted) fail_msg("status %d, %d expected: %s", (int)status, (int)wanted, err.message);
    if (!strstr(err.message, words)) fail_msg("\"%s\" in: %s", words, err.message);
}

static VKAPI_ATTR VkResult VKAPI_CALL no_memory(VkDevice device, const VkMemoryAllocateInfo *info,
                                                const VkAllocationCallbacks *callbacks, VkDeviceMemory *memory)
{
    (void)device;
    (void)info;
    (void)callbacks;
    (void)memory;
    return VK_ERROR_OUT_OF_DEVICE_MEMORY;
}

static VKAPI_ATTR VkResult VKAPI_CALL lost_on_submit(VkQueue queue, uint32_t n, const VkSubmitInfo *info, VkFence fence)
{
    (void)queue;
    (void)n;
    (void)info;
    (void)fence;
    return VK_ERROR_DEVICE_LOST;
}

static VKAPI_ATTR VkResult VKAPI_CALL never_done(VkDevice device, uint32_t n, const VkFence *fences, VkBool32 all,
                                                 uint64_t timeout)
{
    (void)device;
    (void)n;
    (void)fences;
    (void)all;
    (void)timeout;
    return VK_TIMEOUT;
}

static void out_of_memory(void **state)
{
    (void)state;
    tern_backend *b = open_own(false);
    tern_vulkan *vk = tern_vulkan__self(b);
    tern_buffer *small, *large = NULL;
    assert_ok(b->buffer_create(b, 1000, &small, &err), err);
    PFN_vkAllocateMemory allocate = vk->fn.AllocateMemory;
    vk->fn.AllocateMemory = no_memory;
    says(b->buffer_create(b, 512 << 20, &large, &err), TERN_OUT_OF_MEMORY,
         "512.0 MiB more are needed; 16.0 MiB are held");
    assert_non_null(strstr(err.message, "--gpu-layers"));
    assert_null(large);
    vk->fn.AllocateMemory = allocate;
    assert_ok(b->buffer_create(b, 4 << 20, &large, &err), err); /* nothing is broken by it */
    b->buffer_free(b, large);
    b->buffer_free(b, small);
    assert_null(vk->blocks); /* all is given back */
    assert_int_equal(vk->held_bytes, 0);
    says(b->buffer_create(b, UINT64_MAX - 5, &large, &err), TERN_LIMIT, "a buffer of 18446744073709551610 bytes");
    b->close(b);
}

static void too_many_allocations(void **state)
{
    (void)state;
    tern_backend *b = open_own(false);
    tern_vulkan *vk = tern_vulkan__self(b);
    tern_buffer *buffers[3];
    vk->physical.properties.limits.maxMemoryAllocationCount = 2;
    for (int i = 0; i < 2; i++) assert_ok(b->buffer_create(b, 32 << 20, &buffers[i], &err), err);
    says(b->buffer_create(b, 32 << 20, &buffers[2], &err), TERN_LIMIT, "allows 2 allocations");
    for (int i = 0; i < 2; i++) b->buffer_free(b, buffers[i]);
    b->close(b);
}

/* Every later call says the same, and none waits for a device that is gone. */
static void lost(tern_backend *b, const char *words)
{
    tern_buffer *buffer;
    says(b->buffer_create(b, 64, &buffer, &err), TERN_INTERNAL, words);
    says(b->wait(b, &err), TERN_INTERNAL, words);
}

static void a_lost_device_stays_lost(void **state)
{
    (void)state;
    tern_backend *b = open_own(true);
    tern_vulkan *vk = tern_vulkan__self(b);
    tern_buffer *buffer;
    uint8_t data[16] = {0};
    assert_ok(b->buffer_create(b, 64, &buffer, &err), err);
    assert_ok(b->buffer_read(b, buffer, 0, data, 16, &err), err);
    vk->fn.QueueSubmit = lost_on_submit;
    says(b->buffer_read(b, buffer, 0, data, 16, &err), TERN_INTERNAL, "was lost in vkQueueSubmit");
    says(b->buffer_write(b, buffer, 0, data, 16, &err), TERN_INTERNAL, "was lost in vkQueueSubmit");
    lost(b, "was lost in vkQueueSubmit");
    b->buffer_free(b, buffer);
    b->close(b);
}

static void a_device_that_hangs_is_given_up(void **state)
{
    (void)state;
    tern_backend *b = open_own(true);
    tern_vulkan *vk = tern_vulkan__self(b);
    tern_buffer *buffer;
    uint8_t data[16] = {0};
    assert_ok(b->buffer_create(b, 64, &buffer, &err), err);
    PFN_vkWaitForFences wait = vk->fn.WaitForFences;
    vk->fn.WaitForFences = never_done;
    says(b->buffer_read(b, buffer, 0, data, 16, &err), TERN_INTERNAL, "has not finished within 600 s");
    vk->fn.WaitForFences = wait;
    lost(b, "has not finished");
    b->buffer_free(b, buffer); /* both do nothing: the device may still use it all */
    b->close(b);
    assert_non_null(vk->blocks);
    vk->fn.DeviceWaitIdle(vk->device);
    vk->hangs = false;
    vk->lost = (tern_error){0};
    b->buffer_free(b, buffer);
    b->close(b);
}

static void results_have_names(void **state)
{
    (void)state;
    tern_vulkan vk = {.physical.properties.deviceName = "made up"};
    assert_int_equal(tern_vulkan__check(&vk, VK_SUCCESS, "f", &err), TERN_OK);
    assert_int_equal(tern_vulkan__check(&vk, VK_INCOMPLETE, "f", &err), TERN_OK);
    says(tern_vulkan__check(&vk, VK_ERROR_OUT_OF_DEVICE_MEMORY, "f", &err), TERN_OUT_OF_MEMORY,
         "made up: f gave VK_ERROR_OUT_OF_DEVICE_MEMORY (-2)");
    says(tern_vulkan__check(&vk, VK_ERROR_FEATURE_NOT_PRESENT, "f", &err), TERN_UNSUPPORTED,
         "VK_ERROR_FEATURE_NOT_PRESENT");
    says(tern_vulkan__check(&vk, (VkResult)-1000012000, "f", &err), TERN_INTERNAL, "VkResult (-1000012000)");
    assert_ok(tern_vulkan__alive(&vk, &err), err);
}

static void devices_that_are_not_there(void **state)
{
    (void)state;
    tern_backend_options options = {.name = "vulkan", .device = "99"};
    tern_backend *b = NULL;
    tern_backend *there = open_own(false);
    there->close(there);
    says(tern_backend_open(&b, &options, &err), TERN_NOT_FOUND, "no device 99: one of 0: ");
    assert_null(b);
    options.device = "no such thing";
    says(tern_backend_open(&b, &options, &err), TERN_NOT_FOUND, "no device \"no such thing\"");
}

static VKAPI_ATTR void VKAPI_CALL does_nothing(VkCommandBuffer commands, uint32_t x, uint32_t y, uint32_t z)
{
    (void)commands;
    (void)x;
    (void)y;
    (void)z;
}

/* A graph of one sum over buffers of its own. */
static void sum_open(test_case *c)
{
    static tern_rng rng;
    test_case_open(c, &rng, &(test_case_shape){.max_tokens = 3});
    tern_view x = test_case_rows(c, "x", TERN_ROWS_TOKENS, 70, TEST_ORDINARY);
    tern_view y = test_case_output(c, "sum", TERN_ROWS_TOKENS, TERN_DTYPE_F32, 70);
    test_case_add(
        c,
        (tern_op){.kind = TERN_OP_ADD, .n_in = TERN_ADD_INPUTS, .in = {[TERN_ADD_A] = x, [TERN_ADD_B] = x}, .out = y});
    assert_int_equal(c->graph.values[0].kind, TERN_VALUE_PARAM);
}

/* A driver whose kernels leave everything as it was is found out when a graph is made ready. */
static void wrong_kernels_are_found(void **state)
{
    (void)state;
    tern_backend *b = open_own(false);
    tern_vulkan *vk = tern_vulkan__self(b);
    test_case c;
    tern_bound_graph g;
    sum_open(&c);
    assert_ok(tern_bound_open(&g, b, &c.graph, NULL, &err), err);
    PFN_vkCmdDispatch dispatch = vk->fn.CmdDispatch;
    vk->fn.CmdDispatch = does_nothing;
    says(tern_bound_prepare(&g, &err), TERN_UNSUPPORTED, "computes the kernel ADD_");
    assert_non_null(strstr(err.message, "wrong (sum: row 0, column 0 of "));
    assert_null(g.prepared);
    vk->fn.CmdDispatch = dispatch;
    assert_ok(tern_bound_prepare(&g, &err), err);
    tern_bound_close(&g);
    vk->fn.CmdDispatch = does_nothing; /* proven: not tried again */
    assert_ok(tern_bound_open(&g, b, &c.graph, NULL, &err), err);
    assert_ok(tern_bound_prepare(&g, &err), err);
    tern_bound_close(&g);
    test_case_close(&c);
    b->close(b);
}

/* Opens, prepares, runs; the first error ends it, and all is given back. */
static tern_status use_all(test_case *c, bool staged)
{
    const tern_vulkan_options options = {.cache_dir = "", .staged = staged, .trusting = true, .n_threads = 1};
    float out[70];
    tern_backend *b = NULL;
    tern_bound_graph g = {0};
    tern_status status = tern_vulkan_open(&b, &options, &err);
    if (status == TERN_OK) status = tern_bound_open(&g, b, &c->graph, NULL, &err);
    if (status == TERN_OK) status = tern_bound_prepare(&g, &err);
    if (status == TERN_OK) status = tern_bound_start(&g, 1, &err);
    if (status == TERN_OK) status = b->wait(b, &err);
    if (status == TERN_OK) status = tern_bound_read(&g, (uint32_t)c->graph.n_values - 1, out, sizeof out, &err);
    tern_bound_close(&g);
    if (b) b->close(b);
    return status;
}

static void any_allocation_may_fail(void **state)
{
    (void)state;
    tern_backend *there = open_own(false);
    there->close(there);
    test_case c;
    sum_open(&c);
    int64_t live = tern_alloc_live();
    uint64_t n = 1;
    for (tern_status status = TERN_OUT_OF_MEMORY; status != TERN_OK; n++) {
        tern_alloc_fail_after(n, true);
        status = use_all(&c, n % 2);
        tern_alloc_fail_after(0, false);
        if (status != TERN_OK && status != TERN_OUT_OF_MEMORY) fail_msg("allocation %d: %s", (int)n, err.message);
        assert_int_equal(tern_alloc_live(), live);
    }
    print_message("%d allocations\n", (int)n - 1);
    test_case_close(&c);
}

static const struct CMUnitTest tests[] = {cmocka_unit_test(out_of_memory),
                                          cmocka_unit_test(too_many_allocations),
                                          cmocka_unit_test(a_lost_device_stays_lost),
                                          cmocka_unit_test(a_device_that_hangs_is_given_up),
                                          cmocka_unit_test(results_have_names),
                                          cmocka_unit_test(devices_that_are_not_there),
                                          cmocka_unit_test(wrong_kernels_are_found),
                                          cmocka_unit_test(any_allocation_may_fail)};

TEST_GROUP(errors, "gpu swiftshader", tests);
