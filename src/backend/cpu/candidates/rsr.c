/* RSR as a candidate: slices from the file, or made when the weight is created. */
#include <string.h>

#include "backend/cpu/candidates/candidates.h"
#include "base/alloc.h"
#include "quant/encoding.h"
#include "quant/rsr.h"
#include "quant/weight.h"

typedef struct rsr {
    tern_cpu__layout base;
    tern_rsr_slices slices;
    tern_rsr_i8_fn kernel;
    tern_rsr_i8x4_fn kernel_4;
    uint8_t *copy; /* of a section that lies at an odd address */
} rsr;

/* Where the result of a product goes: n_rows rows from `first` on, of n tokens. */
typedef struct target {
    uint32_t first, n_rows, n;
    int32_t *dots;
    size_t stride;
} target;

/* Adds a panel's part: x holds the inputs of one token, or (to->n > 1) of 4. */
static void add_panel(const rsr *m, uint32_t panel, const int8_t *x, const target *to)
{
    const tern_rsr_slices *s = &m->slices;
    const uint32_t end = to->first + to->n_rows;
    for (uint32_t block = to->first / s->k; block * s->k < end; block++) {
        const tern_rsr_unit u = tern_rsr_unit_of(s, block * s->n_panels + panel);
        const uint32_t row = block * s->k;
        int32_t y[4 * TERN_RSR_Y] = {0};
        if (to->n == 1) m->kernel(&u, x, y);
        else m->kernel_4(&u, x, y);
        for (uint32_t t = 0; t < to->n; t++)
            for (uint32_t r = 0; r < s->k; r++)
                if (row + r >= to->first && row + r < end)
                    to->dots[t * to->stride + row + r - to->first] += y[t * TERN_RSR_Y + r];
    }
}

/* Inputs of a panel, and zeros for "no column". */
static void copy_token(const int8_t *x, uint32_t width, int8_t *out)
{
    memcpy(out, x, width);
    memset(out + width, 0, 4);
}

/* As above for n tokens, 2 to 4, side by side; those that are not there are zeros. */
static void copy_tokens(const tern_q8_rows *x, uint32_t first, uint32_t n, size_t at, uint32_t width, uint32_t *out)
{
    const uint8_t *rows[4];
    for (uint32_t t = 0; t < 4; t++) rows[t] = (const uint8_t *)x->x + (first + (t < n ? t : 0)) * x->stride + at;
    const uint32_t third = n > 2 ? 0xff0000 : 0, fourth = n > 3 ? 0xff000000 : 0;
    for (uint32_t c = 0; c < width; c++)
        out[c] = rows[0][c] | (uint32_t)rows[1][c] << 8 | ((uint32_t)rows[2][c] << 16 & third) |
                 ((uint32_t)rows[3][c] << 24 & fourth);
    out[width] = 0;
}

static void multiply(const tern_cpu__layout *l, uint32_t first, uint32_t n_rows, const tern_q8_rows *x, void *scratch,
                     int32_t *dots, size_t stride)
{
    const rsr *m = (const rsr *)(const void *)l;
    const tern_rsr_slices *s = &m->slices;
    for (uint32_t t = 0; t < x->n; t++) memset(dots + t * stride, 0, n_rows * sizeof *dots);
    for (uint32_t t = 0, n; t < x->n; t += n) {
        n = x->n - t < 4 ? x->n - t : 4;
        const target to = {.first = first, .n_rows = n_rows, .n = n, .dots = dots + t * stride, .stride = stride};
        for (uint32_t panel = 0; panel < s->n_panels; panel++) {
            const uint32_t width = tern_rsr_panel_width(s->cols, s->panel_cols, panel);
            const size_t at = (size_t)panel * s->panel_cols;
            if (n == 1) copy_token(x->x + t * x->stride + at, width, scratch);
            else copy_tokens(x, t, n, at, width, scratch);
            add_panel(m, panel, scratch, &to);
        }
    }
}

static void close_rsr(tern_cpu__layout *l)
{
    rsr *m = (rsr *)(void *)l;
    tern_rsr_slices_deinit(&m->slices);
    tern_free_aligned(m->copy);
    tern_free(m);
}

/* Slices whose bytes have been copied to another place. */
static tern_rsr_slices moved(const tern_rsr_slices *s, const uint8_t *bytes)
{
    tern_rsr_slices out = *s;
    const ptrdiff_t at_slice = (const uint8_t *)s->first_slice - s->bytes,
                    at_vector = (const uint8_t *)s->first_vector - s->bytes;
    const ptrdiff_t at_lengths = (const uint8_t *)s->lengths - s->bytes,
                    at_masks = (const uint8_t *)s->masks - s->bytes;
    const ptrdiff_t at_index = (const uint8_t *)s->index - s->bytes;
    out.first_slice = (const void *)(bytes + at_slice);
    out.first_vector = (const void *)(bytes + at_vector);
    out.lengths = (const void *)(bytes + at_lengths);
    out.masks = (const void *)(bytes + at_masks);
    out.index = (const void *)(bytes + at_index);
    out.bytes = bytes;
    out.owned = false;
    return out;
}

static tern_status copy_rsr(const tern_cpu__layout *l, tern_cpu__layout **out, tern_error *err)
{
    const rsr *from = (const rsr *)(const void *)l;
    const size_t n = from->slices.n_bytes;
    rsr *m = tern_calloc(1, sizeof *m);
    if (!m) return tern_fail_alloc(err, sizeof *m);
    *m = (rsr){
        .base = from->base, .kernel = from->kernel, .kernel_4 = from->kernel_4, .copy = tern_alloc_aligned(n, 64)};
    if (!m->copy) {
        tern_free(m);
        return tern_fail_alloc(err, n);
    }
    memcpy(m->copy, from->slices.bytes, n);
    m->slices = moved(&from->slices, m->copy);
    *out = &m->base;
    return TERN_OK;
}

/* The section that the file has beside the weight: of this shape, and made of these bytes. */
static tern_status open_section(rsr *m, const tern_weight *w, tern_error *err)
{
    const uint8_t *bytes = w->rsr;
    if ((uintptr_t)bytes % 4) {
        m->copy = tern_alloc_aligned(w->rsr_bytes, 64);
        if (!m->copy) return tern_fail_alloc(err, w->rsr_bytes);
        bytes = memcpy(m->copy, bytes, w->rsr_bytes);
    }
    TERN_TRY(tern_rsr_slices_open(&m->slices, bytes, w->rsr_bytes, err));
    const tern_rsr_slices *s = &m->slices;
    if (s->kind != TERN_RSR_TERNARY || s->rows != w->rows || s->cols != w->cols)
        return tern_fail(err, TERN_MALFORMED,
                         "rsr: a matrix of kind %u, %u rows of %u found, ternary, %u rows of %u expected", s->kind,
                         s->rows, s->cols, w->rows, w->cols);
    if (tern_rsr_slices_origin(s) == tern_rsr_origin(w->data, w->bytes)) return TERN_OK;
    return tern_fail(err, TERN_MALFORMED, "rsr: made of other weights than the file has; convert it again with --rsr");
}

/* The file has another k than the kernel wants. */
static void drop_section(rsr *m)
{
    tern_rsr_slices_deinit(&m->slices);
    tern_free_aligned(m->copy);
    m->copy = NULL;
}

static tern_status read_rows(void *context, uint32_t first, uint32_t n, int8_t *codes, tern_error *err)
{
    const tern_weight *w = context;
    return tern_decode_codes(w->encoding, w->data, w->rows, w->cols, first, n, codes, NULL, NULL, NULL, err);
}

/* Where lanes have no masks of their own, the rows of a pattern cost more. */
static uint32_t best_k(const tern_cpu *cpu, uint32_t cols)
{
    enum { MOST_WITHOUT_MASKS = 5 };
    const uint32_t k = tern_rsr_default_k(cols);
    const bool masks = strcmp(cpu->kernels.rsr_i8_level, "avx512") == 0;
    return masks || k < MOST_WITHOUT_MASKS ? k : MOST_WITHOUT_MASKS;
}

static tern_status make_slices(tern_cpu *cpu, rsr *m, const tern_weight *w, uint32_t k, tern_error *err)
{
    if (w->rsr) TERN_TRY(open_section(m, w, err));
    m->base.stored = w->rsr && (k == 0 || k == m->slices.k);
    if (m->base.stored) return TERN_OK;
    drop_section(m);
    const tern_rsr_source source = {
        .read = read_rows, .context = (void *)(uintptr_t)w, .rows = w->rows, .cols = w->cols};
    const tern_rsr_options options = {.k = k ? k : best_k(cpu, w->cols), .pool = cpu->pool};
    pthread_mutex_lock(&cpu->running);
    const tern_status status = tern_rsr_slices_build(&m->slices, &source, &options, 0, err);
    pthread_mutex_unlock(&cpu->running);
    return status;
}

tern_status tern_cpu__rsr_make(tern_cpu *cpu, const tern_weight *w, uint32_t k, tern_cpu__layout **out, tern_error *err)
{
    if (w->trained)
        return tern_fail(err, TERN_UNSUPPORTED, "%s: kernel rsr found for a weight that is trained, dot expected",
                         w->name);
    rsr *m = tern_calloc(1, sizeof *m);
    if (!m) return tern_fail_alloc(err, sizeof *m);
    m->base = (tern_cpu__layout){
        .max_tokens = TERN_CPU__LAYOUT_TOKENS, .multiply = multiply, .close = close_rsr, .copy = copy_rsr};
    m->kernel = cpu->kernels.rsr_i8;
    m->kernel_4 = cpu->kernels.rsr_i8x4;
    const tern_status status = make_slices(cpu, m, w, k, err);
    if (status != TERN_OK) {
        close_rsr(&m->base);
        return tern_error_prefix(err, "%s", w->name);
    }
    m->base.row_step = m->slices.k;
    m->base.bytes = m->slices.n_bytes;
    *out = &m->base;
    return TERN_OK;
}
