/* Training graphs of small models, for tests. */
#include "graph/training_graph_cases.h"

#include "ops/op.h"

tern_graph_options training_graph_options(const test_trained *t, uint32_t outputs)
{
    return (tern_graph_options){
        .weights = t->places, .max_tokens = TOKENS, .max_outputs = outputs, .n_ctx = 64, .training = true};
}

void training_graph_build(tern_graph *g, const test_trained *t, uint32_t outputs, bool checkpoint)
{
    tern_error err = {0};
    tern_graph_options o = training_graph_options(t, outputs);
    tern_graph_backward_options back = {.checkpoint = checkpoint};
    assert_ok(tern_graph_build(g, t->model, &o, &err), err);
    assert_ok(tern_graph_differentiate(g, &back, &err), err);
    assert_ok(tern_graph_plan(g, TERN_FUSION_IN_PLACE, &err), err);
}

void training_graph_adapt_all(test_trained *t, float dropout)
{
    static const tern_role roles[] = {TERN_ROLE_ATTN_Q,   TERN_ROLE_ATTN_V, TERN_ROLE_ATTN_OUTPUT, TERN_ROLE_FFN_GATE,
                                      TERN_ROLE_FFN_DOWN, TERN_ROLE_FFN_UP, TERN_ROLE_ATTN_K};
    for (uint32_t layer = 0; layer < LAYERS; layer++)
        for (size_t i = 0; i < sizeof roles / sizeof *roles; i++) test_trained_adapt(t, roles[i], layer, 8, dropout);
    test_trained_adapt(t, TERN_ROLE_FFN_DOWN, 1, 4, dropout); /* two at one place */
    test_trained_adapt(t, TERN_ROLE_OUTPUT, 0, 4, dropout);
}
