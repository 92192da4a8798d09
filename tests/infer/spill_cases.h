/* Sessions whose keys and values are not all on the device, for the tests of the spilling backend. */
#ifndef TESTS_INFER_SPILL_CASES_H
#define TESTS_INFER_SPILL_CASES_H

#include "infer/engine/memory_need.h"
#include "infer/support.h"

enum { N_CTX = 192, N_PROMPT = 150, N_DECODED = 40, N_IDS = N_PROMPT + N_DECODED };

/* An engine with room for so many bytes of keys and values; 0: for all. `apart`: attention does not rotate heads
 * itself, which GPUs do to other bits, as it cannot where it takes some of them at a time. */
tern_engine *spill_open_how(const char *path, tern_engine_params how, bool apart);
tern_engine *spill_open(const char *path, uint64_t bytes, const char *disk);
/* The host samples, so that rings of pages are as long on all engines. */
tern_session_params spill_params(tern_kv_types kv);
tern_session *spill_session(tern_engine *engine, tern_kv_types kv);
/* Bytes of keys and values of a session as these are. */
tern_memory_need spill_need(const char *path, tern_kv_types kv);
/* Of the layer that has the most, and *all. */
uint64_t spill_layer_bytes(const char *path, tern_kv_types kv, uint64_t *all);
tern_backend_counters spill_counters(const tern_engine *engine);
void spill_append(tern_session *s, tern_engine *engine, uint32_t first, uint32_t n);
void spill_assert_same(tern_session *got, tern_session *want, const tern_engine *engine, const char *what, uint32_t at);
/* Everything that changes which pages hold what. */
void spill_exercise(tern_engine *spilling, tern_engine *whole, tern_kv_types kv, const char *what);

#endif
