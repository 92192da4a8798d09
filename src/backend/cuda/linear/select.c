/* Which kernel a product gets: one table, by what x is and how many rows there may be. */
#include "backend/cuda/linear/product.h"

/* Shapes of weights that a row of the table is for. */
typedef enum shape {
    ANY_SHAPE,
    WIDE_SHAPE, /* tiles of 128 rows for at least half of the processors */
    LONG_SHAPE  /* rows of at least LONG_ROW columns */
} shape;

typedef enum numbers { INT8, FLOATS, HALVES } numbers; /* of x */

typedef struct choice {
    numbers x;
    shape shape;
    uint32_t capability; /* exactly; 0: any */
    uint32_t most;       /* rows of x */
    tern_cuda_product_kernel kernel;
} choice;

/* The first row that fits (docs/internals/cuda.md has the times). */
static const choice table[] = {
    {INT8, WIDE_SHAPE, 90, 4, TERN_CUDA_PRODUCT_TERNARY_VEC},
    {INT8, WIDE_SHAPE, 90, UINT32_MAX, TERN_CUDA_PRODUCT_TERNARY_WGMMA},
    {INT8, LONG_SHAPE, 90, 8, TERN_CUDA_PRODUCT_TERNARY_VEC},
    {INT8, LONG_SHAPE, 90, UINT32_MAX, TERN_CUDA_PRODUCT_TERNARY_WGMMA},
    {INT8, ANY_SHAPE, 90, 16, TERN_CUDA_PRODUCT_TERNARY_VEC},
    {INT8, ANY_SHAPE, 90, UINT32_MAX, TERN_CUDA_PRODUCT_TERNARY_WGMMA},
    {INT8, ANY_SHAPE, 0, 256, TERN_CUDA_PRODUCT_TERNARY_VEC},
    {INT8, ANY_SHAPE, 0, UINT32_MAX, TERN_CUDA_PRODUCT_TERNARY_MMA},
    {HALVES, ANY_SHAPE, 90, UINT32_MAX, TERN_CUDA_PRODUCT_DENSE_WGMMA}, /* where it serves */
    {HALVES, ANY_SHAPE, 0, UINT32_MAX, TERN_CUDA_PRODUCT_DENSE_MMA},
    {FLOATS, ANY_SHAPE, 90, 4, TERN_CUDA_PRODUCT_DENSE_VEC},
    {FLOATS, ANY_SHAPE, 90, UINT32_MAX, TERN_CUDA_PRODUCT_DENSE_MMA},
    {FLOATS, ANY_SHAPE, 0, 8, TERN_CUDA_PRODUCT_DENSE_VEC},
    {FLOATS, ANY_SHAPE, 0, UINT32_MAX, TERN_CUDA_PRODUCT_DENSE_MMA},
};

enum { LONG_ROW = 4096, TILE_ROWS = 128, FEW_ROUTED = 16 };

/* Weights in blocks are unpacked for DENSE_WGMMA from so many rows of x on, and rows of up to so many columns. */
enum { UNPACKED_FROM = 128, UNPACKED_COLS = 32768 };

static bool has_shape(const tern_cuda_product *l, const tern_cuda_product_device *d, shape wanted)
{
    uint32_t tiles = 0;
    for (uint32_t i = 0; i < l->n_parts; i++) tiles += (l->parts[i].rows + TILE_ROWS - 1) / TILE_ROWS;
    switch (wanted) {
    case WIDE_SHAPE: return tiles * 2 >= d->multiprocessors;
    case LONG_SHAPE: return l->cols >= LONG_ROW;
    default: return true;
    }
}

static bool is_alike(const tern_cuda_weight *a, const tern_cuda_weight *b)
{
    return a->format == b->format && a->cols == b->cols && a->row_bytes == b->row_bytes;
}

static bool parts_are_alike(const tern_cuda_linear *p)
{
    for (uint32_t i = 1; i < p->n_parts; i++)
        if (!is_alike(&p->weight[0], &p->weight[i])) return false;
    return true;
}

uint32_t tern_cuda_alike_parts(const tern_cuda_linear *p, uint32_t first, tern_cuda_linear *out)
{
    uint32_t end = first + 1, col = 0;
    while (end < p->n_parts && (p->gated || is_alike(&p->weight[first], &p->weight[end]))) end++;
    for (uint32_t i = 0; i < first; i++) col += p->weight[i].rows / p->n_experts;
    *out = *p;
    out->n_parts = end - first;
    for (uint32_t i = first; i < end; i++) {
        out->weight[i - first] = p->weight[i];
        out->bias[i - first] = p->bias[i];
    }
    out->out.data += col;
    if (out->residual.data) out->residual.data += col;
    return end;
}

static void take_parts(const tern_cuda_linear *p, tern_cuda_product *out)
{
    for (uint32_t i = 0; i < p->n_parts; i++) {
        const tern_cuda_weight *w = &p->weight[i];
        const bool ternary = w->format == TERN_GPU_TERNARY;
        out->parts[i] = (tern_cuda_part){.w = w->data,
                                         .row_scales = ternary ? w->row_scales : NULL,
                                         .bias = p->bias[i],
                                         .scale = ternary ? w->scale : 1.0f,
                                         .rows = w->rows / p->n_experts};
    }
}

static void take_rows(const tern_cuda_linear *p, tern_cuda_product *out)
{
    out->q8 = p->x.data == NULL;
    out->x = out->q8 ? (const void *)p->q8.data : (const void *)p->x.data;
    out->x_stride = out->q8 ? p->q8.stride : p->x.stride;
    out->x_scales = p->q8.inv_scales;
    out->x_sums = p->q8.sums;
    if (p->halves) {
        out->x = p->rounded.rows;
        out->x_stride = p->rounded.stride;
        out->x_scales = p->rounded.scales;
        out->unpacked = p->rounded.weight;
    }
    out->residual = p->residual.data;
    out->residual_stride = p->residual.stride;
    out->out = p->out.data;
    out->out_stride = p->out.stride;
}

enum { SHARED_RESERVE = 4096 };

bool tern_cuda_product_of(const tern_cuda_linear *p, const tern_cuda_product_device *d, tern_cuda_product *out)
{
    const tern_cuda_weight *w = &p->weight[0];
    const uint64_t x_bytes = (uint64_t)w->cols * sizeof(float) + SHARED_RESERVE;
    if (!parts_are_alike(p) || w->format > TERN_GPU_MXFP4) return false;
    if (!p->routes && p->gated && p->activation > TERN_ACT_GELU) return false;
    if (p->x.data ? x_bytes > d->shared_bytes : w->format != TERN_GPU_TERNARY) return false;
    *out = (tern_cuda_product){.format = w->format,
                               .n_parts = p->n_parts,
                               .cols = w->cols,
                               .row_bytes = w->row_bytes,
                               .n = p->count.most,
                               .usual = p->count.usual,
                               .count = p->count.n,
                               .first = p->count.first,
                               .times = p->count.times,
                               .gated = p->gated,
                               .activation = p->activation,
                               .limit = p->limit,
                               .routes = p->routes,
                               .n_experts = p->n_experts,
                               .x_times = p->x_times,
                               .groups = p->groups,
                               .halves = p->halves};
    take_parts(p, out);
    take_rows(p, out);
    return true;
}

tern_cuda_product_kernel tern_cuda_product_select(const tern_cuda_product *l, const tern_cuda_product_device *d)
{
    if (l->routes && (!l->groups || l->usual <= FEW_ROUTED))
        return l->q8 ? TERN_CUDA_PRODUCT_TERNARY_VEC : TERN_CUDA_PRODUCT_DENSE_VEC;
    if (l->routes) return l->q8 ? TERN_CUDA_PRODUCT_TERNARY_MMA : TERN_CUDA_PRODUCT_DENSE_MMA;
    const numbers x = l->q8 ? INT8 : l->halves ? HALVES : FLOATS;
    for (size_t i = 0;; i++) {
        const choice *c = &table[i];
        if (c->x != x || l->usual > c->most || !has_shape(l, d, c->shape)) continue;
        if (c->capability && c->capability != d->capability) continue;
        if (!tern_cuda_product_serves(l, c->kernel, d)) continue;
        return c->kernel;
    }
}

static uint32_t tiles_of(const tern_cuda_product *l, uint32_t rows)
{
    const uint32_t tile = l->gated ? rows / 2 : rows;
    uint32_t n = 0;
    for (uint32_t i = 0; i < (l->gated ? 1 : l->n_parts); i++) n += (l->parts[i].rows + tile - 1) / tile;
    return n;
}

/* How long it takes, in units of about 1.5 ns of an H200: rounds of the device, each with its groups of 128 columns and
 * its end, which a cluster begins by meeting. */
static uint64_t cost(const tern_cuda_product *l, uint32_t at_once, tern_cuda_tiling t)
{
    const uint32_t groups = (l->row_bytes / 32 + t.splits - 1) / t.splits;
    const uint32_t end = t.splits > 1 ? 12 * t.tokens + 12 * t.tokens / t.splits + 3200 : 18 * t.tokens + 1333;
    const uint64_t tiles = (uint64_t)tiles_of(l, TILE_ROWS) * ((l->usual + t.tokens - 1) / t.tokens);
    return (tiles + at_once - 1) / at_once * (groups * (133 + t.tokens) + end);
}

tern_cuda_tiling tern_cuda_product_tiling(const tern_cuda_product *l, const tern_cuda_product_device *d)
{
    static const uint32_t widths[] = {32, 64, 96, 128, 192, 256};
    tern_cuda_tiling best = {widths[0], 1};
    uint64_t least = UINT64_MAX;
    for (size_t i = 0; i < sizeof widths / sizeof *widths; i++)
        for (uint32_t splits = 1; splits <= TERN_CUDA_PRODUCT_SPLITS && splits <= l->row_bytes / 32; splits++) {
            const tern_cuda_tiling t = {widths[i], splits};
            const uint32_t at_once = splits == 1 ? d->multiprocessors : d->clusters[splits];
            const uint64_t ticks = at_once ? cost(l, at_once, t) : UINT64_MAX;
            if (ticks < least) best = t, least = ticks;
        }
    return best;
}

/* How a product is spread over the device. Narrow tiles are two to a processor. Without splits one ends while the other
 * multiplies; the blocks of clusters, which fill processors by twos, multiply in turns and end together. */
typedef struct spread {
    bool is_wide, is_split;
    uint64_t rounds, blocks; /* blocks of a round */
    uint64_t apart;          /* tiles of weights that they have */
    bool is_full;            /* of narrow tiles without splits: each processor has two */
} spread;

static bool spread_of(const tern_cuda_product *l, const tern_cuda_product_device *d, tern_cuda_tiling t, spread *s)
{
    enum { WIDE = 256 };
    s->is_wide = t.tokens >= WIDE;
    s->is_split = t.splits > 1;
    const uint64_t clusters = s->is_split ? d->clusters[t.splits] : d->multiprocessors;
    const uint64_t places = s->is_split && !s->is_wide ? 2 * clusters : clusters;
    const uint64_t columns = (l->usual + t.tokens - 1) / t.tokens, tiles = tiles_of(l, TILE_ROWS) * columns;
    if (!places) return false;
    s->rounds = (tiles + places - 1) / places;
    s->blocks = (tiles < places ? tiles : places) * t.splits;
    s->apart = s->blocks > columns ? s->blocks / columns : 1;
    s->is_full = !s->is_wide && !s->is_split && tiles > places;
    return true;
}

/* Nanoseconds of a step of 64 columns of an H200, about: as long as its products or its loads. The second-level cache
 * gives 7,900 bytes in a nanosecond, 9,600 to processors that have two blocks, 46 to one block and 66 to a wide one;
 * memory gives 4,300. */
static uint64_t halves_step(const spread *s, uint32_t tokens)
{
    enum { ROW_BYTES = 64 * 2, MEMORY = 4300 };
    const uint64_t bytes = (TILE_ROWS + tokens) * ROW_BYTES, products = tokens * (s->is_wide ? 12u : 14u) / 4 + 20;
    const uint64_t all = bytes * s->blocks / (s->is_full ? 9600 : 7900), one = bytes / (s->is_wide ? 66 : 46);
    const uint64_t memory = s->apart * TILE_ROWS * ROW_BYTES / MEMORY;
    uint64_t ns = s->is_split && !s->is_wide ? 2 * products : products;
    if (ns < memory) ns = memory;
    if (ns < all) ns = all;
    return s->is_full || ns > one ? ns : one;
}

/* The time of all: rounds of the device, each with its steps and its end. The numbers are those that choose best among
 * times that were measured (docs/experiments/2026-11-29-cuda-halves.md). */
static uint64_t halves_cost(const tern_cuda_product *l, const tern_cuda_product_device *d, tern_cuda_tiling t)
{
    enum { STEP = 64 };
    spread s;
    if (!spread_of(l, d, t, &s)) return UINT64_MAX;
    const uint64_t steps = ((l->cols + STEP - 1) / STEP + t.splits - 1) / t.splits, step = halves_step(&s, t.tokens);
    const uint64_t end = (l->gated ? 13u : 30u) * t.tokens + 3520 + (s.is_split ? 15 * t.tokens + 1430 : 0);
    return s.is_wide || s.is_split ? s.rounds * (steps * step + end) : s.rounds * steps * step + end;
}

tern_cuda_tiling tern_cuda_halves_tiling(const tern_cuda_product *l, const tern_cuda_product_device *d)
{
    enum { STEP = 64, LEAST_STEPS = 4 };
    static const uint32_t widths[] = {16, 32, 64, 128, 256};
    const uint32_t most = l->cols / (STEP * LEAST_STEPS);
    tern_cuda_tiling best = {widths[0], 1};
    uint64_t least = UINT64_MAX;
    for (size_t i = 0; i < sizeof widths / sizeof *widths; i++)
        for (uint32_t splits = 1; splits <= TERN_CUDA_PRODUCT_SPLITS && (splits == 1 || splits <= most); splits++) {
            const tern_cuda_tiling t = {widths[i], splits};
            const uint64_t ns = halves_cost(l, d, t);
            if (ns < least) best = t, least = ns;
        }
    return best;
}

/* A processor has room for three of its blocks, of 64 rows and 64 tokens; two of them keep it busy. */
uint32_t tern_cuda_product_splits(const tern_cuda_product *l, const tern_cuda_product_device *d)
{
    enum { ROWS = 64, TOKENS = 64, STEP = 128, BLOCKS = 2 };
    const uint32_t steps = (l->cols + STEP - 1) / STEP;
    const uint32_t tiles =
        l->routes ? tern_cuda_group_tiles(l->usual, l->n_experts, TOKENS) : (l->usual + TOKENS - 1) / TOKENS;
    const uint32_t blocks = tiles_of(l, ROWS) * tiles;
    uint32_t n = blocks ? BLOCKS * d->multiprocessors / blocks : 1;
    if (n > TERN_CUDA_PRODUCT_SPLITS) n = TERN_CUDA_PRODUCT_SPLITS;
    if (n > steps) n = steps;
    while (n > 1 && !d->clusters[n]) n--;
    return n ? n : 1;
}

/* Whether the copy engine finds the weights as 16-bit numbers, or unpacking them pays. */
static bool is_fetched(const tern_cuda_product *l)
{
    if (l->format == TERN_GPU_F16 || l->format == TERN_GPU_BF16) return true;
    return l->usual >= UNPACKED_FROM && l->cols <= UNPACKED_COLS;
}

bool tern_cuda_product_serves(const tern_cuda_product *l, uint32_t kernel, const tern_cuda_product_device *d)
{
    switch (kernel) {
    case TERN_CUDA_PRODUCT_TERNARY_VEC: return l->q8;
    case TERN_CUDA_PRODUCT_TERNARY_MMA: return l->q8 && (!l->routes || l->groups);
    case TERN_CUDA_PRODUCT_TERNARY_WGMMA: return l->q8 && !l->routes && d->capability == 90;
    case TERN_CUDA_PRODUCT_DENSE_VEC: return !l->q8 && !l->halves;
    case TERN_CUDA_PRODUCT_DENSE_MMA: return !l->q8 && (!l->routes || l->groups);
    case TERN_CUDA_PRODUCT_DENSE_WGMMA: return l->halves && !l->routes && d->capability == 90 && is_fetched(l);
    default: return false;
    }
}
