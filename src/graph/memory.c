/* Memory that graphs share: buffers for all values of one kind, and the memory that activations lie in. */
#include "graph/memory.h"

#include "base/alloc.h"
#include "ops/graph.h"

enum { CHUNK_BYTES = 1 << 20, LEAST_BYTES = 256 };

static tern_status make(tern_graph_buffers *out, tern_backend *b, const tern_value *v, tern_error *err)
{
    tern_buffer **buffer = &out->buffers[out->n];
    if (v->kind == TERN_VALUE_CACHE && b->cache_create && v->bytes)
        TERN_TRY(b->cache_create(b, v->bytes, tern_row_bytes(v->dtype, v->cols, TERN_PAGE_SIZE), buffer, err));
    else if (v->bytes) TERN_TRY(b->buffer_create(b, v->bytes, buffer, err));
    out->n++;
    return v->kind == TERN_VALUE_CONSTANT ? tern_graph_fill_constant(b, *buffer, v, err) : TERN_OK;
}

tern_status tern_graph_buffers_make(tern_graph_buffers *out, tern_backend *backend, const tern_graph *graph,
                                    tern_value_kind kind, tern_error *err)
{
    size_t n = 0;
    for (size_t i = 0; i < graph->n_values; i++) n += graph->values[i].kind == kind;
    *out = (tern_graph_buffers){.kind = kind, .buffers = tern_calloc(n, sizeof(tern_buffer *))};
    if (!out->buffers) return tern_fail_alloc(err, n * sizeof(tern_buffer *));
    for (size_t i = 0; i < graph->n_values; i++)
        if (graph->values[i].kind == kind) TERN_TRY(make(out, backend, &graph->values[i], err));
    return TERN_OK;
}

void tern_graph_buffers_free(tern_graph_buffers *buffers, tern_backend *backend)
{
    for (size_t i = 0; i < buffers->n; i++) backend->buffer_free(backend, buffers->buffers[i]);
    tern_free(buffers->buffers);
    *buffers = (tern_graph_buffers){0};
}

tern_buffer *tern_graph_buffers_at(const tern_graph_buffers *buffers, const tern_graph *graph, uint32_t value)
{
    size_t k = 0;
    for (uint32_t i = 0; i < value; i++) k += graph->values[i].kind == buffers->kind;
    return k < buffers->n ? buffers->buffers[k] : NULL;
}

uint64_t tern_graph_bytes_of(const tern_graph *graph, tern_value_kind kind)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < graph->n_values; i++)
        if (graph->values[i].kind == kind) bytes += graph->values[i].bytes;
    return bytes;
}

/* Rows first .. first + n - 1 of a constant. */
static void constant_rows(const tern_value *value, uint64_t first, uint64_t n, float *rows)
{
    if (value->frequencies)
        tern_rope_rows(value->frequencies, value->sizes, value->cols / 2, (uint32_t)first, (uint32_t)n, rows);
    for (uint64_t i = 0; !value->frequencies && i < n * value->cols; i++)
        rows[i] = value->numbers ? value->numbers[i % value->cols] : value->fill;
}

tern_status tern_graph_fill_constant(tern_backend *backend, tern_buffer *buffer, const tern_value *value,
                                     tern_error *err)
{
    const uint64_t row_bytes = value->cols * sizeof(float), n = value->bytes / row_bytes;
    const uint64_t most = CHUNK_BYTES / row_bytes ? CHUNK_BYTES / row_bytes : 1, chunk = n < most ? n : most;
    float *rows = tern_alloc((size_t)(chunk * row_bytes));
    if (!rows) return tern_fail_alloc(err, chunk * row_bytes);
    tern_status status = TERN_OK;
    for (uint64_t at = 0; at < n && status == TERN_OK; at += chunk) {
        const uint64_t some = n - at < chunk ? n - at : chunk;
        constant_rows(value, at, some, rows);
        status = backend->buffer_write(backend, buffer, at * row_bytes, rows, some * row_bytes, err);
    }
    tern_free(rows);
    return status;
}

tern_status tern_activations_make(tern_activations *out, tern_backend *backend, uint64_t bytes, uint64_t block,
                                  tern_error *err)
{
    uint64_t left = bytes < LEAST_BYTES ? LEAST_BYTES : bytes;
    const uint64_t most = block ? block : left;
    *out = (tern_activations){.block = block};
    if ((left - 1) / most >= TERN_MAX_ACTIVATION_BUFFERS)
        return tern_fail(err, TERN_LIMIT, "%llu bytes of activations in buffers of %llu: at most %d of them expected",
                         (unsigned long long)left, (unsigned long long)most, TERN_MAX_ACTIVATION_BUFFERS);
    for (size_t i = 0; left; i++) {
        const uint64_t some = left < most ? left : most;
        TERN_TRY(backend->buffer_create(backend, some, &out->buffers[i], err));
        left -= some;
    }
    return TERN_OK;
}

void tern_activations_free(tern_activations *activations, tern_backend *backend)
{
    for (size_t i = 0; i < TERN_MAX_ACTIVATION_BUFFERS && activations->buffers[i]; i++)
        backend->buffer_free(backend, activations->buffers[i]);
    *activations = (tern_activations){0};
}

tern_binding tern_activations_at(const tern_activations *activations, uint64_t offset)
{
    const uint64_t block = activations->block;
    if (block == 0) return (tern_binding){.buffer = activations->buffers[0], .offset = offset};
    return (tern_binding){.buffer = activations->buffers[offset / block], .offset = offset % block};
}
