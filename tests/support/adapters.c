/* Adapters made up for a test. */
#include "support/adapters.h"

#include "quant/weight.h"

#include <math.h>

#include "base/half.h"
#include "base/rng.h"
#include "support/test.h"

enum { MAX_TARGETS = 1024 };

static void fill(float *x, size_t n, float width, tern_rng *rng, bool coarse)
{
    for (size_t i = 0; i < n; i++) {
        x[i] = width * ((float)(tern_rng_u64(rng) >> 40) / 8388608.0f - 1);
        if (coarse) x[i] = tern_bf16_to_f32(tern_f32_to_bf16(x[i]));
    }
}

tern_adapter *test_adapter(const tern_model *model, uint32_t rank, uint64_t seed, bool coarse)
{
    tern_error err = {0};
    tern_rng rng = {seed};
    tern_adapter *adapter;
    tern_adapter_layer targets[MAX_TARGETS];
    size_t n = 0;
    for (uint32_t layer = 0; layer < tern_model_config(model)->n_layers; layer++)
        for (int role = 0; role < TERN_ROLE_COUNT; role++)
            if (tern_adapter_target((tern_role)role) && tern_model_weight(model, (tern_role)role, layer)->encoding &&
                n < MAX_TARGETS)
                targets[n++] = (tern_adapter_layer){(tern_role)role, layer};
    const tern_adapter_info info = {.rank = rank, .alpha = 2 * (float)rank};
    assert_ok(tern_adapter_make(&adapter, model, &info, targets, n, &err), err);
    for (size_t i = 0; i < n; i++) {
        const tern_adapter_pair *pair = tern_adapter_find(adapter, targets[i].role, targets[i].layer);
        fill(pair->a, (size_t)rank * pair->n_experts * pair->in, 1 / sqrtf((float)pair->in), &rng, coarse);
        fill(pair->b, (size_t)rank * pair->out, 0.2f / sqrtf((float)rank), &rng, coarse);
    }
    return adapter;
}

tern_lora *test_lora(tern_engine *engine, uint32_t rank, uint64_t seed, bool coarse)
{
    tern_error err = {0};
    tern_lora *lora;
    tern_adapter *adapter = test_adapter(tern_engine_model(engine), rank, seed, coarse);
    assert_ok(tern_lora_open(&lora, engine, adapter, &err), err);
    tern_adapter_close(adapter);
    return lora;
}

tern_lora *test_lora_load(tern_engine *engine, const char *path)
{
    tern_error err = {0};
    tern_lora *lora;
    assert_ok(tern_lora_load(&lora, engine, path, &err), err);
    return lora;
}
