/* Building the screen of an output table. */
#include <math.h>
#include <string.h>

#include "backend/cpu/linear/screen.h"
#include "base/alloc.h"
#include "base/file.h"
#include "base/pool.h"
#include "quant/encoding.h"
#include "quant/weight.h"

enum { LANES = 16, MIDDLE = 32, SLICE_ROWS = 4096 };

/* Codes reach this many root mean squares from 0, or to the largest weight: then the 5 bits of the first two planes
 * miss least of weights as a normal distribution has them. */
static const float REACH = 3.0f;

typedef struct build_job {
    const tern_buffer *weight;
    tern_screen *screen;
    uint8_t *memory; /* for each thread: a decoded row, its codes */
    size_t memory_bytes;
    uint32_t first; /* row of task 0 */
} build_job;

static size_t padded(const tern_screen *s)
{
    return (size_t)s->halves * TERN_SCREEN_HALF;
}

static void pack_3(const uint8_t *c, uint32_t n, uint8_t *to)
{
    for (uint32_t p = 0; p < 3; p++)
        for (uint32_t j = 0; j < n; j++) {
            const int six = c[6 * n + j] >> 3, seven = c[7 * n + j] >> 3;
            const int top = p == 0 ? six & 3 : p == 1 ? seven & 3 : six >> 2 | seven >> 2 << 1;
            to[p * n + j] = (uint8_t)(c[p * n + j] >> 3 | c[(3 + p) * n + j] >> 3 << 3 | top << 6);
        }
}

static void pack_2(const uint8_t *c, uint32_t n, uint8_t *to)
{
    for (uint32_t p = 0; p < 2; p++, c += (size_t)4 * n)
        for (uint32_t j = 0; j < n; j++)
            to[p * n + j] = (uint8_t)((c[j] >> 1 & 3) | (c[n + j] >> 1 & 3) << 2 | (c[2 * n + j] >> 1 & 3) << 4 |
                                      (c[3 * n + j] >> 1 & 3) << 6);
}

static void pack_1(const uint8_t *c, uint32_t n, uint8_t *to)
{
    memset(to, 0, n);
    for (uint32_t v = 0; v < TERN_SCREEN_VECTORS; v++)
        for (uint32_t j = 0; j < n; j++) to[j] = (uint8_t)(to[j] | (c[v * n + j] & 1) << v);
}

static void pack(const tern_screen *s, uint32_t row, const uint8_t *codes)
{
    uint8_t *to[TERN_SCREEN_PLANES];
    for (uint32_t p = 0; p < TERN_SCREEN_PLANES; p++) to[p] = s->planes[p] + row * tern_screen__row_bytes(s->halves, p);
    for (uint32_t i = 0; i < s->halves; i += 2, codes += 2 * TERN_SCREEN_HALF) {
        const uint32_t n = s->halves - i < 2 ? 32 : 64;
        pack_3(codes, n, to[0] + (size_t)i * 96);
        pack_2(codes, n, to[1] + (size_t)i * 64);
        pack_1(codes, n, to[2] + (size_t)i * 32);
    }
}

/* Sums of squares in f32: LANES of them side by side, each of n / LANES terms. */
typedef struct squares {
    float of[LANES];
} squares;

static inline void square(squares *s, uint32_t lane, float x)
{
    s->of[lane] += x * x;
}

/* The root, rounded up: each sum loses at most one part in 2^24 for each of its terms. */
static double root(const squares *s, uint32_t n)
{
    double total = 0;
    for (uint32_t i = 0; i < LANES; i++) total += (double)s->of[i];
    return sqrt(total) * (1 + ((double)n / LANES + 16) * 0x1p-24);
}

/* The norm of n columns, of which cols are the row's. */
static float reach(const float *x, uint32_t n, uint32_t cols)
{
    squares all = {0};
    float most[LANES] = {0}, largest = 0;
    for (uint32_t c = 0; c < n; c += LANES)
        for (uint32_t i = 0; i < LANES; i++) {
            const float a = fabsf(x[c + i]);
            most[i] = a > most[i] ? a : most[i];
            square(&all, i, x[c + i]);
        }
    for (uint32_t i = 0; i < LANES; i++) largest = most[i] > largest ? most[i] : largest;
    return fminf(largest, REACH * (float)(root(&all, n) / sqrt((double)cols)));
}

/* Codes 0 to 63 of the row, of values s * (code - 31.5) from -reach to reach. A NaN has code 0. */
static void quantize(const float *x, uint32_t n, float inverse, uint8_t *codes)
{
    for (uint32_t c = 0; c < n; c++) {
        float q = x[c] * inverse + MIDDLE;
        q = q > 0 ? q : 0;
        q = q < 2 * MIDDLE - 1 ? q : 2 * MIDDLE - 1;
        codes[c] = (uint8_t)(int32_t)q;
    }
}

/* |w - u_k| and |u_k|: u is off by its rounding to f32, and so is the difference. */
static double missed(const float *x, const uint8_t *codes, uint32_t n, float scale, uint32_t shift, double *norm)
{
    const float middle = (float)((1 << shift) - 1) / 2 - 31.5f;
    squares error = {0}, all = {0};
    for (uint32_t c = 0; c < n; c += LANES)
        for (uint32_t i = 0; i < LANES; i++) {
            const float u = ((float)(codes[c + i] >> shift << shift) + middle) * scale;
            square(&error, i, x[c + i] - u);
            square(&all, i, u);
        }
    *norm = root(&all, n) * (1 + 0x1p-23);
    return root(&error, n) * (1 + 0x1p-23) + *norm * 0x1p-23;
}

static float up(double x)
{
    return nextafterf((float)x, INFINITY);
}

/* x and codes: whole LANES, zeros behind the row's end, whose codes weigh with digits of 0. */
static void describe(tern_screen *s, uint32_t r, const float *x, const uint8_t *codes, float scale)
{
    const uint32_t n = (s->cols + LANES - 1) / LANES * LANES;
    const double rounding = ((double)s->cols / 16 + 64) * 0x1p-24 * 1.001;
    const double least[TERN_SCREEN_PLANES] = {0, 0.5, 0.25}, width = (double)scale * sqrt((double)s->cols);
    bool known = true;
    s->scales[r] = scale;
    for (uint32_t p = 0; p < TERN_SCREEN_PLANES; p++) {
        double norm, error = missed(x, codes, n, scale, p == 0 ? 3 : p == 1 ? 1 : 0, &norm);
        error += rounding * (norm + error); /* |w| <= |u| + |w - u| */
        known = known && isfinite(error);
        s->errors[p][r] = up(fmax(error, fmax(norm / 64, least[p] * width)));
    }
    if (known) return;
    s->scales[r] = 0; /* the row is always computed: its estimate is 0, its bound infinite */
    for (uint32_t p = 0; p < TERN_SCREEN_PLANES; p++) s->errors[p][r] = INFINITY;
}

static void build_row(void *context, uint32_t task, uint32_t thread)
{
    const build_job *j = context;
    tern_screen *s = j->screen;
    const uint32_t r = j->first + task;
    const uint8_t *from = j->weight->data + r * j->weight->row_bytes;
    float *x = (float *)(void *)(j->memory + thread * j->memory_bytes);
    uint8_t *codes = (uint8_t *)(x + padded(s));
    if (j->weight->decode) j->weight->decode(from, j->weight->row_bytes, 1, s->cols, x, padded(s));
    else memcpy(x, from, s->cols * sizeof *x);
    memset(x + s->cols, 0, (padded(s) - s->cols) * sizeof *x);
    const float most = reach(x, (uint32_t)padded(s), s->cols), scale = most / 31.5f;
    quantize(x, (uint32_t)padded(s), scale > 0 ? 1 / scale : 0, codes);
    pack(s, r, codes);
    describe(s, r, x, codes, scale);
}

/* Slice by slice, and what was read of the file is given back: the table is never in memory beside its screen. */
static void build_rows(tern_cpu *cpu, build_job *j)
{
    for (j->first = 0; j->first < j->screen->n_rows; j->first += SLICE_ROWS) {
        uint32_t left = j->screen->n_rows - j->first, n = left < SLICE_ROWS ? left : SLICE_ROWS;
        tern_pool_for(cpu->pool, n, build_row, j);
        if (j->weight->weight->mapped)
            tern_file_drop(j->weight->data + j->first * j->weight->row_bytes, n * j->weight->row_bytes);
    }
}

static tern_status allocate(tern_screen *s, tern_error *err)
{
    float *rows = tern_calloc(s->n_rows, TERN_SCREEN_ROW_BYTES);
    bool there = rows != NULL;
    s->scales = rows;
    for (uint32_t p = 0; p < TERN_SCREEN_PLANES; p++) {
        if (rows) s->errors[p] = rows + (1 + p) * (size_t)s->n_rows;
        s->planes[p] = tern_alloc_aligned(s->n_rows * tern_screen__row_bytes(s->halves, p), 64);
        there = there && s->planes[p];
    }
    return there ? TERN_OK : tern_fail_alloc(err, (uint64_t)s->n_rows * s->halves * TERN_SCREEN_HALF * 6 / 8);
}

tern_status tern_screen__build(tern_cpu *cpu, const tern_buffer *weight, tern_screen **out, tern_error *err)
{
    const tern_weight *w = weight->weight;
    if (w->encoding->ternary)
        return tern_fail(err, TERN_UNSUPPORTED, "--head exact: the output table is %s; it needs a dense one",
                         w->encoding->name);
    tern_screen *s = tern_calloc(1, sizeof *s);
    if (!s) return tern_fail_alloc(err, sizeof *s);
    *s = (tern_screen){.n_rows = w->rows, .cols = w->cols, .halves = tern_screen__halves(w->cols)};
    build_job j = {.weight = weight, .screen = s, .memory_bytes = padded(s) * (sizeof(float) + 1)};
    j.memory = tern_calloc(tern_pool_threads(cpu->pool), j.memory_bytes);
    tern_status status = j.memory ? allocate(s, err) : tern_fail_alloc(err, j.memory_bytes);
    if (status == TERN_OK) {
        build_rows(cpu, &j);
        *out = s;
    } else {
        tern_screen__free(s);
    }
    tern_free(j.memory);
    return status;
}

void tern_screen__free(tern_screen *screen)
{
    if (!screen) return;
    for (uint32_t p = 0; p < TERN_SCREEN_PLANES; p++) tern_free_aligned(screen->planes[p]);
    tern_free(screen->scales);
    tern_free(screen);
}
