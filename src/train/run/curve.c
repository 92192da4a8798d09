/* loss.csv, which a resumed run goes on with to the same bytes, and loss.svg. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/bytes.h"
#include "base/file.h"
#include "base/show.h"
#include "format/plot.h"
#include "train/run/internal.h"

enum { MAX_CSV_BYTES = 1 << 30 };
static const char heading[] = "step,tokens,epoch,loss,ppl,grad_norm,lr,validation_loss\n";

static tern_status append_point(tern_run_curve *c, const tern_run_point *point, tern_error *err)
{
    void *points = c->points;
    TERN_TRY(tern_grow(&points, &c->cap, c->n + 1, sizeof *point, err));
    c->points = points;
    c->points[c->n++] = *point;
    return TERN_OK;
}

/* ",0.123456789", or "," for what is not there. */
static void print_number(FILE *out, double v)
{
    if (isnan(v)) fputc(',', out);
    else fprintf(out, ",%.9g", v);
}

static void print_point(FILE *out, const tern_run_point *p)
{
    fprintf(out, "%llu,%llu,%.6g", (unsigned long long)p->step, (unsigned long long)p->n_tokens, p->epoch);
    print_number(out, p->loss);
    print_number(out, exp(p->loss));
    print_number(out, p->norm);
    print_number(out, p->lr);
    print_number(out, p->validation);
    fputc('\n', out);
}

/* The number before the next comma, NAN where there is nothing. Returns what is behind the comma. */
static const char *take_number(const char *at, double *out)
{
    char *end;
    const double v = strtod(at, &end);
    *out = end == at ? NAN : v;
    at += strcspn(at, ",");
    return *at ? at + 1 : at;
}

static uint64_t to_whole_number(double v)
{
    return v >= 0 && v < 1e18 ? (uint64_t)v : 0;
}

static tern_run_point parse_point(const char *line)
{
    enum { N_COLUMNS = 8 };
    double v[N_COLUMNS];
    for (size_t i = 0; i < N_COLUMNS; i++) line = take_number(line, &v[i]);
    return (tern_run_point){.step = to_whole_number(v[0]),
                            .n_tokens = to_whole_number(v[1]),
                            .epoch = v[2],
                            .loss = v[3],
                            .norm = v[5],
                            .lr = v[6],
                            .validation = v[7]};
}

/* The file up to the lines of `step`: they stay as they are, byte for byte. */
static tern_status read_back(tern_run_curve *c, uint64_t step, tern_buf *kept, tern_error *err)
{
    tern_buf text = {0};
    bool first = true;
    tern_status status;
    TERN_GOTO(tern_file_read(&text, c->csv_path, MAX_CSV_BYTES, err));
    for (char *line = text.data, *end; line && (end = strchr(line, '\n')); line = end + 1) {
        *end = 0;
        if (!first) {
            const tern_run_point p = parse_point(line);
            if (p.step > step) break;
            TERN_GOTO(append_point(c, &p, err));
        }
        first = false;
        TERN_GOTO(tern_buf_addf(kept, err, "%s\n", line));
    }
fail:
    tern_buf_deinit(&text);
    return status;
}

tern_status tern_run__open_curve(tern_run *run, uint64_t step, tern_error *err)
{
    tern_run_curve *c = &run->curve;
    tern_buf kept = {0};
    tern_status status;
    c->csv_path = tern_run__path(run, "loss.csv");
    c->svg_path = tern_run__path(run, "loss.svg");
    if (!c->csv_path || !c->svg_path) return tern_fail_alloc(err, strlen(run->folder) + 16);
    if (run->checkpoint && tern_file_exists(c->csv_path)) TERN_GOTO(read_back(c, step, &kept, err));
    if (kept.size == 0) TERN_GOTO(tern_buf_addf(&kept, err, "%s", heading));
    TERN_GOTO(tern_file_write(c->csv_path, kept.data, kept.size, err));
fail:
    tern_buf_deinit(&kept);
    TERN_TRY(status);
    c->csv = fopen(c->csv_path, "ae");
    if (!c->csv) return tern_fail(err, TERN_IO, "%s: %s", tern_show_z(c->csv_path).text, strerror(errno));
    return TERN_OK;
}

tern_status tern_run__flush_curve(tern_run *run, tern_error *err)
{
    const tern_run_curve *c = &run->curve;
    errno = 0;
    if (fflush(c->csv) == 0 && !ferror(c->csv)) return TERN_OK;
    return tern_fail(err, TERN_IO, "%s: %s", tern_show_z(c->csv_path).text, strerror(errno ? errno : EIO));
}

tern_status tern_run__add_point(tern_run *run, const tern_run_point *point, tern_error *err)
{
    if (!tern_run__is_first(run)) return TERN_OK;
    TERN_TRY(append_point(&run->curve, point, err));
    print_point(run->curve.csv, point);
    return TERN_OK;
}

/* The points that have the one or the other loss, as a curve. */
static tern_plot_curve curve_of(const tern_run_curve *c, bool validation, double *x, double *y)
{
    tern_plot_curve out = {.label = validation ? "validation" : "training", .x = x, .y = y};
    for (size_t i = 0; i < c->n; i++) {
        const double loss = validation ? c->points[i].validation : c->points[i].loss;
        if (isnan(loss)) continue;
        x[out.n] = (double)c->points[i].step;
        y[out.n++] = loss;
    }
    out.marked = validation;
    out.smooth = !validation;
    return out;
}

tern_status tern_run__plot(tern_run *run, tern_error *err)
{
    const tern_run_curve *c = &run->curve;
    tern_buf svg = {0};
    double *xy = tern_calloc(c->n + 1, 4 * sizeof *xy);
    if (!xy) return tern_fail_alloc(err, c->n * 4 * sizeof *xy);
    const size_t n = c->n + 1;
    const tern_plot_curve curves[] = {curve_of(c, false, xy, xy + n), curve_of(c, true, xy + 2 * n, xy + 3 * n)};
    const tern_plot plot = {.title = "Loss",
                            .x_label = "step",
                            .y_label = "loss (nats a token)",
                            .curves = curves,
                            .n_curves = curves[1].n ? 2 : 1};
    tern_status status;
    TERN_GOTO(tern_plot_svg(&svg, &plot, err));
    TERN_GOTO(tern_file_write(c->svg_path, svg.data, svg.size, err));
fail:
    tern_buf_deinit(&svg);
    tern_free(xy);
    return status;
}

void tern_run__close_curve(tern_run_curve *curve)
{
    if (curve->csv) fclose(curve->csv);
    tern_free(curve->csv_path);
    tern_free(curve->svg_path);
    tern_free(curve->points);
    *curve = (tern_run_curve){0};
}
