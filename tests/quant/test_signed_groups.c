/* Groups that are fitted four at a time, against the search for one group after the other, to the bit. */
#include "support/test.h"

#include <math.h>

#include "base/cpu.h"
#include "base/half.h"
#include "base/rng.h"
#include "quant/signed_groups.h"

enum { GROUP = TERN_SIGNED_GROUP, GROUPS = TERN_SIGNED_GROUPS, N = GROUP * GROUPS, KINDS = 7 };

/* Those of Q6_K and Q3_K. */
static const struct {
    tern_signed_fit fit;
    int least;
} kinds[] = {
    {{.n = GROUP, .low = -32, .high = 31, .first = -30, .step = -0.5f, .candidates = 9}, -128},
    {{.n = GROUP, .low = -4, .high = 3, .first = -3.1f, .step = -0.1f, .candidates = 19}, -32},
};

/* Squared errors of levels q, in four sums that become one as lanes do (quant/fit.h). */
static float error_of(const float *x, const float *w, const float *q, float scale)
{
    float lanes[4] = {0};
    for (int i = 0; i < GROUP; i++) {
        const float left = x[i] - q[i] * scale;
        lanes[i % 4] += w ? w[i] * (left * left) : left * left;
    }
    return (lanes[0] + lanes[2]) + (lanes[1] + lanes[3]);
}

static int multiple_of(const tern_signed_fit *f, int least, const float *x, const float *w, float d)
{
    const float middle = rintf(tern_signed_fit__scale(f, x, w) / d);
    float best = INFINITY, q[GROUP];
    int multiple = 0;
    for (int step = -1; step <= 1; step++) {
        const float m = middle + (float)step;
        if (!(m >= (float)least && m <= (float)(-least - 1))) continue;
        tern_signed_fit__levels(f, x, d * m, q);
        const float error = error_of(x, w, q, d * m);
        if (error < best) best = error, multiple = (int)m;
    }
    return multiple;
}

/* Ordinary numbers, of all magnitudes, mostly zeros, too small for a scale, subnormal, whole, with groups of zeros. */
static float number(tern_rng *rng, int kind, int i)
{
    const float u = tern_rng_f32(rng) - 0.5f;
    const int up = (int)tern_rng_below(rng, 60);
    switch (kind) {
    case 0: return u;
    case 1: return ldexpf(u, up - 50);
    case 2: return up % 4 ? 0 : u;
    case 3: return ldexpf(u, up % 10 - 45);
    case 4: return ldexpf(u, -140);
    case 5: return (float)(up % 7 - 3);
    default: return i / GROUP % 3 ? 0 : u;
    }
}

typedef uint16_t (*fit_fn)(const tern_signed_fit *f, int least, const float *x, const float *w, int8_t *multiples,
                           float *q);

static void check(fit_fn fit, int kind, const tern_signed_fit *f, int least, const float *x, const float *w)
{
    float most = 0, q[N], expected[GROUP];
    int8_t multiples[GROUPS];
    const uint16_t half = fit(f, least, x, w, multiples, q);
    for (int g = 0; g < GROUPS; g++) {
        const float scale = tern_signed_fit__scale(f, x + g * GROUP, w ? w + g * GROUP : NULL);
        if (fabsf(scale) > fabsf(most)) most = scale;
    }
    assert_int_equal(half, tern_f32_to_f16(most / (float)least));
    const float d = tern_f16_to_f32(half);
    for (int g = 0; g < GROUPS; g++) {
        const float *group = x + g * GROUP, *weights = w ? w + g * GROUP : NULL;
        const int multiple = d != 0 ? multiple_of(f, least, group, weights, d) : 0;
        tern_signed_fit__levels(f, group, d * (float)multiple, expected);
        if (multiples[g] != multiple) fail_msg("kind %d, group %d: %d, expected %d", kind, g, multiples[g], multiple);
        assert_memory_equal(q + g * GROUP, expected, sizeof expected);
    }
}

static void check_all(fit_fn fit)
{
    tern_rng rng = {2026};
    float x[N], w[N];
    for (int round = 0; round < 200; round++) {
        const int kind = round % KINDS;
        for (int i = 0; i < N; i++) {
            x[i] = number(&rng, kind, i);
            w[i] = tern_rng_below(&rng, 9) ? tern_rng_f32(&rng) : 0;
        }
        for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
            check(fit, kind, &kinds[k].fit, kinds[k].least, x, NULL);
            check(fit, kind, &kinds[k].fit, kinds[k].least, x, w);
        }
    }
}

/* What this CPU takes, and what others do. */
static void as_one_by_one(void **state)
{
    (void)state;
    check_all(tern_signed_fit__groups);
    check_all(tern_signed_fit__groups_4);
#if defined(__x86_64__)
    const uint32_t features = tern_cpu_features();
    if (features & TERN_CPU_AVX2) check_all(tern_signed_fit__groups_avx2);
    if (features & TERN_CPU_AVX512) check_all(tern_signed_fit__groups_avx512);
#endif
}

static const struct CMUnitTest tests[] = {cmocka_unit_test(as_one_by_one)};

TEST_GROUP(signed_groups, "web", tests);
