/* Choosing a device by index, by name, or as the one that should be fastest; and listing them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "backend/vulkan/physical.h"
#include "base/alloc.h"

/* "0: NVIDIA H200, 1: llvmpipe (LLVM 15.0.6, 256 bits)" */
static void list_names(const tern_vulkan_physical *physicals, uint32_t n, char *out, size_t cap)
{
    size_t at = 0;
    out[0] = 0;
    for (uint32_t i = 0; i < n && at < cap; i++)
        at += (size_t)snprintf(out + at, cap - at, "%s%u: %.60s", i ? ", " : "", i, physicals[i].properties.deviceName);
}

static uint32_t rank(const tern_vulkan_physical *p)
{
    switch (p->properties.deviceType) {
    case VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU: return 4;
    case VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU: return 3;
    case VK_PHYSICAL_DEVICE_TYPE_VIRTUAL_GPU: return 2;
    case VK_PHYSICAL_DEVICE_TYPE_CPU: return 1;
    default: return 0;
    }
}

static tern_status choose_best(const tern_vulkan_physical *physicals, uint32_t n, uint32_t *index, tern_error *err)
{
    uint32_t best = UINT32_MAX;
    for (uint32_t i = 0; i < n; i++)
        if (!tern_vulkan__lacks(&physicals[i]) && (best == UINT32_MAX || rank(&physicals[i]) > rank(&physicals[best])))
            best = i;
    *index = best == UINT32_MAX ? 0 : best; /* none: the first one's shortcoming is the message */
    if (n) return TERN_OK;
    return tern_fail(err, TERN_NOT_FOUND,
                     "vulkan: the loader shows no device: install your GPU's Vulkan driver, or mesa-vulkan-drivers "
                     "for one on the CPU");
}

static bool contains(const char *name, const char *part)
{
    size_t n = strlen(part);
    for (; *name; name++)
        if (strncasecmp(name, part, n) == 0) return true;
    return n == 0;
}

static tern_status choose_named(const tern_vulkan_physical *physicals, uint32_t n, const char *wanted, uint32_t *index,
                                tern_error *err)
{
    char names[360];
    list_names(physicals, n, names, sizeof names);
    uint32_t found = 0;
    for (uint32_t i = 0; i < n; i++)
        if (contains(physicals[i].properties.deviceName, wanted) && found++ == 0) *index = i;
    if (found == 1) return TERN_OK;
    if (found)
        return tern_fail(err, TERN_INVALID_ARGUMENT, "vulkan: device \"%.60s\" fits %u devices: one of %s expected",
                         wanted, found, names);
    return tern_fail(err, TERN_NOT_FOUND, "vulkan: no device \"%.60s\": one of %s expected", wanted, names);
}

static tern_status choose_index(const tern_vulkan_physical *physicals, uint32_t n, const char *wanted, uint32_t *index,
                                tern_error *err)
{
    char names[360];
    list_names(physicals, n, names, sizeof names);
    unsigned long i = strtoul(wanted, NULL, 10);
    *index = (uint32_t)i;
    if (i < n) return TERN_OK;
    return tern_fail(err, TERN_NOT_FOUND, "vulkan: no device %.60s: one of %s expected", wanted, names);
}

/* Up to three digits; more are a part of a name. */
static bool is_index(const char *wanted)
{
    size_t digits = strspn(wanted, "0123456789");
    return wanted[digits] == 0 && digits <= 3;
}

tern_status tern_vulkan__choose(const tern_vulkan_physical *physicals, uint32_t n, const char *wanted, uint32_t *index,
                                tern_error *err)
{
    if (n == 0 || !wanted || !*wanted) TERN_TRY(choose_best(physicals, n, index, err));
    else if (is_index(wanted)) TERN_TRY(choose_index(physicals, n, wanted, index, err));
    else TERN_TRY(choose_named(physicals, n, wanted, index, err));
    const char *lacks = tern_vulkan__lacks(&physicals[*index]);
    if (!lacks) return TERN_OK;
    return tern_fail(err, TERN_UNSUPPORTED, "vulkan: %s (%s) lacks %s, which the kernels need",
                     physicals[*index].properties.deviceName, physicals[*index].driver, lacks);
}

static void show(const tern_vulkan_physical *p, tern_vulkan_device *out)
{
    tern_gpu_caps caps;
    tern_vulkan__caps(p, &caps);
    uint32_t version = p->properties.apiVersion;
    *out = (tern_vulkan_device){
        .type = tern_vulkan__type_name(p->properties.deviceType),
        .version = {VK_API_VERSION_MAJOR(version), VK_API_VERSION_MINOR(version), VK_API_VERSION_PATCH(version)},
        .memory = tern_vulkan__memory(p),
        .unified = tern_vulkan__unified(p),
        .subgroup_min = caps.subgroup_min,
        .subgroup_max = caps.subgroup_max,
        .workgroup_bytes = caps.workgroup_bytes,
        .workgroup_invocations = caps.workgroup_invocations,
        .max_binding = caps.max_binding,
        .dot_product = p->dot_product,
        .fast_dot_product = p->fast_dot_product,
        .f16 = p->f16,
        .timestamps = p->timestamp_bits != 0};
    snprintf(out->name, sizeof out->name, "%s", p->properties.deviceName);
    snprintf(out->driver, sizeof out->driver, "%s", p->driver);
    const char *lacks = tern_vulkan__lacks(p);
    snprintf(out->lacks, sizeof out->lacks, "%s", lacks ? lacks : "");
}

tern_status tern_vulkan_devices(tern_vulkan_device *devices, size_t cap, size_t *n, tern_error *err)
{
    *n = 0;
    tern_vulkan_instance instance;
    TERN_TRY(tern_vulkan__instance_open(&instance, false, err));
    tern_vulkan_physical *physicals = NULL;
    uint32_t count = 0;
    tern_status status = tern_vulkan__physicals(&instance, &physicals, &count, err);
    for (uint32_t i = 0; i < count && i < cap && status == TERN_OK; i++) show(&physicals[i], &devices[i]);
    if (status == TERN_OK) *n = count;
    tern_free(physicals);
    tern_vulkan__instance_close(&instance);
    return status;
}
