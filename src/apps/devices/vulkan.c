/* The Vulkan devices of `tern devices`. */
#include "apps/devices/vulkan.h"

#include <string.h>

#include "backend/open.h"
#include "base/alloc.h"

enum { MAX_DEVICES = 64 };

#if TERN_VULKAN
#include "backend/vulkan/vulkan.h"

/* The features that its kernels can use, in words. */
static json_t *features_json(const tern_vulkan_device *d)
{
    json_t *out = json_array();
    if (d->subgroup_max) json_array_append_new(out, json_string("subgroups"));
    if (d->dot_product) json_array_append_new(out, json_string(d->fast_dot_product ? "int8-dot" : "int8-dot (slow)"));
    if (d->f16) json_array_append_new(out, json_string("f16"));
    if (d->timestamps) json_array_append_new(out, json_string("timestamps"));
    return out;
}

static json_t *device_json(const tern_vulkan_device *d, size_t index)
{
    char version[48];
    snprintf(version, sizeof version, "%u.%u.%u", d->version[0], d->version[1], d->version[2]);
    json_t *out =
        json_pack("{s:i, s:o, s:s, s:o, s:s, s:I, s:b, s:[I, I], s:o, s:I, s:I, s:I, s:s}", "index", (int)index, "name",
                  tern_app_json_text(d->name, strlen(d->name)), "type", d->type, "driver",
                  tern_app_json_text(d->driver, strlen(d->driver)), "api_version", version, "memory_bytes",
                  (json_int_t)d->memory, "unified_memory", (int)d->unified, "subgroup_sizes",
                  (json_int_t)d->subgroup_min, (json_int_t)d->subgroup_max, "features", features_json(d),
                  "max_binding_bytes", (json_int_t)d->max_binding, "workgroup_bytes", (json_int_t)d->workgroup_bytes,
                  "workgroup_invocations", (json_int_t)d->workgroup_invocations, "dense_activations", "f32");
    if (*d->lacks) json_object_set_new(out, "lacks", json_string(d->lacks));
    return out;
}

/* Whether its workgroups may wait for those of the dispatch before; why not. */
static void try_waits(json_t *out, tern_backend *b)
{
    tern_error err;
    const bool passed = tern_vulkan_try_waits(b, &err) == TERN_OK;
    json_object_set_new(out, "waits", json_boolean(passed));
    if (!passed) json_object_set_new(out, "waits_problem", json_string(err.message));
}

/* Bytes per second and waits, on a device opened for it; the message where it does not open. */
static void measure(json_t *out, size_t index)
{
    char number[24];
    tern_backend *b;
    tern_error err;
    snprintf(number, sizeof number, "%zu", index);
    const tern_backend_options how = {.name = "vulkan", .device = number};
    if (tern_backend_open(&b, &how, &err) != TERN_OK) {
        json_object_set_new(out, "problem", json_string(err.message));
        return;
    }
    json_object_set_new(out, "read_bandwidth", json_real(b->measure(b, TERN_MEASURE_READ, NULL, 0, 0.5)));
    try_waits(out, b);
    b->close(b);
}

json_t *tern_app_vulkan_json(bool measured)
{
    tern_error err;
    size_t n = 0;
    json_t *list = json_array();
    tern_vulkan_device *devices = tern_calloc(MAX_DEVICES, sizeof *devices);
    tern_status status = devices ? tern_vulkan_devices(devices, MAX_DEVICES, &n, &err)
                                 : tern_fail_alloc(&err, MAX_DEVICES * sizeof *devices);
    for (size_t i = 0; i < n && i < MAX_DEVICES && status == TERN_OK; i++) {
        json_t *device = device_json(&devices[i], i);
        if (measured && !*devices[i].lacks) measure(device, i);
        json_array_append_new(list, device);
    }
    tern_free(devices);
    json_t *out = json_pack("{s:o}", "devices", list);
    if (status != TERN_OK) json_object_set_new(out, "problem", json_string(err.message));
    else if (n == 0) json_object_set_new(out, "problem", json_string("vulkan: the loader knows no device"));
    return out;
}
#else
json_t *tern_app_vulkan_json(bool measured)
{
    (void)measured;
    return json_pack("{s:[], s:s}", "devices", "problem", "vulkan: this build has none (TERN_VULKAN is off)");
}
#endif

static const char *text_of(const json_t *d, const char *key)
{
    return json_string_value(json_object_get(d, key));
}

static json_int_t number_of(const json_t *d, const char *key)
{
    return json_integer_value(json_object_get(d, key));
}

static void print_features(const json_t *d)
{
    const json_t *sizes = json_object_get(d, "subgroup_sizes"), *features = json_object_get(d, "features");
    const json_int_t low = json_integer_value(json_array_get(sizes, 0)),
                     high = json_integer_value(json_array_get(sizes, 1));
    size_t i;
    json_t *word;
    printf("  features:");
    json_array_foreach(features, i, word) printf(" %s", json_string_value(word));
    if (high == 0) puts(" (no subgroups)");
    else if (low == high) printf("; subgroups of %" JSON_INTEGER_FORMAT "\n", low);
    else printf("; subgroups of %" JSON_INTEGER_FORMAT " to %" JSON_INTEGER_FORMAT "\n", low, high);
}

static void print_device(const json_t *d)
{
    char size[16];
    const json_t *rate = json_object_get(d, "read_bandwidth");
    printf("vulkan %" JSON_INTEGER_FORMAT ": %s (%s)\n  %s of %s memory; Vulkan %s, %s\n", number_of(d, "index"),
           text_of(d, "name"), text_of(d, "type"), tern_app_bytes((uint64_t)number_of(d, "memory_bytes"), size),
           json_is_true(json_object_get(d, "unified_memory")) ? "unified" : "its own", text_of(d, "api_version"),
           text_of(d, "driver"));
    print_features(d);
    puts("  dense layers multiply f32");
    if (text_of(d, "lacks")) printf("  cannot be used: it lacks %s\n", text_of(d, "lacks"));
    if (text_of(d, "problem")) printf("  cannot be used: %s\n", text_of(d, "problem"));
    if (rate && json_real_value(rate) > 0)
        printf("  memory reads at %s/s\n", tern_app_bytes((uint64_t)json_real_value(rate), size));
    if (json_is_true(json_object_get(d, "waits"))) puts("  workgroups may wait for those of the dispatch before");
    if (text_of(d, "waits_problem")) printf("  workgroups that wait: %s\n", text_of(d, "waits_problem"));
}

void tern_app_print_vulkan(const json_t *vulkan)
{
    size_t i;
    json_t *d;
    json_array_foreach(json_object_get(vulkan, "devices"), i, d) print_device(d);
    if (text_of(vulkan, "problem")) puts(text_of(vulkan, "problem"));
}
