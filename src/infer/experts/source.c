/* Experts of a package that stay where they are until a paged backend needs them. */
#include "infer/experts/source.h"

#include "base/alloc.h"

struct tern_expert_source {
    tern_package *package;
    tern_package_expert expert; /* the last one */
};

static tern_status fetch(void *context, uint32_t layer, uint32_t expert, const uint8_t *data[TERN_PAGED_MAX_WEIGHTS],
                         tern_error *err)
{
    tern_expert_source *s = context;
    tern_package_close_expert(&s->expert);
    TERN_TRY(tern_package_load_expert(s->package, layer, expert, &s->expert, err));
    for (uint32_t i = 0; i < s->expert.n_parts; i++) data[i] = s->expert.parts[i];
    return TERN_OK;
}

tern_status tern_expert_source_open(tern_expert_source **source, tern_package *package, tern_error *err)
{
    *source = tern_calloc(1, sizeof **source);
    if (*source) (*source)->package = package;
    else tern_package_close(package);
    return *source ? TERN_OK : tern_fail_alloc(err, sizeof **source);
}

void tern_expert_source_use(tern_expert_source *source, tern_engine_params *params)
{
    params->fetch = fetch;
    params->fetch_context = source;
}

const tern_package *tern_expert_source_package(const tern_expert_source *source)
{
    return source->package;
}

void tern_expert_source_close(void *source)
{
    tern_expert_source *s = source;
    if (!s) return;
    tern_package_close_expert(&s->expert);
    tern_package_close(s->package);
    tern_free(s);
}
