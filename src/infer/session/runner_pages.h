/* Pages of a runner's caches, whole: of several ranks each has some heads of them. */
#ifndef TERN_INFER_SESSION_RUNNER_PAGES_H
#define TERN_INFER_SESSION_RUNNER_PAGES_H

#include "infer/session/runner.h"

/* Page `page` of cache `cache` (of K and V, layer by layer), as one process has it: [kv heads][32][head_dim], bytes:
 * tern_kv_page_bytes. Errors: those of the backend and of the ranks, OUT_OF_MEMORY. */
tern_status tern_runner_read_page(const tern_runner *runner, uint32_t cache, uint32_t page, void *out, tern_error *err);
tern_status tern_runner_write_page(const tern_runner *runner, uint32_t cache, uint32_t page, const void *bytes,
                                   tern_error *err);
/* The bytes of all caches. room: of the larger page. */
tern_status tern_runner_copy_page(const tern_runner *runner, uint32_t from, uint32_t to, void *room, tern_error *err);
/* Bytes of the larger page, of K or of V. */
uint64_t tern_runner_page_room(const tern_runner *runner);
/* Bytes of one state of all layers that recur; 0: none does. */
uint64_t tern_runner_state_bytes(const tern_runner *runner);
/* The state after so many tokens of a runner of one sequence, which has it, layer by layer; and one that somebody else
 * has kept, which becomes the only one. Errors: UNSUPPORTED (several ranks), those of the backend. */
tern_status tern_runner_read_state(const tern_runner *runner, uint32_t n_tokens, void *out, tern_error *err);
tern_status tern_runner_write_state(tern_runner *runner, uint32_t n_tokens, const void *bytes, tern_error *err);
/* The state in row `at` of each layer, to `out` or from `in`; the other one is NULL. Errors: as above. */
tern_status tern_runner_copy_state(const tern_runner *runner, uint32_t at, uint8_t *out, const uint8_t *in,
                                   tern_error *err);
/* The work of another rank when rank 0 reads. */
tern_status tern_runner__send_page(const tern_runner *runner, uint32_t cache, uint32_t page, tern_error *err);

#endif
