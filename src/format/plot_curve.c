/* The curves of a plot: lines, dots, and their line of the legend. */
#include <math.h>

#include "format/plot_internal.h"

enum { MAX_POINTS = 1000, MANY_POINTS = 40 };

/* Told apart with every kind of colour blindness (the palette of Okabe and Ito, without its yellow). */
static const char *const colours[] = {"#0072b2", "#d55e00", "#009e73", "#cc79a7",
                                      "#e69f00", "#56b4e9", "#000000", "#7f7f7f"};
static const char bound_colour[] = "#495057";

/* Point k of at most MAX_POINTS: the mean of those that fall together. False when none of them is finite. */
static bool point_at(const tern_plot__panel *p, const tern_plot_curve *c, size_t k, size_t n_points, double *x,
                     double *y)
{
    size_t from = k * c->n / n_points, to = (k + 1) * c->n / n_points, n = 0;
    *x = *y = 0;
    for (size_t i = from; i < to; i++) {
        if (!tern_plot__shows(&p->x, c->x[i]) || !tern_plot__shows(&p->y, c->y[i])) continue;
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
static bool mean_at(const tern_plot__panel *p, const tern_plot_curve *c, size_t k, size_t n_points, double *x,
                    double *y)
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

static size_t n_points(const tern_plot_curve *c)
{
    return c->n < MAX_POINTS ? c->n : MAX_POINTS;
}

static void add_line(tern_plot__panel *p, const tern_plot_curve *c, const char *colour, bool pale, bool averaged)
{
    const size_t n = n_points(c);
    double x, y;
    char command = 'M';
    TERN_PLOT__ADD(p, "<path fill=\"none\" stroke=\"%s\" stroke-width=\"%s\"%s%s d=\"", colour, pale ? "1" : "2",
                   pale ? " opacity=\"0.35\"" : "", c->dashed ? " stroke-dasharray=\"6 4\"" : "");
    for (size_t k = 0; k < n; k++) {
        if (!(averaged ? mean_at(p, c, k, n, &x, &y) : point_at(p, c, k, n, &x, &y))) continue;
        TERN_PLOT__ADD(p, "%c%.1f %.1f", command, tern_plot__x(p, x), tern_plot__y(p, y));
        command = 'L';
    }
    TERN_PLOT__ADD(p, "\"/>\n");
}

/* A disc, a square, a triangle or a diamond: shape i. */
static void add_dot(tern_plot__panel *p, size_t i, double x, double y, const char *colour)
{
    static const char *const shapes[] = {"m-3.5 -3.5h7v7h-7z", "m0 -4.5l4.5 8h-9z", "m0 -5l5 5l-5 5l-5 -5z"};
    if (i % 4 == 0) TERN_PLOT__ADD(p, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"4\" fill=\"%s\"/>\n", x, y, colour);
    else TERN_PLOT__ADD(p, "<path class=\"dot\" fill=\"%s\" d=\"M%.1f %.1f%s\"/>\n", colour, x, y, shapes[i % 4 - 1]);
}

static void add_dots(tern_plot__panel *p, const tern_plot_curve *c, size_t i, const char *colour)
{
    const size_t n = n_points(c);
    double x, y;
    for (size_t k = 0; k < n; k++)
        if (point_at(p, c, k, n, &x, &y)) add_dot(p, i, tern_plot__x(p, x), tern_plot__y(p, y), colour);
}

void tern_plot__curve(tern_plot__panel *p, const tern_plot_curve *c, size_t i, double x, double y)
{
    const char *colour = c->dashed ? bound_colour : colours[i % (sizeof colours / sizeof *colours)];
    const bool averaged = c->smooth && c->n > MANY_POINTS;
    if (averaged) add_line(p, c, colour, true, false);
    if (!c->unjoined) add_line(p, c, colour, false, averaged);
    if (c->marked) add_dots(p, c, i, colour);
    if (!c->unjoined)
        TERN_PLOT__ADD(p, "<path stroke=\"%s\" stroke-width=\"3\"%s d=\"M%.1f %.1fh24\"/>\n", colour,
                       c->dashed ? " stroke-dasharray=\"6 4\"" : "", x, y - 4);
    if (c->marked) add_dot(p, i, x + 12, y - 4, colour);
    tern_plot__text(p, x + 32, y, "", c->label);
}
