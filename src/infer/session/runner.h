/* The graphs of a session: built, bound to memory, prepared, and run step by step. */
#ifndef TERN_INFER_SESSION_RUNNER_H
#define TERN_INFER_SESSION_RUNNER_H

#include "graph/bound.h"
#include "infer/engine/lora.h"
#include "infer/session/runner_states.h"

typedef struct tern_runner_params {
    uint32_t n_ctx, n_batch, max_outputs;
    tern_cache_types kv;
    bool keep_hidden;
    bool f32_blocks; /* dense layers multiply f32, as on every device, unless the engine is to have int8 */
    bool halves;     /* with f32_blocks: but 16 bits in steps of several tokens, as the other backend of a comparison */
    bool unfused;    /* the graph as it was built, to compare with */
    bool keep_all;   /* what is made stays there: no activation shares memory with another */
    bool steps;      /* the graph that chooses tokens on the device too; needs a backend with max_steps > 1 */
    bool keep_states; /* the runner's own graphs have the hidden states of all tokens (tern_graph.states) */
    bool mtp;         /* graphs of the model's block that drafts tokens (tern_model_mtp), which it has */
    bool sample_rows; /* all graphs end with SAMPLE of each row; needs a backend that samples_rows */
    /* 0: one sequence, whose pages lie in their order. Else so many, which share n_pages pages; whoever starts steps
     * writes the page tables then, and layers with a window keep whole pages as the others do. */
    uint32_t n_sequences, n_pages;
    /* Models with layers that recur have states beside those that steps need, of one sequence; of many, all states,
     * which whoever starts steps gives out */
    uint32_t n_states;
    const tern_lora_use *loras; /* [n_loras], read while opening */
    uint32_t n_loras;
} tern_runner_params;

/* A graph and its memory. */
typedef struct tern_runner_graph {
    tern_graph graph;
    tern_bound_graph bound;
} tern_runner_graph;

/* All graphs of a runner, which adapters change, and the memory of their activations. */
typedef struct tern_runner_graphs {
    tern_runner_graph decode, prefill;
    tern_runner_graph steps; /* empty without params.steps */
    tern_runner_graph few;   /* of max_outputs tokens; empty without params.n_sequences */
    tern_activations activations;
    tern_lora_uses loras; /* those that do something */
    bool additional;      /* the runner's own: tern_runner_add_graphs */
    uint32_t number;      /* that the other ranks have them by; 0: there are none */
} tern_runner_graphs;

/* The memory of one sequence and the graphs over it: one token, up to n_batch tokens, and one token that chooses the
 * next. */
typedef struct tern_runner {
    tern_engine *engine;
    tern_runner_params params;
    tern_runner_graphs *graphs; /* backends hold on to graphs where they lie */
    tern_graph_buffers constants, caches, recurrent;
    tern_runner_states states; /* of one sequence; empty: no layer recurs */
    uint32_t number;           /* that the other ranks have it by; 0: there are none */
    uint32_t n_pages;
    uint32_t n_ring_pages; /* of the caches of layers with a window; 0: n_pages */
    uint32_t window;       /* the longest; 0: no layer has one */
    uint32_t n_written;    /* positions from 0 on that were written, also what was given up since */
    uint32_t first_kept;   /* of layers with a window: what lies before is lost; whole pages */
} tern_runner;

/* The input of one step. */
typedef struct tern_runner_step {
    const int32_t *ids;
    uint32_t n_tokens, first_position;
    uint32_t n_outputs;        /* logits of the last n_outputs tokens */
    uint32_t n_top;            /* the highest logits that are needed; 0: all */
    const tern_wanted *wanted; /* and which beside; NULL: none */
    const float *hidden;       /* [n_tokens][n_embd], of a runner of a block that drafts tokens */
} tern_runner_step;

/* Tokens that the device chooses, one after the other. */
typedef struct tern_runner_steps {
    int32_t id; /* evaluated first, at `position` */
    uint32_t position;
    const tern_sample_params *sample; /* n_tokens: how many, 1 to TERN_SAMPLE_MAX_STEPS */
} tern_runner_steps;

tern_status tern_runner_open(tern_runner *runner, tern_engine *engine, const tern_runner_params *params,
                             tern_error *err);
void tern_runner_deinit(tern_runner *runner);
/* The graphs that such a runner has, built and planned but without memory, to see what they take; the caller's to
 * tern_runner_unbuild. Nothing is asked of the engine's weights. */
tern_status tern_runner_build(tern_runner_graphs **graphs, tern_engine *engine, const tern_runner_params *params,
                              tern_error *err);
void tern_runner_unbuild(tern_runner_graphs *graphs, tern_engine *engine);
/* Builds and prepares the graphs anew with these adapters, scale 0 left out. On failure the runner is as it was; for a
 * while there is memory for both. Errors: INVALID_ARGUMENT (tern_lora__check), OUT_OF_MEMORY, those of the backend. */
tern_status tern_runner_set_loras(tern_runner *runner, const tern_lora_use *loras, uint32_t n, tern_error *err);
/* A step wrote, or somebody else has put into the caches, the keys and values of n positions from `first` on. */
void tern_runner_mark_written(tern_runner *runner, uint32_t first, uint32_t n);
/* The last position, at most this one, at which a step may begin: layers with a window still have what its first token
 * sees, and layers that recur the state after the tokens before it. In models without such layers it is the position
 * itself, up to n_batch positions before the last one written. */
uint32_t tern_runner_last_start(const tern_runner *runner, uint32_t position);
/* Adapters of some of a step's sequences. */
typedef struct tern_lora_set {
    const tern_lora_use *loras; /* [n_loras] */
    uint32_t n_loras;
} tern_lora_set;

/* Graphs with these adapters beside the runner's own, over the same caches, with the hidden states of all tokens
 * (tern_graph.states); the caller's to tern_runner_drop_graphs before the runner goes. On a backend that groups_rows
 * those of sets[i] are for rows of group i + 1 alone, on others there is one set at most. Errors: as
 * tern_runner_set_loras. */
tern_status tern_runner_add_graphs(tern_runner *runner, const tern_lora_set *sets, uint32_t n_sets,
                                   tern_runner_graphs **graphs, tern_error *err);
/* As above on this rank alone. */
tern_status tern_runner__make_graphs(tern_runner *runner, const tern_lora_set *sets, uint32_t n_sets, bool additional,
                                     tern_runner_graphs **graphs, tern_error *err);
void tern_runner_drop_graphs(tern_runner *runner, tern_runner_graphs *graphs); /* NULL is fine */
/* The graph for a step of n tokens of many sequences. */
tern_runner_graph *tern_runner_graph_for(tern_runner_graphs *set, uint32_t n);
/* Puts what a step is into the parameters of one of the graphs. */
void tern_runner_set_step(const tern_runner_graph *graph, const tern_runner_step *step);
/* Starts a step of at most n_batch tokens. No allocation. */
tern_status tern_runner_start(tern_runner *runner, const tern_runner_step *step, tern_error *err);
/* Waits for the step that was started last; logits [n_outputs][n_vocab] are read into `logits`. PENDING, from a backend
 * that never waits: the device works; the same call again. */
tern_status tern_runner_finish(tern_runner *runner, const tern_runner_step *step, float *logits, tern_error *err);
/* Both. */
tern_status tern_runner_run(tern_runner *runner, const tern_runner_step *step, float *logits, tern_error *err);
/* Starts sample->n_tokens steps at once. No allocation. */
tern_status tern_runner_start_steps(tern_runner *runner, const tern_runner_steps *steps, tern_error *err);
/* Waits for the n steps that were started last. tokens[0] gets how many were chosen: fewer after one of the end ids,
 * which is the last then; tokens[1 ..] the tokens. All but the last one are evaluated. tokens [1 + n]. One read of that
 * size; PENDING as tern_runner_finish. */
tern_status tern_runner_finish_steps(tern_runner *runner, uint32_t n, uint32_t *tokens, tern_error *err);
/* A started read need not be finished: a read under way is forgotten. */
void tern_runner_abandon(tern_runner *runner);
/* The graph that runs a step of one sequence. */
tern_runner_graph *tern_runner_graph_of(const tern_runner *runner, const tern_runner_step *step);
/* Rows of an output value after a step. PENDING as tern_runner_finish. */
tern_status tern_runner_read(tern_runner_graph *graph, uint32_t value, uint32_t n_rows, float *out, tern_error *err);

#endif
