/* A bound graph in parts, which are run one after the other. */
#include "base/alloc.h"
#include "graph/bound.h"
#include "ops/graph.h"
#include "ops/op.h"

struct tern_bound_part {
    tern_graph graph; /* of some of the ops; all else is the whole graph's */
    tern_prepared *prepared;
};

void tern_bound__free_parts(tern_bound_graph *bound)
{
    for (size_t i = 0; i < bound->n_parts; i++) bound->backend->prepared_free(bound->backend, bound->parts[i].prepared);
    tern_free(bound->parts);
    bound->parts = NULL;
    bound->n_parts = 0;
}

static tern_status prepare_parts(tern_bound_graph *bound, const size_t *ends, size_t n, tern_error *err)
{
    tern_backend *b = bound->backend;
    for (size_t i = 0, first = 0; i < n; first = ends[i++]) {
        tern_bound_part *part = &bound->parts[bound->n_parts];
        part->graph = *bound->graph;
        part->graph.ops += first;
        part->graph.n_ops = ends[i] - first;
        TERN_TRY(b->prepare(b, &part->graph, bound->bindings, &part->prepared, err));
        bound->n_parts++;
    }
    return TERN_OK;
}

tern_status tern_bound_cut(tern_bound_graph *bound, const size_t *ends, size_t n, tern_error *err)
{
    bound->backend->prepared_free(bound->backend, bound->prepared);
    bound->prepared = NULL;
    bound->parts = tern_calloc(n, sizeof *bound->parts);
    if (!bound->parts) return tern_fail_alloc(err, n * sizeof *bound->parts);
    const tern_status status = prepare_parts(bound, ends, n, err);
    if (status != TERN_OK) tern_bound__free_parts(bound);
    return status;
}

tern_status tern_bound_start_part(const tern_bound_graph *bound, size_t part, tern_error *err)
{
    if (part == 0) TERN_TRY(tern_bound_write_params(bound, err));
    return bound->backend->run(bound->backend, bound->parts[part].prepared, 1, err);
}
