/* Trainers in tests. */
#include "support/trainer_case.h"

#include <dirent.h>
#include <unistd.h>

#include "base/half.h"
#include "base/rng.h"
#include "ops/ref/backward.h"
#include "quant/weight.h"

void test_batch_fill(test_batch *batch, const int32_t *ids, const int32_t *labels, uint32_t n_rows, uint32_t seq)
{
    assert_true(n_rows <= TEST_BATCH_ROWS && n_rows * seq <= TEST_BATCH_POSITIONS);
    memset(batch->starts, 0, sizeof batch->starts);
    memcpy(batch->ids, ids, (size_t)n_rows * seq * sizeof *ids);
    memcpy(batch->labels, labels, (size_t)n_rows * seq * sizeof *labels);
    for (uint32_t r = 0; r < n_rows; r++)
        batch->rows[r] = (tern_train_row){.ids = batch->ids + r * seq,
                                          .labels = batch->labels + r * seq,
                                          .starts = batch->starts + r * seq,
                                          .n_used = seq,
                                          .n_labels = tern_ref_count_labels(labels + r * seq, seq)};
}

void test_batch_random(test_batch *batch, uint64_t seed, uint32_t n_rows, uint32_t seq, uint32_t n_vocab)
{
    tern_rng rng = {.state = seed};
    static int32_t ids[TEST_BATCH_POSITIONS], labels[TEST_BATCH_POSITIONS];
    assert_true(n_rows * seq <= TEST_BATCH_POSITIONS);
    for (uint32_t i = 0; i < n_rows * seq; i++) ids[i] = (int32_t)tern_rng_below(&rng, n_vocab);
    for (uint32_t i = 0; i < n_rows * seq; i++) {
        bool masked = i % seq + 1 == seq || (i % seq > 1 && tern_rng_below(&rng, 8) == 0);
        labels[i] = masked ? TERN_TRAIN_NO_LABEL : ids[i + 1];
    }
    test_batch_fill(batch, ids, labels, n_rows, seq);
    for (uint32_t i = 0; i < n_rows * seq; i++)
        if (i / seq % 2 == 1 && i % seq >= seq / 2) batch->starts[i] = seq / 2;
}

tern_trainer *test_trainer(tern_backend *backend, const tern_model *model, const tern_trainer_params *params)
{
    tern_trainer *trainer = NULL;
    tern_error err = {0};
    assert_ok(tern_trainer_open(&trainer, backend, model, params, &err), err);
    return trainer;
}

size_t test_trainer_find(const tern_trainer *trainer, const char *name)
{
    for (size_t i = 0; i < tern_trainer_n_tensors(trainer); i++)
        if (strcmp(tern_trainer_tensor_at(trainer, i)->name, name) == 0) return i;
    fail_msg("no tensor %s", name);
    return 0;
}

uint8_t *test_trainer_bytes(tern_trainer *trainer, size_t i, tern_state state, size_t *n_bytes)
{
    tern_error err = {0};
    const tern_trainer_tensor *t = tern_trainer_tensor_at(trainer, i);
    *n_bytes = (size_t)tern_row_bytes(t->dtype[state], t->cols, t->rows);
    uint8_t *bytes = malloc(*n_bytes);
    assert_non_null(bytes);
    assert_ok(tern_trainer_read(trainer, i, state, bytes, &err), err);
    return bytes;
}

float *test_trainer_floats(tern_trainer *trainer, size_t i, tern_state state)
{
    const tern_trainer_tensor *t = tern_trainer_tensor_at(trainer, i);
    size_t n = (size_t)t->rows * t->cols, n_bytes, padded = (n + 255) / 256 * 256;
    uint8_t *bytes = test_trainer_bytes(trainer, i, state, &n_bytes);
    float *out = calloc(n, sizeof *out);
    assert_non_null(out);
    switch (t->dtype[state]) {
    case TERN_DTYPE_F32: memcpy(out, bytes, n_bytes); break;
    case TERN_DTYPE_BF16:
        for (size_t k = 0; k < n; k++) out[k] = tern_bf16_to_f32(((const uint16_t *)(const void *)bytes)[k]);
        break;
    case TERN_DTYPE_M8: tern_ref_state_unpack((int8_t *)bytes, (float *)(void *)(bytes + padded), n, out); break;
    case TERN_DTYPE_V8: tern_ref_square_unpack(bytes, (float *)(void *)(bytes + padded), n, out); break;
    default: fail_msg("%s has no state %d", t->name, (int)state);
    }
    free(bytes);
    return out;
}

bool test_trainer_same(tern_trainer *a, tern_trainer *b, char *what)
{
    static const char *const names[] = {"master", "gradient", "m", "v"};
    assert_int_equal(tern_trainer_n_tensors(a), tern_trainer_n_tensors(b));
    for (size_t i = 0; i < tern_trainer_n_tensors(a); i++)
        for (int state = 0; state < TERN_STATE_COUNT; state++) {
            size_t n, m;
            const tern_trainer_tensor *t = tern_trainer_tensor_at(a, i);
            if (t->dtype[state] == TERN_DTYPE_U32) continue;
            uint8_t *x = test_trainer_bytes(a, i, (tern_state)state, &n);
            uint8_t *y = test_trainer_bytes(b, i, (tern_state)state, &m);
            bool same = n == m && memcmp(x, y, n) == 0;
            free(x);
            free(y);
            if (same) continue;
            snprintf(what, 128, "%s: %s differs", t->name, names[state]);
            return false;
        }
    return true;
}

void test_remove_folder(const char *path)
{
    char file[1200];
    DIR *dir = opendir(path);
    for (const struct dirent *e; dir && (e = readdir(dir));) {
        if (e->d_name[0] == '.') continue;
        snprintf(file, sizeof file, "%s/%s", path, e->d_name);
        unlink(file);
    }
    if (dir) closedir(dir);
    rmdir(path);
}

static test_counting *of(tern_backend *b)
{
    return (test_counting *)b;
}

static tern_status count_buffer(tern_backend *b, uint64_t bytes, tern_buffer **out, tern_error *err)
{
    TERN_TRY(of(b)->inner->buffer_create(of(b)->inner, bytes, out, err));
    of(b)->buffer_bytes += bytes;
    of(b)->n_live++;
    return TERN_OK;
}

static tern_status count_weight(tern_backend *b, const tern_weight *w, tern_buffer **out, tern_error *err)
{
    TERN_TRY(of(b)->inner->weight_create(of(b)->inner, w, out, err));
    of(b)->weight_bytes += w->bytes + (w->row_scales ? w->rows * sizeof(float) : 0);
    of(b)->n_live++;
    return TERN_OK;
}

static void count_free(tern_backend *b, tern_buffer *buffer)
{
    if (buffer) of(b)->n_live--;
    of(b)->inner->buffer_free(of(b)->inner, buffer);
}

static tern_status pass_write(tern_backend *b, tern_buffer *buffer, uint64_t offset, const void *data, uint64_t bytes,
                              tern_error *err)
{
    return of(b)->inner->buffer_write(of(b)->inner, buffer, offset, data, bytes, err);
}

static tern_status pass_read(tern_backend *b, const tern_buffer *buffer, uint64_t offset, void *data, uint64_t bytes,
                             tern_error *err)
{
    return of(b)->inner->buffer_read(of(b)->inner, buffer, offset, data, bytes, err);
}

static tern_status pass_prepare(tern_backend *b, const tern_graph *graph, const tern_binding *bindings,
                                tern_prepared **out, tern_error *err)
{
    return of(b)->inner->prepare(of(b)->inner, graph, bindings, out, err);
}

static void pass_prepared_free(tern_backend *b, tern_prepared *prepared)
{
    of(b)->inner->prepared_free(of(b)->inner, prepared);
}

static tern_status pass_supports(tern_backend *b, const tern_graph *graph, const tern_op *op, tern_error *err)
{
    return of(b)->inner->supports(of(b)->inner, graph, op, err);
}

static tern_status pass_run(tern_backend *b, tern_prepared *prepared, uint32_t n_steps, tern_error *err)
{
    return of(b)->inner->run(of(b)->inner, prepared, n_steps, err);
}

static tern_status pass_wait(tern_backend *b, tern_error *err)
{
    return of(b)->inner->wait(of(b)->inner, err);
}

void test_counting_open(test_counting *counting, tern_backend *inner)
{
    *counting = (test_counting){.base = *inner, .inner = inner};
    counting->base.trial = NULL; /* of the inner table alone */
    counting->base.buffer_create = count_buffer;
    counting->base.weight_create = count_weight;
    counting->base.buffer_free = count_free;
    counting->base.buffer_write = pass_write;
    counting->base.buffer_read = pass_read;
    counting->base.prepare = pass_prepare;
    counting->base.prepared_free = pass_prepared_free;
    counting->base.supports = pass_supports;
    counting->base.run = pass_run;
    counting->base.wait = pass_wait;
}
