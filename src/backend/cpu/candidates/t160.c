/* The 1.6-bit encoding as a candidate: a weight of another encoding is packed into T160 when it is created, so that a
 * product reads a fifth less than with 2 bits. */
#include <string.h>

#include "backend/cpu/candidates/candidates.h"
#include "base/alloc.h"
#include "base/pool.h"
#include "quant/encoding.h"
#include "quant/weight.h"

enum { PACK_ROWS = 64 };

typedef struct packed {
    tern_cpu__layout base;
    tern_ternary_fn kernel;
    tern_cpu__layout_memory *memory;
    tern_cpu__layout_block block;
    uint8_t *rows; /* in it */
    size_t row_bytes;
    uint32_t cols;
} packed;

static void multiply(const tern_cpu__layout *l, uint32_t first, uint32_t n_rows, const tern_q8_rows *x, void *scratch,
                     int32_t *dots, size_t stride)
{
    const packed *m = (const packed *)(const void *)l;
    (void)scratch;
    m->kernel(m->rows + first * m->row_bytes, m->row_bytes, n_rows, m->cols, x, dots, stride);
}

static void close_packed(tern_cpu__layout *l)
{
    packed *m = (packed *)(void *)l;
    tern_cpu__layout_free(m->memory, &m->block);
    tern_free(m);
}

static tern_status take_block(packed *m, tern_error *err)
{
    m->block = (tern_cpu__layout_block){0};
    TERN_TRY(tern_cpu__layout_alloc(m->memory, m->base.bytes, &m->block, err));
    m->rows = m->block.data;
    return TERN_OK;
}

/* Runs of rows, one a task. */
typedef struct packing {
    const tern_weight *w;
    packed *m;
    int8_t *codes; /* [threads][PACK_ROWS][cols] */
    size_t bytes;  /* of a thread: the codes, and what they become with the encoding's tail */
    tern_status *status;
} packing;

static void pack_task(void *context, uint32_t task, uint32_t thread)
{
    const packing *p = context;
    const tern_weight *w = p->w;
    const uint32_t first = task * PACK_ROWS, left = w->rows - first, n = left < PACK_ROWS ? left : PACK_ROWS;
    int8_t *codes = p->codes + thread * p->bytes;
    uint8_t *out = (uint8_t *)codes + (size_t)PACK_ROWS * w->cols;
    tern_status status =
        tern_decode_codes(w->encoding, w->data, w->rows, w->cols, first, n, codes, NULL, NULL, NULL, NULL);
    if (status == TERN_OK)
        status = tern_encode_codes(tern_encoding_find(TERN_ENC_T160), codes, 1.0f, n, w->cols, out, NULL);
    if (status == TERN_OK) memcpy(p->m->rows + first * p->m->row_bytes, out, n * p->m->row_bytes);
    else p->status[thread] = status;
}

static tern_status pack(tern_cpu *cpu, packed *m, const tern_weight *w, tern_error *err)
{
    const tern_encoding *t160 = tern_encoding_find(TERN_ENC_T160);
    const uint32_t n_threads = tern_pool_threads(cpu->pool);
    packing p = {.w = w, .m = m};
    size_t some;
    TERN_TRY(tern_encoding_row_bytes(t160, w->cols, &m->row_bytes, err));
    TERN_TRY(tern_encoding_bytes(t160, PACK_ROWS, w->cols, &some, err));
    m->base.bytes = (uint64_t)m->row_bytes * w->rows;
    TERN_TRY(take_block(m, err));
    p.bytes = (size_t)PACK_ROWS * w->cols + some;
    p.codes = tern_calloc(n_threads, p.bytes);
    p.status = tern_calloc(n_threads, sizeof *p.status);
    tern_status status = p.codes && p.status ? TERN_OK : tern_fail_alloc(err, n_threads * p.bytes);
    if (status == TERN_OK) {
        pthread_mutex_lock(&cpu->running);
        tern_pool_for(cpu->pool, (w->rows + PACK_ROWS - 1) / PACK_ROWS, pack_task, &p);
        pthread_mutex_unlock(&cpu->running);
    }
    for (uint32_t i = 0; i < n_threads && status == TERN_OK; i++)
        if (p.status[i] != TERN_OK) status = tern_fail(err, p.status[i], "%s: ternary codes expected", w->name);
    tern_free(p.codes);
    tern_free(p.status);
    return status;
}

static tern_status copy_packed(const tern_cpu__layout *l, tern_cpu__layout **out, tern_error *err)
{
    const packed *from = (const packed *)(const void *)l;
    packed *m = tern_alloc(sizeof *m);
    if (!m) return tern_fail_alloc(err, sizeof *m);
    *m = *from;
    const tern_status status = take_block(m, err);
    if (status != TERN_OK) {
        tern_free(m);
        return status;
    }
    memcpy(m->rows, from->rows, tern_size_of(m->base.bytes));
    *out = &m->base;
    return TERN_OK;
}

tern_status tern_cpu__t160_make(tern_cpu *cpu, const tern_weight *w, uint32_t n, tern_cpu__layout **out,
                                tern_error *err)
{
    (void)n;
    *out = NULL;
    if (w->trained)
        return tern_fail(err, TERN_UNSUPPORTED, "%s: kernel t160 found for a weight that is trained, dot expected",
                         w->name);
    if (w->encoding->id == TERN_ENC_T160) return TERN_OK; /* as it lies in the file */
    packed *m = tern_calloc(1, sizeof *m);
    if (!m) return tern_fail_alloc(err, sizeof *m);
    *m = (packed){.base = {.row_step = 4,
                           .max_tokens = TERN_CPU__LAYOUT_TOKENS,
                           .multiply = multiply,
                           .close = close_packed,
                           .copy = copy_packed},
                  .kernel = cpu->kernels.t160,
                  .memory = &cpu->layouts,
                  .cols = w->cols};
    const tern_status status = pack(cpu, m, w, err);
    if (status != TERN_OK) {
        close_packed(&m->base);
        return status;
    }
    *out = &m->base;
    return TERN_OK;
}
