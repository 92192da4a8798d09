/* How the router shares tokens out: rows of a step counted by expert. */
#include <string.h>

#include "base/alloc.h"
#include "ops/ref/experts.h"
#include "train/trainer/internal.h"

void tern_trainer__keep_routes(tern_graph *graph)
{
    for (size_t i = 0; i < graph->n_values; i++)
        if (tern_value_is_routes(&graph->values[i])) graph->values[i].kind = TERN_VALUE_OUTPUT;
}

tern_status tern_trainer__open_expert_counts(tern_trainer *t, tern_error *err)
{
    const tern_config *c = t->config;
    const size_t n = (size_t)t->plan.n_tokens * c->n_experts_used;
    if (!c->n_experts) return TERN_OK;
    t->experts.routes = tern_calloc(n, sizeof *t->experts.routes);
    t->experts.rows = tern_calloc((size_t)c->n_layers * c->n_experts, sizeof *t->experts.rows);
    return t->experts.routes && t->experts.rows ? TERN_OK : tern_fail_alloc(err, n * sizeof *t->experts.routes);
}

/* The number of positions that are not padding. */
static void count_layer(tern_trainer *t, const tern_train_row *rows, size_t n_rows, uint64_t *counts)
{
    const uint32_t k = t->config->n_experts_used;
    for (size_t r = 0; r < n_rows; r++)
        for (size_t i = 0; i < (size_t)rows[r].n_used * k; i++)
            counts[t->experts.routes[r * t->params.seq * k + i].expert]++;
}

void tern_trainer__clear_expert_counts(tern_trainer *t)
{
    const size_t n = (size_t)t->config->n_layers * t->config->n_experts;
    if (t->experts.rows) memset(t->experts.rows, 0, n * sizeof *t->experts.rows);
}

tern_status tern_trainer__count_experts(tern_trainer *t, const tern_trainer_graph *g, const tern_train_row *rows,
                                        size_t n_rows, tern_error *err)
{
    const tern_config *c = t->config;
    tern_trainer_pending *w = &t->pending;
    const uint64_t bytes = (uint64_t)t->plan.n_tokens * c->n_experts_used * sizeof *t->experts.routes;
    if (!t->experts.rows) return TERN_OK;
    if (w->n_runs == 0 && w->n_reads == 1) tern_trainer__clear_expert_counts(t);
    uint32_t layer = 0;
    for (size_t i = 0; i < g->graph.n_values; i++) {
        if (!tern_value_is_routes(&g->graph.values[i]) || layer++ < w->n_reads - 1) continue;
        TERN_TRY(tern_trainer__read_buffer(t, g->bound.bindings[i].buffer, t->experts.routes, bytes, err));
        count_layer(t, rows, n_rows, t->experts.rows + (size_t)(w->n_reads - 1) * c->n_experts);
        w->n_reads++;
    }
    return TERN_OK;
}

const uint64_t *tern_trainer_expert_rows(const tern_trainer *trainer)
{
    return trainer->experts.rows;
}

double tern_trainer_expert_imbalance(const tern_trainer *trainer)
{
    const uint32_t n = trainer->config->n_experts;
    double worst = 0;
    for (uint32_t layer = 0; trainer->experts.rows && layer < trainer->config->n_layers; layer++) {
        uint64_t most = 0, sum = 0;
        for (uint32_t e = 0; e < n; e++) {
            const uint64_t rows = trainer->experts.rows[(size_t)layer * n + e];
            most = rows > most ? rows : most;
            sum += rows;
        }
        const double share = sum ? (double)most * n / (double)sum : 0;
        worst = share > worst ? share : worst;
    }
    return worst;
}
