/* Which device is taken and what it can do, on made-up devices; and where barriers go. No driver is asked. */
#include "backend/vulkan/device.h"
#include "support/test.h"

static tern_vulkan_physical made_up(const char *name, VkPhysicalDeviceType type)
{
    tern_vulkan_physical p = {.dot_product = true, .subgroup_control = true, .subgroup_min = 32, .subgroup_max = 64};
    p.properties.apiVersion = VK_API_VERSION_1_3;
    p.properties.deviceType = type;
    snprintf(p.properties.deviceName, sizeof p.properties.deviceName, "%s", name);
    p.properties.limits = (VkPhysicalDeviceLimits){.maxStorageBufferRange = 1u << 30,
                                                   .maxComputeSharedMemorySize = 32768,
                                                   .maxComputeWorkGroupInvocations = 1024,
                                                   .maxComputeWorkGroupSize = {512, 512, 64},
                                                   .maxComputeWorkGroupCount = {1u << 30, 65535, 65536},
                                                   .minStorageBufferOffsetAlignment = 64};
    p.subgroups = (VkPhysicalDeviceSubgroupProperties){
        .subgroupSize = 64, .supportedStages = VK_SHADER_STAGE_COMPUTE_BIT, .supportedOperations = 0xff};
    return p;
}

static tern_vulkan_physical machines[4];

static int make_machines(void **state)
{
    (void)state;
    machines[0] = made_up("llvmpipe (LLVM 15)", VK_PHYSICAL_DEVICE_TYPE_CPU);
    machines[1] = made_up("Iris Xe", VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU);
    machines[2] = made_up("Radeon 9000", VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU);
    machines[3] = made_up("Radeon 9001", VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU);
    return 0;
}

static uint32_t chosen(uint32_t n, const char *wanted)
{
    tern_error err = {0};
    uint32_t index = 99;
    assert_ok(tern_vulkan__choose(machines, n, wanted, &index, &err), err);
    return index;
}

static void devices_by_rank_index_and_name(void **state)
{
    (void)state;
    assert_int_equal(chosen(4, NULL), 2);
    assert_int_equal(chosen(4, ""), 2);
    assert_int_equal(chosen(2, NULL), 1);
    assert_int_equal(chosen(1, NULL), 0);
    assert_int_equal(chosen(4, "3"), 3);
    assert_int_equal(chosen(4, "iris"), 1);
    assert_int_equal(chosen(4, "9001"), 3); /* four digits are no index */
    machines[2].dot_product = false;
    assert_int_equal(chosen(4, NULL), 3);
    machines[2].dot_product = true;
}

static void refused(uint32_t n, const char *wanted, tern_status status, const char *words)
{
    tern_error err = {0};
    uint32_t index;
    assert_int_equal(tern_vulkan__choose(machines, n, wanted, &index, &err), status);
    if (!strstr(err.message, words)) fail_msg("\"%s\" in: %s", words, err.message);
}

static void wrong_choices_say_what_there_is(void **state)
{
    (void)state;
    refused(0, NULL, TERN_NOT_FOUND, "no device");
    refused(4, "99", TERN_NOT_FOUND, "no device 99: one of 0: llvmpipe (LLVM 15), 1: Iris Xe, 2: Radeon 9000");
    refused(4, "geforce", TERN_NOT_FOUND, "no device \"geforce\": one of 0: llvmpipe");
    refused(4, "radeon", TERN_INVALID_ARGUMENT, "fits 2 devices");
    machines[1].dot_product = false;
    refused(4, "1", TERN_UNSUPPORTED, "Iris Xe");
    refused(2, "iris", TERN_UNSUPPORTED, "lacks shaderIntegerDotProduct");
    machines[1].dot_product = true;
    machines[0].properties.apiVersion = VK_API_VERSION_1_0;
    refused(1, NULL, TERN_UNSUPPORTED, "lacks Vulkan 1.1");
    machines[0].queue_family = UINT32_MAX;
    machines[0].properties.apiVersion = VK_API_VERSION_1_1;
    refused(1, NULL, TERN_UNSUPPORTED, "lacks a queue that computes");
    machines[0].queue_family = 0;
}

static void capabilities(void **state)
{
    (void)state;
    tern_vulkan_physical p = machines[2];
    tern_gpu_caps caps;
    tern_vulkan__caps(&p, &caps);
    assert_int_equal(caps.subgroup_min, 64); /* one size, because pipelines can ask for it */
    assert_int_equal(caps.subgroup_max, 64);
    assert_int_equal(caps.workgroup_bytes, 32768);
    assert_int_equal(caps.workgroup_invocations, 512); /* in one dimension */
    assert_int_equal(caps.max_groups, 65535);
    assert_int_equal(caps.max_binding, 1u << 30);
    assert_int_equal(caps.binding_alignment, 64);
    assert_true(caps.device_fences);
    assert_false(caps.cooperative);
    p.subgroup_control = false;
    tern_vulkan__caps(&p, &caps);
    assert_int_equal(caps.subgroup_min, 32);
    assert_int_equal(caps.subgroup_max, 64);
    p.subgroups.supportedOperations &= ~(VkSubgroupFeatureFlags)VK_SUBGROUP_FEATURE_SHUFFLE_BIT;
    tern_vulkan__caps(&p, &caps);
    assert_int_equal(caps.subgroup_max, 0);
    p = machines[2];
    p.subgroups.supportedStages = VK_SHADER_STAGE_FRAGMENT_BIT;
    tern_vulkan__caps(&p, &caps);
    assert_int_equal(caps.subgroup_min, 0);
}

static void limits_only_lower(void **state)
{
    (void)state;
    tern_gpu_caps caps, limits = {.subgroup_max = 0,
                                  .workgroup_bytes = 16384,
                                  .workgroup_invocations = 2048,
                                  .max_groups = 65535,
                                  .max_binding = 4096};
    tern_vulkan__caps(&machines[2], &caps);
    tern_gpu_limit(&caps, &limits);
    assert_int_equal(caps.subgroup_max, 0);
    assert_int_equal(caps.workgroup_bytes, 16384);
    assert_int_equal(caps.workgroup_invocations, 512);
    assert_int_equal(caps.max_binding, 4096);
}

static VkPhysicalDeviceMemoryProperties memory_of(const VkMemoryPropertyFlags *flags, uint32_t n)
{
    VkPhysicalDeviceMemoryProperties m = {.memoryTypeCount = n, .memoryHeapCount = 1};
    for (uint32_t i = 0; i < n; i++) m.memoryTypes[i].propertyFlags = flags[i];
    return m;
}

enum { LOCAL = 1, VISIBLE = 2, COHERENT = 4, CACHED = 8, PROTECTED = 32 };

static void memory_types(void **state)
{
    (void)state;
    const VkMemoryPropertyFlags a[] = {
        0, PROTECTED | LOCAL, LOCAL, VISIBLE | COHERENT, VISIBLE | COHERENT | CACHED, LOCAL | VISIBLE | COHERENT};
    VkPhysicalDeviceMemoryProperties discrete = memory_of(a, 6);
    assert_int_equal(tern_vulkan__memory_type(&discrete, false, TERN_VULKAN_DEVICE, ~0u), 2);
    assert_int_equal(tern_vulkan__memory_type(&discrete, false, TERN_VULKAN_SHARED, ~0u), 5);
    assert_int_equal(tern_vulkan__memory_type(&discrete, false, TERN_VULKAN_UPLOAD, ~0u), 3);
    assert_int_equal(tern_vulkan__memory_type(&discrete, false, TERN_VULKAN_READBACK, ~0u), 4);
    assert_int_equal(tern_vulkan__memory_type(&discrete, false, TERN_VULKAN_SHARED, 0x1f), 3); /* no such window */
    assert_int_equal(tern_vulkan__memory_type(&discrete, false, TERN_VULKAN_DEVICE, 0x30), 5);
    assert_int_equal(tern_vulkan__memory_type(&discrete, false, TERN_VULKAN_DEVICE, 0), UINT32_MAX);
    const VkMemoryPropertyFlags b[] = {LOCAL | VISIBLE | COHERENT, LOCAL | VISIBLE | CACHED};
    VkPhysicalDeviceMemoryProperties phone = memory_of(b, 2);
    assert_int_equal(tern_vulkan__memory_type(&phone, true, TERN_VULKAN_DEVICE, ~0u), 1); /* flushed by hand */
    assert_int_equal(tern_vulkan__memory_type(&phone, true, TERN_VULKAN_SHARED, ~0u), 1);
    assert_int_equal(tern_vulkan__memory_type(&phone, true, TERN_VULKAN_DEVICE, 1), 0);
    assert_int_equal(tern_vulkan__memory_type(&phone, false, TERN_VULKAN_UPLOAD, ~0u), 0);
    const VkMemoryPropertyFlags c[] = {VISIBLE | COHERENT};
    VkPhysicalDeviceMemoryProperties plain = memory_of(c, 1);
    for (int use = TERN_VULKAN_DEVICE; use <= TERN_VULKAN_READBACK; use++)
        for (int unified = 0; unified < 2; unified++)
            assert_int_equal(tern_vulkan__memory_type(&plain, unified, (tern_vulkan_use)use, ~0u), 0);
}

static bool step(tern_vulkan_hazards *h, const void *read, uint64_t read_at, const void *written, uint64_t written_at)
{
    tern_vulkan_access accesses[] = {{read, read_at, 100, false}, {written, written_at, 100, true}};
    return tern_vulkan__hazard(h, accesses, 2, false);
}

static void barriers_only_for_hazards(void **state)
{
    (void)state;
    static const char a, b, c;
    tern_vulkan_hazards h = {0};
    assert_false(step(&h, &a, 0, &b, 0));
    assert_false(step(&h, &a, 0, &b, 100)); /* reads of the same, writes beside each other */
    assert_false(step(&h, &c, 0, &c, 200));
    assert_true(step(&h, &b, 99, &c, 900)); /* reads what was written */
    assert_false(step(&h, &b, 0, &a, 0));   /* forgotten with the barrier */
    assert_true(step(&h, &c, 0, &b, 50));   /* writes what was read */
    assert_true(step(&h, &c, 0, &b, 149));  /* writes what was written */
    h = (tern_vulkan_hazards){0};
    const tern_vulkan_access read[] = {{&a, 0, 100, false}}, part[] = {{&b, 0, 100, true}},
                             over[] = {{&a, 0, 100, true}};
    assert_false(tern_vulkan__hazard(&h, read, 1, false));
    assert_false(tern_vulkan__hazard(&h, part, 1, false));
    assert_false(tern_vulkan__hazard(&h, part, 1, true)); /* one range, other elements of it */
    assert_true(tern_vulkan__hazard(&h, over, 1, true));  /* writes what was read before what it is beside */
    assert_false(tern_vulkan__hazard(&h, part, 1, true));
    assert_true(tern_vulkan__hazard(&h, part, 1, false));
    h.n = 0;
    for (uint64_t i = 0; i < TERN_VULKAN_MAX_ACCESSES / 2; i++) assert_false(step(&h, &a, 0, &b, i * 100));
    assert_true(step(&h, &a, 0, &b, 1u << 20)); /* no room to remember more */
    assert_int_equal(h.n, 2);
}

/* A waiting dispatch that reads one range and writes another, both coherent or neither. */
static bool waiting(tern_vulkan_hazards *h, const void *read, const void *written, bool coherent)
{
    const tern_vulkan_access accesses[] = {{read, 0, 100, false, coherent}, {written, 0, 100, true, coherent}};
    return tern_vulkan__hazard_waiting(h, accesses, 2);
}

static void waits_instead_of_barriers(void **state)
{
    (void)state;
    static const char a, b, c, d;
    tern_vulkan_hazards h = {0};
    assert_false(step(&h, &d, 0, &b, 0));
    assert_false(waiting(&h, &a, &c, true)); /* nothing that the plain one writes */
    assert_false(waiting(&h, &c, &a, true)); /* writes what waiting ones have read, and reads what one has written */
    assert_false(waiting(&h, &a, &c, true));
    assert_true(h.in_chain);
    assert_true(waiting(&h, &b, &c, true)); /* for the plain one nobody waits */
    assert_true(h.in_chain);
    assert_false(waiting(&h, &c, &b, true));
    assert_true(step(&h, &a, 0, &a, 500)); /* a plain one waits for nobody, whatever it touches */
    assert_false(h.in_chain);
    h = (tern_vulkan_hazards){0};
    assert_false(waiting(&h, &a, &b, false));
    assert_true(waiting(&h, &b, &c, true));  /* written where it may not be seen */
    assert_true(waiting(&h, &c, &b, false)); /* read where it may not be seen */
    assert_false(waiting(&h, &a, &c, true));
    h = (tern_vulkan_hazards){0};
    for (uint64_t i = 0; i < 2 * TERN_VULKAN_MAX_ACCESSES; i++) assert_false(waiting(&h, &a, &b, true));
    assert_int_equal(h.n_chain, 1);
    for (uint64_t i = 1; i < TERN_VULKAN_MAX_ACCESSES; i++)
        assert_int_equal(waiting(&h, &a, (const void *)(uintptr_t)i, true), i + 1 > TERN_VULKAN_MAX_ACCESSES - 1);
}

static const struct CMUnitTest tests[] = {cmocka_unit_test(devices_by_rank_index_and_name),
                                          cmocka_unit_test(wrong_choices_say_what_there_is),
                                          cmocka_unit_test(capabilities),
                                          cmocka_unit_test(limits_only_lower),
                                          cmocka_unit_test(barriers_only_for_hazards),
                                          cmocka_unit_test(waits_instead_of_barriers),
                                          cmocka_unit_test(memory_types)};

TEST_GROUP(choice, "", tests, .setup = make_machines);
