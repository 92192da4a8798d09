/* Which activations the layers of an engine's model multiply. */
#include "infer/engine/engine.h"
#include "ops/halves.h"
#include "ops/int8_blocks.h"
#include "quant/encoding.h"
#include "quant/weight.h"

void tern_engine_set_activations(tern_engine_params *params, tern_activation_mode mode)
{
    static const tern_block_rows rows[] = {[TERN_ACTIVATIONS_AUTO] = TERN_BLOCK_ROWS_AUTO,
                                           [TERN_ACTIVATIONS_F32] = TERN_BLOCK_ROWS_F32,
                                           [TERN_ACTIVATIONS_INT8] = TERN_BLOCK_ROWS_INT8,
                                           [TERN_ACTIVATIONS_F16] = TERN_BLOCK_ROWS_F32};
    static const tern_half_rows halves[] = {[TERN_ACTIVATIONS_AUTO] = TERN_HALF_ROWS_AUTO,
                                            [TERN_ACTIVATIONS_F32] = TERN_HALF_ROWS_F32,
                                            [TERN_ACTIVATIONS_INT8] = TERN_HALF_ROWS_F32,
                                            [TERN_ACTIVATIONS_F16] = TERN_HALF_ROWS_F16};
    params->f32_activations = mode == TERN_ACTIVATIONS_F32;
    params->int8_blocks = rows[mode];
    params->half_rows = halves[mode];
}

/* Whether a weight of the layers has this property. */
static bool any_layer(const tern_model *model, bool (*has)(const tern_weight *w))
{
    for (uint32_t layer = 0; layer < tern_model_config(model)->n_layers; layer++)
        for (int role = 0; role < TERN_ROLE_COUNT; role++) {
            const bool is_table = role == TERN_ROLE_TOKEN_EMBD || role == TERN_ROLE_OUTPUT;
            const tern_weight *w = tern_model_weight(model, (tern_role)role, layer);
            if (!is_table && w->encoding && has(w)) return true;
        }
    return false;
}

static bool has_product(const tern_weight *w)
{
    return tern_op_multiplies_blocks(w->encoding->id);
}

static bool is_half(const tern_weight *w)
{
    return w->rows > 1 && tern_op_halves_of(w->encoding);
}

static bool is_ternary(const tern_weight *w)
{
    return w->encoding->ternary;
}

bool tern_engine_rounds_blocks(const tern_engine *engine)
{
    const tern_model *model = tern_engine_model(engine);
    if (tern_engine_int8_blocks(engine) == TERN_BLOCK_ROWS_F32 || tern_graph_is_ternary(model)) return false;
    if (any_layer(model, has_product)) return true;
    return !tern_engine_head_exact(engine) && has_product(tern_engine_head(engine));
}

const char *tern_engine_activations(const tern_engine *engine)
{
    const tern_model *model = tern_engine_model(engine);
    const bool ternary = tern_model_config(model)->bit_linear || any_layer(model, is_ternary);
    if ((ternary && !tern_engine_f32_activations(engine)) || tern_engine_rounds_blocks(engine)) return "int8";
    return tern_engine_half_rows(engine) && any_layer(model, is_half) ? "f16" : "f32";
}
