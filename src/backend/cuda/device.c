/* The devices of this machine, and the one that a person means. TERN_CUDA_ARCHS: what the kernels were compiled for. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "backend/cuda/cuda_internal.h"
#include "base/alloc.h"

enum { LEAST_MAJOR = 8, MOST_DEVICES = 64 };

/* Code for a capability, "80", runs on devices of its major number from that minor one on; with a letter, "90a", on
 * that device alone. PTX is compiled for any later device when it is loaded. */
static bool serves(uint32_t capability, bool letter, bool ptx, uint32_t device)
{
    if (capability == device) return true;
    if (letter || capability > device) return false;
    return ptx || capability / 10 == device / 10;
}

bool tern_cuda__has_code(const char *capabilities, uint32_t major, uint32_t minor)
{
    bool found = false;
    for (const char *p = capabilities; *p && !found;) {
        char *end;
        const uint32_t capability = (uint32_t)strtoul(p, &end, 10);
        const size_t letters = strcspn(end, " ");
        end += letters;
        found = serves(capability, letters > 0, !*end, major * 10 + minor);
        p = end + (*end == ' ');
    }
    return found;
}

static void find_lacks(tern_cuda_device *d)
{
    if (d->major < LEAST_MAJOR)
        snprintf(d->lacks, sizeof d->lacks, "compute capability 8.0 (it has %u.%u)", d->major, d->minor);
    else if (!tern_cuda__has_code(TERN_CUDA_ARCHS, d->major, d->minor))
        snprintf(d->lacks, sizeof d->lacks,
                 "code for compute capability %u.%u in %s, which has it for %s (TERN_CUDA_ARCHS of `make cuda`)",
                 d->major, d->minor, TERN_CUDA_MODULE_FILE, TERN_CUDA_ARCHS);
}

static tern_status describe(int index, tern_cuda_device *out, tern_error *err)
{
    struct cudaDeviceProp p;
    int driver = 0;
    cudaDriverGetVersion(&driver);
    TERN_TRY(tern_cuda__status(cudaGetDeviceProperties(&p, index), "properties of a device", err));
    *out = (tern_cuda_device){.major = (uint32_t)p.major,
                              .minor = (uint32_t)p.minor,
                              .processors = (uint32_t)p.multiProcessorCount,
                              .memory = p.totalGlobalMem,
                              .unified = p.integrated != 0};
    snprintf(out->name, sizeof out->name, "%s", p.name);
    snprintf(out->driver, sizeof out->driver, "CUDA %d.%d", driver / 1000, driver % 1000 / 10);
    find_lacks(out);
    return TERN_OK;
}

tern_status tern_cuda_devices(tern_cuda_device *devices, size_t cap, size_t *n, tern_error *err)
{
    int count = 0;
    *n = 0;
    const cudaError_t e = cudaGetDeviceCount(&count);
    if (e == cudaErrorNoDevice) return TERN_OK;
    if (e == cudaErrorInsufficientDriver)
        return tern_fail(err, TERN_NOT_FOUND, "cuda: no NVIDIA driver found, or a driver older than CUDA %d.%d",
                         CUDART_VERSION / 1000, CUDART_VERSION % 1000 / 10);
    TERN_TRY(tern_cuda__status(e, "counting the devices", err));
    for (int i = 0; i < count && (size_t)i < cap; i++) TERN_TRY(describe(i, &devices[i], err));
    *n = (size_t)count;
    return TERN_OK;
}

static bool matches(const tern_cuda_device *d, size_t index, const char *wanted)
{
    char *end;
    if (!wanted) return index == 0;
    const unsigned long number = strtoul(wanted, &end, 10);
    return *wanted && !*end ? number == index : strcasestr(d->name, wanted) != NULL;
}

tern_status tern_cuda__pick(const char *wanted, int *index, tern_cuda_device *device, tern_error *err)
{
    static tern_cuda_device devices[MOST_DEVICES];
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    size_t n, found = 0;
    pthread_mutex_lock(&lock);
    tern_status status = tern_cuda_devices(devices, MOST_DEVICES, &n, err);
    for (size_t i = 0; i < n && i < MOST_DEVICES && status == TERN_OK; i++) {
        if (!matches(&devices[i], i, wanted)) continue;
        if (found++ == 0) *index = (int)i, *device = devices[i];
    }
    pthread_mutex_unlock(&lock);
    if (status != TERN_OK) return status;
    if (found == 0 && !wanted) return tern_fail(err, TERN_NOT_FOUND, "cuda: the driver shows no device");
    if (found == 0)
        return tern_fail(err, TERN_NOT_FOUND, "cuda: device \"%s\": none of the %zu devices matches", wanted, n);
    if (found > 1)
        return tern_fail(err, TERN_INVALID_ARGUMENT, "cuda: device \"%s\": %zu devices match; give the number of one",
                         wanted, found);
    if (*device->lacks) return tern_fail(err, TERN_UNSUPPORTED, "cuda: %.100s lacks %s", device->name, device->lacks);
    return TERN_OK;
}

struct tern_cuda_start {
    pthread_t thread;
    char *device; /* NULL: the first */
};

static void *start_device(void *context)
{
    tern_cuda_start *start = context;
    tern_cuda_device device;
    tern_error ignored = {0};
    int index = 0;
    if (tern_cuda__pick(start->device, &index, &device, &ignored) == TERN_OK) cudaSetDevice(index);
    return NULL;
}

tern_cuda_start *tern_cuda_start_begin(const char *device)
{
    tern_cuda_start *start = tern_calloc(1, sizeof *start);
    if (start && device) start->device = tern_strdup(device);
    if (start && (!device || start->device) && pthread_create(&start->thread, NULL, start_device, start) == 0)
        return start;
    if (start) tern_free(start->device);
    tern_free(start);
    return NULL;
}

void tern_cuda_start_end(tern_cuda_start *start)
{
    if (!start) return;
    pthread_join(start->thread, NULL);
    tern_free(start->device);
    tern_free(start);
}
