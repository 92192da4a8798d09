/* The command under mpirun: several processes, of which the first is the program that people know. */
#include "apps/ranks.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "apps/open.h"
#include "base/cpu.h"

static tern_ranks *ranks;            /* of this process; NULL: it is alone */
static bool engine_opened, together; /* what the others take part in has begun */

/* Environment variables that a starter of MPI sets for its processes: OpenMPI's names, then those of MPICH and
 * Slurm. */
static uint32_t number_of(const char *const *names)
{
    for (; *names; names++) {
        const char *text = getenv(*names);
        if (text && *text >= '0' && *text <= '9') return (uint32_t)strtoul(text, NULL, 10);
    }
    return 0;
}

uint32_t tern_app_started(void)
{
    static const char *const names[] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", NULL};
    return number_of(names);
}

static uint32_t started_here(void)
{
    static const char *const names[] = {"OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS", NULL};
    return number_of(names);
}

tern_status tern_app_join(const tern_command *command, tern_error *err)
{
    if (tern_app_started() < 2) return TERN_OK;
    if (!command->ranks)
        return tern_fail(err, TERN_UNSUPPORTED, "%u processes found, started by mpirun: tern %s runs in one process",
                         tern_app_started(), command->name);
    together = command->ranks == TERN_RANKED_TOGETHER;
    return tern_ranks_open(&ranks, err);
}

static tern_status follow(const tern_command *command, const tern_options *options, tern_error *err)
{
    tern_engine *engine;
    tern_options o = *options;
    if (command->followed) TERN_TRY(command->followed(options, &o, err));
    TERN_TRY(tern_app_open_engine(&engine, &o, false, err));
    const tern_status status = tern_engine_follow(engine, err);
    tern_engine_close(engine);
    return status;
}

tern_status tern_app_run_ranked(const tern_command *command, const tern_options *options, tern_error *err)
{
    if (!tern_app_is_first() && !together) return follow(command, options, err);
    return command->run(options, err);
}

tern_ranks *tern_app_ranks(void)
{
    return ranks;
}

bool tern_app_is_first(void)
{
    return !ranks || tern_ranks_rank(ranks) == 0;
}

const char *tern_app_rank_words(void)
{
    static char words[32];
    if (ranks) snprintf(words, sizeof words, "rank %u: ", tern_ranks_rank(ranks));
    return words;
}

void tern_app_leave(bool failed)
{
    tern_ranks_close(ranks, failed || (!engine_opened && !together));
    ranks = NULL;
}

tern_status tern_app_engine_ranks(tern_ranks **out, tern_error *err)
{
    *out = ranks;
    if (ranks && engine_opened)
        return tern_fail(err, TERN_UNSUPPORTED, "a second engine in %u processes: one expected",
                         tern_ranks_count(ranks));
    engine_opened = true;
    return TERN_OK;
}

tern_status tern_app_add_usage(json_t *object, tern_engine *engine, tern_error *err)
{
    tern_rank_usage usage[TERN_MAX_RANKS];
    if (!ranks) return TERN_OK;
    TERN_TRY(tern_engine_usage(engine, usage, err));
    json_t *list = json_array();
    for (uint32_t i = 0; i < tern_ranks_count(ranks); i++)
        json_array_append_new(list, json_pack("{s:I, s:I}", "weight_bytes", (json_int_t)usage[i].weight_bytes,
                                              "peak_bytes", (json_int_t)usage[i].peak_bytes));
    return json_object_set_new(object, "ranks", list) == 0 ? TERN_OK : tern_fail_alloc(err, sizeof usage);
}

uint32_t tern_app_rank_threads(void)
{
    const uint32_t here = started_here(), mine = tern_cpu_cores();
    const long online = sysconf(_SC_NPROCESSORS_ONLN);
    if (!ranks || here < 2) return 0;
    if (online > 0 && mine < (uint32_t)online) return mine; /* mpirun has given each its own */
    return mine > here ? mine / here : 1;
}
