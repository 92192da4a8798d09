/* The controller of the duty cycle. */
#include "train/power.h"

#include <math.h>

static const double lowest = 0.1, fall = 0.85, rise = 0.02, hysteresis = 5, danger = 10, longest_rest = 60,
                    blind_rest = 300;

static double duty_of(tern_power_mode mode)
{
    switch (mode) {
    case TERN_POWER_SAVER: return 0.6;
    case TERN_POWER_BALANCED: return 0.9;
    case TERN_POWER_PERFORMANCE: break;
    }
    return 1;
}

void tern_power_init(tern_power *power, tern_power_mode mode, double max_temp, double now)
{
    *power = (tern_power){.mode = mode, .max_temp = max_temp, .duty = duty_of(mode), .seen = now, .known = now};
}

/* The effect of `seconds` at this temperature on the duty cycle. */
static void adapt(tern_power *power, double seconds, double temp)
{
    if (temp >= power->max_temp + danger) power->stopped = true;
    if (temp < power->max_temp) power->stopped = false;
    if (temp > power->max_temp) power->duty = fmax(lowest, power->duty * pow(fall, seconds));
    else if (temp < power->max_temp - hysteresis)
        power->duty = fmin(duty_of(power->mode), power->duty + rise * seconds);
}

/* The sensor is gone. */
static void go_blind(tern_power *power, double now)
{
    if (!power->stopped || now - power->known < blind_rest) return;
    power->stopped = false;
    power->duty = lowest;
}

double tern_power_rest(tern_power *power, double now, double busy, double temp)
{
    if (isfinite(temp)) {
        if (power->max_temp > 0) adapt(power, fmax(0, now - power->seen), temp);
        power->known = now;
    } else {
        go_blind(power, now);
    }
    power->seen = now;
    if (power->stopped) return 1;
    return fmin(longest_rest, busy * (1 / power->duty - 1));
}
