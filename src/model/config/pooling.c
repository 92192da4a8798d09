/* How the hidden states of a text become one vector, as a model's files say it. */
#include "format/gguf.h"
#include "model/config/gguf_internal.h"
#include "model/model_internal.h"

enum { MAX_CONFIG_BYTES = 1 << 20 };

tern_status tern_config__pooling_from_gguf(tern_config *config, const tern_gguf *g, tern_error *err)
{
    uint32_t type = TERN_POOLS_UNSAID;
    TERN_TRY(tern_config__maybe_u32(config, g, "pooling_type", &type, err));
    if (type > TERN_POOLS_RANK)
        return tern_fail(err, TERN_UNSUPPORTED,
                         "%s: %u found, 0 (none), 1 (mean), 2 (cls), 3 (last) or 4 (rank) expected",
                         tern_config__key(config, "pooling_type").text, type);
    config->pooling = (tern_config_pooling)type;
    return TERN_OK;
}

static tern_status read_modes(tern_config *config, const json_t *root, tern_error *err)
{
    static const struct {
        const char *key;
        tern_config_pooling pooling;
    } modes[] = {{"pooling_mode_lasttoken", TERN_POOLS_LAST},  {"pooling_mode_mean_tokens", TERN_POOLS_MEAN},
                 {"pooling_mode_cls_token", TERN_POOLS_CLS},   {.key = "pooling_mode_max_tokens"},
                 {.key = "pooling_mode_mean_sqrt_len_tokens"}, {.key = "pooling_mode_weightedmean_tokens"}};
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
        bool on = false;
        TERN_TRY_OPTIONAL(tern_json_get_bool(root, modes[i].key, &on, err));
        if (!on) continue;
        if (!modes[i].pooling || config->pooling)
            return tern_fail(err, TERN_UNSUPPORTED,
                             "%s: true found%s, one of lasttoken, mean_tokens and cls_token expected", modes[i].key,
                             config->pooling ? " beside another" : "");
        config->pooling = modes[i].pooling;
    }
    return TERN_OK;
}

tern_status tern_config__pooling_from_hf(tern_config *config, const char *dir, tern_error *err)
{
    static const char file[] = "1_Pooling/config.json";
    json_t *root = NULL;
    TERN_TRY_OPTIONAL(tern_json_read_in(&root, dir, file, MAX_CONFIG_BYTES, err));
    if (!root) return TERN_OK;
    const tern_status status = read_modes(config, root, err);
    tern_json_free(root);
    return status == TERN_OK ? TERN_OK : tern_error_prefix(err, "%s: %s", dir, file);
}
