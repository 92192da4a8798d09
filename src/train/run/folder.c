/* The places that a run writes to: its output, and the folder that it works in. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/output.h"
#include "base/show.h"
#include "train/run/internal.h"

char *tern_run__path(const tern_run *run, const char *name)
{
    return tern_path_join(run->folder, name);
}

/* An adapter's folder is the adapter alone, and a run works beside it; but one that began in it goes on there. */
static bool works_beside(const tern_run *run)
{
    const char *output = run->o->output;
    if (run->to_gguf || !(run->o->lora_rank || run->o->lora_start)) return run->to_gguf;
    char *inside = run->o->resume ? tern_path_join(output, "checkpoint/state.safetensors") : NULL;
    const bool began_in_it = inside && tern_file_exists(inside);
    tern_free(inside);
    return !began_in_it;
}

/* "x.gguf", or the folder "x" of an adapter, works in "x.train", beside the result; a model's folder in itself. */
static char *name_folder(const tern_run *run)
{
    const char *output = run->o->output;
    if (run->dry_folder || !output) return run->dry_folder ? tern_strdup(run->dry_folder) : NULL;
    if (!works_beside(run)) return tern_strdup(output);
    size_t n = strlen(output) - (run->to_gguf ? strlen(".gguf") : 0);
    while (n > 1 && !run->to_gguf && output[n - 1] == '/') n--;
    char *folder = tern_alloc(n + sizeof ".train");
    if (!folder) return NULL;
    memcpy(folder, output, n);
    memcpy(folder + n, ".train", sizeof ".train");
    return folder;
}

/* A run has begun there, and holds it: its lock is made when it takes the folder, and stays. */
static bool has_begun(const tern_run *run)
{
    char *path = tern_path_join(run->checkpoint_dir, "lock");
    const bool found = path && tern_file_exists(path);
    tern_free(path);
    return found;
}

/* The file, and the folder that the run works in: nothing that is read, nothing of anybody else's. A run that goes on
 * does so in its own; one that ended before its first checkpoint left nothing to lose. */
static tern_status check_places(const tern_run *run, const char *const *inputs, size_t n, tern_error *err)
{
    const tern_finetune_options *o = run->o;
    const bool mine = o->overwrite || o->resume;
    tern_output file = {.path = o->output, .model = o->model, .inputs = inputs, .n_inputs = n, .overwrite = mine};
    tern_output folder = file;
    folder.path = run->folder;
    folder.folder = true;
    folder.overwrite = mine || has_begun(run);
    file.folder = !run->to_gguf;
    if (strcmp(run->folder, o->output) != 0) TERN_TRY(tern_output_check(&file, err));
    return tern_output_check(&folder, err);
}

static tern_status check_output(const tern_run *run, tern_error *err)
{
    const tern_finetune_options *o = run->o;
    const char *const others[] = {o->validation_data, o->config, o->tokenizer, o->lora_start, o->thermal_trace};
    const size_t n_others = sizeof others / sizeof *others;
    const bool saved = tern_file_exists(run->state_path);
    if (o->resume && !saved)
        return tern_fail(err, TERN_NOT_FOUND, "%s: no checkpoint found to resume; leave --resume out to start",
                         run->state_path);
    if (!o->resume && !o->overwrite && saved)
        return tern_fail(err, TERN_INVALID_ARGUMENT, "%s exists: --resume continues it, --overwrite starts again",
                         run->state_path);
    const char **inputs = tern_calloc(o->n_data + n_others, sizeof *inputs);
    if (!inputs) return tern_fail_alloc(err, (o->n_data + n_others) * sizeof *inputs);
    memcpy(inputs, others, sizeof others);
    if (o->n_data) memcpy(inputs + n_others, o->data, o->n_data * sizeof *inputs);
    tern_status status = check_places(run, inputs, o->n_data + n_others, err);
    tern_free(inputs);
    return status;
}

/* Names, then what is to be made of them: not before the model is known to be there. */
tern_status tern_run__name_folders(tern_run *run, tern_error *err)
{
    const tern_finetune_options *o = run->o;
    run->to_gguf = o->output && tern_path_ends(o->output, ".gguf");
    if (o->type && o->output && !run->to_gguf)
        return tern_fail(err, TERN_INVALID_ARGUMENT, "type %s: an output NAME.gguf expected, %s found",
                         tern_show_z(o->type).text, tern_show_z(o->output).text);
    if (o->type && (o->lora_rank || o->lora_start))
        return tern_fail(err, TERN_INVALID_ARGUMENT, "type %s: adapters are always f32", tern_show_z(o->type).text);
    if (o->dry_run) TERN_TRY(tern_run__make_dry_folder(run, err));
    run->folder = name_folder(run);
    run->checkpoint_dir = run->folder ? tern_run__path(run, "checkpoint") : NULL;
    run->state_path = run->checkpoint_dir ? tern_path_join(run->checkpoint_dir, "state.safetensors") : NULL;
    if (!run->state_path) return tern_fail_alloc(err, 4096);
    if (o->dry_run || !o->output || !tern_run__is_first(run)) return TERN_OK;
    return check_output(run, err);
}

/* One run at a time works in a folder. The lock goes with the process, however that ends. */
static tern_status lock_folder(tern_run *run, tern_error *err)
{
    char *path = tern_path_join(run->checkpoint_dir, "lock");
    if (!path) return tern_fail_alloc(err, strlen(run->checkpoint_dir) + 8);
    run->lock = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    tern_free(path);
    if (run->lock >= 0 && flock(run->lock, LOCK_EX | LOCK_NB) == 0) return TERN_OK;
    if (run->lock >= 0 && errno == EWOULDBLOCK)
        return tern_fail(err, TERN_INVALID_ARGUMENT, "another run uses %s: another output expected",
                         tern_show_z(run->folder).text);
    return tern_fail(err, TERN_IO, "%s: cannot lock the folder: %s", tern_show_z(run->checkpoint_dir).text,
                     strerror(errno));
}

tern_status tern_run__make_folders(tern_run *run, tern_error *err)
{
    if (run->lock >= 0 || !tern_run__is_first(run)) return TERN_OK;
    run->fresh_folder = access(run->folder, F_OK) != 0;
    TERN_TRY(tern_folder_make(run->folder, err));
    TERN_TRY(tern_folder_make(run->checkpoint_dir, err));
    return lock_folder(run, err);
}

void tern_run__remove_empty_folders(tern_run *run)
{
    char *path = run->fresh_folder ? tern_path_join(run->checkpoint_dir, "lock") : NULL;
    if (!path) return;
    unlink(path);
    if (rmdir(run->checkpoint_dir) == 0) rmdir(run->folder); /* what holds anything stays */
    tern_free(path);
}
