/* Opening a Vulkan instance, with the checking layers if wanted. */
#include "backend/vulkan/instance.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"

static const char validation_layer[] = "VK_LAYER_KHRONOS_validation";

static VKAPI_ATTR VkBool32 VKAPI_CALL on_message(VkDebugUtilsMessageSeverityFlagBitsEXT severity,
                                                 VkDebugUtilsMessageTypeFlagsEXT types,
                                                 const VkDebugUtilsMessengerCallbackDataEXT *data, void *context)
{
    (void)severity;
    (void)types;
    tern_vulkan_messages *messages = context;
    pthread_mutex_lock(&messages->lock);
    if (messages->n++ == 0)
        snprintf(messages->first, sizeof messages->first, "%s", data->pMessage ? data->pMessage : "no text");
    pthread_mutex_unlock(&messages->lock);
    return VK_FALSE;
}

static const VkDebugUtilsMessengerCreateInfoEXT messenger_info = {
    .sType = VK_STRUCTURE_TYPE_DEBUG_UTILS_MESSENGER_CREATE_INFO_EXT,
    .messageSeverity = VK_DEBUG_UTILS_MESSAGE_SEVERITY_WARNING_BIT_EXT | VK_DEBUG_UTILS_MESSAGE_SEVERITY_ERROR_BIT_EXT,
    .messageType = VK_DEBUG_UTILS_MESSAGE_TYPE_VALIDATION_BIT_EXT,
    .pfnUserCallback = on_message,
};

static tern_status check_version(const tern_vulkan_functions *fn, tern_error *err)
{
    uint32_t version = 0;
    fn->EnumerateInstanceVersion(&version);
    if (version >= VK_API_VERSION_1_1) return TERN_OK;
    return tern_fail(err, TERN_UNSUPPORTED, "vulkan: the loader has version %u.%u: 1.1 or later expected",
                     VK_API_VERSION_MAJOR(version), VK_API_VERSION_MINOR(version));
}

static tern_status check_layer(const tern_vulkan_functions *fn, tern_error *err)
{
    VkLayerProperties layers[64];
    uint32_t n = sizeof layers / sizeof *layers;
    fn->EnumerateInstanceLayerProperties(&n, layers);
    for (uint32_t i = 0; i < n; i++)
        if (strcmp(layers[i].layerName, validation_layer) == 0) return TERN_OK;
    return tern_fail(err, TERN_NOT_FOUND,
                     "vulkan: validation needs %s, which is not installed (package vulkan-validationlayers)",
                     validation_layer);
}

static tern_status create(tern_vulkan_instance *in, bool validation, tern_error *err)
{
    static const VkValidationFeatureEnableEXT enabled[] = {VK_VALIDATION_FEATURE_ENABLE_SYNCHRONIZATION_VALIDATION_EXT};
    VkDebugUtilsMessengerCreateInfoEXT messenger = messenger_info;
    messenger.pUserData = &in->messages;
    VkValidationFeaturesEXT features = {.sType = VK_STRUCTURE_TYPE_VALIDATION_FEATURES_EXT,
                                        .pNext = &messenger,
                                        .enabledValidationFeatureCount = 1,
                                        .pEnabledValidationFeatures = enabled};
    const char *layer = validation_layer;
    static const char *const extensions[] = {VK_EXT_DEBUG_UTILS_EXTENSION_NAME,
                                             VK_EXT_VALIDATION_FEATURES_EXTENSION_NAME};
    VkApplicationInfo app = {.sType = VK_STRUCTURE_TYPE_APPLICATION_INFO,
                             .pApplicationName = "tern",
                             .pEngineName = "tern",
                             .apiVersion = VK_API_VERSION_1_3};
    VkInstanceCreateInfo info = {.sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO, .pApplicationInfo = &app};
    if (validation) {
        info.pNext = &features;
        info.enabledLayerCount = 1;
        info.ppEnabledLayerNames = &layer;
        info.enabledExtensionCount = 2;
        info.ppEnabledExtensionNames = extensions;
    }
    VkResult result = in->fn.CreateInstance(&info, NULL, &in->instance);
    if (result == VK_SUCCESS) return TERN_OK;
    if (result == VK_ERROR_INCOMPATIBLE_DRIVER)
        return tern_fail(err, TERN_NOT_FOUND,
                         "vulkan: the loader found no driver: install your GPU's Vulkan driver, or mesa-vulkan-drivers "
                         "for a device on the CPU");
    return tern_fail(err, TERN_UNSUPPORTED, "vulkan: vkCreateInstance gave %s (%d)", tern_vulkan__result_name(result),
                     (int)result);
}

static tern_status watch(tern_vulkan_instance *in, tern_error *err)
{
    VkDebugUtilsMessengerCreateInfoEXT messenger = messenger_info;
    messenger.pUserData = &in->messages;
    if (!in->fn.CreateDebugUtilsMessengerEXT ||
        in->fn.CreateDebugUtilsMessengerEXT(in->instance, &messenger, NULL, &in->messenger) != VK_SUCCESS)
        return tern_fail(err, TERN_UNSUPPORTED, "vulkan: the validation layer lacks VK_EXT_debug_utils");
    return TERN_OK;
}

tern_status tern_vulkan__instance_open(tern_vulkan_instance *in, bool validation, tern_error *err)
{
    *in = (tern_vulkan_instance){0};
    pthread_mutex_init(&in->messages.lock, NULL);
    tern_status status = tern_vulkan__load(&in->fn, &in->library, err);
    if (status == TERN_OK) status = check_version(&in->fn, err);
    if (status == TERN_OK && validation) status = check_layer(&in->fn, err);
    if (status == TERN_OK) status = create(in, validation, err);
    if (status == TERN_OK) status = tern_vulkan__load_instance(&in->fn, in->instance, err);
    if (status == TERN_OK && validation) status = watch(in, err);
    if (status != TERN_OK) tern_vulkan__instance_close(in);
    return status;
}

void tern_vulkan__instance_close(tern_vulkan_instance *in)
{
    if (in->messenger) in->fn.DestroyDebugUtilsMessengerEXT(in->instance, in->messenger, NULL);
    if (in->instance && in->fn.DestroyInstance) in->fn.DestroyInstance(in->instance, NULL);
    tern_vulkan__unload(in->library);
    if (in->library || in->instance) pthread_mutex_destroy(&in->messages.lock);
    *in = (tern_vulkan_instance){0};
}
