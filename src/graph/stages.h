/* A graph of one stage of a model that several processes run one after the other (pipeline parallel). */
#ifndef TERN_GRAPH_STAGES_H
#define TERN_GRAPH_STAGES_H

#include "graph/graph.h"
#include "model/cut.h"

/* Leaves the ops of a stage's layers, with RECEIVE of what earlier stages have made before them and SEND of what later
 * ones need behind them; caches of others have no bytes. Values keep their numbers, and know the stage that makes them,
 * so that all stages speak of the same ones. Before planning, after fusing. Nothing with fewer than two stages. Errors:
 * UNSUPPORTED (a cache that layers of two stages use), OUT_OF_MEMORY. */
tern_status tern_graph_take_stage(tern_graph *graph, const tern_stages *stages, tern_error *err);

#endif
