/* tern version: what was built, by what, with which kernels. */
#include <string.h>

#include "apps/app.h"
#include "backend/cpu/kernels.h"
#include "backend/cuda/cuda.h"
#include "backend/open.h"
#include "base/build.h"
#include "base/module.h"

static const tern_flag flags[] = {
    {"json", 0, TERN_FLAG_BOOL, NULL, offsetof(tern_options, json), 0, 0, "Print JSON"},
    {0},
};

static const tern_flag_group groups[] = {{"Flags", flags}, {0}};

/* The kernels of one level: how many, and what each is for. */
typedef struct level_row {
    const char *symbol, *name;
} level_row;

static const level_row levels[] = {
#define TERN_CPU_LEVEL(level, words, needed) {#level, words},
    TERN_CPU_LEVEL_LIST(TERN_CPU_LEVEL)
#undef TERN_CPU_LEVEL
};

static int kernels_of(const char *symbol)
{
    int n = 0;
    for (const tern_cpu_kernel *k = tern_cpu__kernels; k->slot; k++) n += strcmp(k->level, symbol) == 0;
    return n;
}

/* Features that a build may lack; of GPUs those whose drivers cannot be loaded too. */
static const struct {
    bool lacks;
    const char *what, *module; /* of what is in a module: its file */
} parts[] = {
    {!TERN_VULKAN || TERN_STATIC, "vulkan"},
    {TERN_STATIC, "cuda", TERN_CUDA_MODULE_FILE},
    {!TERN_PULL, "pull"},
    {!TERN_SERVE, "serve"},
    {TERN_SERVE && TERN_STATIC, "serve --tls-cert"},
};

/* A module is looked for, and not opened. */
static bool is_lacking(size_t part)
{
    char path[TERN_MODULE_PATH_BYTES];
    return parts[part].lacks || (parts[part].module && !tern_module_find(parts[part].module, path));
}

/* Whether the backend can be there on some machine. */
static bool can_run(const char *backend)
{
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (is_lacking(i) && strcmp(parts[i].what, backend) == 0) return false;
    return true;
}

static void print_lacks(void)
{
    const char *before = "\nwithout:";
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        if (!is_lacking(i)) continue;
        printf("%s %s", before, parts[i].what);
        before = ",";
    }
    if (TERN_STATIC) fputs(" (one static file, which loads no drivers and has no TLS)", stdout);
}

static json_t *describe(void)
{
    json_t *kernels = json_object(), *backends = json_array(), *without = json_array();
    for (size_t i = 0; i < sizeof levels / sizeof *levels; i++)
        if (kernels_of(levels[i].symbol))
            json_object_set_new(kernels, levels[i].name, json_integer(kernels_of(levels[i].symbol)));
    for (const char *const *name = tern_backend_names; *name; name++)
        if (can_run(*name)) json_array_append_new(backends, json_string(*name));
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (is_lacking(i)) json_array_append_new(without, json_string(parts[i].what));
    return json_pack("{s:s, s:s, s:o, s:o, s:o, s:b}", "version", TERN_VERSION, "compiler", tern_build_compiler,
                     "backends", backends, "kernels", kernels, "without", without, "static", TERN_STATIC);
}

static tern_status run(const tern_options *o, tern_error *err)
{
    if (o->json) return tern_app_print_json(describe(), err);
    printf("tern %s (%s)\nbackends:", TERN_VERSION, tern_build_compiler);
    const char *before = "";
    for (const char *const *name = tern_backend_names; *name; name++) {
        if (!can_run(*name)) continue;
        printf("%s %s", before, *name);
        before = ",";
    }
    print_lacks();
    printf("\nkernels: scalar");
    for (size_t i = 0; i < sizeof levels / sizeof *levels; i++)
        if (kernels_of(levels[i].symbol)) printf(", %s (%d)", levels[i].name, kernels_of(levels[i].symbol));
    putchar('\n');
    return TERN_OK;
}

const tern_command tern_command_version = {
    .name = "version",
    .usage = "[--json]",
    .summary = "Show the version, the compiler and the kernels built in",
    .groups = groups,
    .run = run,
};
