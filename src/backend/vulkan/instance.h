/* A Vulkan instance, and the devices that it shows. */
#ifndef TERN_BACKEND_VULKAN_INSTANCE_H
#define TERN_BACKEND_VULKAN_INSTANCE_H

#include <pthread.h>
#include <stdbool.h>

#include "backend/vulkan/functions.h"

/* The messages of the checking layers; the first message is kept. */
typedef struct tern_vulkan_messages {
    pthread_mutex_t lock;
    uint32_t n;
    char first[400];
} tern_vulkan_messages;

typedef struct tern_vulkan_instance {
    tern_vulkan_functions fn;
    void *library;
    VkInstance instance;
    VkDebugUtilsMessengerEXT messenger;
    tern_vulkan_messages messages;
} tern_vulkan_instance;

/* Opens an instance; with `validation` under VK_LAYER_KHRONOS_validation, synchronization included. It must not move in
 * memory. Errors: NOT_FOUND (no loader, no layer), UNSUPPORTED (older than Vulkan 1.1). */
tern_status tern_vulkan__instance_open(tern_vulkan_instance *instance, bool validation, tern_error *err);
/* Safe on one that failed to open. */
void tern_vulkan__instance_close(tern_vulkan_instance *instance);

#endif
