/* Opening a backend by its name: the one place that knows which devices this build has. */
#include "backend/open.h"

#include <string.h>

#include "backend/cpu/cpu.h"

static tern_status open_cpu(tern_backend **backend, const tern_backend_options *options, tern_error *err)
{
    tern_cpu_options cpu = {.n_threads = options->n_threads, .pin = options->pin};
    if (options->cpu_features) {
        cpu.features_set = true;
        TERN_TRY(tern_cpu_features_parse(options->cpu_features, tern_cpu_features(), &cpu.features, err));
    }
    return tern_cpu_open(backend, &cpu, err);
}

tern_status tern_backend_open(tern_backend **backend, const tern_backend_options *options, tern_error *err)
{
    const char *name = options->name ? options->name : "cpu";
    if (strcmp(name, "cpu") == 0) return open_cpu(backend, options, err);
    return tern_fail(err, TERN_UNSUPPORTED, "backend \"%s\": this build has \"cpu\"", name);
}
