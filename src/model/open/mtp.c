/* The block behind the last layer that drafts tokens: finding it, and opening it as a model of one layer. */
#include <stdio.h>

#include "format/gguf.h"
#include "model/config/gguf_internal.h"

tern_config tern_config_of_mtp(const tern_config *config)
{
    tern_config c = *config;
    c.mtp_at = c.n_layers;
    c.n_layers = 1;
    c.n_mtp = 0;
    c.recurrence = (tern_recurrence){0}; /* its layer is one of attention */
    return c;
}

static tern_status begin(tern_model *model, tern_error *err)
{
    TERN_TRY(tern_model__begin(&model->mtp, model->options, err));
    tern_model *mtp = model->mtp;
    model->config.n_mtp = 1;
    mtp->trunk = model;
    mtp->config = tern_config_of_mtp(&model->config);
    mtp->safetensors = model->safetensors;
    mtp->spelling = model->spelling;
    return tern_model__init_weights(mtp, err);
}

/* Ranks and stages have parts of a model's layers, and none of such a block. */
static bool is_wanted(const tern_model *model)
{
    const tern_model_options *o = model->options;
    return o->mtp && o->n_ranks < 2 && o->n_stages < 2 && tern_family__find(model->config.architecture)->recurs;
}

/* A tensor of the block in GGUF files. */
static bool has_tensor(const tern_model *model, const tern_gguf *g, const char *name)
{
    char full[TERN_MODEL__NAME_BYTES];
    snprintf(full, sizeof full, "blk.%u.nextn.%s.weight", model->config.n_layers, name);
    return tern_gguf_find_tensor(g, full) != NULL;
}

tern_status tern_model__find_mtp_gguf(tern_model *model, const tern_gguf *g, tern_error *err)
{
    uint32_t n = 0;
    if (!is_wanted(model)) return TERN_OK;
    TERN_TRY(tern_config__maybe_u32(&model->config, g, "nextn_predict_layers", &n, err));
    const bool whole = has_tensor(model, g, "eh_proj") && has_tensor(model, g, "enorm") &&
                       has_tensor(model, g, "hnorm") && has_tensor(model, g, "shared_head_norm");
    const bool own_tables = has_tensor(model, g, "embed_tokens") || has_tensor(model, g, "shared_head_head");
    return n == 1 && whole && !own_tables ? begin(model, err) : TERN_OK;
}

tern_status tern_model__find_mtp_hf(tern_model *model, tern_error *err)
{
    const tern_safetensors *st = model->safetensors;
    if (!is_wanted(model) || !tern_safetensors_find(st, "mtp.fc.weight") ||
        tern_safetensors_find(st, "mtp.embed_tokens.weight") ||
        tern_safetensors_find(st, "mtp.layers.1.input_layernorm.weight"))
        return TERN_OK;
    return begin(model, err);
}

void tern_model__count_mtp(tern_model *model)
{
    model->bytes += model->mtp->bytes;
    model->parameters += model->mtp->parameters;
}
