/* Tensors that processes which train together exchange: gradients of passes to their owners, who add them up, and what
 * owners have updated to all. Blocks are on their way while the ones before them are added. Devices that can be joined
 * (backend/peers.h) do it among themselves, others through memory of the host.
 *
 *     tern_collective_open(&x, backend, ranks, most_bytes, err)
 *     tern_collective_add(x, tensors, n, &passes, err), any number of times, or tern_collective_spread(...)
 *     tern_collective_end(x, err)     all has arrived, and is where it belongs
 *     tern_collective_close(x) */
#ifndef TERN_TRAIN_COLLECTIVE_H
#define TERN_TRAIN_COLLECTIVE_H

#include "backend/peers.h"

typedef struct tern_collective tern_collective;

/* For tensors of which no owner has more than most_bytes at a time. The backend and the ranks are borrowed. Errors:
 * OUT_OF_MEMORY. */
tern_status tern_collective_open(tern_collective **collective, tern_backend *backend, tern_ranks *ranks,
                                 uint64_t most_bytes, tern_error *err);
/* NULL is left alone. A transfer that is still under way after an error keeps its memory. */
void tern_collective_close(tern_collective *collective);

/* Adds the tensors of each pass, in the order of the ranks, to the owners' sums: sum = F(F(sum) + F(g)), F being
 * tern_flush. All ranks make the same calls; those without a pass have nothing read. The tensors [n] stay as they are
 * until the end. Errors: IO (a rank that is silent), those of the backend. */
tern_status tern_collective_add(tern_collective *collective, const tern_collective_tensor *tensors, size_t n,
                                const tern_collective_passes *passes, tern_error *err);
/* Copies the owners' tensors to all. The rules are those of tern_collective_add. */
tern_status tern_collective_spread(tern_collective *collective, const tern_collective_tensor *tensors, size_t n,
                                   tern_error *err);
tern_status tern_collective_end(tern_collective *collective, tern_error *err);

/* sum[i] = F(F(was[i]) + F(g[i])), which is what SGD at a rate of -1 does to w = was (tern_ref_sgd); `was` NULL: zeros;
 * it may be sum. Returns whether all g are finite. */
bool tern_collective_add_pass(const float *was, const float *g, size_t n, float *sum);

#endif
