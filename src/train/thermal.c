/* Reading sysfs, and replaying a trace. */
#include "train/thermal.h"

#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/show.h"
#include "tern/bytes.h"

enum { MAX_TRACE_BYTES = 64 << 20, PATH_BYTES = 512 };

typedef struct sample {
    double seconds, celsius;
} sample;

struct tern_thermal {
    char *sys; /* NULL: a trace */
    sample *samples;
    size_t n, cap;
    double joules, joules_at; /* of the reading before; NAN at first */
};

static tern_status create(tern_thermal **thermal, const char *sys, tern_error *err)
{
    *thermal = tern_calloc(1, sizeof **thermal);
    if (!*thermal) return tern_fail_alloc(err, sizeof **thermal);
    (*thermal)->joules = NAN;
    if (!sys) return TERN_OK;
    (*thermal)->sys = tern_strdup(sys);
    if ((*thermal)->sys) return TERN_OK;
    tern_thermal_close(*thermal);
    *thermal = NULL;
    return tern_fail_alloc(err, strlen(sys) + 1);
}

tern_status tern_thermal_open(tern_thermal **thermal, const char *sys, tern_error *err)
{
    return create(thermal, sys ? sys : "/sys", err);
}

void tern_thermal_close(tern_thermal *thermal)
{
    if (!thermal) return;
    tern_free(thermal->sys);
    tern_free(thermal->samples);
    tern_free(thermal);
}

/* ---- sysfs */

/* The number in a file, NAN when there is none. */
static double number_in(const char *path)
{
    char text[64] = "", *end;
    FILE *f = fopen(path, "re");
    if (!f) return NAN;
    const bool read = fgets(text, sizeof text, f) != NULL;
    fclose(f);
    const double value = strtod(text, &end);
    return read && end != text ? value : NAN;
}

typedef void (*visit_fn)(void *context, double value);

static bool begins(const char *name, const char *prefix)
{
    return strncmp(name, prefix, strlen(prefix)) == 0;
}

static bool ends(const char *name, const char *suffix)
{
    size_t n = strlen(name), m = strlen(suffix);
    return n >= m && strcmp(name + n - m, suffix) == 0;
}

/* Each number in folder/PREFIX*SUFFIX. */
static void visit_files(const char *folder, const char *prefix, const char *suffix, visit_fn visit, void *context)
{
    DIR *dir = opendir(folder);
    for (const struct dirent *e; dir && (e = readdir(dir));) {
        char path[PATH_BYTES];
        if (!begins(e->d_name, prefix) || !ends(e->d_name, suffix)) continue;
        if (snprintf(path, sizeof path, "%s/%s", folder, e->d_name) >= (int)sizeof path) continue;
        double value = number_in(path);
        if (isfinite(value)) visit(context, value);
    }
    if (dir) closedir(dir);
}

/* As above in each folder sys/where/PREFIX*. */
static void visit_folders(const char *sys, const char *where, const char *folder_prefix, const char *prefix,
                          const char *suffix, visit_fn visit, void *context)
{
    char base[PATH_BYTES / 2], path[PATH_BYTES];
    if (snprintf(base, sizeof base, "%s/%s", sys, where) >= (int)sizeof base) return;
    DIR *dir = opendir(base);
    for (const struct dirent *e; dir && (e = readdir(dir));)
        if (begins(e->d_name, folder_prefix) &&
            snprintf(path, sizeof path, "%s/%s", base, e->d_name) < (int)sizeof path)
            visit_files(path, prefix, suffix, visit, context);
    if (dir) closedir(dir);
}

/* Sensors that report nonsense when they are off are left out. */
static void take_hottest(void *context, double millidegrees)
{
    double *hottest = context, celsius = millidegrees / 1000;
    if (celsius > -40 && celsius < 200 && !(*hottest >= celsius)) *hottest = celsius;
}

typedef struct mean {
    double sum;
    size_t n;
} mean;

static void add_to_mean(void *context, double value)
{
    mean *m = context;
    m->sum += value;
    m->n++;
}

/* Packages alone ("intel-rapl:0"): their parts ("intel-rapl:0:1") are in them. */
static void read_power(tern_thermal *t, double now, tern_thermal_reading *r)
{
    mean microjoules = {0};
    for (int package = 0; package < 16; package++) {
        char path[PATH_BYTES];
        int n = snprintf(path, sizeof path, "%s/class/powercap/intel-rapl:%d/energy_uj", t->sys, package);
        double value = n < (int)sizeof path ? number_in(path) : NAN;
        if (isfinite(value)) add_to_mean(&microjoules, value);
    }
    double joules = microjoules.n ? microjoules.sum * 1e-6 : NAN;
    if (joules >= t->joules && now > t->joules_at) r->watts = (joules - t->joules) / (now - t->joules_at);
    t->joules = joules;
    t->joules_at = now;
}

static void read_sensors(tern_thermal *t, double now, tern_thermal_reading *r)
{
    mean khz = {0};
    visit_folders(t->sys, "class/thermal", "thermal_zone", "temp", "temp", take_hottest, &r->celsius);
    visit_folders(t->sys, "class/hwmon", "hwmon", "temp", "_input", take_hottest, &r->celsius);
    visit_folders(t->sys, "devices/system/cpu/cpufreq", "policy", "scaling_cur_freq", "", add_to_mean, &khz);
    if (khz.n) r->mhz = khz.sum / (double)khz.n / 1000;
    read_power(t, now, r);
}

/* ---- traces */

/* "12.5,61.0", or "12.5," where there was no sensor, and nothing behind it but spaces. */
static bool parse_sample(const char *line, sample *out)
{
    char *end;
    out->seconds = strtod(line, &end);
    if (end == line || *end != ',') return false;
    const char *second = end + 1;
    out->celsius = strtod(second, &end);
    const bool gone = end == second;
    if (gone) out->celsius = NAN;
    while (*end == ' ' || *end == '\t' || *end == '\r') end++;
    return *end == 0 && isfinite(out->seconds) && (gone || isfinite(out->celsius));
}

static tern_status add_line(tern_thermal *t, const char *line, size_t number, tern_error *err)
{
    sample s;
    if (*line == 0 || *line == '\r') return TERN_OK;
    if (!parse_sample(line, &s)) {
        if (number == 1 && strspn(line, "0123456789+-. \t") == 0) return TERN_OK;
        return tern_fail(err, TERN_MALFORMED, "line %zu: \"%s\" found, \"seconds,celsius\" expected", number,
                         tern_show_z(line).text);
    }
    if (t->n && s.seconds < t->samples[t->n - 1].seconds)
        return tern_fail(err, TERN_MALFORMED, "line %zu: time %g after %g: rising times expected", number, s.seconds,
                         t->samples[t->n - 1].seconds);
    void *samples = t->samples;
    TERN_TRY(tern_grow(&samples, &t->cap, t->n + 1, sizeof s, err));
    t->samples = samples;
    t->samples[t->n++] = s;
    return TERN_OK;
}

static tern_status parse_trace(tern_thermal *t, char *text, tern_error *err)
{
    size_t number = 0;
    for (char *line = text, *next; line; line = next) {
        next = strchr(line, '\n');
        if (next) *next++ = 0;
        TERN_TRY(add_line(t, line, ++number, err));
    }
    if (t->n) return TERN_OK;
    return tern_fail(err, TERN_MALFORMED, "nothing found, lines of \"seconds,celsius\" expected");
}

tern_status tern_thermal_open_trace(tern_thermal **thermal, const char *path, tern_error *err)
{
    tern_buf text = {0};
    TERN_TRY(create(thermal, NULL, err));
    tern_status status = tern_file_read(&text, path, MAX_TRACE_BYTES, err);
    if (status == TERN_OK && parse_trace(*thermal, text.data, err) != TERN_OK)
        status = tern_error_prefix(err, "%s", tern_show_z(path).text);
    tern_buf_deinit(&text);
    if (status == TERN_OK) return TERN_OK;
    tern_thermal_close(*thermal);
    *thermal = NULL;
    return status;
}

static double replay(const tern_thermal *t, double now)
{
    double celsius = t->samples[0].celsius;
    for (size_t i = 0; i < t->n && t->samples[i].seconds <= now; i++) celsius = t->samples[i].celsius;
    return celsius;
}

tern_thermal_reading tern_thermal_read(tern_thermal *thermal, double now)
{
    tern_thermal_reading r = {NAN, NAN, NAN};
    if (thermal->sys) read_sensors(thermal, now, &r);
    else r.celsius = replay(thermal, now);
    return r;
}
