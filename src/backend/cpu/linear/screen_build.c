/* Building the screen of an output table. */
#include "backend/cpu/linear/screen.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"

typedef struct build_job {
    const tern_buffer *weight;
    tern_screen *screen;
    float *rows;    /* one decoded row for each thread */
    uint32_t first; /* row of task 0 */
} build_job;

/* Puts one code (0..62) of a row at its place in the planes. */
static void put(uint8_t *row, uint32_t c, uint32_t u)
{
    uint8_t *group = row + (size_t)(c / TERN_SCREEN_GROUP) * TERN_SCREEN_BYTES;
    uint32_t at = c % TERN_SCREEN_GROUP;
    if (at < 192) {
        group[at] = (uint8_t)((group[at] & 0xc0u) | u);
        return;
    }
    for (uint32_t p = 0; p < 3; p++) {
        uint8_t *byte = &group[p * 64 + (at - 192)];
        *byte = (uint8_t)((*byte & 0x3fu) | ((u >> (2 * p) & 3u) << 6));
    }
}

static void build_row(void *context, uint32_t task, uint32_t thread)
{
    const build_job *j = context;
    const uint32_t r = j->first + task;
    const tern_weight *w = j->weight->weight;
    tern_screen *s = j->screen;
    float *x = j->rows + (size_t)thread * s->cols;
    w->encoding->unpack(j->weight->data + r * j->weight->row_bytes, s->cols / w->encoding->block_elements, x);
    float most = 0;
    for (uint32_t c = 0; c < s->cols; c++) most = fmaxf(most, fabsf(x[c]));
    float scale = most / TERN_SCREEN_ZERO, inverse = most > 0 ? TERN_SCREEN_ZERO / most : 0;
    uint8_t *row = s->codes + (size_t)r * s->groups * TERN_SCREEN_BYTES;
    double error = 0, norm = 0, full = 0;
    for (uint32_t c = 0; c < s->groups * TERN_SCREEN_GROUP; c++) {
        float code = c < s->cols ? rintf(x[c] * inverse) : 0;
        put(row, c, (uint32_t)((int32_t)code + TERN_SCREEN_ZERO));
        if (c >= s->cols) continue;
        double u = (double)code * (double)scale, e = (double)x[c] - u;
        error += e * e;
        norm += u * u;
        full += (double)x[c] * (double)x[c];
    }
    double rounding = ((double)s->cols / 16 + 8) * 0x1p-24 * 1.001;
    s->rows[r] =
        (tern_screen_row){.scale = scale,
                          .error = nextafterf((float)((sqrt(error) + rounding * sqrt(full)) * (1 + 1e-6)), INFINITY),
                          .norm = nextafterf((float)(sqrt(norm) * (1 + 1e-6)), INFINITY)};
}

/* Slice by slice, and what was read of the file is given back: the table is never in memory beside its screen. */
static void build_rows(tern_cpu *cpu, build_job *j)
{
    enum { SLICE_ROWS = 4096 };
    for (j->first = 0; j->first < j->screen->n_rows; j->first += SLICE_ROWS) {
        uint32_t left = j->screen->n_rows - j->first, n = left < SLICE_ROWS ? left : SLICE_ROWS;
        tern_pool_for(cpu->pool, n, build_row, j);
        if (j->weight->weight->mapped)
            tern_file_drop(j->weight->data + j->first * j->weight->row_bytes, n * j->weight->row_bytes);
    }
}

tern_status tern_screen__build(tern_cpu *cpu, const tern_buffer *weight, tern_screen **out, tern_error *err)
{
    const tern_weight *w = weight->weight;
    if (w->encoding->ternary)
        return tern_fail(err, TERN_UNSUPPORTED, "--head exact: the output table is %s; it needs a dense one",
                         w->encoding->name);
    tern_screen *s = tern_calloc(1, sizeof *s);
    if (!s) return tern_fail_alloc(err, sizeof *s);
    *s = (tern_screen){.n_rows = w->rows, .cols = w->cols, .groups = tern_screen__groups(w->cols)};
    size_t bytes = (size_t)s->n_rows * s->groups * TERN_SCREEN_BYTES;
    s->codes = tern_alloc_aligned(bytes, 64);
    s->rows = tern_calloc(s->n_rows, sizeof *s->rows);
    build_job j = {.weight = weight, .screen = s};
    j.rows = tern_calloc((size_t)tern_pool_threads(cpu->pool) * s->cols, sizeof *j.rows);
    tern_status status = s->codes && s->rows && j.rows ? TERN_OK : tern_fail_alloc(err, bytes);
    if (status == TERN_OK) {
        build_rows(cpu, &j);
        *out = s;
    } else {
        tern_screen__free(s);
    }
    tern_free(j.rows);
    return status;
}

void tern_screen__free(tern_screen *screen)
{
    if (!screen) return;
    tern_free_aligned(screen->codes);
    tern_free(screen->rows);
    tern_free(screen);
}
