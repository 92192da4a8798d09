/* Several ranks run one engine: rank 0 is the program that people know, the others follow it. Rank 0 sends them a
 * message for whatever it opens, closes and starts; they have the same runners, adapters and graphs under the same
 * numbers. In a single process nothing is sent. */
#ifndef TERN_INFER_FOLLOW_FOLLOW_H
#define TERN_INFER_FOLLOW_FOLLOW_H

#include "infer/session/runner.h"

/* A use of an adapter, in the data of MESSAGE_OPEN_RUNNER and MESSAGE_ADD_GRAPHS. */
typedef struct tern_follow_lora_use {
    uint32_t lora; /* its number */
    float scale;
} tern_follow_lora_use;

/* One message: what is to be done, and what it is done with. Thread-safe. Errors: IO. */
tern_status tern_follow__send(const tern_engine *engine, tern_bound_message message, const void *data, size_t bytes,
                              tern_error *err);
/* A runner, with its number and what it is to open with; its params, and uses: how many, then each. */
tern_status tern_follow__open_runner(tern_runner *runner, tern_error *err);
void tern_follow__close_runner(const tern_runner *runner);
/* More graphs of a runner: whether they are beside its own, then the uses of each of n sets; at: their number. */
tern_status tern_follow__add_graphs(const tern_runner *runner, uint32_t number, const tern_lora_set *sets,
                                    uint32_t n_sets, bool additional, tern_error *err);
/* Graphs of that number; 0: they were never told of. */
void tern_follow__drop_graphs(const tern_engine *engine, uint32_t number);
/* An adapter, then its pairs one by one: the other ranks have no file of it. role, layer, in, out, n_experts, rank; A
 * and B. */
tern_status tern_follow__load_lora(const tern_engine *engine, uint32_t number, const tern_lora_header *head,
                                   tern_error *err);
tern_status tern_follow__add_lora_pair(const tern_engine *engine, uint32_t number, const tern_lora_target *target,
                                       const tern_adapter_pair *pair, uint32_t rank, tern_error *err);
void tern_follow__unload_lora(const tern_engine *engine, uint32_t number);
/* The engine itself is closed. */
void tern_follow__end(const tern_engine *engine);

/* Whether all ranks have opened the same file: its size and the SHA-256 of its beginning. Errors: INVALID_ARGUMENT
 * (which rank has another one), NOT_FOUND, IO, those of the ranks. */
tern_status tern_follow__agree(tern_ranks *ranks, const char *path, tern_error *err);
/* usage: [n of ranks] of all, on all. */
tern_status tern_follow__gather_usage(tern_engine *engine, tern_rank_usage *usage, tern_error *err);

#endif
