/* Files of the cache folder: named after a key, checked before they are believed. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "backend/gpu/spirv.h"
#include "backend/vulkan/cache.h"
#include "base/alloc.h"
#include "base/file.h"

enum { MOST_BYTES = 256 << 20 };

static const char magic[8] = "ternVkC1";

typedef struct header {
    char magic[8];
    uint64_t key, n, checksum;
} header;

/* FNV-1a over words of 32 bits. */
static uint64_t hash_words(uint64_t hash, const void *data, size_t n_bytes)
{
    const uint8_t *bytes = data;
    for (size_t i = 0; i < n_bytes; i += 4) {
        uint32_t word = 0;
        memcpy(&word, bytes + i, n_bytes - i < 4 ? n_bytes - i : 4);
        hash = (hash ^ word) * 0x100000001b3u;
    }
    return hash;
}

static const uint64_t hash_start = 0xcbf29ce484222325u;

static uint64_t key_of(const tern_vulkan_physical *p)
{
    const VkPhysicalDeviceProperties *d = &p->properties;
    uint32_t numbers[] = {d->apiVersion, d->driverVersion, d->vendorID, d->deviceID};
    uint64_t hash = hash_words(hash_start, numbers, sizeof numbers);
    hash = hash_words(hash, p->driver_uuid, sizeof p->driver_uuid);
    hash = hash_words(hash, d->pipelineCacheUUID, sizeof d->pipelineCacheUUID);
    hash = hash_words(hash, d->deviceName, strlen(d->deviceName));
    size_t n;
    const void *pack = tern_gpu_spirv_pack(&n);
    return hash_words(hash, pack, n);
}

char *tern_vulkan__cache_file(const tern_vulkan_physical *physical, const char *folder, const char *kind)
{
    char name[64];
    snprintf(name, sizeof name, "vulkan-%016llx.%s", (unsigned long long)key_of(physical), kind);
    return tern_path_join(folder, name);
}

bool tern_vulkan__cache_read(const tern_vulkan_physical *physical, const char *path, tern_buf *content)
{
    header h;
    tern_error err = {0};
    if (!tern_file_exists(path) || tern_file_read(content, path, MOST_BYTES, &err) != TERN_OK) return false;
    bool good = content->size >= sizeof h;
    if (good) {
        memcpy(&h, content->data, sizeof h);
        const char *body = content->data + sizeof h;
        good = memcmp(h.magic, magic, sizeof magic) == 0 && h.key == key_of(physical) &&
               h.n == content->size - sizeof h && h.checksum == hash_words(hash_start, body, (size_t)h.n);
    }
    if (!good) return false;
    content->size -= sizeof h;
    memmove(content->data, content->data + sizeof h, content->size);
    return true;
}

tern_status tern_vulkan__cache_write(const tern_vulkan_physical *physical, const char *path, const void *content,
                                     size_t n, tern_error *err)
{
    header h = {.key = key_of(physical), .n = n, .checksum = hash_words(hash_start, content, n)};
    memcpy(h.magic, magic, sizeof magic);
    tern_file_writer writer = {0};
    tern_folders_make(path);
    TERN_TRY(tern_file_writer_open(&writer, path, err));
    tern_file_writer_add(&writer, &h, sizeof h);
    tern_file_writer_add(&writer, content, n);
    tern_status status = tern_file_writer_commit(&writer, err);
    tern_file_writer_abort(&writer);
    return status;
}
