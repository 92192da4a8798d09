/* Drawing curves: scales, axes, lines. */
#include "format/plot.h"

#include <math.h>
#include <string.h>

enum { WIDTH = 840, HEIGHT = 480, LEFT = 70, RIGHT = 20, TOP = 44, BOTTOM = 56, MAX_POINTS = 1000, N_TICKS = 6 };

static const char *const colours[] = {"#1f6feb", "#d9480f", "#2b8a3e", "#862e9c",
                                      "#0b7285", "#a61e4d", "#5f3dc4", "#495057"};

/* What a picture shows of each axis, and how far apart its numbers are. */
typedef struct axis {
    double low, high, step; /* of a logarithmic one: powers of ten */
    bool any, logarithmic;
    int first, last; /* marks at the ends of a logarithmic one */
} axis;

/* A value as its axis counts it. */
static double scaled(const axis *a, double v)
{
    return a->logarithmic ? log10(v) : v;
}

static bool shows(const axis *a, double v)
{
    return isfinite(v) && (!a->logarithmic || v > 0);
}

static void cover(axis *a, double value)
{
    const double v = scaled(a, value);
    if (!a->any || v < a->low) a->low = v;
    if (!a->any || v > a->high) a->high = v;
    a->any = true;
}

/* Mark i of a logarithmic axis, as the axis counts: 1, 2, 5, 10, 20, ... from i = 0 on, 0.5, 0.2, ... before. */
static double mark(int i)
{
    static const double parts[] = {1, 2, 5};
    const int power = i >= 0 ? i / 3 : -((2 - i) / 3);
    return power + log10(parts[i - 3 * power]);
}

/* The last mark that is not above v. */
static int mark_below(double v)
{
    int i = 3 * (int)floor(v) + 3;
    while (mark(i) > v + 1e-9) i--;
    return i;
}

static void round_marks(axis *a)
{
    a->first = mark_below(a->low);
    a->last = mark_below(a->high);
    if (mark(a->last) < a->high - 1e-9 || a->last == a->first) a->last++;
    while (a->last - a->first > 12 && a->first % 3) a->first--;
    while (a->last - a->first > 12 && a->last % 3) a->last++;
    a->low = mark(a->first);
    a->high = mark(a->last);
}

/* 1, 2 or 5 times a power of ten, for about N_TICKS steps; the ends move out to whole steps. */
static void round_ends(axis *a)
{
    if (!a->any) *a = (axis){.low = 0, .high = 1, .any = true, .logarithmic = a->logarithmic};
    if (a->logarithmic) {
        round_marks(a);
        return;
    }
    if (!(a->high - a->low > 1e-9 * fmax(fabs(a->low), 1e-30))) {
        const double room = fmax(fabs(a->low) * 0.1, 1e-3);
        a->low -= room;
        a->high += room;
    }
    const double rough = (a->high - a->low) / N_TICKS, power = pow(10, floor(log10(rough)));
    a->step = rough <= power ? power : rough <= 2 * power ? 2 * power : rough <= 5 * power ? 5 * power : 10 * power;
    a->low = floor(a->low / a->step + 1e-9) * a->step;
    a->high = ceil(a->high / a->step - 1e-9) * a->step;
}

/* A picture being written; `status` keeps the first failure. */
typedef struct picture {
    tern_buf *out;
    tern_error *err;
    tern_status status;
    axis x, y;
} picture;

#define ADD(p, ...)                                                                                                    \
    do {                                                                                                               \
        if ((p)->status == TERN_OK) (p)->status = tern_buf_addf((p)->out, (p)->err, __VA_ARGS__);                      \
    } while (0)

static double place_x(const picture *p, double v)
{
    return LEFT + (scaled(&p->x, v) - p->x.low) / (p->x.high - p->x.low) * (WIDTH - LEFT - RIGHT);
}

static double place_y(const picture *p, double v)
{
    return HEIGHT - BOTTOM - (scaled(&p->y, v) - p->y.low) / (p->y.high - p->y.low) * (HEIGHT - TOP - BOTTOM);
}

static void add_text(picture *p, double x, double y, const char *more, const char *text)
{
    ADD(p, "<text x=\"%.1f\" y=\"%.1f\"%s>", x, y, more);
    for (; *text; text++) {
        if (*text == '<') ADD(p, "&lt;");
        else if (*text == '&') ADD(p, "&amp;");
        else ADD(p, "%c", *text);
    }
    ADD(p, "</text>\n");
}

static double not_minus_zero(double v)
{
    return v == 0 ? 0 : v;
}

/* How many numbers stand at an axis, and number i of them. A logarithmic one that is long has powers of ten alone. */
static int apart(const axis *a)
{
    return a->last - a->first > 12 ? 3 : 1;
}

static int n_ticks(const axis *a)
{
    if (a->logarithmic) return (a->last - a->first) / apart(a) + 1;
    return (int)lround((a->high - a->low) / a->step) + 1;
}

static double tick_at(const axis *a, int i)
{
    if (a->logarithmic) return pow(10, mark(a->first + i * apart(a)));
    const double v = a->low + i * a->step;
    return fabs(v) < a->step / 2 ? 0 : v;
}

static void add_grid(picture *p)
{
    for (int i = 0; i < n_ticks(&p->x); i++) {
        const double at = tick_at(&p->x, i), x = place_x(p, at);
        ADD(p, "<path class=\"grid\" d=\"M%.1f %dV%d\"/>", x, TOP, HEIGHT - BOTTOM);
        ADD(p, "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%.6g</text>\n", x, HEIGHT - BOTTOM + 18, at);
    }
    for (int i = 0; i < n_ticks(&p->y); i++) {
        const double at = tick_at(&p->y, i), y = place_y(p, at);
        ADD(p, "<path class=\"grid\" d=\"M%d %.1fH%d\"/>", LEFT, y, WIDTH - RIGHT);
        ADD(p, "<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%.6g</text>\n", LEFT - 8, y + 4, at);
    }
    ADD(p, "<path class=\"axis\" d=\"M%d %dV%dH%d\"/>\n", LEFT, TOP, HEIGHT - BOTTOM, WIDTH - RIGHT);
}

/* Point k of at most MAX_POINTS: the mean of those that fall together. False when none of them is finite. */
static bool point_at(const picture *p, const tern_plot_curve *c, size_t k, size_t n_points, double *x, double *y)
{
    size_t from = k * c->n / n_points, to = (k + 1) * c->n / n_points, n = 0;
    *x = *y = 0;
    for (size_t i = from; i < to; i++) {
        if (!shows(&p->x, c->x[i]) || !shows(&p->y, c->y[i])) continue;
        *x += c->x[i];
        *y += c->y[i];
        n++;
    }
    if (n == 0) return false;
    *x /= (double)n;
    *y /= (double)n;
    return true;
}

/* The mean of the points around number k, as many on both sides. */
static bool mean_at(const picture *p, const tern_plot_curve *c, size_t k, size_t n_points, double *x, double *y)
{
    const size_t most = n_points / 40;
    size_t around = k < most ? k : most, n = 0;
    double sum = 0, px, py;
    if (around > n_points - 1 - k) around = n_points - 1 - k;
    for (size_t i = k - around; i <= k + around; i++) {
        if (!point_at(p, c, i, n_points, &px, &py)) continue;
        sum += py;
        n++;
    }
    *y = n ? sum / (double)n : 0;
    return point_at(p, c, k, n_points, x, &py);
}

static void add_line(picture *p, const tern_plot_curve *c, const char *colour, bool pale, bool averaged)
{
    const size_t n = c->n < MAX_POINTS ? c->n : MAX_POINTS;
    double x, y;
    char command = 'M';
    ADD(p, "<path fill=\"none\" stroke=\"%s\" stroke-width=\"%s\"%s%s d=\"", colour, pale ? "1" : "2",
        pale ? " opacity=\"0.35\"" : "", c->dashed ? " stroke-dasharray=\"6 4\"" : "");
    for (size_t k = 0; k < n; k++) {
        if (!(averaged ? mean_at(p, c, k, n, &x, &y) : point_at(p, c, k, n, &x, &y))) continue;
        ADD(p, "%c%.1f %.1f", command, place_x(p, x), place_y(p, y));
        command = 'L';
    }
    ADD(p, "\"/>\n");
}

static void add_dots(picture *p, const tern_plot_curve *c, const char *colour)
{
    const size_t n = c->n < MAX_POINTS ? c->n : MAX_POINTS;
    double x, y;
    for (size_t k = 0; k < n; k++)
        if (point_at(p, c, k, n, &x, &y))
            ADD(p, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3\" fill=\"%s\"/>\n", place_x(p, x), place_y(p, y), colour);
}

/* Its line of the legend is at y. */
static void add_curve(picture *p, const tern_plot_curve *c, size_t i, double y)
{
    const char *colour = colours[i % (sizeof colours / sizeof *colours)];
    const double x = WIDTH - RIGHT - 150;
    if (c->smooth && c->n > 40) add_line(p, c, colour, true, false);
    if (!c->unjoined) add_line(p, c, colour, false, c->smooth && c->n > 40);
    if (c->marked) add_dots(p, c, colour);
    if (c->unjoined) ADD(p, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"4\" fill=\"%s\"/>", x + 12, y - 4, colour);
    else ADD(p, "<path stroke=\"%s\" stroke-width=\"3\" d=\"M%.1f %.1fh24\"/>", colour, x, y - 4);
    add_text(p, x + 32, y, "", c->label);
}

static void find_axes(picture *p, const tern_plot_curve *curves, size_t n)
{
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < curves[i].n; k++)
            if (shows(&p->x, curves[i].x[k]) && shows(&p->y, curves[i].y[k])) {
                cover(&p->x, curves[i].x[k]);
                cover(&p->y, curves[i].y[k]);
            }
    round_ends(&p->x);
    round_ends(&p->y);
    p->x.low = not_minus_zero(p->x.low);
    p->y.low = not_minus_zero(p->y.low);
}

tern_status tern_plot_svg(tern_buf *out, const tern_plot *plot, tern_error *err)
{
    picture p = {.out = out, .err = err, .x.logarithmic = plot->x_log, .y.logarithmic = plot->y_log};
    const tern_plot_curve *curves = plot->curves;
    const size_t n = plot->n_curves;
    find_axes(&p, curves, n);
    size_t points = 0;
    for (size_t i = 0; i < n; i++) points += curves[i].n;
    ADD(&p,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" width=\"%d\" height=\"%d\">\n"
        "<style>text{font:13px sans-serif;fill:#343a40}.grid{stroke:#e9ecef}.axis{stroke:#868e96;fill:none}</style>\n"
        "<rect width=\"%d\" height=\"%d\" fill=\"#fff\"/>\n",
        WIDTH, HEIGHT, WIDTH, HEIGHT, WIDTH, HEIGHT);
    add_text(&p, LEFT, 26, " style=\"font-size:16px\"", plot->title);
    add_grid(&p);
    add_text(&p, (LEFT + WIDTH - RIGHT) / 2.0, HEIGHT - 14, " text-anchor=\"middle\"", plot->x_label);
    ADD(&p, "<g transform=\"translate(18 %d) rotate(-90)\">", (TOP + HEIGHT - BOTTOM) / 2);
    add_text(&p, 0, 0, " text-anchor=\"middle\"", plot->y_label);
    ADD(&p, "</g>\n");
    if (points == 0) add_text(&p, WIDTH / 2.0, HEIGHT / 2.0, " text-anchor=\"middle\"", "nothing measured yet");
    const double legend = plot->legend_low ? HEIGHT - BOTTOM - 20 * (double)n : TOP + 16;
    for (size_t i = 0; i < n; i++) add_curve(&p, &curves[i], i, legend + 20 * (double)i);
    ADD(&p, "</svg>\n");
    return p.status;
}
