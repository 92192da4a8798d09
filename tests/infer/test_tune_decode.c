/* Whether choices help a whole model: by a made-up clock, so that the same result comes out every time. */
#include "infer/support.h"

#include <math.h>

#include "base/alloc.h"
#include "infer/tune/decode.h"
#include "quant/encoding.h"

/* A token takes 1 with the defaults, and `slow` with at least this many choices. */
typedef struct script {
    size_t slow_from;
    double slow, fast, now;
    uint32_t n_reports, cancel_at;
} script;

static double tell(void *context, size_t n_choices)
{
    script *s = context;
    const double step = n_choices == 0 ? 1 : n_choices >= s->slow_from ? s->slow : s->fast;
    if (isnan(step)) return step;
    return s->now += step;
}

static bool go_on(void *context, float done)
{
    script *s = context;
    assert_true(done >= 0 && done <= 1);
    return ++s->n_reports != s->cancel_at;
}

static tern_status decode(script *s, const tern_kernel_choice *choices, size_t n, tern_tune_decode_result *out,
                          tern_error *err)
{
    const tern_tune_decode_options how = {.path = test_model("tiny-stories-bitnet"),
                                          .backend = {.n_threads = 2},
                                          .seconds = 8,
                                          .clock = tell,
                                          .progress = go_on,
                                          .context = s};
    return tern_tune_decode(&how, choices, n, out, err);
}

/* The model's own shapes. */
static void make_choices(tern_kernel_choice out[4])
{
    static const uint32_t shapes[4][2] = {{256, 256}, {128, 256}, {768, 256}, {256, 768}};
    for (int i = 0; i < 4; i++)
        out[i] = (tern_kernel_choice){tern_encoding_by_name("i2_s"), shapes[i][0], shapes[i][1], 2, "t160", 0};
}

static void what_does_not_help_is_left_out(void **state)
{
    (void)state;
    const struct {
        size_t n, slow_from;
        double slow, fast;
        size_t rounds, keep;
    } cases[] = {
        {4, 1, 0.5, 0.5, 1, 4}, /* faster */
        {4, 1, 1.0, 1.0, 1, 4}, /* as fast */
        {4, 1, 1.019, 1, 1, 4}, /* slower, but that is noise */
        {4, 1, 1.03, 1, 3, 0},  /* slower with 4, 2 and 1 */
        {4, 3, 1.5, 0.9, 2, 2}, /* the half that gains most helps */
        {3, 2, 1.5, 0.9, 2, 1}, {1, 1, 2, 1, 1, 0}, {2, 3, 9, 0.99, 1, 2}, {4, 1, NAN, 1, 3, 0}, {0, 1, 1, 1, 0, 0},
    };
    tern_kernel_choice choices[4];
    make_choices(choices);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tern_tune_decode_result r[2];
        const int64_t live = tern_alloc_live();
        for (size_t k = 0; k < 2; k++) {
            if (k && i != 4) continue;
            script s = {.slow_from = cases[i].slow_from, .slow = cases[i].slow, .fast = cases[i].fast};
            tern_error err = {0};
            assert_ok(decode(&s, choices, cases[i].n, &r[k], &err), err);
        }
        if (i == 4) assert_memory_equal(&r[0], &r[1], sizeof *r); /* the same clock, the same result */
        assert_int_equal(r->n_rounds, cases[i].rounds);
        assert_int_equal(r->n_keep, cases[i].keep);
        for (size_t k = 0; k < r->n_rounds; k++) assert_int_equal(r->rounds[k].n_choices, cases[i].n >> k);
        if (r->n_keep) {
            const tern_tune_round *last = &r->rounds[r->n_rounds - 1];
            assert_int_equal(last->n_choices, r->n_keep);
            assert_true(last->tuned >= 0.98 * last->standard);
            assert_true(fabs(last->standard - 1) < 1e-9);
        }
        assert_int_equal(tern_alloc_live(), live);
    }
}

static void errors_leave_nothing_behind(void **state)
{
    (void)state;
    const int64_t live = tern_alloc_live();
    tern_kernel_choice choices[4];
    tern_tune_decode_result r;
    tern_error err = {0};
    script s = {.slow_from = 9, .fast = 1, .cancel_at = 3};
    make_choices(choices);
    assert_int_equal(decode(&s, choices, 4, &r, &err), TERN_CANCELLED);
    assert_int_equal(r.n_rounds, 0);
    memcpy(choices[1].kernel, "odd", 4); /* the choices do reach an engine */
    assert_int_equal(decode(&s, choices, 4, &r, &err), TERN_INVALID_ARGUMENT);
    assert_non_null(strstr(err.message, "kernel \"odd\""));
    const tern_tune_decode_options nowhere = {.path = "no-such-model.gguf"};
    assert_int_equal(tern_tune_decode(&nowhere, choices, 1, &r, &err), TERN_NOT_FOUND);
    assert_int_equal(tern_alloc_live(), live);
}

static void the_real_clock_works(void **state)
{
    (void)state;
    tern_kernel_choice choices[4];
    tern_tune_decode_result r;
    tern_error err = {0};
    make_choices(choices);
    const tern_tune_decode_options how = {.path = test_model("tiny-stories-bitnet"), .backend = {.n_threads = 2}};
    assert_ok(tern_tune_decode(&how, choices, 4, &r, &err), err);
    assert_true(r.n_rounds >= 1 && r.n_rounds <= 3);
    for (size_t i = 0; i < r.n_rounds; i++) assert_true(r.rounds[i].standard > 0 && r.rounds[i].tuned > 0);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(what_does_not_help_is_left_out),
    cmocka_unit_test(errors_leave_nothing_behind),
    cmocka_unit_test(the_real_clock_works),
};

TEST_GROUP(tune_decode, "slow", tests);
