/* Making the copies: of packed bytes, or of a candidate's layout. */
#include <stdio.h>
#include <string.h>

#include "backend/cpu/tune/tune_internal.h"
#include "base/alloc.h"
#include "base/bytes.h"
#include "quant/weight.h"

enum { MAX_COPIES = 4096 };

static tern_status allocate(tern_tune__kernel *kernel, uint64_t cold_bytes, tern_error *err)
{
    const uint64_t n = cold_bytes / (kernel->bytes ? kernel->bytes : 1) + 1;
    kernel->n_copies = n < MAX_COPIES ? (size_t)n : MAX_COPIES;
    kernel->copies = tern_calloc(kernel->n_copies, sizeof *kernel->copies);
    return kernel->copies ? TERN_OK : tern_fail_alloc(err, kernel->n_copies * sizeof *kernel->copies);
}

static tern_status open_packed(tern_tune__kernel *kernel, tern_cpu *cpu, const tern_weight *w, uint64_t cold_bytes,
                               tern_error *err)
{
    const size_t stride = tern_size_of(tern_round_up(w->bytes, 64));
    size_t total;
    kernel->bytes = w->bytes;
    TERN_TRY(allocate(kernel, cold_bytes, err));
    kernel->weights = tern_calloc(kernel->n_copies, sizeof *kernel->weights);
    kernel->packed = tern_size_mul(stride, kernel->n_copies, &total) ? tern_alloc_aligned(total, 4096) : NULL;
    if (!kernel->weights || !kernel->packed) return tern_fail_alloc(err, (unsigned long long)stride * kernel->n_copies);
    if (w->mapped) tern_use_small_pages(kernel->packed, total);
    for (size_t i = 0; i < kernel->n_copies; i++) {
        kernel->weights[i] = *w;
        kernel->weights[i].data = memcpy(kernel->packed + i * stride, w->data, w->bytes);
        TERN_TRY(tern_cpu__weight_create(&cpu->base, &kernel->weights[i], &kernel->copies[i], err));
    }
    return TERN_OK;
}

/* A buffer that owns the layout. */
static tern_status keep(tern_tune__kernel *kernel, size_t i, const tern_weight *w, tern_cpu__layout *l, tern_error *err)
{
    tern_buffer *buffer = tern_calloc(1, sizeof *buffer);
    if (!buffer) {
        l->close(l);
        return tern_fail_alloc(err, sizeof *buffer);
    }
    *buffer = (tern_buffer){.weight = w, .bytes = w->bytes, .cols = w->cols, .layout = l};
    kernel->copies[i] = buffer;
    return TERN_OK;
}

static tern_status open_layouts(tern_tune__kernel *kernel, tern_cpu *cpu, const tern_weight *w,
                                const tern_cpu__candidate *candidate, uint32_t n, uint64_t cold_bytes, tern_error *err)
{
    tern_cpu__layout *first, *l;
    TERN_TRY(candidate->make(cpu, w, n, &first, err));
    if (!first) return tern_fail(err, TERN_UNSUPPORTED, "%s: no other kernel than the default", candidate->name);
    kernel->bytes = first->bytes;
    const tern_status status = allocate(kernel, cold_bytes, err);
    if (status != TERN_OK) {
        first->close(first);
        return status;
    }
    TERN_TRY(keep(kernel, 0, w, first, err));
    for (size_t i = 1; i < kernel->n_copies; i++) {
        if (first->copy) TERN_TRY(first->copy(first, &l, err));
        else TERN_TRY(candidate->make(cpu, w, n, &l, err));
        TERN_TRY(keep(kernel, i, w, l, err));
    }
    return TERN_OK;
}

tern_status tern_tune__kernel_open(tern_tune__kernel *kernel, tern_cpu *cpu, const tern_weight *w,
                                   const tern_cpu__candidate *candidate, uint32_t n, uint64_t cold_bytes,
                                   tern_error *err)
{
    *kernel = (tern_tune__kernel){0};
    if (n) snprintf(kernel->name, sizeof kernel->name, "%s:%u", candidate->name, n);
    else snprintf(kernel->name, sizeof kernel->name, "%s", candidate->name);
    if (!candidate->make) return open_packed(kernel, cpu, w, cold_bytes, err);
    return open_layouts(kernel, cpu, w, candidate, n, cold_bytes, err);
}

void tern_tune__kernel_close(tern_tune__kernel *kernel, tern_cpu *cpu)
{
    for (size_t i = 0; i < kernel->n_copies && kernel->copies; i++)
        cpu->base.buffer_free(&cpu->base, kernel->copies[i]);
    tern_free(kernel->copies);
    tern_free(kernel->weights);
    tern_free_aligned(kernel->packed);
    *kernel = (tern_tune__kernel){0};
}
