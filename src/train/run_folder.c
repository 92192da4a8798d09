/* The folder that a run works in. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/show.h"
#include "train/run_internal.h"

char *tern_run__path(const tern_run *run, const char *name)
{
    return tern_path_join(run->folder, name);
}

/* Whether both names are the same file or folder. */
static bool same_file(const char *a, const char *b)
{
    struct stat x, y;
    return stat(a, &x) == 0 && stat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

/* "x.gguf" works in "x.train", beside the result. */
static char *name_folder(const char *output, bool to_gguf)
{
    if (!to_gguf) return tern_strdup(output);
    const size_t n = strlen(output) - strlen(".gguf");
    char *folder = tern_alloc(n + sizeof ".train");
    if (!folder) return NULL;
    memcpy(folder, output, n);
    memcpy(folder + n, ".train", sizeof ".train");
    return folder;
}

tern_status tern_run__find_folder(tern_run *run, tern_error *err)
{
    const tern_finetune_options *o = run->o;
    run->to_gguf = tern_path_ends(o->output, ".gguf");
    if (o->model && same_file(o->model, o->output))
        return tern_fail(err, TERN_INVALID_ARGUMENT, "%s is the model itself: another name expected of the output",
                         tern_show_z(o->output).text);
    if (o->type && !run->to_gguf)
        return tern_fail(err, TERN_INVALID_ARGUMENT, "type %s goes with an output NAME.gguf, %s found",
                         tern_show_z(o->type).text, tern_show_z(o->output).text);
    if (o->type && (o->lora_rank || o->lora_start))
        return tern_fail(err, TERN_INVALID_ARGUMENT, "type %s: adapters are always f32", tern_show_z(o->type).text);
    run->folder = name_folder(o->output, run->to_gguf);
    run->checkpoint_dir = run->folder ? tern_run__path(run, "checkpoint") : NULL;
    run->state_path = run->checkpoint_dir ? tern_path_join(run->checkpoint_dir, "state.safetensors") : NULL;
    return run->state_path ? TERN_OK : tern_fail_alloc(err, strlen(o->output) + 64);
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
        return tern_fail(err, TERN_INVALID_ARGUMENT, "another run is at work in %s: an output of its own expected",
                         tern_show_z(run->folder).text);
    return tern_fail(err, TERN_IO, "%s: cannot lock the folder: %s", tern_show_z(run->checkpoint_dir).text,
                     strerror(errno));
}

tern_status tern_run__make_folders(tern_run *run, tern_error *err)
{
    if (run->lock >= 0) return TERN_OK;
    TERN_TRY(tern_folder_make(run->folder, err));
    TERN_TRY(tern_folder_make(run->checkpoint_dir, err));
    return lock_folder(run, err);
}
