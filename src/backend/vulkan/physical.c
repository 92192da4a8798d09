/* Asking a device for its properties and features. */
#include "backend/vulkan/physical.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"

typedef struct extensions {
    VkExtensionProperties *items;
    uint32_t n;
} extensions;

static extensions list_extensions(const tern_vulkan_functions *fn, VkPhysicalDevice handle)
{
    extensions list = {0};
    fn->EnumerateDeviceExtensionProperties(handle, NULL, &list.n, NULL);
    list.items = tern_calloc(list.n, sizeof *list.items);
    if (!list.items || fn->EnumerateDeviceExtensionProperties(handle, NULL, &list.n, list.items) != VK_SUCCESS)
        list.n = 0;
    return list;
}

static bool has(const extensions *list, const char *name)
{
    for (uint32_t i = 0; i < list->n; i++)
        if (strcmp(list->items[i].extensionName, name) == 0) return true;
    return false;
}

/* The feature structures, chained as far as the device knows them. */
typedef struct answers {
    VkPhysicalDeviceProperties2 properties;
    VkPhysicalDeviceIDProperties id;
    VkPhysicalDeviceMaintenance3Properties allocation;
    VkPhysicalDeviceSubgroupProperties subgroups;
    VkPhysicalDeviceDriverProperties driver;
    VkPhysicalDeviceSubgroupSizeControlProperties size;
    VkPhysicalDeviceShaderIntegerDotProductProperties dot;
    VkPhysicalDeviceMaintenance4Properties buffer;
    VkPhysicalDeviceFeatures2 features;
    VkPhysicalDeviceSubgroupSizeControlFeatures size_features;
    VkPhysicalDeviceShaderIntegerDotProductFeatures dot_features;
    VkPhysicalDeviceShaderFloat16Int8Features f16;
    VkPhysicalDeviceVulkanMemoryModelFeatures memory_model;
    VkPhysicalDeviceCooperativeMatrixFeaturesKHR cooperative;
} answers;

static void chain(void *head, void *item)
{
    VkBaseOutStructure *first = head, *added = item;
    added->pNext = first->pNext;
    first->pNext = added;
}

static void ask(const tern_vulkan_functions *fn, const tern_vulkan_physical *p, const extensions *list, answers *a)
{
    *a = (answers){.properties.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2,
                   .id.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_ID_PROPERTIES,
                   .allocation.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MAINTENANCE_3_PROPERTIES,
                   .subgroups.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_PROPERTIES,
                   .driver.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_DRIVER_PROPERTIES,
                   .size.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_PROPERTIES,
                   .dot.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_INTEGER_DOT_PRODUCT_PROPERTIES,
                   .buffer.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MAINTENANCE_4_PROPERTIES,
                   .features.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2,
                   .size_features.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_FEATURES,
                   .dot_features.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_INTEGER_DOT_PRODUCT_FEATURES,
                   .f16.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_FLOAT16_INT8_FEATURES,
                   .memory_model.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_MEMORY_MODEL_FEATURES,
                   .cooperative.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_COOPERATIVE_MATRIX_FEATURES_KHR};
    bool v12 = p->properties.apiVersion >= VK_API_VERSION_1_2, v13 = p->properties.apiVersion >= VK_API_VERSION_1_3;
    chain(&a->properties, &a->id);
    chain(&a->properties, &a->allocation);
    chain(&a->properties, &a->subgroups);
    if (v12 || has(list, "VK_KHR_driver_properties")) chain(&a->properties, &a->driver);
    if (v13 || has(list, "VK_EXT_subgroup_size_control")) {
        chain(&a->properties, &a->size);
        chain(&a->features, &a->size_features);
    }
    if (v13 || has(list, "VK_KHR_shader_integer_dot_product")) {
        chain(&a->properties, &a->dot);
        chain(&a->features, &a->dot_features);
    }
    if (v13 || has(list, "VK_KHR_maintenance4")) chain(&a->properties, &a->buffer);
    if (v12 || has(list, "VK_KHR_shader_float16_int8")) chain(&a->features, &a->f16);
    if (v12) chain(&a->features, &a->memory_model);
    if (v12 && has(list, VK_KHR_COOPERATIVE_MATRIX_EXTENSION_NAME)) chain(&a->features, &a->cooperative);
    fn->GetPhysicalDeviceProperties2(p->handle, &a->properties);
    fn->GetPhysicalDeviceFeatures2(p->handle, &a->features);
}

/* Which of the products of matrices that kernels have the device's subgroups do. */
static void find_matrices(const tern_vulkan_functions *fn, tern_vulkan_physical *p)
{
    const bool usable = p->cooperative;
    VkCooperativeMatrixPropertiesKHR kinds[64];
    uint32_t n = sizeof kinds / sizeof *kinds;
    for (uint32_t i = 0; i < n; i++)
        kinds[i] = (VkCooperativeMatrixPropertiesKHR){.sType = VK_STRUCTURE_TYPE_COOPERATIVE_MATRIX_PROPERTIES_KHR};
    p->cooperative = false;
    if (!usable || !fn->GetPhysicalDeviceCooperativeMatrixPropertiesKHR ||
        fn->GetPhysicalDeviceCooperativeMatrixPropertiesKHR(p->handle, &n, kinds) < 0)
        return;
    for (uint32_t i = 0; i < n; i++) {
        const VkCooperativeMatrixPropertiesKHR *k = &kinds[i];
        if (k->MSize != 16 || k->NSize != 16 || k->scope != VK_SCOPE_SUBGROUP_KHR || k->AType != k->BType ||
            k->CType != k->ResultType || k->saturatingAccumulation)
            continue;
        p->cooperative |= k->KSize == 16 && k->AType == VK_COMPONENT_TYPE_FLOAT16_KHR &&
                          k->CType == VK_COMPONENT_TYPE_FLOAT32_KHR && p->f16;
        p->int8_matrices |= k->KSize == 32 && k->AType == VK_COMPONENT_TYPE_SINT8_KHR &&
                            k->CType == VK_COMPONENT_TYPE_SINT32_KHR && p->int8;
    }
}

static void take(tern_vulkan_physical *p, const answers *a)
{
    memcpy(p->driver_uuid, a->id.driverUUID, VK_UUID_SIZE);
    memcpy(p->device_uuid, a->id.deviceUUID, VK_UUID_SIZE);
    const char *info = a->driver.driverInfo;
    if (a->driver.driverName[0])
        snprintf(p->driver, sizeof p->driver, "%.120s%s%.120s", a->driver.driverName, *info ? " " : "", info);
    else snprintf(p->driver, sizeof p->driver, "driver 0x%08x", p->properties.driverVersion);
    p->max_allocation = a->allocation.maxMemoryAllocationSize;
    p->max_buffer = a->buffer.maxBufferSize ? a->buffer.maxBufferSize : p->max_allocation;
    p->subgroups = a->subgroups;
    p->most_subgroups = a->size.maxComputeWorkgroupSubgroups;
    p->subgroup_min = a->size.minSubgroupSize ? a->size.minSubgroupSize : a->subgroups.subgroupSize;
    p->subgroup_max = a->size.maxSubgroupSize ? a->size.maxSubgroupSize : a->subgroups.subgroupSize;
    p->subgroup_control = a->size_features.subgroupSizeControl && a->size_features.computeFullSubgroups &&
                          a->size.requiredSubgroupSizeStages & VK_SHADER_STAGE_COMPUTE_BIT;
    p->dot_product = a->dot_features.shaderIntegerDotProduct;
    p->fast_dot_product = p->dot_product && a->dot.integerDotProduct4x8BitPackedSignedAccelerated;
    p->f16 = a->f16.shaderFloat16;
    p->int8 = a->f16.shaderInt8;
    p->cooperative = a->cooperative.cooperativeMatrix && a->memory_model.vulkanMemoryModel &&
                     a->memory_model.vulkanMemoryModelDeviceScope && p->subgroup_control &&
                     a->subgroups.subgroupSize == 32;
}

static void find_queue(const tern_vulkan_functions *fn, tern_vulkan_physical *p)
{
    VkQueueFamilyProperties families[16];
    uint32_t n = sizeof families / sizeof *families;
    fn->GetPhysicalDeviceQueueFamilyProperties(p->handle, &n, families);
    p->queue_family = UINT32_MAX;
    for (uint32_t i = n; i-- > 0;)
        if (families[i].queueFlags & VK_QUEUE_COMPUTE_BIT) {
            p->queue_family = i;
            p->timestamp_bits = families[i].timestampValidBits;
        }
}

void tern_vulkan__describe(const tern_vulkan_functions *fn, VkPhysicalDevice handle, tern_vulkan_physical *p)
{
    *p = (tern_vulkan_physical){.handle = handle};
    VkPhysicalDeviceProperties2 first = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2};
    fn->GetPhysicalDeviceProperties2(handle, &first);
    p->properties = first.properties;
    extensions list = list_extensions(fn, handle);
    answers a;
    if (p->properties.apiVersion >= VK_API_VERSION_1_1) {
        ask(fn, p, &list, &a);
        take(p, &a);
        find_matrices(fn, p);
    }
    bool v13 = p->properties.apiVersion >= VK_API_VERSION_1_3;
    p->memory_budget = has(&list, "VK_EXT_memory_budget");
    p->feedback = v13 || has(&list, "VK_EXT_pipeline_creation_feedback");
    p->control_extension = !v13 && p->subgroup_control;
    p->dot_extension = !v13 && p->dot_product;
    tern_free(list.items);
    VkPhysicalDeviceMemoryProperties2 memory = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_PROPERTIES_2};
    fn->GetPhysicalDeviceMemoryProperties2(handle, &memory);
    p->memory = memory.memoryProperties;
    find_queue(fn, p);
}

tern_status tern_vulkan__physicals(const tern_vulkan_instance *instance, tern_vulkan_physical **physicals, uint32_t *n,
                                   tern_error *err)
{
    VkPhysicalDevice handles[32];
    *n = sizeof handles / sizeof *handles;
    VkResult result = instance->fn.EnumeratePhysicalDevices(instance->instance, n, handles);
    if (result < 0) {
        *n = 0;
        return tern_fail(err, TERN_NOT_FOUND, "vulkan: vkEnumeratePhysicalDevices: %s",
                         tern_vulkan__result_name(result));
    }
    *physicals = tern_calloc(*n, sizeof **physicals);
    if (!*physicals) return tern_fail_alloc(err, *n * sizeof **physicals);
    for (uint32_t i = 0; i < *n; i++) tern_vulkan__describe(&instance->fn, handles[i], &(*physicals)[i]);
    return TERN_OK;
}
