/* Reading a model's weights as fast as it goes. */
#include "apps/measure.h"

#include "backend/cpu/measure.h"
#include "base/alloc.h"

double tern_app_measure_read(const tern_engine *engine, double seconds)
{
    const tern_model *model = tern_engine_model(engine);
    const uint32_t n_layers = tern_engine_config(engine)->n_layers;
    tern_span *regions = tern_calloc((size_t)n_layers * TERN_ROLE_COUNT + 1, sizeof *regions);
    size_t n = 0;
    if (!regions) return 0;
    for (uint32_t layer = 0; layer < n_layers; layer++)
        for (int role = 0; role < TERN_ROLE_COUNT; role++) {
            const tern_weight *w = tern_model_weight(model, (tern_role)role, layer);
            bool once = role != TERN_ROLE_OUTPUT && role != TERN_ROLE_TOKEN_EMBD && role != TERN_ROLE_OUTPUT_NORM;
            if (once && w->encoding) regions[n++] = (tern_span){w->data, w->bytes};
        }
    const tern_weight *head = tern_engine_head(engine);
    if (!tern_engine_head_exact(engine)) regions[n++] = (tern_span){head->data, head->bytes}; /* else it is hardly in memory */
    double rate = tern_cpu_measure_read(tern_engine_backend(engine), regions, n, seconds);
    tern_free(regions);
    return rate;
}
