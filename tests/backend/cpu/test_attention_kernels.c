/* Every attention kernel that this CPU can run, against its definition, to the bit. */
#include "support/test.h"

#include <math.h>

#include "backend/cpu/kernels.h"
#include "support/guard.h"
#include "support/kernels.h"

enum {
    PAGE = TERN_PAGE_POSITIONS,
    N_PAGES = 6,
    MAX_POSITIONS = 5 * PAGE,
    MAX_QUERIES = 40,
    MAX_HEAD = 512,
    MAX_GAP = 5,
    CHUNK_PAGES = TERN_ATTENTION_CHUNK / PAGE,
    N_ENTRIES = CHUNK_PAGES + N_PAGES
};

/* Which positions the queries of a call see. */
typedef enum mask { MASK_ALL, MASK_CAUSAL, MASK_WINDOW, MASK_RANDOM, N_MASKS } mask_kind;

typedef struct state_of_queries {
    float m[MAX_QUERIES], l[MAX_QUERIES], *acc;
} state_of_queries;

/* One problem: pages that end at an unreadable one, queries, and two states that start alike. */
typedef struct problem {
    tern_attention_args args;
    uint32_t pages[N_ENTRIES], lo[MAX_QUERIES], hi[MAX_QUERIES];
    test_guard q_guard, k_guard, v_guard, acc_guard;
    state_of_queries expected, found;
} problem;

static tern_rng rng;

static uint32_t between(uint32_t low, uint32_t high)
{
    return test_between(&rng, low, high);
}

static void open_problem(problem *p)
{
    const size_t cache = N_PAGES * PAGE * MAX_HEAD * sizeof(float);
    p->q_guard = test_guard_open(MAX_QUERIES * (MAX_HEAD + MAX_GAP) * sizeof(float));
    p->k_guard = test_guard_open(cache + 4096);
    p->v_guard = test_guard_open(cache + 4096);
    p->acc_guard = test_guard_open(MAX_QUERIES * MAX_HEAD * sizeof(float));
    p->expected.acc = calloc(MAX_QUERIES * MAX_HEAD, sizeof(float));
    assert_non_null(p->expected.acc);
}

static void close_problem(problem *p)
{
    test_guard_close(&p->q_guard);
    test_guard_close(&p->k_guard);
    test_guard_close(&p->v_guard);
    test_guard_close(&p->acc_guard);
    free(p->expected.acc);
}

static const tern_kv_store_fn stores[] = {
#define STORE(X, name, NAME, elements, bytes) [TERN_DTYPE_##NAME] = tern_ref_kv_store_##name,
    TERN_CACHE_TYPE_LIST(STORE, )
#undef STORE
};

/* n types, of which both caches may have any; the i-th pair that heads of head_dim go with. */
static tern_cache_types types_at(uint32_t i, uint32_t head_dim)
{
    const uint32_t n = head_dim % TERN_CACHE_BLOCK ? 2 : 4;
    return (tern_cache_types){tern_cache_type_at(i % n)->dtype, tern_cache_type_at(i / n % n)->dtype};
}

static uint32_t n_pairs(uint32_t head_dim)
{
    return head_dim % TERN_CACHE_BLOCK ? 4 : 16;
}

static const uint8_t *fill_cache(tern_dtype type, uint32_t head_dim, size_t page_bytes, test_guard *guard,
                                 test_fill fill)
{
    const size_t row_bytes = tern_cache_bytes(type, head_dim);
    uint8_t *cache = test_guard_lend(guard, (N_PAGES - 1) * page_bytes + PAGE * row_bytes, between(0, 3) == 0);
    float row[MAX_HEAD];
    for (size_t at = 0; at < N_PAGES * PAGE; at++) {
        test_floats(&rng, fill, row, head_dim);
        stores[type](row, head_dim, cache + at / PAGE * page_bytes + at % PAGE * row_bytes);
    }
    return cache;
}

static void fill_mask(problem *p, mask_kind mask, uint32_t n_positions)
{
    const uint32_t n = p->args.n_queries;
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t last = between(0, n_positions), token = n_positions > i / 4 ? n_positions - i / 4 : 0;
        p->lo[i] = mask == MASK_WINDOW ? token - (token < 40 ? token : 40) : mask == MASK_RANDOM ? between(0, last) : 0;
        p->hi[i] = mask == MASK_ALL ? n_positions : mask == MASK_RANDOM ? last : token;
    }
}

/* A state as earlier chunks leave it, or the first one. */
static void fill_state(problem *p)
{
    const tern_attention_args *a = &p->args;
    const size_t n = (size_t)a->n_queries * a->head_dim;
    const bool start = between(0, 1);
    for (uint32_t i = 0; i < a->n_queries; i++) {
        p->expected.m[i] = start || between(0, 5) == 0 ? -HUGE_VALF : 4 * test_float(&rng, TEST_ORDINARY);
        p->expected.l[i] = p->expected.m[i] == -HUGE_VALF ? 0 : 1 + tern_rng_f32(&rng);
        for (size_t d = 0; d < a->head_dim; d++)
            p->expected.acc[i * a->head_dim + d] = p->expected.l[i] > 0 ? test_float(&rng, TEST_ORDINARY) : 0;
    }
    p->found.acc = test_guard_lend(&p->acc_guard, n * sizeof(float), between(0, 3) == 0);
    memcpy(p->found.m, p->expected.m, sizeof p->found.m);
    memcpy(p->found.l, p->expected.l, sizeof p->found.l);
    memcpy(p->found.acc, p->expected.acc, n * sizeof(float));
}

static void run(problem *p, tern_attention_fn fn, state_of_queries *s)
{
    tern_attention_args a = p->args;
    a.m = s->m;
    a.l = s->l;
    a.acc = s->acc;
    fn(&a);
}

static void fill_problem(problem *p, tern_cache_types types, uint32_t head_dim, uint32_t n_queries, mask_kind mask,
                         test_fill fill)
{
    const uint32_t n_positions = between(1, MAX_POSITIONS), first = between(0, 1) * TERN_ATTENTION_CHUNK;
    const size_t stride = head_dim + between(0, MAX_GAP), n_q = (n_queries - 1) * stride + head_dim;
    p->args = (tern_attention_args){.n_queries = n_queries,
                                    .types = types,
                                    .head_dim = head_dim,
                                    .q_stride = stride,
                                    .lo = p->lo,
                                    .hi = p->hi,
                                    .first = first,
                                    .n = n_positions,
                                    .pages = p->pages,
                                    .scale = 1 / sqrtf((float)head_dim),
                                    .softcap = between(0, 2) ? 0 : 1.25f};
    p->args.k_page_bytes = PAGE * tern_cache_bytes(types.k, head_dim) + 64 * between(0, 2);
    p->args.v_page_bytes = PAGE * tern_cache_bytes(types.v, head_dim) + 64 * between(0, 2);
    for (size_t i = 0; i < N_ENTRIES; i++) p->pages[i] = between(0, N_PAGES - 1);
    p->args.k = fill_cache(types.k, head_dim, p->args.k_page_bytes, &p->k_guard, fill);
    p->args.v = fill_cache(types.v, head_dim, p->args.v_page_bytes, &p->v_guard, fill);
    float *q = test_guard_lend(&p->q_guard, n_q * sizeof *q, between(0, 3) == 0);
    test_floats(&rng, fill == TEST_NONFINITE ? TEST_ORDINARY : fill, q, n_q);
    p->args.q = q;
    fill_mask(p, mask, n_positions);
    for (uint32_t i = 0; i < n_queries; i++) {
        p->lo[i] += first;
        p->hi[i] += first + between(0, 3) / 3 * (mask == MASK_ALL); /* the chunk ends before what is visible */
    }
    fill_state(p);
    run(p, tern_ref_attention, &p->expected);
}

static bool agrees(problem *p, tern_attention_fn fn)
{
    const size_t n = (size_t)p->args.n_queries * p->args.head_dim;
    run(p, fn, &p->found);
    return test_same_bits(p->found.m, p->expected.m, MAX_QUERIES) &&
           test_same_bits(p->found.l, p->expected.l, MAX_QUERIES) && test_same_bits(p->found.acc, p->expected.acc, n) &&
           test_guard_intact(&p->acc_guard, p->found.acc, n * sizeof(float));
}

/* The same problem as often as there are kernels: each starts from a fresh state. */
static void check(problem *p, tern_cache_types types, uint32_t head_dim, uint32_t n_queries, mask_kind mask,
                  test_fill fill)
{
    static const char *const masks[] = {"all", "causal", "window", "random"};
    size_t at = 0;
    for (const test_kernel *k; (k = test_kernel_next("attention", &at));) {
        fill_problem(p, types, head_dim, n_queries, mask, fill);
        if (!agrees(p, (tern_attention_fn)k->fn))
            fail_msg("attention %s: %s and %s, %u queries of %u, %u positions from %u, mask %s, %s", k->level,
                     tern_cache_type_of(types.k)->name, tern_cache_type_of(types.v)->name, n_queries, head_dim,
                     p->args.n, p->args.first, masks[mask], test_fill_names[fill]);
    }
}

static void every_head_size(void **state)
{
    for (uint32_t head_dim = 8; head_dim <= 512; head_dim += head_dim < 40 ? 4 : head_dim < 160 ? 8 : 32)
        for (uint32_t i = 0; i < n_pairs(head_dim); i++)
            for (int mask = 0; mask < N_MASKS; mask++)
                check(*state, types_at(i, head_dim), head_dim, between(1, 9), (mask_kind)mask, TEST_ORDINARY);
}

static void every_query_count(void **state)
{
    for (uint32_t n = 1; n <= MAX_QUERIES; n++)
        for (uint32_t i = 0; i < n_pairs(64); i++)
            check(*state, types_at(i, 64), between(1, 3) * 32, n, (mask_kind)between(0, N_MASKS - 1), TEST_ORDINARY);
}

static void extremes(void **state)
{
    for (int fill = 0; fill < TEST_N_FILLS; fill++)
        for (uint32_t i = 0; i < 16; i++) {
            const uint32_t head_dim = i % 3 ? 64 : 40;
            check(*state, types_at(i, head_dim), head_dim, between(1, 8), (mask_kind)(i % N_MASKS), (test_fill)fill);
        }
}

/* Writes NaN over everything past the last visible position. */
static void spoil(const problem *p, tern_dtype type, size_t page_bytes, uint8_t *begin, const uint8_t *cache)
{
    const size_t row_bytes = tern_cache_bytes(type, p->args.head_dim);
    for (uint32_t at = p->args.n; at < N_PAGES * PAGE; at++)
        memset(begin + (cache - begin) + at / PAGE * page_bytes + at % PAGE * row_bytes, 0xff, row_bytes);
}

static void hidden_positions_may_hold_anything(void **state)
{
    problem *p = *state;
    size_t k_at = 0;
    for (const test_kernel *k; (k = test_kernel_next("attention", &k_at));)
        for (uint32_t i = 0; i < 32; i++) {
            const tern_cache_types types = types_at(i, 64);
            fill_problem(p, types, 64, 6, MASK_CAUSAL, TEST_ORDINARY);
            for (uint32_t j = 0; j < N_ENTRIES; j++) p->pages[j] = j % CHUNK_PAGES % N_PAGES;
            fill_state(p);
            run(p, tern_ref_attention, &p->expected);
            spoil(p, types.k, p->args.k_page_bytes, p->k_guard.begin, p->args.k);
            spoil(p, types.v, p->args.v_page_bytes, p->v_guard.begin, p->args.v);
            if (!agrees(p, (tern_attention_fn)k->fn)) fail_msg("attention %s: %u positions", k->level, p->args.n);
            for (size_t j = 0; j < 6 * 64; j++) assert_true(p->found.acc[j] == p->found.acc[j]);
        }
}

/* Broken kernels that the checks above must catch. */

static void sees_one_more(const tern_attention_args *a)
{
    uint32_t hi[MAX_QUERIES];
    for (uint32_t i = 0; i < a->n_queries; i++) hi[i] = a->hi[i] + 1;
    tern_attention_args more = *a;
    more.hi = hi;
    more.n += 1;
    tern_ref_attention(&more);
}

static void forgets_the_start(const tern_attention_args *a)
{
    uint32_t lo[MAX_QUERIES] = {0};
    tern_attention_args all = *a;
    all.lo = lo;
    tern_ref_attention(&all);
}

static void scales_the_query(const tern_attention_args *a)
{
    float *q = malloc(a->n_queries * a->q_stride * sizeof *q);
    assert_non_null(q);
    for (size_t i = 0; i < (a->n_queries - 1) * a->q_stride + a->head_dim; i++) q[i] = a->q[i] * a->scale;
    tern_attention_args scaled = *a;
    scaled.q = q;
    scaled.scale = 1;
    tern_ref_attention(&scaled);
    free(q);
}

static void forgets_the_cap(const tern_attention_args *a)
{
    tern_attention_args plain = *a;
    plain.softcap = 0;
    tern_ref_attention(&plain);
}

/* Takes the codes of a block with the scale of the block before it. */
static void shifts_the_scales(const tern_attention_args *a)
{
    const size_t row = tern_cache_bytes(a->types.v, a->head_dim), page = a->v_page_bytes * (N_PAGES - 1) + PAGE * row;
    uint8_t *v = malloc(page);
    assert_non_null(v);
    memcpy(v, a->v, page);
    for (size_t at = 0; at < N_PAGES * PAGE; at++) {
        uint8_t *scales = v + at / PAGE * a->v_page_bytes + at % PAGE * row;
        memmove(scales + 2, scales, a->head_dim / TERN_CACHE_BLOCK * 2 - 2);
    }
    tern_attention_args shifted = *a;
    shifted.v = v;
    tern_ref_attention(&shifted);
    free(v);
}

static void shifted_scales_are_caught(void **state)
{
    fill_problem(*state, types_at(15, 64), 64, 8, MASK_ALL, TEST_ORDINARY);
    assert_false(agrees(*state, shifts_the_scales));
}

static void broken_kernels_are_caught(void **state)
{
    problem *p = *state;
    static const tern_cache_types f32 = {TERN_DTYPE_F32, TERN_DTYPE_F32};
    static const tern_attention_fn broken[] = {sees_one_more, forgets_the_start, scales_the_query, forgets_the_cap};
    for (size_t i = 0; i < sizeof broken / sizeof *broken; i++) {
        do {
            fill_problem(p, f32, 48, 8, MASK_WINDOW, TEST_ORDINARY);
        } while (p->args.n % PAGE == 0 || p->args.n < 45 || p->args.first || p->args.softcap == 0);
        assert_false(agrees(p, broken[i]));
        fill_problem(p, f32, 48, 8, MASK_WINDOW, TEST_ORDINARY);
        assert_true(agrees(p, tern_ref_attention));
    }
}

static int open_state(void **state)
{
    static problem p;
    test_seed(&rng);
    open_problem(&p);
    *state = &p;
    return 0;
}

static int close_state(void **state)
{
    close_problem(*state);
    return 0;
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(every_head_size),
    cmocka_unit_test(every_query_count),
    cmocka_unit_test(extremes),
    cmocka_unit_test(hidden_positions_may_hold_anything),
    cmocka_unit_test(broken_kernels_are_caught),
    cmocka_unit_test(shifted_scales_are_caught),
};

TEST_GROUP(attention_kernels, "web", tests, .setup = open_state, .teardown = close_state);
