/* Making the copies: of packed bytes, or of a candidate's layout. */
#include <stdio.h>
#include <string.h>

#include "backend/cpu/tune/tune_internal.h"
#include "base/alloc.h"
#include "base/bytes.h"

enum { MAX_COPIES = 4096 };

static tern_status make_room(tern_tune__way *way, uint64_t cold_bytes, tern_error *err)
{
    const uint64_t n = cold_bytes / (way->bytes ? way->bytes : 1) + 1;
    way->n_copies = n < MAX_COPIES ? (size_t)n : MAX_COPIES;
    way->copies = tern_calloc(way->n_copies, sizeof *way->copies);
    return way->copies ? TERN_OK : tern_fail_alloc(err, way->n_copies * sizeof *way->copies);
}

static tern_status open_packed(tern_tune__way *way, tern_cpu *cpu, const tern_weight *w, uint64_t cold_bytes,
                               tern_error *err)
{
    const size_t stride = tern_size_of(tern_round_up(w->bytes, 64));
    size_t total;
    way->bytes = w->bytes;
    TERN_TRY(make_room(way, cold_bytes, err));
    way->weights = tern_calloc(way->n_copies, sizeof *way->weights);
    way->packed = tern_size_mul(stride, way->n_copies, &total) ? tern_alloc_aligned(total, 4096) : NULL;
    if (!way->weights || !way->packed) return tern_fail_alloc(err, (unsigned long long)stride * way->n_copies);
    if (w->mapped) tern_use_small_pages(way->packed, total);
    for (size_t i = 0; i < way->n_copies; i++) {
        way->weights[i] = *w;
        way->weights[i].data = memcpy(way->packed + i * stride, w->data, w->bytes);
        TERN_TRY(tern_cpu__weight_create(&cpu->base, &way->weights[i], &way->copies[i], err));
    }
    return TERN_OK;
}

/* A buffer that owns the layout. */
static tern_status keep(tern_tune__way *way, size_t i, const tern_weight *w, tern_cpu__layout *l, tern_error *err)
{
    tern_buffer *buffer = tern_calloc(1, sizeof *buffer);
    if (!buffer) {
        l->close(l);
        return tern_fail_alloc(err, sizeof *buffer);
    }
    *buffer = (tern_buffer){.weight = w, .bytes = w->bytes, .cols = w->cols, .layout = l};
    way->copies[i] = buffer;
    return TERN_OK;
}

static tern_status open_layouts(tern_tune__way *way, tern_cpu *cpu, const tern_weight *w,
                                const tern_cpu__candidate *candidate, uint32_t n, uint64_t cold_bytes, tern_error *err)
{
    tern_cpu__layout *first, *l;
    TERN_TRY(candidate->make(cpu, w, n, &first, err));
    if (!first) return tern_fail(err, TERN_UNSUPPORTED, "%s: no other kernel than the default", candidate->name);
    way->bytes = first->bytes;
    const tern_status status = make_room(way, cold_bytes, err);
    if (status != TERN_OK) {
        first->close(first);
        return status;
    }
    TERN_TRY(keep(way, 0, w, first, err));
    for (size_t i = 1; i < way->n_copies; i++) {
        if (first->copy) TERN_TRY(first->copy(first, &l, err));
        else TERN_TRY(candidate->make(cpu, w, n, &l, err));
        TERN_TRY(keep(way, i, w, l, err));
    }
    return TERN_OK;
}

tern_status tern_tune__way_open(tern_tune__way *way, tern_cpu *cpu, const tern_weight *w,
                                const tern_cpu__candidate *candidate, uint32_t n, uint64_t cold_bytes, tern_error *err)
{
    *way = (tern_tune__way){0};
    if (n) snprintf(way->kernel, sizeof way->kernel, "%s:%u", candidate->name, n);
    else snprintf(way->kernel, sizeof way->kernel, "%s", candidate->name);
    if (!candidate->make) return open_packed(way, cpu, w, cold_bytes, err);
    return open_layouts(way, cpu, w, candidate, n, cold_bytes, err);
}

void tern_tune__way_close(tern_tune__way *way, tern_cpu *cpu)
{
    for (size_t i = 0; i < way->n_copies && way->copies; i++) cpu->base.buffer_free(&cpu->base, way->copies[i]);
    tern_free(way->copies);
    tern_free(way->weights);
    tern_free_aligned(way->packed);
    *way = (tern_tune__way){0};
}
