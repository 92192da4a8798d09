/* tern completion: a script that lets a shell complete commands, flags and values. */
#include <string.h>

#include "apps/completion/completion.h"

static tern_status run(const tern_options *o, tern_error *err)
{
    static const struct {
        const char *name;
        void (*print)(void);
    } shells[] = {{"bash", tern_completion_bash}, {"zsh", tern_completion_zsh}, {"fish", tern_completion_fish}};
    for (size_t i = 0; i < sizeof shells / sizeof *shells; i++)
        if (strcmp(o->args.items[0], shells[i].name) == 0) {
            shells[i].print();
            return TERN_OK;
        }
    return tern_fail(err, TERN_INVALID_ARGUMENT, "completion for \"%s\": bash, zsh or fish expected", o->args.items[0]);
}

const tern_command tern_command_completion = {
    .name = "completion",
    .usage = "bash|zsh|fish",
    .summary = "Print a script for a shell that completes flags and values",
    .min_args = 1,
    .max_args = 1,
    .run = run,
};
