/* Which attention kernel, and how its work is split. */
#include "backend/gpu/attention/select.h"
#include "backend/gpu/gpu_internal.h"

enum {
    DECODE_TOKENS = 8,     /* the largest step that reads the caches once for each token */
    WANTED_GROUPS = 320,   /* enough to fill a large GPU with more than one workgroup for each of its cores */
    MIN_SPAN = 64,         /* positions for which a second workgroup is not worth the merge */
    LONG_POSITIONS = 8192, /* contexts where query heads share their reads, since bandwidth counts more than latency */
    COMBINE_PARTS = 32,    /* splits of all slices that attention_combine takes */
    LARGE_TILES = 512      /* tiles of 64 rows that leave no core without work */
};

typedef struct candidate {
    tern_gpu_pipeline of[TERN_GPU_KV_KINDS]; /* TERN_GPU_PIPELINE_COUNT: there is none */
    uint32_t max_head_dim;
    bool odd; /* for heads that are multiples of 4 and not of 8 */
} candidate;

#define KERNEL(name, dim)                                                                                              \
    {                                                                                                                  \
        {TERN_GPU_ATTENTION_##name##_F16, TERN_GPU_ATTENTION_##name##_F32, TERN_GPU_ATTENTION_##name##_BLOCKS}, dim    \
    }
#define KERNEL_ODD(name, dim)                                                                                          \
    {                                                                                                                  \
        {TERN_GPU_ATTENTION_##name##_F16, TERN_GPU_ATTENTION_##name##_F32, TERN_GPU_PIPELINE_COUNT}, dim, true         \
    }
#define KERNEL_FEW_BITS(name, dim)                                                                                     \
    {                                                                                                                  \
        {TERN_GPU_ATTENTION_##name##_F16, TERN_GPU_PIPELINE_COUNT, TERN_GPU_ATTENTION_##name##_BLOCKS}, dim            \
    }

/* One query at a time, best first: the widest teams that the head fills, shuffles before workgroup memory. */
static const candidate decoders[] = {KERNEL(S8_64, 64),       KERNEL(S16_128, 128),    KERNEL(S8_128, 128),
                                     KERNEL(S32_256, 256),    KERNEL(S8_256, 256),     KERNEL(S32_512, 512),
                                     KERNEL(S4_128, 128),     KERNEL(T16_128, 128),    KERNEL(T32_256, 256),
                                     KERNEL(T32_512, 512),    KERNEL(STREAM_512, 512), KERNEL_ODD(ODD_128, 128),
                                     KERNEL_ODD(ODD_512, 512)};

/* Reads shared by 4 and by 2 query heads. */
static const candidate sharers[] = {KERNEL_FEW_BITS(S16_128_H4, 128), KERNEL_FEW_BITS(S16_128_H2, 128)};

/* For caches in slices. */
static const candidate slicers[] = {KERNEL(SLICED_128, 128), KERNEL(SLICED_512, 512), KERNEL_ODD(SLICED_ODD_512, 512)};

/* On cooperative matrices. */
static const candidate matrices[] = {
    {{TERN_GPU_ATTENTION_COOP_64_F16, TERN_GPU_PIPELINE_COUNT, TERN_GPU_PIPELINE_COUNT}, 64, false},
    {{TERN_GPU_ATTENTION_COOP_128_F16, TERN_GPU_PIPELINE_COUNT, TERN_GPU_PIPELINE_COUNT}, 128, false}};

/* Tiles, best first. */
static const candidate large_tilers[] = {KERNEL_FEW_BITS(LARGE_128_S, 128)};
static const candidate tilers[] = {KERNEL(LARGE_64_S, 64), KERNEL(LARGE_64, 64),          KERNEL(SMALL_64_S, 64),
                                   KERNEL(SMALL_64, 64),   KERNEL(SMALL_128_S, 128),      KERNEL(SMALL_128, 128),
                                   KERNEL(LEAST_128, 128), KERNEL(SMALL_256_S, 256),      KERNEL(SMALL_256, 256),
                                   KERNEL(LEAST_256, 256), KERNEL_ODD(TILES_ODD_128, 128)};

/* For caches in slices. */
static const candidate slicing_tilers[] = {KERNEL(SLICED_SMALL_128, 128), KERNEL(SLICED_LEAST_128, 128),
                                           KERNEL(SLICED_SMALL_256, 256), KERNEL(SLICED_LEAST_256, 256)};

#define N(list) (sizeof(list) / sizeof *(list))

static tern_gpu_pipeline choose(const candidate *list, size_t n, const tern_gpu_attention_shape *shape,
                                const tern_gpu_caps *caps)
{
    for (size_t i = 0; i < n; i++) {
        const tern_gpu_pipeline pipeline = list[i].of[shape->kv];
        if (pipeline == TERN_GPU_PIPELINE_COUNT || list[i].odd != (shape->head_dim % 8 != 0)) continue;
        if (shape->head_dim <= list[i].max_head_dim && tern_gpu_pipeline_fits(pipeline, caps)) return pipeline;
    }
    return TERN_GPU_PIPELINE_COUNT;
}

static uint32_t at_least_one(uint32_t n)
{
    return n ? n : 1;
}

static uint32_t at_most(uint32_t x, uint32_t limit)
{
    return x < limit ? x : limit;
}

static uint32_t power_at_most(uint32_t x)
{
    uint32_t power = 1;
    while (power <= x / 2) power *= 2;
    return power;
}

/* The positions are split until the device is full, as far as the parts can be merged. */
static void split(tern_gpu_attention_choice *c, const tern_gpu_attention_shape *shape, const tern_gpu_caps *caps)
{
    const tern_gpu_attention_decode_overrides *kernel = tern_gpu_attention_decode_overrides_of(c->pipeline);
    uint32_t teams = kernel->teams, in_flight = teams * kernel->unroll;
    uint32_t items = shape->n_kv_heads * c->head_blocks * shape->max_tokens, n_slices = at_least_one(shape->n_slices);
    c->min_span = 2 * in_flight < MIN_SPAN ? MIN_SPAN : 2 * in_flight;
    c->splits = 1;
    if (shape->max_tokens > DECODE_TOKENS) return;
    bool merge = n_slices == 1 && caps->device_fences && items <= TERN_GPU_COUNTER_BYTES / 4;
    uint32_t wanted =
        at_most(tern_gpu__ceil_div(WANTED_GROUPS, items), tern_gpu__ceil_div(shape->max_positions, c->min_span));
    c->splits = power_at_most(at_most(wanted, merge ? teams : COMBINE_PARTS / n_slices));
    c->merge = merge && c->splits > 1;
}

static tern_gpu_attention_choice select_decode(const tern_gpu_attention_shape *shape, const tern_gpu_caps *caps)
{
    uint32_t group = shape->n_heads / shape->n_kv_heads;
    tern_gpu_attention_choice c = {.pipeline = TERN_GPU_PIPELINE_COUNT};
    if (shape->n_slices > 1) c.pipeline = choose(slicers, N(slicers), shape, caps);
    else if (shape->max_positions >= LONG_POSITIONS && shape->head_dim > 64 && group > 1)
        c.pipeline = group % 4 == 0 ? choose(sharers, N(sharers), shape, caps)
                                    : choose(sharers + 1, N(sharers) - 1, shape, caps);
    if (c.pipeline == TERN_GPU_PIPELINE_COUNT && shape->n_slices == 1)
        c.pipeline = choose(decoders, N(decoders), shape, caps);
    if (c.pipeline == TERN_GPU_PIPELINE_COUNT) return c;
    c.heads = tern_gpu_attention_decode_overrides_of(c.pipeline)->heads;
    c.head_blocks = tern_gpu__ceil_div(group, c.heads);
    split(&c, shape, caps);
    return c;
}

static uint32_t tile_rows_of(tern_gpu_pipeline pipeline)
{
    return tern_gpu_kernel_of(pipeline) == TERN_GPU_KERNEL_ATTENTION_COOP
               ? tern_gpu_attention_coop_overrides_of(pipeline)->rows
               : tern_gpu_attention_tiled_overrides_of(pipeline)->rows;
}

static tern_gpu_attention_choice select_tiled(const tern_gpu_attention_shape *shape, const tern_gpu_caps *caps)
{
    uint32_t group = shape->n_heads / shape->n_kv_heads;
    uint64_t rows = (uint64_t)shape->n_heads * shape->max_tokens;
    tern_gpu_attention_choice c = {.tiled = true, .pipeline = TERN_GPU_PIPELINE_COUNT};
    if (shape->n_slices > 1) c.pipeline = choose(slicing_tilers, N(slicing_tilers), shape, caps);
    else c.pipeline = choose(matrices, N(matrices), shape, caps);
    if (c.pipeline == TERN_GPU_PIPELINE_COUNT && shape->n_slices == 1 && shape->head_dim > 64 &&
        rows / 64 >= LARGE_TILES)
        c.pipeline = choose(large_tilers, N(large_tilers), shape, caps);
    if (c.pipeline == TERN_GPU_PIPELINE_COUNT && shape->n_slices == 1)
        c.pipeline = choose(tilers, N(tilers), shape, caps);
    if (c.pipeline == TERN_GPU_PIPELINE_COUNT) return c;
    uint32_t tile_rows = tile_rows_of(c.pipeline);
    c.heads = at_most(group, tile_rows);
    c.head_blocks = tern_gpu__ceil_div(group, c.heads);
    c.tokens = tile_rows / c.heads;
    c.splits = 1;
    c.min_span = MIN_SPAN;
    return c;
}

tern_gpu_attention_choice tern_gpu_select_attention(const tern_gpu_attention_shape *shape, const tern_gpu_caps *caps)
{
    if (shape->max_tokens > DECODE_TOKENS) {
        tern_gpu_attention_choice tiled = select_tiled(shape, caps);
        if (tiled.pipeline != TERN_GPU_PIPELINE_COUNT) return tiled;
    }
    return select_decode(shape, caps);
}
