/* Choosing kernels: by a made-up clock that says which is fast, by the real one on small shapes, and what a backend
 * does with choices. */
#include "support/test.h"

#include <stdlib.h>

#include "backend/cpu/candidates/candidates.h"
#include "backend/cpu/cpu.h"
#include "backend/cpu/tune/tune.h"
#include "base/alloc.h"
#include "quant/encoding.h"
#include "quant/weight.h"
#include "support/kernels.h"

static tern_rng rng;

/* Random codes as i2_s; free data. */
static tern_weight make_weight(const char *encoding, uint32_t rows, uint32_t cols)
{
    tern_weight w = {
        .encoding = tern_encoding_by_name(encoding), .rows = rows, .cols = cols, .scale = 1, .name = "made up"};
    tern_error err = {0};
    int8_t *codes = malloc((size_t)rows * cols);
    assert_non_null(codes);
    for (size_t i = 0; i < (size_t)rows * cols; i++) codes[i] = (int8_t)((int)test_between(&rng, 0, 2) - 1);
    assert_ok(tern_encoding_bytes(w.encoding, rows, cols, &w.bytes, &err), err);
    uint8_t *data = tern_alloc_aligned(w.bytes, 64);
    assert_non_null(data);
    assert_ok(tern_encode_codes(w.encoding, codes, 1.0f, rows, cols, data, &err), err);
    free(codes);
    w.data = data;
    return w;
}

static void free_weight(const tern_weight *w)
{
    tern_free_aligned((void *)(uintptr_t)w->data);
}

/* A clock that moves on by what the script says of the kernel that runs. */
typedef struct script {
    const char *kernel; /* this one takes `seconds`, or any when NULL; with these task rows, or any when UINT32_MAX */
    uint32_t task_rows;
    double seconds, others, now;
    bool only_first; /* slow again when it is measured once more, after the default */
    uint32_t n_calls, n_announced, cancel_at;
    char last[TERN_KERNEL_NAME_BYTES];
    bool all_seen;
} script;

static double tell(void *context, const tern_tune_row *row)
{
    script *s = context;
    const bool is = (!s->kernel || strcmp(s->kernel, row->kernel) == 0) &&
                    (s->task_rows == UINT32_MAX || s->task_rows == row->task_rows);
    if (strncmp(row->kernel, "rsr:12", 6) == 0) s->all_seen = true;
    s->n_calls++;
    s->now += is && !(s->only_first && s->all_seen) ? s->seconds : s->others;
    return s->now;
}

static bool announced(void *context, const tern_tune_row *row)
{
    script *s = context;
    (void)row;
    return ++s->n_announced != s->cancel_at;
}

static tern_backend *open_cpu(uint32_t n_threads)
{
    tern_backend *b;
    tern_error err = {0};
    assert_ok(tern_cpu_open(&b, &(tern_cpu_options){.n_threads = n_threads}, &err), err);
    return b;
}

static tern_status run(const tern_weight *w, script *s, tern_tune_result *out, tern_error *err)
{
    tern_backend *backends[] = {open_cpu(1), open_cpu(2)};
    const tern_tune_options how = {.backends = backends,
                                   .n_backends = 2,
                                   .cold_bytes = 2 * w->bytes,
                                   .seconds = 1e-4,
                                   .clock = tell,
                                   .progress = announced,
                                   .context = s};
    const tern_status status = tern_cpu_tune(w, &how, out, err);
    for (int i = 0; i < 2; i++) backends[i]->close(backends[i]);
    return status;
}

static void what_the_clock_calls_fast_is_chosen(void **state)
{
    (void)state;
    const tern_weight w = make_weight("i2_s", 256, 256);
    const struct {
        const char *kernel;
        uint32_t task_rows;
        double seconds;
        bool chosen;
    } cases[] = {{"rsr:7", 0, 0.5e-5, true},  {"rsr:2", 0, 0.5e-5, true},
                 {"rsr:12", 0, 0.5e-5, true}, {"t160", 0, 0.5e-5, true},
                 {"dot", 64, 0.5e-5, true},   {"rsr:7", 0, 0.98e-5, false} /* within the margin */,
                 {"rsr:7", 0, 2e-5, false},   {"rsr:1", 0, 0.1e-5, false} /* not worth measuring */};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        script s = {
            .kernel = cases[i].kernel, .task_rows = cases[i].task_rows, .seconds = cases[i].seconds, .others = 1e-5};
        tern_tune_result r;
        tern_error err = {0};
        assert_ok(run(&w, &s, &r, &err), err);
        for (uint32_t b = 0; b < 2; b++) {
            const tern_tune_row *best = &r.rows[r.of[b].best], *standard = &r.rows[r.of[b].standard];
            assert_string_equal(standard->kernel, "dot");
            assert_int_equal(standard->task_rows, 0);
            assert_int_equal(best->n_threads, b + 1);
            assert_string_equal(best->kernel, cases[i].chosen ? cases[i].kernel : "dot");
            assert_int_equal(best->task_rows, cases[i].chosen ? cases[i].task_rows : 0);
            assert_true(r.of[b].best_seconds <= r.of[b].standard_seconds);
        }
        tern_tune_result_deinit(&r);
    }
    free_weight(&w);
}

static void one_lucky_measurement_is_not_enough(void **state)
{
    (void)state;
    const tern_weight w = make_weight("i2_s", 256, 256);
    script s = {.kernel = "rsr:5", .task_rows = UINT32_MAX, .seconds = 0.1e-5, .others = 1e-5, .only_first = true};
    tern_tune_result r;
    tern_error err = {0};
    assert_ok(run(&w, &s, &r, &err), err);
    for (uint32_t b = 0; b < 2; b++) assert_int_equal(r.of[b].best, r.of[b].standard);
    tern_tune_result_deinit(&r);
    free_weight(&w);
}

static void the_same_clock_gives_the_same_result(void **state)
{
    (void)state;
    const tern_weight w = make_weight("tq2_0", 100, 256);
    tern_tune_result r[2];
    script s[2];
    for (int i = 0; i < 2; i++) {
        tern_error err = {0};
        s[i] = (script){.kernel = "rsr:4", .task_rows = UINT32_MAX, .seconds = 0.7e-5, .others = 1e-5};
        assert_ok(run(&w, &s[i], &r[i], &err), err);
    }
    assert_int_equal(s[0].n_calls, s[1].n_calls);
    assert_int_equal(r[0].n, r[1].n);
    assert_memory_equal(r[0].rows, r[1].rows, r[0].n * sizeof *r[0].rows);
    assert_memory_equal(r[0].of, r[1].of, sizeof r[0].of);
    for (int i = 0; i < 2; i++) tern_tune_result_deinit(&r[i]);
    free_weight(&w);
}

/* Every candidate with every number that it has for tuning; none twice. */
static void every_candidate_is_measured(void **state)
{
    (void)state;
    const tern_weight w = make_weight("i2_s", 64, 128);
    script s = {.seconds = 1e-5, .task_rows = UINT32_MAX};
    tern_tune_result r;
    tern_error err = {0};
    assert_ok(run(&w, &s, &r, &err), err);
    for (int k = 2; k <= 12; k++) {
        char name[16];
        uint32_t n = 0;
        snprintf(name, sizeof name, "rsr:%d", k);
        for (size_t i = 0; i < r.n; i++) n += strcmp(r.rows[i].kernel, name) == 0 && r.rows[i].task_rows == 0;
        assert_int_equal(n, 2); /* one for each number of threads */
    }
    const tern_cpu__candidate *c;
    for (size_t i = 0; (c = tern_cpu__candidate_at(i)); i++) {
        bool found = false;
        for (size_t k = 0; k < r.n; k++) found |= strncmp(r.rows[k].kernel, c->name, strlen(c->name)) == 0;
        assert_true(found);
    }
    for (size_t i = 0; i < r.n; i++) assert_true(r.rows[i].bytes > 0 && r.rows[i].seconds > 0);
    tern_tune_result_deinit(&r);
    free_weight(&w);
}

static void a_weight_of_the_same_encoding_is_not_packed_again(void **state)
{
    (void)state;
    const tern_weight w = make_weight("t160", 64, 100);
    script s = {.seconds = 1e-5, .task_rows = UINT32_MAX};
    tern_tune_result r;
    tern_error err = {0};
    assert_ok(run(&w, &s, &r, &err), err);
    assert_true(r.n > 2);
    for (size_t i = 0; i < r.n; i++) assert_string_not_equal(r.rows[i].kernel, "t160");
    tern_tune_result_deinit(&r);
    free_weight(&w);
}

/* Integers of all kernels are compared inside; shapes that nothing divides. */
static void the_real_clock_works(void **state)
{
    (void)state;
    static const struct {
        const char *encoding;
        uint32_t rows, cols;
    } shapes[] = {{"i2_s", 1, 128},   {"i2_s", 77, 384},  {"i2_s", 512, 100},
                  {"t160", 130, 333}, {"tq1_0", 65, 512}, {"tq2_0", 2050, 256}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        const tern_weight w = make_weight(shapes[i].encoding, shapes[i].rows, shapes[i].cols);
        tern_backend *backends[] = {open_cpu(1), open_cpu(3)};
        tern_tune_options how = {.backends = backends, .n_backends = 2, .cold_bytes = 1 << 18};
        for (int only = 0; only < 2; only++) {
            tern_tune_result r;
            tern_error err = {0};
            how.defaults_only = only;
            assert_ok(tern_cpu_tune(&w, &how, &r, &err), err);
            for (size_t k = 0; k < r.n; k++) assert_true(r.rows[k].seconds >= 0);
            assert_true(only ? r.n <= 20 : r.n >= 22);
            tern_tune_result_deinit(&r);
        }
        for (int b = 0; b < 2; b++) backends[b]->close(backends[b]);
        free_weight(&w);
    }
}

static void errors_leave_nothing_behind(void **state)
{
    (void)state;
    tern_weight w = make_weight("i2_s", 64, 128);
    tern_tune_result r;
    tern_error err = {0};
    const int64_t live = tern_alloc_live();
    script s = {.seconds = 1e-5, .task_rows = UINT32_MAX, .cancel_at = 9};
    assert_int_equal(run(&w, &s, &r, &err), TERN_CANCELLED);
    tern_tune_result_deinit(&r);
    for (uint64_t n = 1; n < 400; n += 1 + n / 16) {
        tern_backend *b = open_cpu(1);
        const tern_tune_options how = {
            .backends = &b, .n_backends = 1, .cold_bytes = 1 << 15, .clock = tell, .context = &s};
        tern_alloc_fail_after(n, true);
        const tern_status status = tern_cpu_tune(&w, &how, &r, &err);
        tern_alloc_fail_after(0, false);
        assert_true(status == TERN_OK || status == TERN_OUT_OF_MEMORY);
        tern_tune_result_deinit(&r);
        b->close(b);
    }
    assert_int_equal(tern_alloc_live(), live);
    w.encoding = tern_encoding_by_name("q8_0");
    tern_backend *b = open_cpu(1);
    tern_tune_options how = {.backends = &b, .n_backends = 1};
    assert_int_equal(tern_cpu_tune(&w, &how, &r, &err), TERN_INVALID_ARGUMENT);
    how.n_backends = 0;
    w.encoding = tern_encoding_by_name("i2_s");
    assert_int_equal(tern_cpu_tune(&w, &how, &r, &err), TERN_INVALID_ARGUMENT);
    b->close(b);
    free_weight(&w);
}

/* A backend gives a weight the choice of its shape, encoding and threads, and nobody else's. */
static void choices_reach_their_weights(void **state)
{
    (void)state;
    const tern_weight w = make_weight("i2_s", 64, 256);
    const tern_encoding *i2_s = w.encoding, *t160 = tern_encoding_by_name("t160");
    const struct {
        tern_kernel_choice choice;
        const char *kernel;
        bool trained, taken;
    } cases[] = {
        {{i2_s, 64, 256, 2, "rsr:5", 25}, NULL, false, true},   {{i2_s, 64, 256, 1, "rsr:5", 25}, NULL, false, false},
        {{i2_s, 256, 64, 2, "rsr:5", 25}, NULL, false, false},  {{t160, 64, 256, 2, "rsr:5", 25}, NULL, false, false},
        {{i2_s, 64, 256, 2, "rsr:5", 25}, "dot", false, false}, {{i2_s, 64, 256, 2, "rsr:5", 25}, NULL, true, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tern_backend *b;
        tern_buffer *buffer;
        tern_error err = {0};
        tern_weight this = w;
        const tern_cpu_options how = {
            .n_threads = 2, .kernel = cases[i].kernel, .choices = &cases[i].choice, .n_choices = 1};
        this.trained = cases[i].trained;
        assert_ok(tern_cpu_open(&b, &how, &err), err);
        assert_ok(b->weight_create(b, &this, &buffer, &err), err);
        assert_int_equal(buffer->task_rows, cases[i].taken ? 25 : 0);
        assert_int_equal(buffer->layout != NULL, cases[i].taken);
        if (cases[i].taken) assert_int_equal(buffer->layout->row_step, 5);
        b->buffer_free(b, buffer);
        b->close(b);
    }
    free_weight(&w);
}

static void wrong_choices_are_refused(void **state)
{
    (void)state;
    const tern_encoding *e = tern_encoding_by_name("i2_s");
    const tern_kernel_choice wrong[] = {
        {e, 1, 1, 1, "sorted", 0}, {e, 1, 1, 1, "rsr:17", 0}, {e, 1, 1, 1, "dot", 1025}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        tern_backend *b;
        tern_error err = {0};
        const tern_cpu_options how = {.n_threads = 1, .choices = &wrong[i], .n_choices = 1};
        assert_int_equal(tern_cpu_open(&b, &how, &err), TERN_INVALID_ARGUMENT);
        assert_null(b);
        assert_non_null(strstr(err.message, wrong[i].kernel));
    }
}

static int seed(void **state)
{
    (void)state;
    test_seed(&rng);
    return 0;
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(what_the_clock_calls_fast_is_chosen),
    cmocka_unit_test(one_lucky_measurement_is_not_enough),
    cmocka_unit_test(the_same_clock_gives_the_same_result),
    cmocka_unit_test(every_candidate_is_measured),
    cmocka_unit_test(a_weight_of_the_same_encoding_is_not_packed_again),
    cmocka_unit_test(the_real_clock_works),
    cmocka_unit_test(errors_leave_nothing_behind),
    cmocka_unit_test(choices_reach_their_weights),
    cmocka_unit_test(wrong_choices_are_refused),
};

TEST_GROUP(tune, "", tests, .setup = seed);
