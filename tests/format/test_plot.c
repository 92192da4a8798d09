/* The SVG picture: well-formed, its points where they belong, and odd inputs. */
#include <math.h>

#include "format/plot.h"
#include "support/test.h"

static char *draw(const tern_plot_curve *curves, size_t n)
{
    tern_buf out = {0};
    tern_error err = {0};
    const tern_plot plot = {
        .title = "a < b & c", .x_label = "step", .y_label = "loss", .curves = curves, .n_curves = n};
    assert_ok(tern_plot_svg(&out, &plot, &err), err);
    return out.data;
}

static size_t count(const char *text, const char *what)
{
    size_t n = 0;
    for (; (text = strstr(text, what)); text++) n++;
    return n;
}

/* One tag of well-formed XML, from its '<' on; what is behind it. Attributes are name="value" without < and &. */
static const char *check_tag(const char *at, char (*open)[16], size_t *depth)
{
    const bool end = at[1] == '/';
    const char *name = at + 1 + end;
    const size_t n = strspn(name, "abcdefghijklmnopqrstuvwxyz");
    assert_true(n > 0 && n < 16);
    at = name + n;
    if (end) {
        assert_true(*depth > 0);
        assert_memory_equal(open[--*depth], name, n);
        assert_int_equal(open[*depth][n], 0);
        assert_int_equal(*at, '>');
        return at + 1;
    }
    while (*at == ' ') {
        const size_t word = strspn(++at, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-");
        assert_true(word > 0);
        assert_memory_equal(at + word, "=\"", 2);
        at += word + 2;
        at += strcspn(at, "<&\"");
        assert_int_equal(*at++, '"');
    }
    if (*at == '/') {
        assert_int_equal(at[1], '>');
        return at + 2;
    }
    assert_int_equal(*at, '>');
    assert_true(*depth < 8);
    snprintf(open[(*depth)++], 16, "%.*s", (int)n, name);
    return at + 1;
}

static void check_xml(const char *at)
{
    char open[8][16];
    size_t depth = 0;
    do {
        if (*at == '<') {
            at = check_tag(at, open, &depth);
        } else if (*at == '&') {
            assert_true(strncmp(at, "&lt;", 4) == 0 || strncmp(at, "&gt;", 4) == 0 || strncmp(at, "&amp;", 5) == 0);
            at++;
        } else {
            assert_true(*at == '\n' || (unsigned char)*at >= ' ');
            at++;
        }
    } while (depth > 0);
    assert_string_equal(at, "\n");
}

/* Well-formed, and no number is not one. */
static void check_svg(const char *svg)
{
    assert_memory_equal(svg, "<svg ", 5);
    check_xml(svg);
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
    assert_int_equal(count(svg, "class=\"dot\""), 3); /* one in the legend */
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
    assert_int_equal(count(svg, "<circle"), 2);
    tern_buf_deinit(&(tern_buf){.data = svg});
}

/* x from 1 to 100 over 70 .. 820, y from 10 to 1000 over 424 .. 44: a power of ten is half of each. */
static void logarithmic_axes_count_powers(void **state)
{
    static const double x[] = {1, 10, 100, 50}, y[] = {10, 1000, 100, -1};
    const tern_plot_curve curves[] = {{.label = "line", .x = x, .y = y, .n = 3, .dashed = true},
                                      {.label = "dots", .x = x, .y = y, .n = 4, .marked = true, .unjoined = true}};
    const tern_plot plot = {.title = "a < b & c",
                            .x_label = "step",
                            .y_label = "loss",
                            .x_log = true,
                            .y_log = true,
                            .curves = curves,
                            .n_curves = 2};
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

/* Words at x = 0, 1, 2 in the middle of three parts of 70 .. 670, y from 0 to 4 over 374 .. 44. */
static void words_stand_at_an_axis(void **state)
{
    static const double x[] = {0, 1, 2}, y[] = {4, 2, 3};
    static const char *const names[] = {"1 x 1", "2 & 2", "3 x 3"};
    const tern_plot_curve curve = {.label = "kernel > 1", .x = x, .y = y, .n = 3, .marked = true};
    const tern_plot plot = {.title = "a < b & c",
                            .x_label = "shape",
                            .y_label = "speed",
                            .curves = &curve,
                            .n_curves = 1,
                            .legend_beside = true,
                            .y_zero = true,
                            .x_names = names,
                            .n_x_names = 3};
    tern_buf out = {0};
    tern_error err = {0};
    (void)state;
    assert_ok(tern_plot_svg(&out, &plot, &err), err);
    check_svg(out.data);
    assert_non_null(strstr(out.data, "d=\"M170.0 44.0L370.0 209.0L570.0 126.5\""));
    assert_non_null(strstr(out.data, "transform=\"rotate(-35 370.0 388)\">2 &amp; 2</text>"));
    assert_non_null(strstr(out.data, "<text x=\"716.0\" y=\"60.0\">kernel &gt; 1</text>"));
    tern_buf_deinit(&out);
}

/* Two panels under each other; a bound takes no colour from the curves. */
static void panels_are_stacked(void **state)
{
    static const double x[] = {1, 2}, y[] = {1, 2};
    const tern_plot_curve curves[] = {{.label = "bound", .x = x, .y = y, .n = 2, .dashed = true},
                                      {.label = "first", .x = x, .y = y, .n = 2, .marked = true}};
    const tern_plot plots[] = {{.title = "a < b & c", .x_label = "", .y_label = "", .curves = curves, .n_curves = 2},
                               {.title = "lower", .x_label = "", .y_label = "", .curves = curves + 1, .n_curves = 1}};
    tern_buf out = {0};
    tern_error err = {0};
    (void)state;
    assert_ok(tern_plots_svg(&out, plots, 2, &err), err);
    check_svg(out.data);
    assert_non_null(strstr(out.data, "viewBox=\"0 0 840 960\""));
    assert_int_equal(count(out.data, "translate(0 480)"), 1);
    assert_int_equal(count(out.data, "stroke=\"#0072b2\" stroke-width=\"2\""), 2);
    assert_int_equal(count(out.data, "<circle"), 6);
    tern_buf_deinit(&out);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(points_lie_on_their_scales),
    cmocka_unit_test(what_is_not_finite_is_left_out),
    cmocka_unit_test(long_runs_are_thinned),
    cmocka_unit_test(nothing_and_one_point_can_be_drawn),
    cmocka_unit_test(logarithmic_axes_count_powers),
    cmocka_unit_test(words_stand_at_an_axis),
    cmocka_unit_test(panels_are_stacked),
};

TEST_GROUP(plot, "", tests);
