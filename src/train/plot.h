/* Loss curves as an SVG picture. */
#ifndef TERN_TRAIN_PLOT_H
#define TERN_TRAIN_PLOT_H

#include <stddef.h>

#include "base/bytes.h"
#include "base/error.h"

/* One curve: points with rising x. Points that are not finite are left out. */
typedef struct tern_plot_curve {
    const char *label;
    const double *x, *y; /* [n] */
    size_t n;
    bool marked; /* a dot at each point: few measurements */
    bool smooth; /* the points pale, and over them a moving mean: many noisy ones */
} tern_plot_curve;

/* Appends a whole SVG document: axes with round numbers, a grid, labels, a legend. At most 8 curves are told apart by
 * colour. More than 1000 points of a curve are thinned to means. Without any point it says so. Deterministic.
 * Errors: OUT_OF_MEMORY. */
tern_status tern_plot_svg(tern_buf *out, const char *title, const char *x_label, const char *y_label,
                          const tern_plot_curve *curves, size_t n, tern_error *err);

#endif
