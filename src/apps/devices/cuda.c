/* The CUDA devices of `tern devices`. */
#include "apps/devices/cuda.h"

#include <string.h>

#include "backend/cuda/cuda.h"
#include "backend/open.h"

enum { MOST_DEVICES = 16 };

static void measure(json_t *out, size_t index)
{
    char number[24];
    tern_backend *b;
    tern_error err;
    snprintf(number, sizeof number, "%zu", index);
    if (tern_backend_open(&b, &(tern_backend_options){.name = "cuda", .device = number}, &err) != TERN_OK) {
        json_object_set_new(out, "problem", json_string(err.message));
        return;
    }
    json_object_set_new(out, "read_bandwidth", json_real(b->measure(b, TERN_MEASURE_READ, NULL, 0, 0.5)));
    b->close(b);
}

static json_t *device_json(const tern_cuda_device *d, size_t index, bool measured)
{
    char capability[24];
    snprintf(capability, sizeof capability, "%u.%u", d->major, d->minor);
    json_t *out = json_pack("{s:I, s:o, s:s, s:s, s:i, s:I, s:b, s:s}", "index", (json_int_t)index, "name",
                            tern_app_json_text(d->name, strlen(d->name)), "driver", d->driver, "compute_capability",
                            capability, "processors", (int)d->processors, "memory_bytes", (json_int_t)d->memory,
                            "unified_memory", (int)d->unified, "dense_activations", "f16");
    if (*d->lacks) json_object_set_new(out, "lacks", json_string(d->lacks));
    else if (measured) measure(out, index);
    return out;
}

static json_t *module_json(const tern_cuda_module *cuda, bool measured)
{
    tern_cuda_device devices[MOST_DEVICES];
    tern_error err;
    size_t n = 0;
    json_t *list = json_array();
    const tern_status status = cuda->devices(devices, MOST_DEVICES, &n, &err);
    for (size_t i = 0; i < n && i < MOST_DEVICES && status == TERN_OK; i++)
        json_array_append_new(list, device_json(&devices[i], i, measured));
    const char *why = NULL, *exchange = cuda->exchange(&why);
    json_t *out = json_pack("{s:o, s:s?, s:s?}", "devices", list, "exchange", exchange, "exchange_problem", why);
    if (status != TERN_OK) json_object_set_new(out, "problem", json_string(err.message));
    else if (n == 0) json_object_set_new(out, "problem", json_string("cuda: the driver shows no device"));
    return out;
}

json_t *tern_app_cuda_json(bool measured)
{
    const tern_cuda_module *cuda;
    tern_error err;
    if (tern_cuda_load(&cuda, &err) == TERN_OK) return module_json(cuda, measured);
    return json_pack("{s:[], s:s}", "devices", "problem", err.message);
}

static const char *text_of(const json_t *d, const char *key)
{
    return json_string_value(json_object_get(d, key));
}

static void print_device(const json_t *d)
{
    char size[16];
    const json_t *rate = json_object_get(d, "read_bandwidth");
    printf("cuda %" JSON_INTEGER_FORMAT ": %s\n  %s of memory; %" JSON_INTEGER_FORMAT
           " processors, compute capability %s; driver of %s\n",
           json_integer_value(json_object_get(d, "index")), text_of(d, "name"),
           tern_app_bytes((uint64_t)json_integer_value(json_object_get(d, "memory_bytes")), size),
           json_integer_value(json_object_get(d, "processors")), text_of(d, "compute_capability"),
           text_of(d, "driver"));
    puts("  dense layers multiply f32");
    if (text_of(d, "lacks")) printf("  cannot be used: it lacks %s\n", text_of(d, "lacks"));
    if (text_of(d, "problem")) printf("  cannot be used: %s\n", text_of(d, "problem"));
    if (rate && json_real_value(rate) > 0)
        printf("  memory reads at %s/s\n", tern_app_bytes((uint64_t)json_real_value(rate), size));
}

void tern_app_print_cuda(const json_t *cuda)
{
    size_t i;
    json_t *d;
    const json_t *devices = json_object_get(cuda, "devices");
    json_array_foreach(devices, i, d) print_device(d);
    if (json_array_size(devices) > 1)
        printf("  in several processes they exchange by %s%s\n",
               text_of(cuda, "exchange") ? text_of(cuda, "exchange") : "memory of the host: ",
               text_of(cuda, "exchange") ? "" : text_of(cuda, "exchange_problem"));
    if (text_of(cuda, "problem")) puts(text_of(cuda, "problem"));
}
