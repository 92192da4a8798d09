/* The SVG picture: well-formed, its points where they belong, and odd inputs. */
#include <math.h>

#include "format/plot.h"
#include "support/test.h"

static char *draw(const tern_plot_curve *curves, size_t n)
{
    tern_buf out = {0};
    tern_error err = {0};
    assert_ok(tern_plot_svg(&out, &(tern_plot){"a < b & c", "step", "loss", false, false, curves, n}, &err), err);
    return out.data;
}

static size_t count(const char *text, const char *what)
{
    size_t n = 0;
    for (; (text = strstr(text, what)); text++) n++;
    return n;
}

/* Every element is closed, and no number is not one. */
static void check_svg(const char *svg)
{
    assert_memory_equal(svg, "<svg ", 5);
    assert_non_null(strstr(svg, "</svg>\n"));
    assert_int_equal(count(svg, "<text"), count(svg, "</text>"));
    assert_int_equal(count(svg, "<g "), count(svg, "</g>"));
    assert_null(strstr(svg, "nan"));
    assert_null(strstr(svg, "inf"));
    assert_non_null(strstr(svg, "a &lt; b &amp; c"));
}

static void points_lie_on_their_scales(void **state)
{
    static const double x[] = {0, 50, 100}, y[] = {4, 2, 1};
    const tern_plot_curve curve = {.label = "train", .x = x, .y = y, .n = 3};
    (void)state;
    char *svg = draw(&curve, 1);
    check_svg(svg);
    /* x from 0 to 100 over 70 .. 820, y from 1 to 4 over 424 .. 44. */
    assert_non_null(strstr(svg, "d=\"M70.0 44.0L445.0 297.3L820.0 424.0\""));
    assert_non_null(strstr(svg, ">train</text>"));
    assert_non_null(strstr(svg, ">100</text>"));
    tern_buf_deinit(&(tern_buf){.data = svg});
}

static void what_is_not_finite_is_left_out(void **state)
{
    static const double x[] = {1, 2, 3, 4}, y[] = {3, NAN, INFINITY, 2};
    const tern_plot_curve curves[] = {{.label = "train", .x = x, .y = y, .n = 4, .smooth = true},
                                      {.label = "validation", .x = x, .y = y, .n = 4, .marked = true}};
    (void)state;
    char *svg = draw(curves, 2);
    check_svg(svg);
    assert_int_equal(count(svg, "<circle"), 2);
    tern_buf_deinit(&(tern_buf){.data = svg});
}

static void long_runs_are_thinned(void **state)
{
    enum { N = 100000 };
    double *x = calloc(N, sizeof *x), *y = calloc(N, sizeof *y);
    (void)state;
    for (size_t i = 0; i < N; i++) {
        x[i] = (double)i;
        y[i] = 3 + sin((double)i);
    }
    char *svg = draw(&(tern_plot_curve){.label = "train", .x = x, .y = y, .n = N, .smooth = true}, 1);
    check_svg(svg);
    assert_true(strlen(svg) < 64 << 10);
    tern_buf_deinit(&(tern_buf){.data = svg});
    free(x);
    free(y);
}

static void nothing_and_one_point_can_be_drawn(void **state)
{
    static const double x[] = {7}, y[] = {0};
    (void)state;
    char *svg = draw(NULL, 0);
    check_svg(svg);
    assert_non_null(strstr(svg, "nothing measured"));
    tern_buf_deinit(&(tern_buf){.data = svg});
    svg = draw(&(tern_plot_curve){.label = "one", .x = x, .y = y, .n = 1, .marked = true}, 1);
    check_svg(svg);
    assert_int_equal(count(svg, "<circle"), 1);
    tern_buf_deinit(&(tern_buf){.data = svg});
}

/* x from 1 to 100 over 70 .. 820, y from 10 to 1000 over 424 .. 44: a power of ten is half of each. */
static void logarithmic_axes_count_powers(void **state)
{
    static const double x[] = {1, 10, 100, 50}, y[] = {10, 1000, 100, -1};
    const tern_plot_curve curves[] = {{.label = "line", .x = x, .y = y, .n = 3, .dashed = true},
                                      {.label = "dots", .x = x, .y = y, .n = 4, .marked = true, .unjoined = true}};
    const tern_plot plot = {"a < b & c", "step", "loss", true, true, curves, 2};
    tern_buf out = {0};
    tern_error err = {0};
    (void)state;
    assert_ok(tern_plot_svg(&out, &plot, &err), err);
    check_svg(out.data);
    assert_non_null(strstr(out.data, "stroke-dasharray=\"6 4\" d=\"M70.0 424.0L445.0 44.0L820.0 234.0\""));
    assert_int_equal(count(out.data, "<circle"), 4); /* and one in the legend */
    assert_int_equal(count(out.data, "fill=\"none\" stroke="), 1);
    assert_non_null(strstr(out.data, ">50</text>"));
    assert_non_null(strstr(out.data, ">200</text>"));
    tern_buf_deinit(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(points_lie_on_their_scales),
        cmocka_unit_test(what_is_not_finite_is_left_out),
        cmocka_unit_test(long_runs_are_thinned),
        cmocka_unit_test(nothing_and_one_point_can_be_drawn),
        cmocka_unit_test(logarithmic_axes_count_powers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
