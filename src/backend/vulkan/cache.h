/* Files of the cache folder: what an earlier start found out about this driver and these kernels. */
#ifndef TERN_BACKEND_VULKAN_CACHE_H
#define TERN_BACKEND_VULKAN_CACHE_H

#include "backend/vulkan/device.h"
#include "tern/bytes.h"

/* A file's content behind a header that says what it is, for whom, and its checksum. */

/* "FOLDER/vulkan-KEY.kind" in storage of tern_alloc; NULL when out of memory. The key is a hash of the device, its
 * driver and all kernels. */
char *tern_vulkan__cache_file(const tern_vulkan_physical *physical, const char *folder, const char *kind);
/* The content of a file; nothing, with false, when it is not there, damaged, or another key's. */
bool tern_vulkan__cache_read(const tern_vulkan_physical *physical, const char *path, tern_buf *content);
/* Replaces the file and makes its folder. Errors: IO. */
tern_status tern_vulkan__cache_write(const tern_vulkan_physical *physical, const char *path, const void *content,
                                     size_t n, tern_error *err);

#endif
