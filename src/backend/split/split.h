/* A backend made of two others: the model's last layers run on a device, all else on the host. */
#ifndef TERN_BACKEND_SPLIT_H
#define TERN_BACKEND_SPLIT_H

#include "backend/backend.h"

/* As device_layers: all layers, and what is in none. The host then has what ranks exchange alone. */
#define TERN_SPLIT_ALL UINT32_MAX

/* Ops of the last `device_layers` layers run on `device`, all others on `host`; the gathering of outputs goes with the
 * last layer; the embedding, the final norm and the head go to the device when device_layers is larger than the number
 * of layers; what ranks exchange is the host's. Buffers and weights are made only where a prepared graph needs them, so
 * each weight and cache lies on one side; rows that one side makes and the other reads are carried over between the
 * runs (counters: crossed_bytes), as many as the step has. Graphs with SAMPLE are UNSUPPORTED.
 *
 * Weights must stay where they are until the buffer is freed. Owns both backends from here on, also when this fails.
 * Threads: as the two; graphs may be prepared and run by several threads at once. */
tern_status tern_split_open(tern_backend **backend, tern_backend *host, tern_backend *device, uint32_t device_layers,
                            tern_error *err);

/* Its host and its device; false, and nothing, for a backend that is not a split one. */
bool tern_split_sides(tern_backend *backend, tern_backend *sides[2]);
/* 0: the host, 1: the device; 0 for a backend that is not a split one. */
uint32_t tern_split_side_of(const tern_backend *backend, const tern_graph *graph, const tern_op *op);

#endif
