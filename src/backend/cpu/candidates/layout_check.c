/* Layouts that a file has stored: their numbers are in range (what reads them sees to that), but are they those of the
 * weight? */
#include "backend/cpu/candidates/candidates.h"
#include "base/alloc.h"
#include "base/rng.h"
#include "quant/weight.h"

enum { N = 4 };

/* Memory of one check. */
typedef struct trial {
    int8_t *x; /* [N][stride] */
    size_t stride;
    int32_t sums[N];
    int32_t *expected, *got; /* [N][rows] */
    uint8_t *scratch;
} trial;

static tern_status open_trial(trial *t, const tern_buffer *b, tern_error *err)
{
    const size_t rows = b->weight->rows;
    t->stride = tern_size_of(tern_q8_stride(b->cols));
    t->x = tern_alloc_aligned(N * t->stride, 64);
    t->scratch = tern_alloc_aligned((size_t)4 * b->cols + TERN_CPU__LAYOUT_SCRATCH, 64);
    t->expected = tern_calloc(N * rows, sizeof *t->expected);
    t->got = tern_calloc(N * rows, sizeof *t->got);
    if (t->x && t->scratch && t->expected && t->got) return TERN_OK;
    return tern_fail_alloc(err, N * t->stride + (size_t)4 * b->cols + 2 * N * rows * sizeof *t->expected);
}

static void close_trial(trial *t)
{
    tern_free_aligned(t->x);
    tern_free_aligned(t->scratch);
    tern_free(t->expected);
    tern_free(t->got);
}

/* Fixed numbers, any of int8. */
static void fill(trial *t, uint32_t cols)
{
    tern_rng rng = {.state = cols};
    for (uint32_t n = 0; n < N; n++) {
        int8_t *x = t->x + n * t->stride;
        for (size_t c = 0; c < t->stride; c++) x[c] = c < cols ? (int8_t)((int)tern_rng_below(&rng, 256) - 128) : 0;
        for (uint32_t c = 0; c < cols; c++) t->sums[n] += x[c];
    }
}

static tern_status compare(const trial *t, const tern_weight *w, tern_error *err)
{
    for (uint32_t n = 0; n < N; n++)
        for (uint32_t r = 0; r < w->rows; r++)
            if (t->got[(size_t)n * w->rows + r] != t->expected[(size_t)n * w->rows + r])
                return tern_fail(
                    err, TERN_MALFORMED,
                    "%s: the sorted layer of the file gives other sums than the weight: row %u: %d found, %d expected",
                    w->name, r, t->got[(size_t)n * w->rows + r], t->expected[(size_t)n * w->rows + r]);
    return TERN_OK;
}

tern_status tern_cpu__layout_check(const tern_buffer *b, tern_error *err)
{
    const tern_weight *w = b->weight;
    trial t = {0};
    tern_status status = open_trial(&t, b, err);
    if (status == TERN_OK) {
        fill(&t, w->cols);
        const tern_q8_rows x = {.x = t.x, .stride = t.stride, .sums = t.sums, .n = N};
        b->ternary(b->data, b->row_bytes, w->rows, b->cols, &x, t.expected, w->rows);
        b->layout->multiply(b->layout, 0, w->rows, &x, t.scratch, t.got, w->rows);
        status = compare(&t, w, err);
    }
    close_trial(&t);
    return status;
}
