/* Rests between steps, as the power mode and the heat of the machine ask for. */
#include <math.h>
#include <time.h>

#include "train/run/internal.h"

static const double read_seconds = 1, slice_seconds = 0.1;

static void sleep_for(double seconds)
{
    const struct timespec t = {(time_t)seconds, (long)((seconds - floor(seconds)) * 1e9)};
    nanosleep(&t, NULL);
}

static void read_sensors(tern_run *run, double now)
{
    if (now - run->read_at < read_seconds) return;
    run->reading = tern_thermal_read(run->thermal, now - run->started);
    run->read_at = now;
}

/* How long to rest; a sensor that disappears is reported once. */
static double check_power(tern_run *run, double busy)
{
    const double now = tern_run__seconds(), before = run->reading.celsius;
    read_sensors(run, now);
    const double celsius = run->reading.celsius;
    if (run->o->max_temp > 0 && isfinite(before) && !isfinite(celsius))
        tern_run__note(
            run, "the temperature is no longer known (last reading: %.0f degrees): the share of time worked stays",
            before);
    return tern_power_rest(&run->power, now, busy, celsius);
}

/* A checkpoint keeps the learned weights safe while it is too hot. */
static tern_status begin_stop(tern_run *run, tern_error *err)
{
    tern_run__note(run, "%.0f degrees, where %g are too many: no work until it is below that", run->reading.celsius,
                   run->o->max_temp);
    if (tern_trainer_steps(run->trainer) == run->saved_step) return TERN_OK;
    if (tern_run__may_save(run)) return tern_run__save(run, err);
    tern_run__note(run, "step %llu has no checkpoint: one is written every %u steps",
                   (unsigned long long)tern_trainer_steps(run->trainer), run->params.sync_every);
    return TERN_OK;
}

static void end_stop(const tern_run *run)
{
    if (isfinite(run->reading.celsius)) tern_run__note(run, "%.0f degrees: training continues", run->reading.celsius);
    else
        tern_run__note(run, "the temperature is still unknown: training continues at %.0f %% of the time",
                       100 * run->power.duty);
}

tern_status tern_run__cool_down(tern_run *run, double busy, tern_error *err)
{
    double left = check_power(run, busy);
    const bool stopped = run->power.stopped;
    if (stopped) TERN_TRY(begin_stop(run, err));
    while (left > 0) {
        const double slice = fmin(left, slice_seconds);
        sleep_for(slice);
        left -= slice;
        if (tern_run__check_stop(run, NULL) != TERN_OK) return TERN_OK;
        if (left <= 0 && run->power.stopped) left = check_power(run, 0);
    }
    if (stopped) end_stop(run);
    return TERN_OK;
}
