/* Look-up tables as a candidate: the weight is packed into strips when it is created. */
#include <string.h>

#include "backend/cpu/candidates/candidates.h"
#include "base/alloc.h"
#include "base/pool.h"
#include "quant/encoding.h"
#include "quant/weight.h"

enum { MAX_TOKENS = 4 };

typedef struct lut {
    tern_cpu__layout base;
    tern_lut_fn kernel;
    tern_cpu__layout_memory *memory;
    tern_cpu__layout_block block;
    uint8_t *strips;                 /* in it */
    size_t strip_bytes, token_bytes; /* tables of a token */
    uint32_t n_groups;
} lut;

static void make_2(const tern_cpu_kernels *k, const int8_t *x, uint32_t n, void *out)
{
    k->lut2_tables(x, n, out);
}

static void make_3(const tern_cpu_kernels *k, const int8_t *x, uint32_t n, void *out)
{
    k->lut3_tables(x, n, out);
}

static void make_5(const tern_cpu_kernels *k, const int8_t *x, uint32_t n, void *out)
{
    k->lut5_tables(x, n, out);
}

static const tern_cpu__tables tables_2 = {.cols = 4, .bytes = TERN_LUT2_TABLE, .make = make_2};
static const tern_cpu__tables tables_3 = {.cols = 42, .bytes = TERN_LUT3_TABLE, .make = make_3};
static const tern_cpu__tables tables_5 = {.cols = 5, .bytes = TERN_LUT5_TABLE, .make = make_5};

/* The kernel that serves a width on a CPU. */
typedef struct service {
    uint32_t width; /* 0: there is no such width */
    const tern_cpu__tables *tables;
    tern_lut_fn kernel;
    const char *level, *needs; /* the level that kernel is of, and the least that a width has kernels for */
} service;

static service service_of(const tern_cpu_kernels *k, uint32_t width)
{
    switch (width) {
    case 2: return (service){2, &tables_2, k->lut2, k->lut2_level, "AVX-512 or NEON"};
    case 3: return (service){3, &tables_3, k->lut3, k->lut3_level, "AVX2"};
    case 5: return (service){5, &tables_5, k->lut5, k->lut5_level, "AVX-512 with VBMI"};
    default: return (service){0};
    }
}

static bool is_definition(const service *s)
{
    return strcmp(s->level, "scalar") == 0;
}

/* The fastest first; with nothing but definitions, any is as good. */
static service best_of(const tern_cpu_kernels *k)
{
    static const uint32_t widths[] = {5, 2, 3};
    for (size_t i = 0; i < sizeof widths / sizeof *widths; i++) {
        const service s = service_of(k, widths[i]);
        if (!is_definition(&s)) return s;
    }
    return service_of(k, 2);
}

/* The definition serves a width only where no width has better: it is far too slow to be what somebody wants. */
static tern_status find_service(const tern_cpu_kernels *k, uint32_t width, service *out, tern_error *err)
{
    const service best = best_of(k);
    *out = width ? service_of(k, width) : best;
    if (!out->width)
        return tern_fail(err, TERN_INVALID_ARGUMENT, "kernel lut:%u: look-ups of 2, 3 or 5 columns expected", width);
    if (is_definition(out) && !is_definition(&best))
        return tern_fail(err, TERN_UNSUPPORTED,
                         "kernel lut:%u: needs %s, which this CPU or --cpu-features lacks; lut:%u expected", width,
                         out->needs, best.width);
    return TERN_OK;
}

static void multiply(const tern_cpu__layout *l, uint32_t first, uint32_t n_rows, const tern_q8_rows *x, void *scratch,
                     int32_t *dots, size_t stride)
{
    const lut *m = (const lut *)(const void *)l;
    const uint32_t end = first + n_rows;
    for (uint32_t row = first / TERN_LUT_ROWS * TERN_LUT_ROWS; row < end; row += TERN_LUT_ROWS) {
        const uint8_t *strip = m->strips + row / TERN_LUT_ROWS * m->strip_bytes;
        const uint32_t from = row < first ? first : row, to = end - row < TERN_LUT_ROWS ? end : row + TERN_LUT_ROWS;
        for (uint32_t t = 0; t < x->n; t++) {
            _Alignas(64) int32_t some[TERN_LUT_ROWS];
            m->kernel(strip, (const int8_t *)scratch + t * m->token_bytes, m->n_groups, some);
            memcpy(dots + t * stride + (from - first), some + (from - row), (to - from) * sizeof *dots);
        }
    }
}

static void close_lut(tern_cpu__layout *l)
{
    lut *m = (lut *)(void *)l;
    tern_cpu__layout_free(m->memory, &m->block);
    tern_free(m);
}

static tern_status copy_lut(const tern_cpu__layout *l, tern_cpu__layout **out, tern_error *err)
{
    const lut *from = (const lut *)(const void *)l;
    lut *m = tern_alloc(sizeof *m);
    if (!m) return tern_fail_alloc(err, sizeof *m);
    *m = *from;
    m->block = (tern_cpu__layout_block){0};
    const tern_status status = tern_cpu__layout_alloc(m->memory, m->base.bytes, &m->block, err);
    if (status != TERN_OK) {
        tern_free(m);
        return status;
    }
    m->strips = memcpy(m->block.data, from->strips, tern_size_of(m->base.bytes));
    *out = &m->base;
    return TERN_OK;
}

/* Packing all strips, one a task. */
typedef struct packing {
    const tern_weight *w;
    lut *m;
    int8_t *codes; /* one strip for each thread */
    uint32_t width;
    tern_status *status; /* and a status */
} packing;

static void pack_task(void *context, uint32_t task, uint32_t thread)
{
    const packing *p = context;
    const tern_weight *w = p->w;
    const uint32_t first = task * TERN_LUT_ROWS, left = w->rows - first,
                   n = left < TERN_LUT_ROWS ? left : TERN_LUT_ROWS;
    int8_t *codes = p->codes + (size_t)thread * TERN_LUT_ROWS * w->cols;
    const tern_status status =
        tern_decode_codes(w->encoding, w->data, w->rows, w->cols, first, n, codes, NULL, NULL, NULL, NULL);
    if (status != TERN_OK) p->status[thread] = status;
    else tern_lut_pack(p->width, codes, n, w->cols, p->m->strips + task * p->m->strip_bytes);
}

static tern_status pack(tern_cpu *cpu, lut *m, const tern_weight *w, uint32_t width, tern_error *err)
{
    const uint32_t n_threads = tern_pool_threads(cpu->pool), n_strips = (w->rows + TERN_LUT_ROWS - 1) / TERN_LUT_ROWS;
    const size_t bytes = n_strips * m->strip_bytes, codes = (size_t)n_threads * TERN_LUT_ROWS * w->cols;
    packing p = {
        .w = w, .m = m, .width = width, .codes = tern_alloc(codes), .status = tern_calloc(n_threads, sizeof *p.status)};
    tern_status status =
        p.codes && p.status ? tern_cpu__layout_alloc(m->memory, bytes, &m->block, err) : tern_fail_alloc(err, codes);
    m->strips = m->block.data;
    if (status == TERN_OK) {
        pthread_mutex_lock(&cpu->running);
        tern_pool_for(cpu->pool, n_strips, pack_task, &p);
        pthread_mutex_unlock(&cpu->running);
    }
    for (uint32_t i = 0; i < n_threads && status == TERN_OK; i++)
        if (p.status[i] != TERN_OK) status = tern_fail(err, p.status[i], "%s: ternary codes expected", w->name);
    tern_free(p.codes);
    tern_free(p.status);
    m->base.bytes = bytes;
    return status;
}

tern_status tern_cpu__lut_make(tern_cpu *cpu, const tern_weight *w, uint32_t width, tern_cpu__layout **out,
                               tern_error *err)
{
    service with;
    TERN_TRY(find_service(&cpu->kernels, width, &with, err));
    if (w->trained)
        return tern_fail(err, TERN_UNSUPPORTED, "%s: kernel lut found for a weight that is trained, dot expected",
                         w->name);
    lut *m = tern_calloc(1, sizeof *m);
    if (!m) return tern_fail_alloc(err, sizeof *m);
    m->base = (tern_cpu__layout){.row_step = TERN_LUT_ROWS,
                                 .max_tokens = MAX_TOKENS,
                                 .multiply = multiply,
                                 .close = close_lut,
                                 .copy = copy_lut,
                                 .tables = with.tables};
    m->memory = &cpu->layouts;
    m->kernel = with.kernel;
    m->strip_bytes = tern_lut_strip_bytes(with.width, w->cols);
    m->n_groups = tern_lut_groups(with.width, w->cols);
    m->token_bytes = tern_cpu__tables_bytes(m->base.tables, w->cols);
    const tern_status status = pack(cpu, m, w, with.width, err);
    if (status != TERN_OK) {
        close_lut(&m->base);
        return status;
    }
    *out = &m->base;
    return TERN_OK;
}
