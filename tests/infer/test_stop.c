/* Stop strings: every way of cutting a text into pieces gives what the whole text would. */
#include "base/bytes.h"
#include "support/kernels.h"
#include "support/test.h"

#include "base/alloc.h"
#include "infer/sample/stop.h"

enum { MAX_TEXT = 24, MAX_STOPS = 3, MAX_STOP = 5 };

typedef struct wanted {
    size_t n; /* bytes that are shown */
    bool stopped;
} wanted;

/* The first end of a stop string in the text, the longest of those that end there. */
static wanted by_definition(const char *text, size_t n, const char *const *stops, uint32_t n_stops)
{
    for (size_t end = 1; end <= n; end++)
        for (size_t start = 0; start < end; start++)
            for (uint32_t i = 0; i < n_stops; i++)
                if (strlen(stops[i]) == end - start && memcmp(text + start, stops[i], end - start) == 0)
                    return (wanted){start, true};
    return (wanted){n, false};
}

static bool begins_a_stop(const char *tail, size_t n, const char *const *stops, uint32_t n_stops)
{
    for (uint32_t i = 0; i < n_stops; i++)
        if (n < strlen(stops[i]) && memcmp(tail, stops[i], n) == 0) return true;
    return false;
}

/* What is held back must be the beginning of a stop string, and none that begins earlier may have been let go. */
static void check_held(const tern_stop_filter *f, const char *text, size_t n_fed, size_t n_shown)
{
    for (size_t at = 0; at < n_fed; at++)
        if (begins_a_stop(text + at, n_fed - at, f->stops, f->n_stops)) {
            assert_int_equal(n_shown, at);
            return;
        }
    assert_int_equal(n_shown, n_fed);
}

static void run(tern_rng *rng, const char *text, size_t n, const char *const *stops, uint32_t n_stops)
{
    tern_error err = {0};
    tern_stop_filter f;
    wanted want = by_definition(text, n, stops, n_stops);
    char shown[MAX_TEXT];
    size_t n_shown = 0;
    bool stopped = false;
    assert_ok(tern_stop_filter_init(&f, stops, n_stops, &err), err);
    for (size_t at = 0; at < n && !stopped;) {
        size_t size = test_between(rng, 0, (uint32_t)(n - at < 4 ? n - at : 4));
        tern_stop_filter_advance(&f);
        assert_ok(tern_buf_add(&f.text, text + at, size, &err), err);
        at += size;
        stopped = tern_stop_filter_scan(&f);
        memcpy(shown + n_shown, f.text.data, f.n_shown);
        n_shown += f.n_shown;
        if (!stopped) check_held(&f, text, at, n_shown);
    }
    if (!stopped) {
        tern_stop_filter_advance(&f);
        tern_stop_filter_release(&f);
        memcpy(shown + n_shown, f.text.data, f.n_shown);
        n_shown += f.n_shown;
    }
    assert_int_equal(stopped, want.stopped);
    assert_int_equal(n_shown, want.n);
    assert_memory_equal(shown, text, n_shown);
    tern_stop_filter_deinit(&f);
}

static void every_cut(void **state)
{
    (void)state;
    tern_rng rng;
    test_seed(&rng);
    for (int round = 0; round < 20000; round++) {
        char text[MAX_TEXT], storage[MAX_STOPS][MAX_STOP + 1] = {{0}};
        const char *stops[MAX_STOPS];
        uint32_t n_stops = tern_rng_below(&rng, MAX_STOPS + 1), n_letters = test_between(&rng, 2, 3);
        size_t n = tern_rng_below(&rng, MAX_TEXT + 1);
        for (size_t i = 0; i < n; i++) text[i] = "ab\0"[tern_rng_below(&rng, n_letters)];
        for (uint32_t s = 0; s < n_stops; s++) {
            uint32_t length = tern_rng_below(&rng, MAX_STOP + 1);
            for (uint32_t i = 0; i < length; i++) storage[s][i] = "ab"[tern_rng_below(&rng, 2)];
            stops[s] = storage[s];
        }
        run(&rng, text, n, stops, n_stops);
    }
}

static void no_allocation(void **state)
{
    (void)state;
    tern_error err = {0};
    const char *const stops[] = {"a rather long stop string that is never quite complete", "\n\n"};
    tern_stop_filter f;
    assert_ok(tern_stop_filter_init(&f, stops, 2, &err), err);
    uint64_t count = tern_alloc_count();
    for (int i = 0; i < 1000; i++) {
        tern_stop_filter_advance(&f);
        assert_ok(tern_buf_add(&f.text, "a rather long stop string that is never quite", 45, &err), err);
        assert_false(tern_stop_filter_scan(&f));
    }
    assert_int_equal(tern_alloc_count(), count);
    tern_stop_filter_deinit(&f);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(every_cut),
    cmocka_unit_test(no_allocation),
};

TEST_GROUP(stop, "web", tests);
