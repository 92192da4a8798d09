/* How many experts of a model are on a device at once, where it has not the memory for all of them. */
#ifndef TERN_INFER_EXPERTS_CACHE_H
#define TERN_INFER_EXPERTS_CACHE_H

#include "backend/paged/paged.h"
#include "infer/session/runner.h"

/* Reads "all", a number of experts for each layer ("5"), or bytes of the device for all of them ("800M", "3.5G"; powers
 * of 1024). NULL: as many as fit. Errors: INVALID_ARGUMENT. */
tern_status tern_experts_parse(const char *text, tern_experts_size *size, tern_error *err);

/* Whether weights of this role are those of experts, which may be paged. */
bool tern_experts_has(tern_role role);
/* Whether params and the backend let experts be paged where they do not fit. */
bool tern_experts_may_page(tern_backend *backend, tern_engine *engine, const tern_engine_params *params);
/* Bytes of the device that all experts of the engine's model take, and the fewest that can be there, with what a prompt
 * needs besides and a margin. Errors: those of tern_paged_bytes. */
tern_status tern_experts_bytes(const tern_backend *backend, tern_engine *engine, const tern_runner_params *session,
                               uint64_t *all, uint64_t *least, tern_error *err);

/* Puts a paged backend around the engine's where params->experts asks for it, and always where params->fetch brings the
 * experts. If params->experts gives no size, it does so where the weights of the model and a session of these params do
 * not fit, and some experts may be left out. Called before any weight is made. Errors: INVALID_ARGUMENT (a size for a
 * model without experts, or less than experts of a token), UNSUPPORTED (a split backend, one that never waits), those
 * of tern_memory_needs_of and tern_paged_open. */
tern_status tern_engine__page_experts(tern_backend **backend, tern_engine *engine, const tern_engine_params *params,
                                      const tern_runner_params *session, tern_error *err);

#endif
