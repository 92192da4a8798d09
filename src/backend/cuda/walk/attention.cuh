/* ROPE_ATTENTION: a block has up to four heads that share keys, and a split of the positions, whose keys and values it
 * asks for before it waits; the one with the last position writes that one's first. Four threads have the product of a
 * head and a position, a thread then two numbers of a head's sum. Splits are added by the blocks of the first ones, one
 * head each, which look for them until they are there: words that nobody has written have all bits set. */
#ifndef TERN_BACKEND_CUDA_WALK_ATTENTION_CUH
#define TERN_BACKEND_CUDA_WALK_ATTENTION_CUH

#include "backend/cuda/attention/cache.cuh"
#include "backend/cuda/walk/block.cuh"

enum { CHUNK = 32, UNIT_HEADS = TERN_CUDA_WALK_HEADS, LEAST_POSITIONS = 16, MERGED = 8 };
static_assert(UNIT_HEADS * CHUNK * 4 == WALK_THREADS, "four threads for each product");
static_assert(UNIT_HEADS * TERN_CUDA_WALK_DIM / 2 == WALK_THREADS, "two numbers for each thread");

/* Bytes of a key in shared memory: half a line over, so that two keys lie in different banks. */
static __host__ __device__ inline uint32_t key_bytes(uint32_t head_dim, bool f32)
{
    return (head_dim * (f32 ? 4 : 2) + 63) / 128 * 128 + 64;
}

/* Shared memory of a block; keys and values of two chunks. */
struct attention_room {
    float *q, *table, *weights, *sums; /* [heads][dim], [dim], [heads][CHUNK], [threads][2] */
    uint8_t *keys, *values;            /* [2][CHUNK][line] */
    uint32_t line;

    __device__ __forceinline__ attention_room(uint8_t *memory, uint32_t dim, bool f32)
    {
        q = (float *)memory;
        table = q + UNIT_HEADS * dim;
        weights = table + dim;
        sums = weights + UNIT_HEADS * CHUNK;
        line = key_bytes(dim, f32);
        keys = (uint8_t *)(sums + WALK_THREADS * 2);
        values = keys + 2 * CHUNK * line;
    }
};

static __host__ __device__ inline uint32_t attention_bytes(uint32_t head_dim, bool f32)
{
    return ((UNIT_HEADS + 1) * head_dim + UNIT_HEADS * CHUNK + WALK_THREADS * 2) * 4 +
           4 * CHUNK * key_bytes(head_dim, f32);
}

/* A unit of heads, a split of its positions. */
struct split_of {
    uint32_t unit, kv, head0, n_heads, split, n_splits, from, to, position, first_page;
    const uint32_t *pages, *near;

    __device__ __forceinline__ split_of(walker &w, const tern_cuda_walk_attention &s)
    {
        const tern_cuda_attention &a = s.attention;
        const bool is_known = w.positions == a.place.positions;
        if (!is_known) {
            w.positions = a.place.positions;
            w.position = __ldcg(a.place.positions);
            w.sequence = __ldcg(a.place.sequences);
        }
        position = w.position;
        const uint32_t group = a.n_heads / a.n_kv_heads, first = tern_first_seen(a.window, position);
        const uint32_t n = position + 1 - first;
        unit = blockIdx.x % s.units;
        split = blockIdx.x / s.units;
        kv = unit / s.unit_parts;
        head0 = kv * group + unit % s.unit_parts * UNIT_HEADS;
        n_heads = min((uint32_t)UNIT_HEADS, (kv + 1) * group - head0);
        const uint32_t most = min(a.splits, (n + LEAST_POSITIONS - 1) / LEAST_POSITIONS), each = (n + most - 1) / most;
        n_splits = (n + each - 1) / each;
        from = first + min(split * each, n);
        to = first + min((split + 1) * each, n);
        find_pages(w, a.place.pages + w.sequence * a.place.max_pages, is_known);
    }

    /* The numbers of its first pages, which the attention before may have had, too. */
    __device__ __forceinline__ void find_pages(walker &w, const uint32_t *all, bool is_known)
    {
        const uint32_t i = threadIdx.x;
        pages = all;
        first_page = from / TERN_CUDA_PAGE;
        near = w.room->pages;
        if (is_known && w.pages == pages && w.first_page == first_page) return;
        w.pages = pages;
        w.first_page = first_page;
        if (i < WALK_PAGES && first_page + i <= position / TERN_CUDA_PAGE)
            w.room->pages[i] = __ldcg(all + first_page + i);
        walk_sync();
    }

    __device__ __forceinline__ uint32_t page_of(uint32_t p) const
    {
        const uint32_t i = p / TERN_CUDA_PAGE - first_page;
        return i < WALK_PAGES ? near[i] : __ldcg(pages + p / TERN_CUDA_PAGE);
    }

    __device__ __forceinline__ bool has_last() const
    {
        return split + 1 == n_splits;
    }
};

/* Asks for the keys and values from `from` on, into the chunk's half of the room. The newest ones are not there yet
 * when the first chunk is asked for. */
static __device__ __forceinline__ void ask_for_keys(const tern_cuda_attention &p, const split_of &at,
                                                    const attention_room &room, uint32_t from, bool newest)
{
    const uint32_t size = p.k_cache.f32 ? 4 : 2, pieces = p.head_dim * size / 16;
    const uint32_t n = min((uint32_t)CHUNK, at.to - from) * pieces, half = (from - at.from) / CHUNK % 2 * CHUNK;
#pragma unroll 1
    for (uint32_t i = threadIdx.x; i < n; i += WALK_THREADS) {
        const uint32_t row = i / pieces, piece = i - row * pieces, position = from + row;
        if (position == at.position && !newest) continue;
        const size_t byte =
            tern_cache_at(at.page_of(position), at.kv, position, p.n_kv_heads, p.head_dim) * size + piece * 16;
        const uint32_t to = (half + row) * room.line + piece * 16;
        copy16(shared_address(room.keys + to), (const uint8_t *)p.k_cache.data + byte);
        copy16(shared_address(room.values + to), (const uint8_t *)p.v_cache.data + byte);
    }
    copies_commit();
}

/* Angles of the position. */
static __device__ __forceinline__ void ask_for_table(const tern_cuda_rope &p, const split_of &at, float *to)
{
    const uint32_t dim = p.rope_dim ? p.rope_dim : p.head_dim;
    if (threadIdx.x < dim)
        asm volatile("cp.async.ca.shared.global [%0],[%1],4;" ::"r"(shared_address(to + threadIdx.x)),
                     "l"(p.table + (size_t)at.position * p.table_stride + threadIdx.x)
                     : "memory");
    copies_commit();
}

/* A head of q or k as it is after the norm and the rotation, by a warp: to[head_dim]. */
static __device__ __forceinline__ void turned(const tern_cuda_rope &p, const float *x, const float *norm,
                                              const float *table, float *to)
{
    const uint32_t lane = threadIdx.x % 32, half = (p.rope_dim ? p.rope_dim : p.head_dim) / 2;
    float r = 1.0f, squares = 0, held[TERN_CUDA_WALK_DIM / 32];
#pragma unroll
    for (uint32_t i = 0; i < TERN_CUDA_WALK_DIM / 32; i++)
        held[i] = lane + i * 32 < p.head_dim ? __ldcg(x + lane + i * 32) : 0;
    if (norm) {
#pragma unroll
        for (uint32_t i = 0; i < TERN_CUDA_WALK_DIM / 32; i++) squares += held[i] * held[i];
        r = 1.0f / sqrtf(tern_warp_sum(squares) / (float)p.head_dim + p.eps);
    }
#pragma unroll
    for (uint32_t i = 0; i < TERN_CUDA_WALK_DIM / 32; i++) {
        const uint32_t d = lane + i * 32;
        if (d < p.head_dim) to[d] = norm ? held[i] * r * __ldg(norm + d) : held[i];
    }
    __syncwarp();
#pragma unroll 1
    for (uint32_t i = lane; i < half; i += 32) {
        float *a = to + (p.adjacent ? 2 * i : i), *b = p.adjacent ? a + 1 : a + half;
        const float u = *a, v = *b, c = table[2 * i], sine = table[2 * i + 1];
        *a = u * c - v * sine;
        *b = v * c + u * sine;
    }
    __syncwarp();
}

/* q of the unit into shared memory, times the scale; of the last split k and v into their caches. */
static __device__ __forceinline__ void rotate(const tern_cuda_walk_attention &s, const split_of &at,
                                              const attention_room &room)
{
    const tern_cuda_rope &p = s.rope;
    const uint32_t warp = threadIdx.x / 32, lane = threadIdx.x % 32, dim = p.head_dim;
    const bool is_k = warp == UNIT_HEADS && at.has_last(), is_v = warp == UNIT_HEADS + 1 && at.has_last();
    float *to = is_k ? room.sums : room.q + warp * dim;
    if (warp < at.n_heads || is_k) {
        turned(p, is_k ? p.k.data + (size_t)at.kv * dim : p.q.data + (size_t)(at.head0 + warp) * dim,
               is_k ? p.k_norm : p.q_norm, room.table, to);
        for (uint32_t d = lane; !is_k && d < dim; d += 32) to[d] *= s.attention.scale;
    }
    if (!is_k && !is_v) return;
    const uint32_t row = at.position - at.from;
    uint8_t *near = row < CHUNK ? (is_k ? room.keys : room.values) + row * room.line : NULL;
    const float *x = is_k ? to : p.v.data + (size_t)at.kv * dim;
    const size_t place = tern_cache_at(at.page_of(at.position), at.kv, at.position, p.n_kv_heads, dim);
    const tern_cuda_cache cache = is_k ? p.k_cache : p.v_cache, copy = {near, cache.f32};
#pragma unroll 1
    for (uint32_t d = lane; d < dim; d += 32) {
        const float v = is_k ? x[d] : __ldcg(x + d);
        tern_cache_put(cache, place + d, v);
        if (near) tern_cache_put(copy, d, v);
    }
}

/* Whether a cache is in f32; H: all of them are in f16. */
template <bool H> static __device__ __forceinline__ bool in_f32(const tern_cuda_cache &cache)
{
    return !H && cache.f32;
}

/* Eight numbers of a key times those of q. */
static __device__ __forceinline__ float eight_of(const uint8_t *key, bool f32, uint32_t d, const float *q)
{
    const float4 a = *(const float4 *)(q + d), b = *(const float4 *)(q + d + 4);
    float4 k, l;
    if (f32) {
        k = ((const float4 *)key)[d / 4], l = ((const float4 *)key)[d / 4 + 1];
    } else {
        const uint4 words = ((const uint4 *)key)[d / 8];
        const float2 k0 = __half22float2(*(const __half2 *)&words.x), k1 = __half22float2(*(const __half2 *)&words.y);
        const float2 k2 = __half22float2(*(const __half2 *)&words.z), k3 = __half22float2(*(const __half2 *)&words.w);
        k = make_float4(k0.x, k0.y, k1.x, k1.y), l = make_float4(k2.x, k2.y, k3.x, k3.y);
    }
    return (a.x * k.x + a.y * k.y + a.z * k.z + a.w * k.w) + (b.x * l.x + b.y * l.y + b.z * l.z + b.w * l.w);
}

/* weights[head][position] of a chunk: products, -inf where there is no position. */
template <bool H>
static __device__ __forceinline__ void score(const tern_cuda_attention &p, const split_of &at,
                                             const attention_room &room, uint32_t from)
{
    const uint32_t quarter = threadIdx.x % 4, pair = threadIdx.x / 4, head = pair / CHUNK, row = pair % CHUNK;
    const uint8_t *key = room.keys + ((from - at.from) / CHUNK % 2 * CHUNK + row) * room.line;
    const float *q = room.q + head * p.head_dim;
    const bool is_there = head < at.n_heads && from + row < at.to;
    float x = 0;
    if (is_there)
#pragma unroll 1
        for (uint32_t d = quarter * 8; d < p.head_dim; d += 32) x += eight_of(key, in_f32<H>(p.k_cache), d, q);
    x += __shfl_xor_sync(0xffffffffu, x, 1);
    x += __shfl_xor_sync(0xffffffffu, x, 2);
    if (p.softcap > 0) x = tern_softcap(x, p.softcap);
    if (quarter == 0) room.weights[pair] = is_there ? x : -INFINITY;
}

/* The thread's two numbers of a head, over the chunks so far. */
struct head_sum {
    uint32_t head, d; /* head: UNIT_HEADS or more: none */
    float x, y, top, total;

    /* One more chunk, whose products become weights. A warp weighs for itself; its lanes may be of several heads. */
    template <bool H>
    __device__ __forceinline__ void add(const tern_cuda_attention &p, const split_of &at, const attention_room &room,
                                        uint32_t from)
    {
        const float *scores = room.weights + min(head, (uint32_t)UNIT_HEADS - 1) * CHUNK;
        const uint8_t *values = room.values + (from - at.from) / CHUNK % 2 * CHUNK * room.line;
        const uint32_t n = min((uint32_t)CHUNK, at.to - from);
        float most = top;
#pragma unroll
        for (uint32_t i = 0; i < CHUNK; i += 4) {
            const float4 s = *(const float4 *)(scores + i);
            most = fmaxf(most, fmaxf(fmaxf(s.x, s.y), fmaxf(s.z, s.w)));
        }
        const float keep = exp2_of((top - most) * TERN_LOG2E);
        top = most;
        total *= keep, x *= keep, y *= keep;
#pragma unroll 4
        for (uint32_t i = 0; i < n; i++) {
            const float w = exp2_of((scores[i] - most) * TERN_LOG2E);
            const uint8_t *row = values + i * room.line;
            const float2 v = in_f32<H>(p.v_cache) ? *(const float2 *)((const float *)row + d)
                                                  : __half22float2(*(const __half2 *)((const __half *)row + d));
            total += w;
            x = fmaf(w, v.x, x);
            y = fmaf(w, v.y, y);
        }
    }
};

/* What nobody has written has all bits set; a number that has becomes another of its kind. */
static __device__ __forceinline__ float written(float x)
{
    return __float_as_uint(x) == 0xffffffffu ? __uint_as_float(0x7fffffffu) : x;
}

static __device__ __forceinline__ bool is_written(float2 v)
{
    return __float_as_uint(v.x) != 0xffffffffu && __float_as_uint(v.y) != 0xffffffffu;
}

static __device__ __forceinline__ float2 look(const float *at)
{
    float2 v;
    asm volatile("ld.relaxed.gpu.global.v2.f32 {%0,%1},[%2];" : "=f"(v.x), "=f"(v.y) : "l"(at) : "memory");
    return v;
}

static __device__ __forceinline__ void put(float *at, float x, float y)
{
    asm volatile("st.relaxed.gpu.global.v2.f32 [%0],{%1,%2};" ::"l"(at), "f"(x), "f"(y) : "memory");
}

/* A head of the unit, of all its splits: two numbers for each thread of a run of them, the splits shared by runs. What
 * has been read is unwritten again. */
static __device__ __forceinline__ void merge_splits(const tern_cuda_attention &p, const split_of &at,
                                                    const attention_room &room, uint32_t head)
{
    const uint32_t dim = p.head_dim, pairs = dim / 2, runs = WALK_THREADS / pairs, step = dim + 2,
                   lane = threadIdx.x % 32;
    const uint32_t run = threadIdx.x / pairs, d = (threadIdx.x - run * pairs) * 2, n = run < runs ? at.n_splits : 0;
    float *in = p.partials + (size_t)(at.head0 + head) * p.splits * step;
    const float unwritten = __uint_as_float(0xffffffffu);
    float2 sums[MERGED], share = make_float2(-INFINITY, 0);
    float x = 0, y = 0;
    bool is_missing;
    do {
        if (lane < at.n_splits) share = look(in + lane * step);
        is_missing = !is_written(share);
#pragma unroll
        for (uint32_t i = 0; i < MERGED; i++) {
            if (run + i * runs >= n) break;
            sums[i] = look(in + (run + i * runs) * step + 2 + d);
            is_missing = is_missing || !is_written(sums[i]);
        }
    } while (__any_sync(0xffffffffu, is_missing));
    const float most = tern_warp_max(share.x), keep = exp2_of((share.x - most) * TERN_LOG2E);
    float total = tern_warp_sum(share.y * keep);
    if (p.sinks) total += tern_exp(p.sinks[at.head0 + head] - most);
#pragma unroll
    for (uint32_t i = 0; i < MERGED; i++) {
        const float weight = __shfl_sync(0xffffffffu, keep, (run + i * runs) % 32);
        if (run + i * runs >= n) continue;
        x = fmaf(sums[i].x, weight, x);
        y = fmaf(sums[i].y, weight, y);
    }
    *(float2 *)(room.sums + threadIdx.x * 2) = make_float2(x, y);
    walk_sync();
#pragma unroll 1
    for (uint32_t i = run; i < n; i += runs) {
        put(in + i * step + 2 + d, unwritten, unwritten);
        if (d == 0) put(in + i * step, unwritten, unwritten);
    }
    if (run) return;
#pragma unroll 4
    for (uint32_t i = 1; i < runs; i++) {
        const float2 v = *(const float2 *)(room.sums + (i * pairs + threadIdx.x) * 2);
        x += v.x, y += v.y;
    }
    float *out = p.out.data + (size_t)(at.head0 + head) * dim + d;
    out[0] = __fdividef(x, total);
    out[1] = __fdividef(y, total);
}

template <bool H>
static __device__ __forceinline__ void attend(const tern_cuda_walk_attention &s, const split_of &at,
                                              const attention_room &room)
{
    const tern_cuda_attention &p = s.attention;
    const uint32_t dim = p.head_dim, pairs = dim / 2, head = threadIdx.x / pairs;
    head_sum sum = {head, (threadIdx.x - head * pairs) * 2, 0, 0, -INFINITY, 0};
    rotate(s, at, room);
#pragma unroll 1
    for (uint32_t from = at.from; from < at.to; from += CHUNK) {
        copies_wait<0>();
        walk_sync();
        if (from + CHUNK < at.to) ask_for_keys(p, at, room, from + CHUNK, true);
        score<H>(p, at, room, from);
        walk_sync();
        if (head < at.n_heads) sum.template add<H>(p, at, room, from);
    }
    if (head >= at.n_heads) return;
    float *out = p.partials + ((size_t)(at.head0 + head) * p.splits + at.split) * (dim + 2);
    put(out + 2 + sum.d, written(sum.x), written(sum.y));
    if (sum.d == 0) put(out, written(sum.top), written(sum.total));
}

template <bool H> static __device__ __forceinline__ void walk_attention(walker &w, const tern_cuda_walk_attention &s)
{
    const tern_cuda_attention &p = s.attention;
    const split_of at(w, s);
    const attention_room room(w.memory, p.head_dim, in_f32<H>(p.k_cache));
    const bool takes_part = at.split < at.n_splits;
    if (takes_part) {
        ask_for_table(s.rope, at, room.table);
        ask_for_keys(p, at, room, at.from, false);
        copies_wait<1>(); /* the table */
    }
    w.wait();
    if (!takes_part) return;
    attend<H>(s, at, room);
#pragma unroll 1
    for (uint32_t head = at.split; head < at.n_heads; head += at.n_splits) {
        walk_sync();
        merge_splits(p, at, room, head);
    }
}

#endif
