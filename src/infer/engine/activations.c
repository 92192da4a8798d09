/* Which activations the layers of an engine's model multiply. */
#include "infer/engine/engine.h"
#include "ops/int8_blocks.h"
#include "quant/encoding.h"
#include "quant/weight.h"

void tern_engine_set_activations(tern_engine_params *params, tern_activation_mode mode)
{
    static const tern_block_rows rows[] = {[TERN_ACTIVATIONS_AUTO] = TERN_BLOCK_ROWS_AUTO,
                                           [TERN_ACTIVATIONS_F32] = TERN_BLOCK_ROWS_F32,
                                           [TERN_ACTIVATIONS_INT8] = TERN_BLOCK_ROWS_INT8};
    params->f32_activations = mode == TERN_ACTIVATIONS_F32;
    params->int8_blocks = rows[mode];
}

static bool has_product(const tern_weight *w)
{
    return w->encoding && tern_op_multiplies_blocks(w->encoding->id);
}

bool tern_engine_rounds_blocks(const tern_engine *engine)
{
    const tern_model *model = tern_engine_model(engine);
    if (tern_engine_int8_blocks(engine) == TERN_BLOCK_ROWS_F32 || tern_graph_is_ternary(model)) return false;
    for (uint32_t layer = 0; layer < tern_model_config(model)->n_layers; layer++)
        for (int role = 0; role < TERN_ROLE_COUNT; role++) {
            const bool is_table = role == TERN_ROLE_TOKEN_EMBD || role == TERN_ROLE_OUTPUT;
            if (!is_table && has_product(tern_model_weight(model, (tern_role)role, layer))) return true;
        }
    return !tern_engine_head_exact(engine) && has_product(tern_engine_head(engine));
}

static bool has_ternary_layers(const tern_model *model)
{
    for (uint32_t layer = 0; layer < tern_model_config(model)->n_layers; layer++)
        for (int role = 0; role < TERN_ROLE_COUNT; role++) {
            const tern_weight *w = tern_model_weight(model, (tern_role)role, layer);
            if (w->encoding && w->encoding->ternary) return true;
        }
    return tern_model_config(model)->bit_linear;
}

const char *tern_engine_activations(const tern_engine *engine)
{
    const bool by_token = !tern_engine_f32_activations(engine) && has_ternary_layers(tern_engine_model(engine));
    return by_token || tern_engine_rounds_blocks(engine) ? "int8" : "f32";
}
