/* tern devices: what this machine has, and which kernels it gets. */
#include <string.h>
#include <unistd.h>

#include "apps/devices/cuda.h"
#include "apps/devices/vulkan.h"
#include "backend/cpu/cpu.h"
#include "backend/cpu/kernels.h"
#include "backend/open.h"

static const tern_flag flags[] = {
    {"measure", 0, TERN_FLAG_BOOL, NULL, offsetof(tern_options, measure), 0, 0, "Measure how fast memory can be read"},
    {"json", 0, TERN_FLAG_BOOL, NULL, offsetof(tern_options, json), 0, 0, "Print JSON"},
    {"threads", 't', TERN_FLAG_TEXT, "N", offsetof(tern_options, threads), 0, 0,
     "Threads; one for each physical core when not given"},
    {"cpu-features", 0, TERN_FLAG_TEXT, "LEVEL", offsetof(tern_options, cpu_features), 0, 0,
     "As if the CPU had no more than this"},
    {0},
};

static const tern_flag_group groups[] = {{"Flags", flags}, {0}};

static json_t *kernels_json(const tern_cpu_kernels *k)
{
    json_t *out = json_object();
#define TERN_CPU_SLOT(slot, type) json_object_set_new(out, #slot, json_string(k->slot##_level));
    TERN_CPU_SLOT_LIST(TERN_CPU_SLOT)
#undef TERN_CPU_SLOT
    return out;
}

static json_t *describe(tern_backend *b, const tern_options *o)
{
    char name[128], features[128];
    tern_cpu_name(name, sizeof name);
    tern_cpu_features_print(tern_cpu_features(), features, sizeof features);
    json_t *out = json_pack("{s:s, s:o, s:i, s:i, s:s, s:I, s:i, s:o}", "device", "cpu", "name",
                            tern_app_json_text(name, strlen(name)), "cores", (int)tern_cpu_cores(), "hardware_threads",
                            (int)tern_cpu_threads(), "features", features, "memory_bytes",
                            (json_int_t)sysconf(_SC_PHYS_PAGES) * (json_int_t)sysconf(_SC_PAGESIZE), "threads",
                            (int)tern_cpu_n_threads(b), "kernels", kernels_json(tern_cpu_kernels_of(b)));
    json_object_set_new(out, "dense_activations", json_string(b->info.int8_blocks ? "int8" : "f32"));
    json_object_set_new(out, "auto", json_string(tern_backend_auto()));
    json_object_set_new(out, "cuda", tern_app_cuda_json(o->measure));
    json_object_set_new(out, "vulkan", tern_app_vulkan_json(o->measure));
    if (o->measure)
        json_object_set_new(out, "read_bandwidth", json_real(b->measure(b, TERN_MEASURE_READ, NULL, 0, 0.5)));
    return out;
}

/* The slots that each level serves, a line for each level. */
static void print_kernels(json_t *kernels)
{
    const char *slot, *other;
    json_t *level, *other_level;
    json_object_foreach(kernels, slot, level)
    {
        bool first = true;
        json_object_foreach(kernels, other, other_level)
        {
            if (!json_equal(level, other_level)) continue;
            if (first && other != slot && strcmp(other, slot) != 0) break;
            if (first) printf("    %-12s", json_string_value(level));
            first = false;
            printf(" %s", other);
        }
        if (!first) putchar('\n');
    }
}

static void print(const json_t *d)
{
    char size[16];
    printf("cpu: %s\n  %" JSON_INTEGER_FORMAT " cores, %" JSON_INTEGER_FORMAT
           " hardware threads, %s of memory\n  features: %s\n",
           json_string_value(json_object_get(d, "name")), json_integer_value(json_object_get(d, "cores")),
           json_integer_value(json_object_get(d, "hardware_threads")),
           tern_app_bytes((uint64_t)json_integer_value(json_object_get(d, "memory_bytes")), size),
           json_string_value(json_object_get(d, "features")));
    const json_t *rate = json_object_get(d, "read_bandwidth");
    if (rate)
        printf("  memory reads at %s/s (threads: %" JSON_INTEGER_FORMAT ")\n",
               tern_app_bytes((uint64_t)json_real_value(rate), size),
               json_integer_value(json_object_get(d, "threads")));
    puts("  dense layers in blocks (q8_0, q4_k, ...) multiply int8 with --activations auto, others f32");
    puts("  kernels:");
    print_kernels(json_object_get(d, "kernels"));
    tern_app_print_cuda(json_object_get(d, "cuda"));
    tern_app_print_vulkan(json_object_get(d, "vulkan"));
    printf("With --backend auto, models run on: %s\n", json_string_value(json_object_get(d, "auto")));
}

static tern_status run(const tern_options *o, tern_error *err)
{
    tern_backend *b;
    tern_backend_options how = {.cpu_features = o->cpu_features};
    uint32_t n;
    if (o->threads) TERN_TRY(tern_app_parse_list("threads", o->threads, 1024, &how.n_threads, 1, &n, err));
    TERN_TRY(tern_backend_open(&b, &how, err));
    json_t *d = describe(b, o);
    b->close(b);
    if (o->json) return tern_app_print_json(d, err);
    if (!d) return tern_fail_alloc(err, 0);
    print(d);
    json_decref(d);
    return TERN_OK;
}

const tern_command tern_command_devices = {
    .name = "devices",
    .usage = "[--measure] [--json]",
    .summary = "Show what this machine can run models on",
    .groups = groups,
    .run = run,
};
