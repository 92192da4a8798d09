/* How hard a machine works: a duty cycle, lowered while it is too warm. */
#ifndef TERN_TRAIN_POWER_H
#define TERN_TRAIN_POWER_H

#include <stdbool.h>

typedef enum tern_power_mode {
    TERN_POWER_PERFORMANCE, /* always busy */
    TERN_POWER_BALANCED,    /* 90 % of the time */
    TERN_POWER_SAVER        /* 60 % of the time */
} tern_power_mode;

/* A controller; a pure function of what it is told, so that recorded temperatures can be replayed through it.
 *
 * The duty cycle starts at the mode's. For each second above max_temp it is multiplied by 0.85, down to 10 %; for each
 * second below max_temp - 5 it grows by 2 % of all time, up to the mode's; between the two it stays (hysteresis). From
 * max_temp + 10 on there is no work until it is below max_temp again.
 *
 * While the temperature is not known the duty cycle stays; where there was no work, there is none for five minutes
 * more, in which a machine at rest cools, and then a tenth of the time is worked until it is known again. */
typedef struct tern_power {
    tern_power_mode mode;
    double max_temp; /* degrees Celsius; 0: none */
    double duty;     /* share of the time that is worked, above 0 */
    bool stopped;
    double seen;  /* when the temperature was last taken into account, seconds */
    double known; /* when it was last known */
} tern_power;

/* Errors are the caller's: max_temp 0 or more. `now` is where the clock stands. */
void tern_power_init(tern_power *power, tern_power_mode mode, double max_temp, double now);
/* After `busy` seconds of work that ended at `now`: how many seconds to rest before the next. `temp` may be NAN: not
 * known. While it is stopped, one second, and it is to be asked again with busy 0. */
double tern_power_rest(tern_power *power, double now, double busy, double temp);

#endif
