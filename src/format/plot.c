/* Drawing curves: the document, its panels, grids and legends. */
#include "format/plot.h"

#include "base/bytes.h"
#include "format/plot_internal.h"

enum { WIDTH = TERN_PLOT__WIDTH, HEIGHT = TERN_PLOT__HEIGHT, LEGEND = 150, LINE = 20 };

double tern_plot__x(const tern_plot__panel *p, double v)
{
    return p->left + tern_plot__share(&p->x, v) * (p->right - p->left);
}

double tern_plot__y(const tern_plot__panel *p, double v)
{
    return p->bottom - tern_plot__share(&p->y, v) * (p->bottom - p->top);
}

static void add_escaped(tern_plot__panel *p, const char *text)
{
    for (; *text; text++) {
        if (*text == '<') TERN_PLOT__ADD(p, "&lt;");
        else if (*text == '>') TERN_PLOT__ADD(p, "&gt;");
        else if (*text == '&') TERN_PLOT__ADD(p, "&amp;");
        else TERN_PLOT__ADD(p, "%c", *text);
    }
}

void tern_plot__text(tern_plot__panel *p, double x, double y, const char *more, const char *text)
{
    TERN_PLOT__ADD(p, "<text x=\"%.1f\" y=\"%.1f\"%s>", x, y, more);
    add_escaped(p, text);
    TERN_PLOT__ADD(p, "</text>\n");
}

/* A word below its tick, slanted so that many have room. */
static void add_name(tern_plot__panel *p, double x, const char *name)
{
    const int y = p->bottom + 14;
    TERN_PLOT__ADD(p, "<text x=\"%.1f\" y=\"%d\" text-anchor=\"end\" transform=\"rotate(-35 %.1f %d)\">", x, y, x, y);
    add_escaped(p, name);
    TERN_PLOT__ADD(p, "</text>\n");
}

static void add_grid(tern_plot__panel *p, const char *const *x_names)
{
    for (int i = 0; i < tern_plot__n_ticks(&p->x); i++) {
        const double at = tern_plot__tick(&p->x, i), x = tern_plot__x(p, at);
        TERN_PLOT__ADD(p, "<path class=\"grid\" d=\"M%.1f %dV%d\"/>", x, p->top, p->bottom);
        if (x_names) add_name(p, x, x_names[i]);
        else TERN_PLOT__ADD(p, "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%.6g</text>\n", x, p->bottom + 18, at);
    }
    for (int i = 0; i < tern_plot__n_ticks(&p->y); i++) {
        const double at = tern_plot__tick(&p->y, i), y = tern_plot__y(p, at);
        TERN_PLOT__ADD(p, "<path class=\"grid\" d=\"M%d %.1fH%d\"/>", p->left, y, p->right);
        TERN_PLOT__ADD(p, "<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%.6g</text>\n", p->left - 8, y + 4, at);
    }
    TERN_PLOT__ADD(p, "<path class=\"axis\" d=\"M%d %dV%dH%d\"/>\n", p->left, p->top, p->bottom, p->right);
}

/* Only points that are drawn stretch the axes. */
static size_t find_axes(tern_plot__panel *p, const tern_plot *plot)
{
    size_t n = 0;
    p->x = (tern_plot__axis){.logarithmic = plot->x_log, .n_names = plot->n_x_names};
    p->y = (tern_plot__axis){.logarithmic = plot->y_log};
    for (size_t i = 0; i < plot->n_curves; i++)
        for (size_t k = 0; k < plot->curves[i].n; k++) {
            const double x = plot->curves[i].x[k], y = plot->curves[i].y[k];
            if (!tern_plot__shows(&p->x, x) || !tern_plot__shows(&p->y, y)) continue;
            tern_plot__cover(&p->x, x);
            tern_plot__cover(&p->y, y);
            n++;
        }
    if (plot->y_zero) tern_plot__cover(&p->y, 0);
    tern_plot__round(&p->x);
    tern_plot__round(&p->y);
    return n;
}

static void add_labels(tern_plot__panel *p, const tern_plot *plot)
{
    tern_plot__text(p, p->left, 26, " style=\"font-size:16px\"", plot->title);
    tern_plot__text(p, (p->left + p->right) / 2.0, HEIGHT - 14, " text-anchor=\"middle\"", plot->x_label);
    TERN_PLOT__ADD(p, "<g transform=\"translate(18 %d) rotate(-90)\">", (p->top + p->bottom) / 2);
    tern_plot__text(p, 0, 0, " text-anchor=\"middle\"", plot->y_label);
    TERN_PLOT__ADD(p, "</g>\n");
}

static void add_curves(tern_plot__panel *p, const tern_plot *plot)
{
    const int x = plot->legend_beside ? p->right + 14 : p->right - LEGEND;
    size_t n_coloured = 0;
    for (size_t i = 0; i < plot->n_curves; i++) {
        const tern_plot_curve *c = &plot->curves[i];
        tern_plot__curve(p, c, n_coloured, x, p->top + 16 + LINE * (int)i);
        n_coloured += !c->dashed;
    }
}

static tern_status add_panel(tern_buf *out, const tern_plot *plot, tern_error *err)
{
    tern_plot__panel p = {.out = out, .err = err, .left = 70, .right = WIDTH - 20, .top = 44, .bottom = HEIGHT - 56};
    if (plot->legend_beside) p.right -= LEGEND;
    if (plot->n_x_names) p.bottom -= 50;
    const size_t n = find_axes(&p, plot);
    add_grid(&p, plot->n_x_names ? plot->x_names : NULL);
    add_labels(&p, plot);
    if (n == 0) tern_plot__text(&p, WIDTH / 2.0, HEIGHT / 2.0, " text-anchor=\"middle\"", "nothing measured yet");
    add_curves(&p, plot);
    return p.status;
}

tern_status tern_plots_svg(tern_buf *out, const tern_plot *plots, size_t n, tern_error *err)
{
    const int height = HEIGHT * (int)n;
    TERN_TRY(tern_buf_addf(
        out, err,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" width=\"%d\" height=\"%d\">\n"
        "<style>text{font:13px sans-serif;fill:#343a40}.grid{stroke:#e9ecef}.axis{stroke:#868e96;fill:none}</style>\n"
        "<rect width=\"%d\" height=\"%d\" fill=\"#fff\"/>\n",
        WIDTH, height, WIDTH, height, WIDTH, height));
    for (size_t i = 0; i < n; i++) {
        TERN_TRY(tern_buf_addf(out, err, "<g transform=\"translate(0 %d)\">\n", HEIGHT * (int)i));
        TERN_TRY(add_panel(out, &plots[i], err));
        TERN_TRY(tern_buf_addf(out, err, "</g>\n"));
    }
    return tern_buf_addf(out, err, "</svg>\n");
}

tern_status tern_plot_svg(tern_buf *out, const tern_plot *plot, tern_error *err)
{
    return tern_plots_svg(out, plot, 1, err);
}
