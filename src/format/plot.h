/* Curves as an SVG picture. */
#ifndef TERN_FORMAT_PLOT_H
#define TERN_FORMAT_PLOT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"
#include "tern/bytes.h"

/* One curve: points with rising x. Points that are not finite, or not positive on a logarithmic axis, are left out. */
typedef struct tern_plot_curve {
    const char *label;
    const double *x, *y; /* [n] */
    size_t n;
    bool marked;   /* a dot at each point: few measurements */
    bool smooth;   /* the points pale, and over them a moving mean: many noisy ones */
    bool unjoined; /* only the dots of `marked`, no line */
    bool dashed;   /* a bound, not a measurement: grey */
} tern_plot_curve;

typedef struct tern_plot {
    const char *title, *x_label, *y_label;
    bool x_log, y_log; /* logarithmic axes: numbers at 1, 2, 5, 10, ...; powers of ten alone where they are many */
    const tern_plot_curve *curves;
    size_t n_curves;
    bool legend_beside;         /* at the right of the axes, not within them */
    bool y_zero;                /* the y axis reaches 0 */
    const char *const *x_names; /* [n_x_names]: words instead of numbers, at x = 0, 1, 2, ...; NULL: numbers */
    size_t n_x_names;
} tern_plot;

/* Appends a whole SVG document on white: axes with round numbers, a grid, labels, a legend. At most 8 curves (and those
 * that are dashed) are told apart by colour, also by the colour-blind, and by the shapes of their dots. More than 1000
 * points of a curve are thinned to means. Without any point it says so. Deterministic. Words are ASCII or UTF-8 without
 * control characters. Errors: OUT_OF_MEMORY. */
tern_status tern_plot_svg(tern_buf *out, const tern_plot *plot, tern_error *err);
/* As above with n plots, one above the other. */
tern_status tern_plots_svg(tern_buf *out, const tern_plot *plots, size_t n, tern_error *err);

#endif
