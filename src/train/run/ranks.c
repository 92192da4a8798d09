/* A run of several processes: rank 0 makes and writes the files and decides by the clock; the others do as it does. */
#include <string.h>

#include "base/alloc.h"
#include "format/json.h"
#include "infer/follow/follow.h"
#include "train/run/internal.h"

bool tern_run__is_first(const tern_run *run)
{
    return !run->o->ranks || run->o->ranks->rank == 0;
}

tern_status tern_run__broadcast_decision(const tern_run *run, uint32_t *what, tern_error *err)
{
    tern_ranks *ranks = run->o->ranks;
    const void *more;
    size_t bytes;
    if (!ranks) return TERN_OK;
    if (ranks->rank == 0) return ranks->tell(ranks, what, sizeof *what, NULL, 0, err);
    return ranks->hear(ranks, what, sizeof *what, &more, &bytes, err);
}

tern_status tern_run__wait_for_first(const tern_run *run, tern_error *err)
{
    uint32_t done = 0;
    return tern_run__broadcast_decision(run, &done, err);
}

/* Features of a single process. */
tern_status tern_run__check_ranks(const tern_run *run, tern_error *err)
{
    const tern_finetune_options *o = run->o;
    const char *what = o->dry_run ? "a dry run" : o->max_temp > 0 ? "a highest temperature" : NULL;
    if (!o->ranks || !what) return TERN_OK;
    return tern_fail(err, TERN_UNSUPPORTED, "%s in %u processes: one expected", what, o->ranks->n);
}

static tern_status fail_differs(const char *name, const json_t *here, const json_t *there, tern_error *err)
{
    const char *a = json_string_value(here), *b = json_string_value(there);
    if (a && b && strcmp(a, b) == 0) return TERN_OK;
    return tern_fail(err, TERN_INVALID_ARGUMENT, "another %s than rank 0 has: %s found, %s expected", name,
                     a ? a : "none", b ? b : "none");
}

static tern_status compare_settings(const tern_run *run, const json_t *first, tern_error *err)
{
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)first, name, value)
        TERN_TRY(fail_differs(name, json_object_get(run->settings, name), value, err));
    json_object_foreach(run->settings, name, value)
        TERN_TRY(fail_differs(name, value, json_object_get(first, name), err));
    return TERN_OK;
}

static tern_status receive_settings(const tern_run *run, tern_error *err)
{
    tern_ranks *ranks = run->o->ranks;
    json_t *first = NULL;
    const void *text;
    size_t bytes;
    TERN_TRY(ranks->hear(ranks, NULL, 0, &text, &bytes, err));
    TERN_TRY(tern_json_parse(&first, text, bytes, "what rank 0 trains", err));
    const tern_status status = compare_settings(run, first, err);
    tern_json_free(first);
    return status;
}

tern_status tern_run__agree(const tern_run *run, tern_error *err)
{
    tern_ranks *ranks = run->o->ranks;
    if (!ranks) return TERN_OK;
    if (run->o->model) TERN_TRY(tern_follow__agree(ranks, run->o->model, err));
    if (ranks->rank != 0) return receive_settings(run, err);
    char *text = json_dumps(run->settings, JSON_COMPACT | JSON_SORT_KEYS);
    if (!text) return tern_fail(err, TERN_OUT_OF_MEMORY, "out of memory");
    const tern_status status = ranks->tell(ranks, NULL, 0, text, strlen(text), err);
    tern_free(text);
    return status;
}
