/* Trials of a device's kernels before they are used, which find drivers that compute wrongly. Each op of a bound graph
 * that the backend doubts runs on made-up inputs, at its real shape and with its real weights, on the device and on the
 * CPU. The backend remembers proven kernels (tern_backend_trial). */
#ifndef TERN_GRAPH_TRIAL_TRIAL_H
#define TERN_GRAPH_TRIAL_TRIAL_H

#include "graph/bound.h"

/* Tries kernels that are in doubt; `bound` is prepared. A backend that never waits is trusted. Errors: UNSUPPORTED (a
 * kernel computes wrongly: the device, its driver and the kernel are named), those of the backends. An op that the CPU
 * lacks, or that takes too much memory, is given up. */
tern_status tern_trial_graph(const tern_bound_graph *bound, tern_error *err);

#endif
