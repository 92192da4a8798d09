/* The axes of a plot: ends at round numbers, and the numbers between. */
#include <math.h>

#include "format/plot_internal.h"

enum { N_TICKS = 6, MANY_MARKS = 12 };

static double scaled(const tern_plot__axis *a, double v)
{
    return a->logarithmic ? log10(v) : v;
}

bool tern_plot__shows(const tern_plot__axis *a, double v)
{
    return isfinite(v) && (!a->logarithmic || v > 0);
}

double tern_plot__share(const tern_plot__axis *a, double v)
{
    return (scaled(a, v) - a->low) / (a->high - a->low);
}

void tern_plot__cover(tern_plot__axis *a, double value)
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
    const int part = (i % 3 + 3) % 3;
    return (i - part) / 3 + log10(parts[part]);
}

/* The last mark that is not above v. */
static int mark_below(double v)
{
    int i = 3 * (int)floor(v) + 3;
    while (mark(i) > v + 1e-9) i--;
    return i;
}

static void round_marks(tern_plot__axis *a)
{
    a->first = mark_below(a->low);
    a->last = mark_below(a->high);
    if (mark(a->last) < a->high - 1e-9 || a->last == a->first) a->last++;
    while (a->last - a->first > MANY_MARKS && a->first % 3) a->first--;
    while (a->last - a->first > MANY_MARKS && a->last % 3) a->last++;
    a->low = mark(a->first);
    a->high = mark(a->last);
}

/* 1, 2 or 5 times a power of ten, for about N_TICKS steps. */
static void round_steps(tern_plot__axis *a)
{
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

void tern_plot__round(tern_plot__axis *a)
{
    if (!a->any) *a = (tern_plot__axis){.high = 1, .any = true, .logarithmic = a->logarithmic, .n_names = a->n_names};
    if (a->n_names) {
        a->low = -0.5;
        a->high = (double)a->n_names - 0.5;
    } else if (a->logarithmic) {
        round_marks(a);
    } else {
        round_steps(a);
    }
    if (a->low == 0) a->low = 0; /* not -0 */
}

static int apart(const tern_plot__axis *a)
{
    return a->last - a->first > MANY_MARKS ? 3 : 1;
}

int tern_plot__n_ticks(const tern_plot__axis *a)
{
    if (a->n_names) return (int)a->n_names;
    if (a->logarithmic) return (a->last - a->first) / apart(a) + 1;
    return (int)lround((a->high - a->low) / a->step) + 1;
}

double tern_plot__tick(const tern_plot__axis *a, int i)
{
    if (a->n_names) return i;
    if (a->logarithmic) return pow(10, mark(a->first + i * apart(a)));
    const double v = a->low + i * a->step;
    return fabs(v) < a->step / 2 ? 0 : v;
}
