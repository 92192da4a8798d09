/* Models from scratch. */
#include "model/init.h"

#include <math.h>
#include <string.h>

#include "base/rng.h"
#include "model/model_internal.h"

enum { MAX_CONFIG_BYTES = 1 << 20 };

static tern_status set_missing(json_t *root, const char *key, json_t *value, tern_error *err)
{
    int failed = json_object_get(root, key) ? (json_decref(value), 0) : json_object_set_new(root, key, value);
    return failed ? tern_fail_alloc(err, strlen(key)) : TERN_OK;
}

static tern_status fill_in(json_t *root, tern_error *err)
{
    if (!json_is_object(root))
        return tern_fail(err, TERN_MALFORMED, "an object expected, %s found", tern_json_kind(root));
    TERN_TRY(set_missing(root, "architectures", json_pack("[s]", "BitNetForCausalLM"), err));
    const char *class_name = json_string_value(json_array_get(json_object_get(root, "architectures"), 0));
    bool bitnet = class_name && strncmp(class_name, "Bit", 3) == 0;
    TERN_TRY(set_missing(root, "hidden_act", json_string(bitnet ? "relu2" : "silu"), err));
    TERN_TRY(set_missing(root, "vocab_size", json_integer(4096), err));
    TERN_TRY(set_missing(root, "max_position_embeddings", json_integer(1024), err));
    TERN_TRY(set_missing(root, "tie_word_embeddings", json_true(), err));
    return set_missing(root, "initializer_range", json_real(0.02), err);
}

static tern_status read_config(tern_init *init, json_t *root, tern_error *err)
{
    tern_hf_layout layout;
    TERN_TRY(fill_in(root, err));
    TERN_TRY(tern_json_get_f32(root, "initializer_range", &init->range, err));
    if (!(init->range > 0 && init->range <= 1))
        return tern_fail(err, TERN_MALFORMED, "initializer_range: %g found, above 0 and at most 1 expected",
                         (double)init->range);
    TERN_TRY(tern_config__from_hf(&init->config, &layout, root, "", err));
    const tern_family *family = tern_family__find(init->config.architecture);
    init->config.bit_linear = (family && family->ternary) || layout.norms;
    init->config.linear_norms = layout.norms;
    init->config.sub_norms = family && family->needs_sub_norms;
    return TERN_OK;
}

tern_status tern_init_read(tern_init *init, const char *path, tern_error *err)
{
    json_t *root = NULL;
    *init = (tern_init){.range = 0.02f};
    TERN_TRY(tern_json_read(&root, path, MAX_CONFIG_BYTES, err));
    tern_status status = read_config(init, root, err);
    tern_json_free(root);
    return status == TERN_OK ? TERN_OK : tern_error_prefix(err, "%s", path);
}

/* Four uniform numbers added up: close to normal, never beyond 3.5 deviations, and the same bits everywhere. */
static float nearly_normal(tern_rng *rng)
{
    uint64_t bits = tern_rng_u64(rng);
    int32_t sum = (int32_t)(bits & 0xffff) + (int32_t)(bits >> 16 & 0xffff) + (int32_t)(bits >> 32 & 0xffff) +
                  (int32_t)(bits >> 48);
    return (float)(sum - 2 * 0xffff) * (1.7320508f / 65536); /* the variance of one is 1 / 12 */
}

/* As transformers begin layers that recur: decays of 1 to 16 for each unit of time, steps of softplus(1), and taps as
 * wide as PyTorch's convolutions. */
static float start_of_vector(tern_role role, const tern_config *config, tern_rng *rng)
{
    const float u = role == TERN_ROLE_SSM_DECAY || role == TERN_ROLE_SSM_CONV ? tern_rng_f32(rng) : 0;
    switch (role) {
    case TERN_ROLE_SSM_DECAY: return -(1 + 15 * u);
    case TERN_ROLE_SSM_DT: return 1;
    case TERN_ROLE_SSM_CONV: return (2 * u - 1) / sqrtf((float)config->recurrence.n_taps);
    default: return tern_role_is_norm(role) ? 1.0f : 0.0f;
    }
}

static tern_status random_rows(void *context, tern_role role, uint32_t layer, uint32_t first, uint32_t n, float *out,
                               tern_error *err)
{
    (void)err;
    const tern_init *init = context;
    uint32_t rows, cols;
    tern_role__shape(role, layer, &init->config, &rows, &cols);
    const bool vector = tern_role_is_vector(role);
    for (uint32_t r = first; r < first + n; r++) {
        tern_rng rng = {.state = init->seed ^ ((uint64_t)role << 56 | (uint64_t)layer << 32 | r) * 0x9e3779b97f4a7c15u};
        rng.state = tern_rng_u64(&rng); /* neighbouring rows must not draw the same numbers one step apart */
        for (uint32_t c = 0; c < cols; c++)
            *out++ = vector ? start_of_vector(role, &init->config, &rng) : init->range * nearly_normal(&rng);
    }
    return TERN_OK;
}

tern_master_source tern_init_source(const tern_init *init)
{
    return (tern_master_source){random_rows, (void *)(uintptr_t)init};
}
