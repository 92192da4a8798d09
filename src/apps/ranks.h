/* The command under mpirun: several processes, of which the first is the program that people know. */
#ifndef TERN_APPS_RANKS_H
#define TERN_APPS_RANKS_H

#include "apps/app.h"

/* Starts the processes that --tp, --pp or --gpus ask for, by mpirun with the same words; this one becomes that then,
 * and does not come back. Nothing where they ask for none, or mpirun has started them. `words`: what follows the
 * command's name. Errors: INVALID_ARGUMENT (others than mpirun has started; --gpus on the CPU), UNSUPPORTED (no
 * mpirun). */
tern_status tern_app_start(const tern_command *command, const tern_options *options, int n_words, char **words,
                           tern_error *err);
/* Joins the others, where mpirun has started several of this program (by the environment that it leaves). Errors:
 * UNSUPPORTED (no module for MPI; a command for one process). */
tern_status tern_app_join(const tern_command *command, tern_error *err);
/* Runs the command: as rank 0, or alone, its own function; as another rank the same where all run it together, else
 * what rank 0 does with its engine. */
tern_status tern_app_run_ranked(const tern_command *command, const tern_options *options, tern_error *err);
/* Processes that mpirun has started; 0: it has started none. */
uint32_t tern_app_started(void);
/* NULL: this process is alone, and the first. */
tern_ranks *tern_app_ranks(void);
bool tern_app_is_first(void);
/* "rank 2: " where there are several; else "". */
const char *tern_app_rank_words(void);
/* At the end; with `failed` all others end too, and so does this process, with status 1. */
void tern_app_leave(bool failed);

/* Into an object of --json: "ranks", what each has and has taken; nothing where there is one process. */
tern_status tern_app_add_usage(json_t *object, tern_engine *engine, tern_error *err);
/* For the engine that is opened next: those that run it too; NULL: none. Errors: UNSUPPORTED (the second engine). */
tern_status tern_app_engine_ranks(tern_ranks **ranks, tern_error *err);
/* Threads of a rank that was asked for none: its part of the cores that the ranks of this machine share; 0: alone. */
uint32_t tern_app_rank_threads(void);

#endif
