/* Declarations that the files of plot share: axes, and the picture being written. */
#ifndef TERN_FORMAT_PLOT_INTERNAL_H
#define TERN_FORMAT_PLOT_INTERNAL_H

#include "base/bytes.h"
#include "format/plot.h"

enum { TERN_PLOT__WIDTH = 840, TERN_PLOT__HEIGHT = 480 };

/* The range of each axis of a panel, and the distance of its numbers. */
typedef struct tern_plot__axis {
    double low, high, step; /* of a logarithmic one: powers of ten */
    bool any, logarithmic;
    int first, last; /* marks at the ends of a logarithmic one */
    size_t n_names;  /* words instead of numbers, at 0, 1, ... */
} tern_plot__axis;

bool tern_plot__shows(const tern_plot__axis *a, double v);
/* A value as its axis counts it, from 0 at the low end to 1 at the high one. */
double tern_plot__share(const tern_plot__axis *a, double v);
void tern_plot__cover(tern_plot__axis *a, double v);
/* Moves the ends out to round numbers; 0 to 1 where nothing was covered. */
void tern_plot__round(tern_plot__axis *a);
/* How many numbers stand at an axis, and number i of them. A logarithmic one that is long has powers of ten alone. */
int tern_plot__n_ticks(const tern_plot__axis *a);
double tern_plot__tick(const tern_plot__axis *a, int i);

/* One panel; `status` keeps the first failure. */
typedef struct tern_plot__panel {
    tern_buf *out;
    tern_error *err;
    tern_status status;
    tern_plot__axis x, y;
    int left, right, top, bottom; /* the axes, in pixels */
} tern_plot__panel;

#define TERN_PLOT__ADD(p, ...)                                                                                         \
    do {                                                                                                               \
        if ((p)->status == TERN_OK) (p)->status = tern_buf_addf((p)->out, (p)->err, __VA_ARGS__);                      \
    } while (0)

double tern_plot__x(const tern_plot__panel *p, double v);
double tern_plot__y(const tern_plot__panel *p, double v);
/* `more`: attributes, with a space before. */
void tern_plot__text(tern_plot__panel *p, double x, double y, const char *more, const char *text);
/* Draws a curve in colour and shape number i, and what the legend says of it at x, y. */
void tern_plot__curve(tern_plot__panel *p, const tern_plot_curve *c, size_t i, double x, double y);

#endif
