/* --tp, --pp and --gpus: the command starts the processes that it asks for, by mpirun, and becomes that. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "apps/ranks.h"
#include "base/alloc.h"
#include "base/cpu.h"
#include "base/program.h"

enum { WORDS_BEFORE = 5 }; /* mpirun -n N PROGRAM COMMAND */

static uint32_t at_least_one(uint32_t n)
{
    return n ? n : 1;
}

static tern_status check_gpus(const tern_options *o, tern_error *err)
{
    if (o->gpus < 2 || (o->backend && strncmp(o->backend, "cpu", 3) != 0)) return TERN_OK;
    return tern_fail(err, TERN_INVALID_ARGUMENT,
                     "--gpus %u on the CPU: --backend cuda or vulkan expected; mpirun -n %u trains on CPUs", o->gpus,
                     o->gpus);
}

/* Settings of OpenMPI, unless the environment has them; other starters ignore them. TERN_APP_PIPED: ranks cannot tell
 * whether the output is a terminal. */
static void prepare_environment(uint32_t n)
{
    setenv("OMPI_MCA_hwloc_base_binding_policy", "none", 0); /* each takes its share of the cores by itself */
    if (n > tern_cpu_cores()) setenv("OMPI_MCA_rmaps_base_oversubscribe", "1", 0);
    if (!isatty(STDOUT_FILENO)) setenv(TERN_APP_PIPED, "1", 1);
    if (geteuid() != 0) return;
    setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 0);
    setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 0);
}

/* Does not come back where it succeeds. */
static tern_status become(uint32_t n, const tern_command *command, int n_words, char **words, tern_error *err)
{
    char program[4096], number[16];
    if (!tern_program_path(program, sizeof program))
        return tern_fail(err, TERN_UNSUPPORTED, "the path of this program is unknown: start it with mpirun -n %u", n);
    const char **argv = tern_calloc((size_t)n_words + WORDS_BEFORE + 1, sizeof *argv);
    if (!argv) return tern_fail_alloc(err, ((size_t)n_words + WORDS_BEFORE + 1) * sizeof *argv);
    snprintf(number, sizeof number, "%u", n);
    const char *const before[WORDS_BEFORE] = {"mpirun", "-n", number, program, command->name};
    memcpy(argv, before, sizeof before);
    memcpy(argv + WORDS_BEFORE, words, (size_t)n_words * sizeof *argv);
    prepare_environment(n);
    fflush(NULL);
    execvp(argv[0], (char **)(void *)argv);
    const int why = errno;
    tern_free(argv);
    return tern_fail(err, TERN_UNSUPPORTED, "%u processes are started by mpirun: %s%s", n, strerror(why),
                     why == ENOENT ? " (apt-get install openmpi-bin)" : "");
}

tern_status tern_app_start(const tern_command *command, const tern_options *o, int n_words, char **words,
                           tern_error *err)
{
    const uint32_t started = tern_app_started();
    const uint32_t wanted = at_least_one(o->n_tp) * at_least_one(o->stages) * at_least_one(o->gpus);
    TERN_TRY(check_gpus(o, err));
    if (!command->ranks || wanted == 1) return TERN_OK;
    if (!started) return become(wanted, command, n_words, words, err);
    if ((o->n_tp || o->gpus) && started != wanted)
        return tern_fail(err, TERN_INVALID_ARGUMENT, "%u processes found, started by mpirun: %s%u expected", started,
                         o->gpus ? "--gpus: " : "--tp times --pp: ", wanted);
    return TERN_OK;
}
