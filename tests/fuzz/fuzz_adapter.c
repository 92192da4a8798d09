/* Any bytes as an adapter: a GGUF file, or adapter_config.json, a NUL, and the tensors' file. What is accepted has
 * whole pairs within the limits, and nothing leaks. */
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "fuzz/fuzz.h"
#include "model/adapter/internal.h"

/* Two layers of the smallest shapes, in both orders of rows. */
static const tern_config config = {.architecture = "llama",
                                   .n_vocab = 8,
                                   .n_embd = 16,
                                   .n_layers = 2,
                                   .n_heads = 2,
                                   .n_kv_heads = 1,
                                   .head_dim = 8,
                                   .n_ff = 16,
                                   .rope_adjacent = true};

/* The same with experts, whose names the family gives. */
static tern_config with_experts(void)
{
    tern_config experts = config;
    experts.n_experts = 3;
    experts.n_experts_used = 2;
    return experts;
}

static tern_status read_peft(tern_adapter *adapter, const uint8_t *data, size_t size, tern_error *err)
{
    const uint8_t *nul = size ? memchr(data, 0, size) : NULL;
    size_t n = nul ? (size_t)(nul - data) : size, after = nul ? n + 1 : n;
    json_t *root = NULL;
    tern_safetensors *st = NULL;
    tern_status status = tern_json_parse(&root, data, n, "adapter_config.json", err);
    if (status == TERN_OK) status = tern_safetensors_parse(&st, data + after, size - after, err);
    if (status == TERN_OK) status = tern_adapter__read_peft(adapter, root, st, err);
    tern_safetensors_close(st);
    tern_json_free(root);
    return status;
}

static void check(const tern_adapter *adapter)
{
    const tern_adapter_info *info = tern_adapter_describe(adapter);
    uint32_t n_pairs = 0;
    uint64_t parameters = 0;
    FUZZ_CHECK(info->rank >= 1 && info->rank <= TERN_ADAPTER_MAX_RANK && isfinite(info->scale));
    for (uint32_t layer = 0; layer < info->n_layers; layer++) {
        for (int role = 0; role < TERN_ROLE_COUNT; role++) {
            const tern_adapter_pair *p = tern_adapter_find(adapter, (tern_role)role, layer);
            if (!p) continue;
            size_t n_a = (size_t)info->rank * p->in * p->n_experts, n_b = (size_t)info->rank * p->out;
            FUZZ_CHECK(p->b && n_a && n_b && isfinite(p->a[n_a - 1]) && isfinite(p->b[n_b - 1]));
            parameters += n_a + n_b;
            n_pairs++;
        }
    }
    FUZZ_CHECK(n_pairs && n_pairs == info->n_pairs && parameters == info->parameters);
}

static void try_one(const uint8_t *data, size_t size, const tern_config *model)
{
    tern_adapter *adapter = NULL;
    tern_error err = {0};
    bool gguf = size >= 4 && memcmp(data, "GGUF", 4) == 0;
    FUZZ_CHECK(tern_adapter__create(&adapter, model, &err) == TERN_OK);
    tern_status status =
        gguf ? tern_adapter__read_gguf(adapter, data, size, &err) : read_peft(adapter, data, size, &err);
    FUZZ_CHECK(status == TERN_OK || (err.code == status && err.message[0]));
    if (status == TERN_OK) check(adapter);
    tern_adapter_close(adapter);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    int64_t live = tern_alloc_live();
    const tern_config experts = with_experts();
    try_one(data, size, &config);
    try_one(data, size, &experts);
    try_one(data, size, NULL);
    FUZZ_CHECK(tern_alloc_live() == live);
    return 0;
}
