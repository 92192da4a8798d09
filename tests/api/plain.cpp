/* The public header as C++ sees it: only compiled. */
#include <tern.h>

static bool stop(void *, const tern_piece *)
{
    return false;
}

int main()
{
    tern_generate_params params = {};
    tern_engine_options options = {};
    params.size = sizeof params;
    options.size = sizeof options;
    const tern_sampler_params sampler = TERN_SAMPLER_DEFAULTS;
    tern_engine *engine = nullptr;
    params.sampler = sampler;
    params.on_piece = stop;
    options.head = "q9";
    return tern_engine_load(&engine, "", &options, nullptr) == TERN_INVALID_ARGUMENT && tern_version()[0] ? 0 : 1;
}
