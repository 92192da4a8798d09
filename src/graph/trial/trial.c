/* Trying the kernels of a device before they are used: op by op, with few rows first. */
#include "graph/trial/trial.h"

#include "backend/open.h"
#include "graph/trial/trial_internal.h"

typedef struct trials {
    const tern_bound_graph *bound;
    tern_backend *backend, *cpu; /* the CPU is opened for the first op that there are doubts about */
} trials;

static const char *doubt(const trials *t, size_t op)
{
    return t->backend->trial->doubt(t->backend, t->bound->prepared, op);
}

static tern_status wrong(const tern_backend_info *info, const char *kernel, const char *what, tern_error *err)
{
    return tern_fail(
        err, TERN_UNSUPPORTED,
        "%s: %s with %s computes the kernel %s wrong (%s): try another version of the driver, or --backend cpu",
        info->name, info->device, info->driver ? info->driver : "its driver", kernel, what);
}

/* One trial; its kernels are proven afterwards. *shrunk: it had fewer rows than the graph. UNSUPPORTED and
 * OUT_OF_MEMORY with *what empty: nothing can be told. */
static tern_status try_once(const trials *t, size_t op, bool few, bool *shrunk, tern_error *err)
{
    const tern_graph *graph = t->bound->graph;
    const char *kernel = doubt(t, op);
    char what[256] = "";
    tern_trial trial;
    tern_trial_side device = {.backend = t->backend, .weights = t->bound->bindings},
                    host = {.backend = t->cpu, .apart = true};
    tern_status status = tern_trial__open(&trial, graph, &graph->ops[op], few, err);
    if (status == TERN_OK) status = tern_trial__run(&trial, &device, &host, what, sizeof what, err);
    *shrunk = trial.few;
    if (status == TERN_OK && !what[0]) t->backend->trial->prove(t->backend, device.bound.prepared);
    tern_trial__close_side(&trial, &host);
    tern_trial__close_side(&trial, &device);
    tern_trial__close(&trial);
    if (status == TERN_UNSUPPORTED || status == TERN_OUT_OF_MEMORY) *shrunk = false;
    if (status == TERN_UNSUPPORTED || status == TERN_OUT_OF_MEMORY) return TERN_OK;
    return status == TERN_OK && what[0] ? wrong(&t->backend->info, kernel, what, err) : status;
}

/* Few rows may have other kernels than the graph's many. */
static tern_status try_op(const trials *t, size_t op, tern_error *err)
{
    bool shrunk = false;
    TERN_TRY(try_once(t, op, true, &shrunk, err));
    if (doubt(t, op) && shrunk) TERN_TRY(try_once(t, op, false, &shrunk, err));
    if (doubt(t, op)) t->backend->trial->give_up(t->backend, t->bound->prepared, op);
    return TERN_OK;
}

static tern_status try_all(trials *t, tern_error *err)
{
    for (size_t op = 0; op < t->bound->graph->n_ops; op++) {
        if (!doubt(t, op)) continue;
        if (!t->cpu) TERN_TRY(tern_backend_open(&t->cpu, &(tern_backend_options){.name = "cpu"}, err));
        TERN_TRY(try_op(t, op, err));
    }
    return TERN_OK;
}

tern_status tern_trial_graph(const tern_bound_graph *bound, tern_error *err)
{
    trials t = {.bound = bound, .backend = bound->backend};
    if (!t.backend->trial || t.backend->info.never_waits) return TERN_OK;
    const tern_status status = try_all(&t, err);
    if (t.cpu) t.cpu->close(t.cpu);
    return status;
}
