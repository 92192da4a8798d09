/* Finding the functions of Vulkan at run time. */
#include "backend/vulkan/functions.h"

#include <dlfcn.h>
#include <stddef.h>

static const char *const library_names[] = {"libvulkan.so.1", "libvulkan.so"};

static tern_status missing(const char *name, tern_error *err)
{
    return tern_fail(err, TERN_UNSUPPORTED, "vulkan: the loader has no function vk%s; Vulkan 1.1 expected", name);
}

tern_status tern_vulkan__load(tern_vulkan_functions *fn, void **library, tern_error *err)
{
    for (size_t i = 0; !*library && i < sizeof library_names / sizeof *library_names; i++)
        *library = dlopen(library_names[i], RTLD_NOW | RTLD_LOCAL);
    if (!*library)
        return tern_fail(err, TERN_NOT_FOUND,
                         "vulkan: no Vulkan loader (libvulkan.so.1) on this machine: install your GPU's driver, "
                         "or the package libvulkan1");
    void *symbol = dlsym(*library, "vkGetInstanceProcAddr");
    if (!symbol) return missing("GetInstanceProcAddr", err);
    *(void **)&fn->GetInstanceProcAddr = symbol;
#define X(name)                                                                                                        \
    fn->name = (PFN_vk##name)(void (*)(void))fn->GetInstanceProcAddr(NULL, "vk" #name);                                \
    if (!fn->name) return missing(#name, err);
    TERN_VULKAN_GLOBAL_FUNCTIONS(X)
#undef X
    return TERN_OK;
}

void tern_vulkan__unload(void *library)
{
    if (library) dlclose(library);
}

tern_status tern_vulkan__load_instance(tern_vulkan_functions *fn, VkInstance instance, tern_error *err)
{
#define X(name)                                                                                                        \
    fn->name = (PFN_vk##name)(void (*)(void))fn->GetInstanceProcAddr(instance, "vk" #name);                            \
    if (!fn->name) return missing(#name, err);
    TERN_VULKAN_INSTANCE_FUNCTIONS(X)
#undef X
#define X(name) fn->name = (PFN_vk##name)(void (*)(void))fn->GetInstanceProcAddr(instance, "vk" #name);
    X(CreateDebugUtilsMessengerEXT)
    X(DestroyDebugUtilsMessengerEXT)
    X(GetPhysicalDeviceCooperativeMatrixPropertiesKHR)
#undef X
    return TERN_OK;
}

tern_status tern_vulkan__load_device(tern_vulkan_functions *fn, VkDevice device, tern_error *err)
{
#define X(name)                                                                                                        \
    fn->name = (PFN_vk##name)(void (*)(void))fn->GetDeviceProcAddr(device, "vk" #name);                                \
    if (!fn->name) return missing(#name, err);
    TERN_VULKAN_DEVICE_FUNCTIONS(X)
#undef X
    return TERN_OK;
}

const char *tern_vulkan__result_name(VkResult result)
{
    switch (result) {
#define X(name)                                                                                                        \
    case name: return #name;
        X(VK_SUCCESS)
        X(VK_NOT_READY)
        X(VK_TIMEOUT)
        X(VK_INCOMPLETE)
        X(VK_ERROR_OUT_OF_HOST_MEMORY)
        X(VK_ERROR_OUT_OF_DEVICE_MEMORY)
        X(VK_ERROR_INITIALIZATION_FAILED)
        X(VK_ERROR_DEVICE_LOST)
        X(VK_ERROR_MEMORY_MAP_FAILED)
        X(VK_ERROR_LAYER_NOT_PRESENT)
        X(VK_ERROR_EXTENSION_NOT_PRESENT)
        X(VK_ERROR_FEATURE_NOT_PRESENT)
        X(VK_ERROR_INCOMPATIBLE_DRIVER)
        X(VK_ERROR_TOO_MANY_OBJECTS)
        X(VK_ERROR_OUT_OF_POOL_MEMORY)
        X(VK_ERROR_FRAGMENTED_POOL)
        X(VK_ERROR_UNKNOWN)
#undef X
    default: return "VkResult";
    }
}
