/* A graph with its memory on a backend, ready to run: bindings, parameters and what the host writes there, the prepared
 * form. Everything that runs a graph runs one of these.
 *
 *     tern_bound_open(&b, backend, &graph, &options, err)   memory for each value that an op touches
 *     tern_bound_prepare(&b, err)
 *     each step: fill tern_bound_param(&b, ...); tern_bound_start(&b, n_steps, err); tern_bound_read(&b, ...)
 *     tern_bound_close(&b) */
#ifndef TERN_GRAPH_BOUND_H
#define TERN_GRAPH_BOUND_H

#include "graph/memory.h"
#include "ops/params.h"

typedef struct tern_ranks tern_ranks; /* tern/ranks.h */

typedef struct tern_bound_part tern_bound_part;

typedef struct tern_bound_graph {
    tern_backend *backend;
    const tern_graph *graph;
    tern_binding *bindings;  /* [n_values]; buffer NULL: no op touches the value */
    tern_prepared *prepared; /* NULL: cut into parts */
    tern_bound_part *parts;
    size_t n_parts;
    tern_buffer *params; /* all parameter values, each at its offset */
    uint8_t *staging;    /* [param_bytes] what is written there before a run */
    tern_buffer **owned; /* made for this graph alone */
    size_t n_owned;
    tern_activations activations; /* of its own, where it was given none */
    bool pending;                 /* was given for a read or a wait */
    tern_ranks *ranks;            /* that run it together; NULL: none. Rank 0 tells the others to start it: */
    uint32_t number;              /* the same graph has the same one on all ranks, from 1 on */
} tern_bound_graph;

/* Finds the memory of a value that somebody else keeps: weights, states, caches, shared constants. `value` is neither a
 * parameter nor an activation. out->buffer left NULL: the graph makes memory of its own. It makes a weight by
 * weight_create (once for all values of that weight), fills a constant, and fills all else with zeros. */
typedef tern_status (*tern_bound_find)(void *context, const tern_graph *graph, uint32_t value, tern_binding *out,
                                       tern_error *err);

/* A message of rank 0 to the others (infer/follow/follow.h): its kind, and the number of what it is about. */
typedef struct tern_bound_message {
    uint32_t kind, number;
    uint32_t n, at; /* START: n steps; else as infer/follow says of each */
} tern_bound_message;

/* START: the graph's parameters follow. */
enum {
    TERN_MESSAGE_END,
    TERN_MESSAGE_OPEN_RUNNER,
    TERN_MESSAGE_CLOSE_RUNNER,
    TERN_MESSAGE_USAGE,
    TERN_MESSAGE_START,
    TERN_MESSAGE_READ_VALUE,
    TERN_MESSAGE_ADD_GRAPHS,
    TERN_MESSAGE_DROP_GRAPHS,
    TERN_MESSAGE_LOAD_LORA,
    TERN_MESSAGE_ADD_LORA_PAIR,
    TERN_MESSAGE_UNLOAD_LORA,
    TERN_MESSAGE_READ_PAGE,
    TERN_MESSAGE_WRITE_PAGE,
    TERN_MESSAGE_COPY_PAGE
};

/* Zero-initialised: all memory is the graph's own. */
typedef struct tern_bound_options {
    tern_bound_find find; /* may be NULL */
    void *context;
    const tern_activations *activations; /* shared with graphs that run at other times; NULL: of its own */
} tern_bound_options;

/* The graph is planned; it, the backend and what the options give must outlive *bound. On failure there is nothing to
 * close. Errors: OUT_OF_MEMORY, those of find and of the backend. */
tern_status tern_bound_open(tern_bound_graph *bound, tern_backend *backend, const tern_graph *graph,
                            const tern_bound_options *options, tern_error *err);
/* Before the first run. Kernels that the backend has doubts about are tried (graph/trial/trial.h); after one that
 * computes wrongly this may be called again. */
tern_status tern_bound_prepare(tern_bound_graph *bound, tern_error *err);
/* Without the trial. */
tern_status tern_bound__prepare_untried(tern_bound_graph *bound, tern_error *err);
/* A zeroed one, or one that is closed, is left alone. A read or wait under way is given up. */
void tern_bound_close(tern_bound_graph *bound);

/* The parameter bytes that the next start writes; NULL: the graph has none. Zeros at first. */
void *tern_bound_param(const tern_bound_graph *bound, tern_param which);
/* All parameters, in one transfer. */
tern_status tern_bound_write_params(const tern_bound_graph *bound, tern_error *err);
/* Writes the parameters and starts n_steps steps. No allocation. */
tern_status tern_bound_start(const tern_bound_graph *bound, uint32_t n_steps, tern_error *err);
/* Cuts a graph that is prepared: part i has the ops before ends[i] that no part before it has, the last one ends with
 * the graph. From then on it is started part by part. On failure it is not prepared. */
tern_status tern_bound_cut(tern_bound_graph *bound, const size_t *ends, size_t n, tern_error *err);
/* Starts a part, each after the one before it; the first one writes the parameters. No allocation. */
tern_status tern_bound_start_part(const tern_bound_graph *bound, size_t part, tern_error *err);
void tern_bound__free_parts(tern_bound_graph *bound);
/* Runs ops [first, end) alone and waits, with the parameters that were written last. */
tern_status tern_bound_run_ops(const tern_bound_graph *bound, size_t first, size_t end, tern_error *err);

/* A read in two steps, for values that another stage makes: the first asks for a value of the step started last, the
 * second returns the oldest one asked for. All other values are read by the second alone. */
tern_status tern_bound_start_read(const tern_bound_graph *bound, uint32_t value, uint64_t bytes, tern_error *err);
tern_status tern_bound_finish_read(tern_bound_graph *bound, uint32_t value, void *out, uint64_t bytes, tern_error *err);
/* The first `bytes` of a value. Reading waits for what was started. PENDING as buffer_read of the backend. */
tern_status tern_bound_read(tern_bound_graph *bound, uint32_t value, void *out, uint64_t bytes, tern_error *err);
/* Waits for what was started. PENDING as wait of the backend. */
tern_status tern_bound_wait(tern_bound_graph *bound, tern_error *err);
tern_status tern_bound_write(const tern_bound_graph *bound, uint32_t value, const void *data, uint64_t bytes,
                             tern_error *err);
/* A read or a wait that gave PENDING is given up. */
void tern_bound_forget(tern_bound_graph *bound);

#endif
