/* Several ranks run one engine: rank 0 is the program that people know, the others follow it. What rank 0 opens, closes
 * and starts it tells them; they have the same runners, and the same graphs under the same numbers. */
#ifndef TERN_INFER_FOLLOW_H
#define TERN_INFER_FOLLOW_H

#include "infer/runner.h"

/* Rank 0 tells the others, if there are any, that it opens or closes a runner, or the engine itself. */
tern_status tern_follow__opens(tern_runner *runner, tern_error *err);
void tern_follow__closes(tern_runner *runner);
void tern_follow__end(tern_engine *engine);

/* Whether all ranks have opened the same file: its size and the SHA-256 of its beginning. Errors: INVALID_ARGUMENT
 * (which rank has another one), NOT_FOUND, IO, those of the ranks. */
tern_status tern_follow__agree(tern_ranks *ranks, const char *path, tern_error *err);

#endif
