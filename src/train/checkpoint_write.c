/* Writing checkpoints, tensor by tensor. */
#include <string.h>

#include "base/alloc.h"
#include "format/json.h"
#include "train/checkpoint_internal.h"
#include "train/data/layout.h"

/* The written parts in order: the run, the items, the hashes. */
typedef struct writer {
    const tern_checkpoint_source *source;
    tern_st_tensor *tensors; /* [n] */
    size_t n;
    uint64_t *hashes; /* [n - 1] of the tensors before the last */
    char *run;
    uint8_t *bytes; /* of the largest item */
} writer;

static void free_writer(writer *w)
{
    tern_free(w->tensors);
    tern_free(w->hashes);
    tern_free(w->run);
    tern_free(w->bytes);
}

static tern_st_tensor flat(const char *name, tern_st_dtype dtype, size_t n)
{
    return (tern_st_tensor){.name = name,
                            .dtype = dtype,
                            .n_dims = 1,
                            .dims = {n},
                            .n_elements = n,
                            .bytes = n * tern_st_dtype_bytes(dtype)};
}

static tern_status list_tensors(writer *w, tern_error *err)
{
    const tern_checkpoint_source *s = w->source;
    size_t largest = 0;
    w->n = s->n + 2;
    w->tensors = tern_calloc(w->n, sizeof *w->tensors);
    w->hashes = tern_calloc(w->n, sizeof *w->hashes);
    w->run = json_dumps(s->run, JSON_COMPACT | JSON_SORT_KEYS | JSON_REAL_PRECISION(17));
    if (!w->tensors || !w->hashes || !w->run) return tern_fail_alloc(err, w->n * sizeof *w->tensors);
    w->tensors[0] = flat(TERN_CHECKPOINT__RUN, TERN_ST_U8, strlen(w->run));
    for (size_t i = 0; i < s->n; i++) {
        w->tensors[1 + i] = tern_checkpoint__tensor(&s->items[i]);
        if (w->tensors[1 + i].bytes > largest) largest = w->tensors[1 + i].bytes;
    }
    w->tensors[w->n - 1] = flat(TERN_CHECKPOINT__HASHES, TERN_ST_U64, w->n - 1);
    w->bytes = tern_calloc(1, largest);
    return w->bytes ? TERN_OK : tern_fail_alloc(err, largest);
}

static tern_status write_data(writer *w, tern_safetensors_writer *file, tern_error *err)
{
    uint8_t word[8];
    tern_safetensors_writer_add(file, w->run, w->tensors[0].bytes);
    w->hashes[0] = tern_hash(TERN_HASH_START, w->run, w->tensors[0].bytes);
    for (size_t i = 0; i < w->source->n; i++) {
        const size_t n = w->tensors[1 + i].bytes;
        TERN_TRY(w->source->read(w->source->context, i, w->bytes, err));
        tern_safetensors_writer_add(file, w->bytes, n);
        w->hashes[1 + i] = tern_hash(TERN_HASH_START, w->bytes, n);
    }
    for (size_t i = 0; i + 1 < w->n; i++) {
        tern_store_u64(word, w->hashes[i]);
        tern_safetensors_writer_add(file, word, sizeof word);
    }
    return TERN_OK;
}

tern_status tern_checkpoint_write(const char *path, const tern_checkpoint_source *source, tern_error *err)
{
    writer w = {.source = source};
    tern_safetensors_writer file = {0};
    tern_json_use_allocator();
    tern_status status;
    TERN_GOTO(list_tensors(&w, err));
    TERN_GOTO(tern_safetensors_writer_open(&file, path, w.tensors, w.n, NULL, err));
    TERN_GOTO(write_data(&w, &file, err));
    TERN_GOTO(tern_safetensors_writer_commit(&file, err));
fail:
    tern_safetensors_writer_abort(&file);
    free_writer(&w);
    return status;
}
