/* Building an RSR matrix: blocks of rows are read and sorted on all threads, and what they leave behind is joined in
 * their order. */
#include <string.h>

#include "base/alloc.h"
#include "base/pool.h"
#include "quant/rsr_internal.h"

/* The pieces that one block has left. */
typedef struct piece {
    tern_rsr__stream streams[TERN_RSR__STREAMS];
    uint32_t *counts; /* [n_panels][2] */
    tern_status status;
    tern_error err;
} piece;

typedef struct worker {
    tern_rsr__sorter sorter;
    int8_t *codes; /* [k][cols] */
    void *scratch;
} worker;

typedef struct build {
    const tern_rsr_source *source;
    const tern_rsr_options *options;
    tern_rsr__emit_fn emit;
    uint32_t n_blocks, n_panels, panel_cols, n_workers;
    piece *pieces;
    worker *workers;
} build;

void *tern_rsr__append(tern_rsr__stream *s, size_t n)
{
    if (tern_grow((void **)&s->data, &s->cap, s->bytes + n + 1, 1, NULL) != TERN_OK)
        return NULL; /* never NULL for 0 bytes */
    void *at = s->data + s->bytes;
    s->bytes += n;
    return at;
}

static uint32_t panel_cols_of(const tern_rsr_source *source, const tern_rsr_options *o)
{
    const uint32_t n = o->panel_cols ? o->panel_cols : TERN_RSR_MAX_PANEL;
    return n < source->cols ? n : source->cols;
}

static tern_status check(const tern_rsr_source *source, const tern_rsr_options *o, tern_error *err)
{
    if (o->k < 1 || o->k > TERN_RSR_MAX_K)
        return tern_fail(err, TERN_LIMIT, "rsr: k %u found, 1 to %d expected (a pattern's rows are a mask of 16 bits)",
                         o->k, TERN_RSR_MAX_K);
    if (o->sort == TERN_RSR_SORT_COUNTING && o->k > TERN_RSR_MAX_COUNTING_K)
        return tern_fail(err, TERN_LIMIT, "rsr: counting with k %u found, at most %d expected (there are 3^k counters)",
                         o->k, TERN_RSR_MAX_COUNTING_K);
    if (o->panel_cols > TERN_RSR_MAX_PANEL)
        return tern_fail(err, TERN_LIMIT,
                         "rsr: panels of %u columns found, at most %d expected (columns are numbers of 16 bits)",
                         o->panel_cols, TERN_RSR_MAX_PANEL);
    if (!source->rows || !source->cols)
        return tern_fail(err, TERN_INVALID_ARGUMENT,
                         "rsr: a matrix of %u rows of %u found, at least 1 row of 1 expected", source->rows,
                         source->cols);
    const uint64_t n_units =
        ((source->rows - 1) / o->k + 1) * ((source->cols - 1) / panel_cols_of(source, o) + UINT64_C(1));
    if (n_units <= UINT32_MAX) return TERN_OK;
    return tern_fail(err, TERN_LIMIT,
                     "rsr: %llu blocks of panels found for %u rows of %u with k %u, at most 2^32 - 1 expected",
                     (unsigned long long)n_units, source->rows, source->cols, o->k);
}

/* Every code has to be one of the kind's. */
static tern_status check_codes(const build *b, const int8_t *codes, uint32_t first, uint32_t n, tern_error *err)
{
    static const char *const expected[] = {"-1, 0 or 1", "0 or 1", "-1 or 1"};
    const tern_rsr_kind kind = b->options->kind;
    const size_t total = (size_t)n * b->source->cols;
    int bad = 0;
    for (size_t i = 0; i < total; i++)
        bad |= codes[i] > 1 || codes[i] < (kind == TERN_RSR_BINARY ? 0 : -1) || (kind == TERN_RSR_SIGNS && !codes[i]);
    if (!bad) return TERN_OK;
    size_t i = 0;
    while (codes[i] <= 1 && codes[i] >= (kind == TERN_RSR_BINARY ? 0 : -1) && (kind != TERN_RSR_SIGNS || codes[i])) i++;
    return tern_fail(err, TERN_INVALID_ARGUMENT, "rsr: %d found in row %u, column %u, %s expected", codes[i],
                     first + (uint32_t)(i / b->source->cols), (uint32_t)(i % b->source->cols), expected[kind]);
}

static tern_status build_block(const build *b, uint32_t block, worker *w, piece *p, tern_error *err)
{
    const uint32_t k = b->options->k, cols = b->source->cols, first = block * k;
    const uint32_t n = b->source->rows - first < k ? b->source->rows - first : k;
    p->counts = tern_calloc(b->n_panels, 2 * sizeof *p->counts);
    if (!p->counts) return tern_fail_alloc(err, b->n_panels * 2 * sizeof *p->counts);
    TERN_TRY(b->source->read(b->source->context, first, n, w->codes, err));
    TERN_TRY(check_codes(b, w->codes, first, n, err));
    if (b->options->kind == TERN_RSR_SIGNS)
        for (size_t i = 0; i < (size_t)n * cols; i++) w->codes[i] = w->codes[i] > 0;
    for (uint32_t panel = 0; panel < b->n_panels; panel++) {
        tern_rsr__unit unit;
        tern_rsr__sort(&w->sorter, w->codes + (size_t)panel * b->panel_cols, cols, n,
                       tern_rsr_panel_width(cols, b->panel_cols, panel), &unit);
        TERN_TRY(b->emit(&unit, w->scratch, p->streams, p->counts + (size_t)2 * panel, err));
    }
    return TERN_OK;
}

static void block_task(void *context, uint32_t block, uint32_t thread)
{
    build *b = context;
    piece *p = &b->pieces[block];
    p->status = build_block(b, block, &b->workers[thread], p, &p->err);
}

static void run_blocks(build *b)
{
    if (b->options->pool) tern_pool_for(b->options->pool, b->n_blocks, block_task, b);
    else
        for (uint32_t i = 0; i < b->n_blocks; i++) block_task(b, i, 0);
}

static tern_status open_workers(build *b, size_t scratch, tern_error *err)
{
    b->n_workers = b->options->pool ? tern_pool_threads(b->options->pool) : 1;
    b->workers = tern_calloc(b->n_workers, sizeof *b->workers);
    b->pieces = tern_calloc(b->n_blocks, sizeof *b->pieces);
    if (!b->workers || !b->pieces) return tern_fail_alloc(err, b->n_blocks * sizeof *b->pieces);
    for (uint32_t i = 0; i < b->n_workers; i++) {
        worker *w = &b->workers[i];
        TERN_TRY(tern_rsr__sorter_init(&w->sorter, b->options, b->panel_cols, err));
        w->codes = tern_calloc(b->options->k, b->source->cols);
        w->scratch = tern_alloc(scratch);
        if (!w->codes || !w->scratch) return tern_fail_alloc(err, (size_t)b->options->k * b->source->cols + scratch);
    }
    return TERN_OK;
}

static void close_build(build *b)
{
    for (uint32_t i = 0; b->workers && i < b->n_workers; i++) {
        tern_rsr__sorter_deinit(&b->workers[i].sorter);
        tern_free(b->workers[i].codes);
        tern_free(b->workers[i].scratch);
    }
    for (uint32_t i = 0; b->pieces && i < b->n_blocks; i++) {
        for (int s = 0; s < TERN_RSR__STREAMS; s++) tern_free(b->pieces[i].streams[s].data);
        tern_free(b->pieces[i].counts);
    }
    tern_free(b->workers);
    tern_free(b->pieces);
}

/* first[i] of every unit; the number of all must fit 32 bits. */
static tern_status number_units(const build *b, tern_rsr__joined *out, tern_error *err)
{
    const size_t n_units = (size_t)b->n_blocks * b->n_panels;
    for (int i = 0; i < 2; i++) {
        uint64_t total = 0;
        out->first[i] = tern_calloc(n_units + 1, sizeof *out->first[i]);
        if (!out->first[i]) return tern_fail_alloc(err, (n_units + 1) * sizeof *out->first[i]);
        for (size_t u = 0; u < n_units; u++) {
            total += b->pieces[u / b->n_panels].counts[u % b->n_panels * 2 + (size_t)i];
            if (total > UINT32_MAX)
                return tern_fail(err, TERN_LIMIT, "rsr: more than 2^32 - 1 entries for %u rows of %u with k %u",
                                 b->source->rows, b->source->cols, b->options->k);
            out->first[i][u + 1] = (uint32_t)total;
        }
    }
    return TERN_OK;
}

static tern_status join(const build *b, tern_rsr__joined *out, tern_error *err)
{
    TERN_TRY(number_units(b, out, err));
    for (int s = 0; s < TERN_RSR__STREAMS; s++) {
        for (uint32_t i = 0; i < b->n_blocks; i++) out->bytes[s] += b->pieces[i].streams[s].bytes;
        out->data[s] = tern_alloc(out->bytes[s]);
        if (!out->data[s]) return tern_fail_alloc(err, out->bytes[s]);
        size_t at = 0;
        for (uint32_t i = 0; i < b->n_blocks; i++) {
            tern_rsr__stream *from = &b->pieces[i].streams[s];
            if (from->bytes) memcpy(out->data[s] + at, from->data, from->bytes);
            at += from->bytes;
            tern_free(from->data);
            *from = (tern_rsr__stream){0};
        }
    }
    return TERN_OK;
}

void tern_rsr__joined_deinit(tern_rsr__joined *j)
{
    for (int i = 0; i < 2; i++) tern_free(j->first[i]);
    for (int s = 0; s < TERN_RSR__STREAMS; s++) tern_free(j->data[s]);
    *j = (tern_rsr__joined){0};
}

tern_status tern_rsr__build(tern_rsr__joined *out, const tern_rsr_source *source, const tern_rsr_options *options,
                            tern_rsr__emit_fn emit, size_t (*scratch_bytes)(uint32_t panel_cols), tern_error *err)
{
    *out = (tern_rsr__joined){0};
    TERN_TRY(check(source, options, err));
    build b = {.source = source, .options = options, .emit = emit};
    b.panel_cols = panel_cols_of(source, options);
    b.n_panels = (source->cols - 1) / b.panel_cols + 1;
    b.n_blocks = (source->rows - 1) / options->k + 1;
    tern_status status = open_workers(&b, scratch_bytes ? scratch_bytes(b.panel_cols) : 1, err);
    if (status == TERN_OK) run_blocks(&b);
    for (uint32_t i = 0; i < b.n_blocks && status == TERN_OK; i++) {
        status = b.pieces[i].status;
        if (status != TERN_OK && err) *err = b.pieces[i].err;
    }
    if (status == TERN_OK) status = join(&b, out, err);
    close_build(&b);
    out->n_blocks = b.n_blocks;
    out->n_panels = b.n_panels;
    out->panel_cols = b.panel_cols;
    if (status != TERN_OK) tern_rsr__joined_deinit(out);
    return status;
}
