/* Opening a backend by its name: the one place that knows which devices this build has. */
#include "backend/open.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "backend/cpu/cpu.h"
#include "backend/cuda/cuda.h"
#include "backend/gpu/choices.h"
#include "backend/peers.h"
#include "backend/split/split.h"
#include "base/cpu.h"
#include "ranks/ranks.h"
#if TERN_VULKAN
#include "backend/vulkan/vulkan.h"
#endif
#if TERN_WEBGPU
#include "backend/webgpu/webgpu.h"
#endif

const char *const tern_backend_names[] = {
    "cpu",
#if TERN_VULKAN
    "vulkan",
#endif
#if TERN_CUDA
    "cuda",
#endif
#if TERN_WEBGPU
    "webgpu",
#endif
    NULL,
};

enum { MOST_DEVICES = 16 };

/* NULL: there is none. */
static const tern_cuda_module *find_cuda(void)
{
    const tern_cuda_module *cuda = NULL;
#if TERN_CUDA
    tern_error ignored = {0};
    (void)tern_cuda_load(&cuda, &ignored);
#endif
    return cuda;
}

/* That of a backend, or of a start, which it has opened. */
static const tern_cuda_module *opened_cuda(void)
{
    const tern_cuda_module *cuda = find_cuda();
    assert(cuda);
    return cuda;
}

/* At most MOST_DEVICES; 0 where they cannot be asked. */
static size_t list_cuda(tern_cuda_device *devices)
{
    const tern_cuda_module *cuda = find_cuda();
    tern_error ignored = {0};
    size_t n = 0;
    if (!cuda || cuda->devices(devices, MOST_DEVICES, &n, &ignored) != TERN_OK) return 0;
    return n < MOST_DEVICES ? n : MOST_DEVICES;
}

static bool has_cuda(void)
{
    tern_cuda_device devices[MOST_DEVICES];
    return list_cuda(devices) > 0 && !*devices[0].lacks;
}

/* A GPU with memory of its own: one that shares the host's is not always faster than the CPU, an emulated one never. */
static bool has_vulkan(void)
{
#if TERN_VULKAN
    tern_vulkan_device devices[MOST_DEVICES];
    tern_error ignored = {0};
    size_t n = 0;
    if (tern_vulkan_devices(devices, MOST_DEVICES, &n, &ignored) != TERN_OK) return false;
    for (size_t i = 0; i < n && i < MOST_DEVICES; i++)
        if (strcmp(devices[i].type, "discrete") == 0 && !*devices[i].lacks) return true;
#endif
    return false;
}

const char *tern_backend_auto(void)
{
    if (has_cuda()) return "cuda";
    return has_vulkan() ? "vulkan" : "cpu";
}

bool tern_backend_auto_misses(tern_error *why)
{
#if TERN_CUDA
    const tern_cuda_module *cuda;
    return tern_cuda_load(&cuda, why) != TERN_OK && tern_cuda_has_driver();
#else
    (void)why;
    return false;
#endif
}

/* Fails with `before`, and the names of this build. */
static tern_status fail_name(const char *name, const char *before, tern_error *err)
{
    char list[64] = "";
    for (size_t i = 0, at = 0; tern_backend_names[i]; i++)
        at += (size_t)snprintf(list + at, sizeof list - at, "%s\"%s\"", i ? " and " : "", tern_backend_names[i]);
    return tern_fail(err, TERN_UNSUPPORTED, "backend \"%s\": %sthis build has %s", name, before, list);
}

static tern_status open_cpu(tern_backend **backend, const tern_backend_options *options, tern_error *err)
{
    tern_cpu_options cpu = {.n_threads = options->n_threads,
                            .pin = options->pin,
                            .kernel = options->kernel,
                            .ffn = options->ffn,
                            .choices = options->choices,
                            .n_choices = options->n_choices,
                            .ranks = options->ranks};
    if (options->cpu_features) {
        cpu.features_set = true;
        TERN_TRY(tern_cpu_features_parse(options->cpu_features, tern_cpu_features(), &cpu.features, err));
    }
    return tern_cpu_open(backend, &cpu, err);
}

#if TERN_VULKAN
static tern_status open_vulkan(tern_backend **backend, const tern_backend_options *options, tern_error *err)
{
    tern_vulkan_options vulkan = {.device = options->device,
                                  .kernel = options->kernel,
                                  .choices = options->choices,
                                  .n_choices = options->n_choices,
                                  .n_threads = options->n_threads,
                                  .validation = options->validation,
                                  .profile = options->profile};
    return tern_vulkan_open(backend, &vulkan, err);
}
#else
static tern_status open_vulkan(tern_backend **backend, const tern_backend_options *options, tern_error *err)
{
    (void)backend;
    (void)options;
    return tern_fail(err, TERN_UNSUPPORTED, "backend \"vulkan\": this build has none (TERN_VULKAN is off)");
}
#endif

#if TERN_CUDA
static tern_status open_cuda(tern_backend **backend, const tern_backend_options *options, tern_error *err)
{
    if (options->kernel)
        return tern_fail(err, TERN_UNSUPPORTED, "kernel %s: backend \"cuda\" has no choice of kernels",
                         options->kernel);
    if (options->validation)
        return tern_fail(err, TERN_UNSUPPORTED,
                         "option validation: only Vulkan has it; for CUDA run under compute-sanitizer");
    const tern_cuda_options how = {.device = options->device,
                                   .n_threads = options->n_threads,
                                   .profile = options->profile,
                                   .choices = options->choices,
                                   .n_choices = options->n_choices};
    const tern_cuda_module *cuda;
    TERN_TRY(tern_cuda_load(&cuda, err));
    return cuda->open(backend, &how, err);
}
#else
static tern_status open_cuda(tern_backend **backend, const tern_backend_options *options, tern_error *err)
{
    (void)backend;
    (void)options;
    return fail_name("cuda", "WebAssembly loads no modules; ", err);
}
#endif

#if TERN_WEBGPU
static tern_status open_webgpu(tern_backend **backend, const tern_backend_options *options, tern_error *err)
{
    return tern_webgpu_open(backend, &(tern_webgpu_options){.kernel = options->kernel}, err);
}
#else
static tern_status open_webgpu(tern_backend **backend, const tern_backend_options *options, tern_error *err)
{
    (void)backend;
    (void)options;
    return fail_name("webgpu", "it is for WebAssembly; ", err);
}
#endif

static bool is_cpu_kernel(const char *kernel)
{
    tern_error ignored = {0};
    return tern_cpu_kernel_check(kernel, &ignored) == TERN_OK;
}

static tern_status open_named(tern_backend **backend, const char *name, const tern_backend_options *options,
                              tern_error *err)
{
    if (options->kernel && strcmp(name, "cpu") != 0)
        TERN_TRY(tern_backend_kernel_check(options->kernel, true, err)); /* before a device is looked for */
    const char *gpu_only = options->device ? "device" : options->validation ? "validation" : NULL;
    if (strcmp(name, "cpu") == 0 && gpu_only)
        return tern_fail(err, TERN_INVALID_ARGUMENT, "option %s: backend \"cpu\" does not have it; a GPU expected",
                         gpu_only);
    if (strcmp(name, "cpu") == 0) return open_cpu(backend, options, err);
    if (strcmp(name, "vulkan") == 0) return open_vulkan(backend, options, err);
    if (strcmp(name, "cuda") == 0) return open_cuda(backend, options, err);
    if (strcmp(name, "webgpu") == 0) return open_webgpu(backend, options, err);
    return fail_name(name, "", err);
}

tern_backend_start *tern_backend_start_begin(const tern_backend_options *options)
{
    const bool wanted = options->name && strcmp(options->name, "cuda") == 0;
    const tern_cuda_module *cuda = wanted ? find_cuda() : NULL;
    return cuda ? cuda->start_begin(options->device) : NULL;
}

void tern_backend_start_end(tern_backend_start *start)
{
    if (start) opened_cuda()->start_end(start);
}

/* The devices that processes of one machine share out: all that CUDA can use, Vulkan's discrete ones. */
static size_t list_devices(const char *name, size_t *ids)
{
    tern_cuda_device cuda[MOST_DEVICES];
    size_t found = strcmp(name, "cuda") == 0 ? list_cuda(cuda) : 0, n = 0;
    for (size_t i = 0; i < found; i++)
        if (!*cuda[i].lacks) ids[n++] = i;
#if TERN_VULKAN
    tern_error ignored = {0};
    tern_vulkan_device vulkan[MOST_DEVICES];
    if (strcmp(name, "vulkan") == 0 && tern_vulkan_devices(vulkan, MOST_DEVICES, &found, &ignored) == TERN_OK)
        for (size_t i = 0; i < found && i < MOST_DEVICES; i++)
            if (strcmp(vulkan[i].type, "discrete") == 0 && !*vulkan[i].lacks) ids[n++] = i;
#endif
    return n;
}

/* The one of them for this of the machine's processes; NULL: the backend's choice. */
static const char *own_device(const char *name, uint32_t local, char *out, size_t cap)
{
    size_t ids[MOST_DEVICES];
    const size_t n = list_devices(name, ids);
    if (n < 2) return NULL;
    snprintf(out, cap, "%zu", ids[local % n]);
    return out;
}

static bool has_stages(const tern_ranks *ranks)
{
    return ranks && ranks->all && ranks->all->n != ranks->n;
}

static tern_status open_split(tern_backend **backend, const char *name, const tern_backend_options *options,
                              tern_error *err)
{
    tern_backend *host, *device;
    tern_backend_options of_host = *options, of_device = *options;
    if (options->kernel && !is_cpu_kernel(options->kernel)) of_host.kernel = NULL;
    else if (strcmp(name, "cpu") != 0) of_device.kernel = NULL;
    TERN_TRY(open_named(&device, name, &of_device, err));
    tern_status status = tern_backend_join(device, options->ranks, err);
    if (status == TERN_OK && device->info.joined && !has_stages(options->ranks)) { /* it needs no host */
        *backend = device;
        return TERN_OK;
    }
    if (status == TERN_OK) status = open_cpu(&host, &of_host, err);
    if (status == TERN_OK) return tern_split_open(backend, host, device, options->gpu_layers, err);
    device->close(device);
    return status;
}

/* One that computes what ranks exchange itself. */
static tern_status open_among(tern_backend **backend, const char *name, const tern_backend_options *options,
                              tern_error *err)
{
    TERN_TRY(open_named(backend, name, options, err));
    const tern_status status = tern_backend_join(*backend, options->ranks, err);
    if (status == TERN_OK) return TERN_OK;
    (*backend)->close(*backend);
    *backend = NULL;
    return status;
}

tern_status tern_backend_open(tern_backend **backend, const tern_backend_options *options, tern_error *err)
{
    const char *name = options->name ? options->name : "cpu";
    tern_backend_options all = *options;
    char device[16];
    *backend = NULL;
    if (strcmp(name, "auto") == 0) name = tern_backend_auto();
    const bool on_gpu = strcmp(name, "cpu") != 0;
    const uint32_t turn = options->ranks ? options->ranks->local + 1 : options->turn;
    if (options->split && options->ranks)
        return tern_fail(err, TERN_UNSUPPORTED, "layers split between two devices, in several processes: one expected");
    if (options->split) return open_split(backend, name, options, err);
    /* a GPU for each process, if there are as many */
    if (turn && on_gpu && !options->device) all.device = own_device(name, turn - 1, device, sizeof device);
    if (!options->ranks) return open_named(backend, name, &all, err);
    if (!on_gpu) return open_among(backend, name, &all, err);
    all.gpu_layers = TERN_SPLIT_ALL; /* the host has what their devices do not exchange themselves */
    return open_split(backend, name, &all, err);
}

static bool is_named(const tern_backend *b, const char *name)
{
    return strcmp(b->info.name, name) == 0;
}

bool tern_backend_key(const tern_backend *backend, char out[static TERN_KERNEL_DEVICE_BYTES])
{
    out[0] = 0;
#if TERN_VULKAN
    if (is_named(backend, "vulkan")) tern_vulkan_key(backend, out);
#endif
    if (is_named(backend, "cuda")) opened_cuda()->key(backend, out);
    return is_named(backend, "vulkan") || is_named(backend, "cuda");
}

tern_status tern_backend_choose(tern_backend *backend, const tern_kernel_choice *choices, size_t n, tern_error *err)
{
#if TERN_VULKAN
    if (is_named(backend, "vulkan")) return tern_vulkan_choose(backend, choices, n, err);
#endif
    if (is_named(backend, "cuda")) return opened_cuda()->choose(backend, choices, n, err);
    return tern_fail(err, TERN_UNSUPPORTED, "backend \"%s\": it has no choice once it is open", backend->info.name);
}

bool tern_backend_alternative(const tern_backend *backend, const char *kernel, size_t i,
                              char out[static TERN_KERNEL_NAME_BYTES])
{
#if TERN_VULKAN
    if (is_named(backend, "vulkan")) return tern_vulkan_alternative(backend, kernel, i, out);
#endif
    if (is_named(backend, "cuda")) return opened_cuda()->alternative(backend, kernel, i, out);
    out[0] = 0;
    return false;
}

uint32_t tern_backend_sides(tern_backend *backend, tern_backend *sides[TERN_BACKEND_MAX_SIDES])
{
    if (tern_split_sides(backend, sides)) return TERN_BACKEND_MAX_SIDES;
    sides[0] = backend;
    return 1;
}

uint32_t tern_backend_side_of(const tern_backend *backend, const tern_graph *graph, const tern_op *op)
{
    return tern_split_side_of(backend, graph, op);
}

tern_status tern_backend_kernel_check(const char *kernel, bool gpu, tern_error *err)
{
    tern_gpu_choices ignored = {0};
#if TERN_CUDA
    if (gpu && tern_cuda_is_kernel(kernel)) return TERN_OK;
#endif
    return gpu ? tern_gpu_choices_parse(&ignored, kernel, NULL, err) : tern_cpu_kernel_check(kernel, err);
}
