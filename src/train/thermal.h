/* The machine's temperature, clock and power; or a recorded trace of temperatures. */
#ifndef TERN_TRAIN_THERMAL_H
#define TERN_TRAIN_THERMAL_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"

/* NAN where it is not known. */
typedef struct tern_thermal_reading {
    double celsius; /* the hottest sensor */
    double mhz;     /* mean of the CPU's clocks */
    double watts;   /* since the reading before, from RAPL */
} tern_thermal_reading;

typedef struct tern_thermal tern_thermal; /* one thread at a time */

/* Sensors under `sys` (NULL: "/sys"): class/thermal, class/hwmon (GPUs are there), devices/system/cpu/cpufreq,
 * class/powercap. Never fails for want of them. */
tern_status tern_thermal_open(tern_thermal **thermal, const char *sys, tern_error *err);
/* A CSV file of "seconds,celsius" lines, times rising; a line of words at its start is passed over. A reading holds
 * until the next line's time; with nothing behind the comma the temperature is not known then. Errors: NOT_FOUND, IO,
 * MALFORMED (file, line, what was found). */
tern_status tern_thermal_open_trace(tern_thermal **thermal, const char *path, tern_error *err);
void tern_thermal_close(tern_thermal *thermal);

/* `now`: seconds since the run began; traces go by it. */
tern_thermal_reading tern_thermal_read(tern_thermal *thermal, double now);

#endif
