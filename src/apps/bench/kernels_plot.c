/* tern bench --kernels: the plots. */
#include <stdlib.h>
#include <string.h>

#include "apps/bench/kernels.h"
#include "backend/cpu/cpu.h"
#include "base/alloc.h"
#include "format/plot.h"

enum { MAX_CURVES = 16, MAX_PANELS = 2 * TERN_TUNE_MAX_BACKENDS };

/* A plot with what it points to. */
typedef struct panel {
    tern_plot_curve curves[MAX_CURVES];
    double x[MAX_CURVES][TERN_BENCH_MAX_SHAPES], y[MAX_CURVES][TERN_BENCH_MAX_SHAPES];
    char title[80];
} panel;

typedef struct drawing {
    const tern_bench_job *job;
    uint32_t shapes[TERN_BENCH_MAX_SHAPES], place[TERN_BENCH_MAX_SHAPES]; /* by size, and back */
    char names[TERN_BENCH_MAX_SHAPES][24];
    const char *names_at[TERN_BENCH_MAX_SHAPES];
    tern_plot plots[MAX_PANELS];
    panel panels[MAX_PANELS];
} drawing;

static bool is_smaller(tern_bench_shape a, tern_bench_shape b)
{
    const uint64_t m = (uint64_t)a.rows * a.cols, n = (uint64_t)b.rows * b.cols;
    return m != n ? m < n : a.rows < b.rows;
}

static void sort_shapes(drawing *d)
{
    const tern_bench_job *j = d->job;
    for (uint32_t s = 0; s < j->n_shapes; s++) {
        uint32_t at = s;
        for (; at > 0 && is_smaller(j->shapes[s], j->shapes[d->shapes[at - 1]]); at--)
            d->shapes[at] = d->shapes[at - 1];
        d->shapes[at] = s;
    }
    for (uint32_t at = 0; at < j->n_shapes; at++) {
        const tern_bench_shape s = j->shapes[d->shapes[at]];
        d->place[d->shapes[at]] = at;
        snprintf(d->names[at], sizeof d->names[at], "%u x %u", s.rows, s.cols);
        d->names_at[at] = d->names[at];
    }
}

static void add_point(tern_plot_curve *c, double x, double y)
{
    ((double *)(uintptr_t)c->x)[c->n] = x;
    ((double *)(uintptr_t)c->y)[c->n++] = y;
}

static tern_plot_curve *add_curve(tern_plot *plot, panel *p, tern_plot_curve like)
{
    const size_t i = plot->n_curves++;
    like.x = p->x[i];
    like.y = p->y[i];
    p->curves[i] = like;
    return &p->curves[i];
}

static bool is_drawn(const tern_plot *plot, const char *name)
{
    for (size_t i = 0; i < plot->n_curves; i++)
        if (strcmp(plot->curves[i].label, name) == 0) return true;
    return false;
}

/* A curve for each kernel of a backend, in the order in which they were measured: over shapes, or over operations a
 * byte. */
static void add_kernels(const drawing *d, uint32_t b, tern_plot *plot, panel *p, bool over_shapes)
{
    const tern_bench_job *j = d->job;
    for (size_t i = 0; i < j->n && plot->n_curves < MAX_CURVES; i++) {
        const char *name = j->points[i].name;
        if (j->points[i].backend != b || is_drawn(plot, name)) continue;
        tern_plot_curve *c =
            add_curve(plot, p, (tern_plot_curve){.label = name, .marked = true, .unjoined = !over_shapes});
        for (uint32_t s = 0; s < j->n_shapes; s++)
            for (size_t k = i; k < j->n; k++) {
                const tern_bench_point *q = &j->points[k];
                if (q->backend != b || q->shape != d->shapes[s] || strcmp(q->name, name) != 0) continue;
                add_point(c, over_shapes ? d->place[q->shape] : tern_bench_intensity(q), tern_bench_rate(q) * 1e-9);
            }
    }
}

/* For each shape what the kernel with the fewest bytes could reach. */
static void draw_shapes(const drawing *d, uint32_t b, tern_plot *plot, panel *p)
{
    const tern_bench_job *j = d->job;
    plot->x_label = "rows x columns, by their product";
    plot->x_names = d->names_at;
    plot->n_x_names = j->n_shapes;
    plot->y_zero = true;
    tern_plot_curve *c = add_curve(plot, p, (tern_plot_curve){.label = "roofline", .dashed = true});
    for (uint32_t at = 0; at < j->n_shapes; at++) {
        double most = 0;
        for (size_t i = 0; i < j->n; i++) {
            const tern_bench_point *q = &j->points[i];
            const double m = tern_bench_most(&j->roofs[b], tern_bench_intensity(q));
            if (q->backend == b && q->shape == d->shapes[at] && m > most) most = m;
        }
        add_point(c, at, most * 1e-9);
    }
    add_kernels(d, b, plot, p, true);
}

static void draw_roof(const drawing *d, uint32_t b, tern_plot *plot, panel *p)
{
    const tern_bench_roof *r = &d->job->roofs[b];
    const double ridge = r->operations > 0 ? r->operations / r->read : 16, low = ridge < 1 ? ridge / 2 : 1;
    const double ends[] = {low, ridge, ridge * 2};
    plot->x_label = "operations a byte of weights";
    plot->x_log = plot->y_log = true;
    tern_plot_curve *c = add_curve(plot, p, (tern_plot_curve){.label = "roofline", .dashed = true});
    for (size_t i = 0; i < 3; i++) add_point(c, ends[i], tern_bench_most(r, ends[i]) * 1e-9);
    add_kernels(d, b, plot, p, false);
}

tern_status tern_bench_kernels_draw(const tern_bench_job *j, tern_buf *svg, tern_error *err)
{
    drawing *d = tern_calloc(1, sizeof *d);
    if (!d) return tern_fail_alloc(err, sizeof *d);
    d->job = j;
    sort_shapes(d);
    for (uint32_t i = 0; i < 2 * j->backends.n; i++) {
        const uint32_t b = i / 2, threads = tern_cpu_n_threads(j->backends.at[b]);
        tern_plot *plot = &d->plots[i];
        panel *p = &d->panels[i];
        snprintf(p->title, sizeof p->title, "Ternary kernels, one token, weights cold, %u thread%s", threads,
                 threads == 1 ? "" : "s");
        *plot = (tern_plot){
            .title = p->title, .y_label = "G operations a second", .legend_beside = true, .curves = p->curves};
        (i % 2 ? draw_roof : draw_shapes)(d, b, plot, p);
    }
    const tern_status status = tern_plots_svg(svg, d->plots, 2 * (size_t)j->backends.n, err);
    tern_free(d);
    return status;
}
