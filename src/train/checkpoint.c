/* Reading checkpoints: every byte of them is checked when they are opened. */
#include "train/checkpoint.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/half.h"
#include "base/show.h"
#include "format/json.h"
#include "train/checkpoint_internal.h"
#include "train/data/layout.h"

/* An 8-bit state: the elements in whole blocks, then an f32 scale for each block (ops/ref/update.h). */
enum { STATE_BLOCK = 256, STATE_BLOCK_BYTES = STATE_BLOCK + 4 };

struct tern_checkpoint {
    tern_file_map map;
    tern_safetensors *st;
    json_t *run;
};

void tern_checkpoint_close(tern_checkpoint *checkpoint)
{
    if (!checkpoint) return;
    tern_json_free(checkpoint->run);
    tern_safetensors_close(checkpoint->st);
    tern_file_map_close(&checkpoint->map);
    tern_free(checkpoint);
}

static tern_status need_flat(const tern_st_tensor *t, const char *name, tern_st_dtype dtype, tern_error *err)
{
    if (t && strcmp(t->name, name) == 0 && t->dtype == dtype) return TERN_OK;
    return tern_fail(err, TERN_MALFORMED, "no checkpoint: %s found, %s of %s expected", t ? t->name : "nothing", name,
                     tern_st_dtype_name(dtype));
}

static tern_status check_hash(const tern_st_tensor *hashes, size_t i, const void *bytes, size_t n, const char *what,
                              tern_error *err)
{
    const uint64_t found = tern_hash(TERN_HASH_START, bytes, n), want = tern_load_u64(hashes->data + 8 * i);
    if (found == want) return TERN_OK;
    return tern_fail(err, TERN_MALFORMED, "%s: damaged (hash %016llx found, %016llx expected)", tern_show_z(what).text,
                     (unsigned long long)found, (unsigned long long)want);
}

static tern_status check_hashes(const tern_checkpoint *c, tern_error *err)
{
    const size_t n = tern_safetensors_count(c->st);
    const tern_st_tensor *hashes = n ? tern_safetensors_at(c->st, n - 1) : NULL;
    TERN_TRY(need_flat(hashes, TERN_CHECKPOINT__HASHES, TERN_ST_U64, err));
    if (hashes->n_elements != n - 1)
        return tern_fail(err, TERN_MALFORMED, "%s: %llu hashes found, %zu expected", TERN_CHECKPOINT__HASHES,
                         (unsigned long long)hashes->n_elements, n - 1);
    for (size_t i = 0; i + 1 < n; i++) {
        const tern_st_tensor *t = tern_safetensors_at(c->st, i);
        TERN_TRY(check_hash(hashes, i, t->data, t->bytes, t->name, err));
    }
    return TERN_OK;
}

static tern_status read_run(tern_checkpoint *c, tern_error *err)
{
    uint32_t version = 0;
    const tern_st_tensor *t = tern_safetensors_at(c->st, 0);
    TERN_TRY(need_flat(t, TERN_CHECKPOINT__RUN, TERN_ST_U8, err));
    TERN_TRY(tern_json_parse(&c->run, t->data, t->bytes, TERN_CHECKPOINT__RUN, err));
    TERN_TRY(tern_json_get_u32(c->run, "version", &version, err));
    if (version == TERN_CHECKPOINT__VERSION) return TERN_OK;
    return tern_fail(err, TERN_UNSUPPORTED, "a checkpoint of version %u, %d expected", version,
                     TERN_CHECKPOINT__VERSION);
}

/* Element i of a tensor of floats; of 8-bit states the scale of block i, which lies behind all elements. */
static float value_at(const tern_st_tensor *t, size_t i)
{
    if (t->dtype == TERN_ST_BF16) return tern_bf16_to_f32(tern_load_u16(t->data + 2 * i));
    const size_t from = t->dtype == TERN_ST_U8 ? t->bytes / STATE_BLOCK_BYTES * STATE_BLOCK : 0;
    return tern_f32_from_bits(tern_load_u32(t->data + from + 4 * i));
}

/* Every number of a state is finite, and none of a second moment or a scale is negative: a run that continued from
 * others would write weights that are not numbers. */
static tern_status check_values(const tern_st_tensor *t, tern_error *err)
{
    const bool scales = t->dtype == TERN_ST_U8, positive = scales || strncmp(t->name, "v.", 2) == 0;
    const size_t n = scales ? t->bytes / STATE_BLOCK_BYTES : (size_t)t->n_elements;
    if (!scales && t->dtype != TERN_ST_F32 && t->dtype != TERN_ST_BF16) return TERN_OK;
    for (size_t i = 0; i < n; i++) {
        const float v = value_at(t, i);
        if (isfinite(v) && (!positive || v >= 0)) continue;
        return tern_fail(err, TERN_MALFORMED, "%s: %g found at %s %zu, a finite number%s expected",
                         tern_show_z(t->name).text, (double)v, scales ? "the scale of block" : "element", i,
                         positive ? " from 0" : "");
    }
    return TERN_OK;
}

static tern_status check_states(const tern_checkpoint *c, tern_error *err)
{
    for (size_t i = 1; i + 1 < tern_safetensors_count(c->st); i++)
        TERN_TRY(check_values(tern_safetensors_at(c->st, i), err));
    return TERN_OK;
}

static tern_status parse(tern_checkpoint *c, const void *data, size_t size, tern_error *err)
{
    TERN_TRY(tern_safetensors_parse(&c->st, data, size, err));
    TERN_TRY(check_hashes(c, err));
    TERN_TRY(check_states(c, err));
    return read_run(c, err);
}

tern_status tern_checkpoint_parse(tern_checkpoint **checkpoint, const void *data, size_t size, tern_error *err)
{
    *checkpoint = tern_calloc(1, sizeof **checkpoint);
    if (!*checkpoint) return tern_fail_alloc(err, sizeof **checkpoint);
    tern_status status = parse(*checkpoint, data, size, err);
    if (status == TERN_OK) return TERN_OK;
    tern_checkpoint_close(*checkpoint);
    *checkpoint = NULL;
    if (status == TERN_NOT_FOUND && err) err->code = TERN_MALFORMED; /* a key of the run */
    return status == TERN_NOT_FOUND ? TERN_MALFORMED : status;
}

tern_status tern_checkpoint_open(tern_checkpoint **checkpoint, const char *path, tern_error *err)
{
    tern_file_map map;
    tern_error local = {0};
    tern_error *e = err ? err : &local;
    *checkpoint = NULL;
    TERN_TRY(tern_file_map_open(&map, path, e));
    tern_status status = tern_checkpoint_parse(checkpoint, map.data, map.size, e);
    if (status == TERN_OK) {
        (*checkpoint)->map = map;
        return TERN_OK;
    }
    tern_file_map_close(&map);
    return tern_error_prefix(e, "%s", path);
}

const json_t *tern_checkpoint_run(const tern_checkpoint *checkpoint)
{
    return checkpoint->run;
}

size_t tern_checkpoint_count(const tern_checkpoint *checkpoint)
{
    return tern_safetensors_count(checkpoint->st) - 2;
}

tern_status tern_checkpoint_find(const tern_checkpoint *checkpoint, const tern_checkpoint_item *item,
                                 const uint8_t **bytes, tern_error *err)
{
    const tern_st_tensor want = tern_checkpoint__tensor(item), *t = tern_safetensors_find(checkpoint->st, item->name);
    if (!t) return tern_fail(err, TERN_NOT_FOUND, "%s: the checkpoint does not have it", item->name);
    if (t->dtype != want.dtype || t->n_dims != 2 || t->dims[0] != want.dims[0] || t->dims[1] != want.dims[1])
        return tern_fail(err, TERN_MALFORMED, "%s: %s [%llu][%llu] found, %s [%llu][%llu] expected", item->name,
                         tern_st_dtype_name(t->dtype), (unsigned long long)t->dims[0],
                         (unsigned long long)(t->n_dims > 1 ? t->dims[1] : 1), tern_st_dtype_name(want.dtype),
                         (unsigned long long)want.dims[0], (unsigned long long)want.dims[1]);
    *bytes = t->data;
    return TERN_OK;
}
