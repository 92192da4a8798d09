/* The duty cycle: modes, heat and hysteresis, a machine that warms as it works; sensors and traces. */
#include <math.h>
#include <sys/stat.h>

#include "base/file.h"
#include "support/test.h"
#include "train/power.h"
#include "train/support.h"
#include "train/thermal.h"

enum { HOUR = 3600 };

static void modes_have_duty_cycles(void **state)
{
    static const double want[] = {0, 0.1, 0.4};
    (void)state;
    for (int mode = 0; mode < 3; mode++) {
        tern_power p;
        tern_power_init(&p, (tern_power_mode)mode, 0, 0);
        /* 9 ms of work, 1 ms of rest. */
        double rest = tern_power_rest(&p, 0.009, 0.009, NAN);
        if (!(fabs(rest / (rest + 0.009) - want[mode]) < 1e-9)) fail_msg("mode %d rests %g", mode, rest);
        rest = tern_power_rest(&p, 1, 0.5, 500); /* no limit: heat does not matter */
        if (!(fabs(rest / (rest + 0.5) - want[mode]) < 1e-9)) fail_msg("mode %d rests %g", mode, rest);
    }
}

static void heat_lowers_it_and_cold_raises_it(void **state)
{
    (void)state;
    tern_power p;
    tern_power_init(&p, TERN_POWER_PERFORMANCE, 80, 0);
    assert_true(tern_power_rest(&p, 1, 1, 79) == 0);
    assert_true(tern_power_rest(&p, 2, 1, 81) > 0.15);
    const double warm = p.duty;
    assert_true(warm > 0.84 && warm < 0.86);
    for (int i = 3; i < 20; i++) tern_power_rest(&p, i, 1, 77); /* within the hysteresis: it stays */
    assert_true(p.duty == warm);
    tern_power_rest(&p, 20, 1, NAN); /* not known: it stays */
    assert_true(p.duty == warm);
    for (int i = 21; i < 40; i++) tern_power_rest(&p, i, 1, 70);
    assert_true(p.duty == 1);
    /* One long step counts as much as many short ones. */
    tern_power a = p, b = p;
    for (int i = 1; i <= 8; i++) tern_power_rest(&a, 39 + i, 1, 85);
    tern_power_rest(&b, 47, 8, 85);
    assert_true(fabs(a.duty - b.duty) < 1e-12);
    for (int i = 0; i < 1000; i++) tern_power_rest(&a, 48 + i, 1, 85);
    assert_true(a.duty == 0.1);
}

static void danger_stops_it(void **state)
{
    (void)state;
    tern_power p;
    tern_power_init(&p, TERN_POWER_BALANCED, 80, 0);
    assert_true(tern_power_rest(&p, 1, 0.1, 90) == 1 && p.stopped);
    assert_true(tern_power_rest(&p, 2, 0, 85) == 1 && p.stopped);
    assert_true(tern_power_rest(&p, 3, 0, 79) == 0 && !p.stopped);
}

/* It waits five minutes without a sensor, then works a little, until one is there again. */
static void a_lost_sensor_stops_nothing_for_ever(void **state)
{
    (void)state;
    tern_power p;
    tern_power_init(&p, TERN_POWER_PERFORMANCE, 80, 0);
    assert_true(tern_power_rest(&p, 1, 0.1, 95) == 1 && p.stopped);
    for (int i = 2; i <= 300; i++) assert_true(tern_power_rest(&p, i, 0, NAN) == 1 && p.stopped);
    assert_true(tern_power_rest(&p, 301, 0, NAN) == 0 && !p.stopped);
    assert_true(fabs(tern_power_rest(&p, 302, 1, NAN) - 9) < 1e-9);
    assert_true(fabs(tern_power_rest(&p, 1000, 1, NAN) - 9) < 1e-9); /* still not known: it stays */
    assert_true(tern_power_rest(&p, 1001, 0, 95) == 1 && p.stopped);
    assert_true(tern_power_rest(&p, 1002, 0, 60) == 0 && !p.stopped);
    for (int i = 0; i < 60; i++) tern_power_rest(&p, 1003 + i, 1, 60);
    assert_true(p.duty == 1);
}

/* A machine of 30 degrees that works would reach 30 + norm_weight, within a time constant of two minutes. */
static void a_warm_machine_is_held_at_its_limit(void **state)
{
    (void)state;
    tern_power p;
    double now = 0, temp = 30, worked = 0, hottest = 0, late_worked = 0;
    const double norm_weight = 80, step = 2.0;
    tern_power_init(&p, TERN_POWER_PERFORMANCE, 80, 0);
    while (now < HOUR) {
        temp += (30 + norm_weight - temp) * (1 - exp(-step / 120)); /* a step of work */
        now += step;
        worked += step;
        if (now > HOUR / 2.0) late_worked += step;
        hottest = fmax(hottest, temp);
        double rest = tern_power_rest(&p, now, step, temp);
        now += rest;
        temp += (30 - temp) * (1 - exp(-rest / 120));
    }
    assert_true(hottest < 90);
    /* 62 % duty would hold it at 80 degrees for good. */
    assert_true(late_worked / (HOUR / 2.0) > 0.5 && late_worked / (HOUR / 2.0) < 0.72);
    assert_true(worked / HOUR > 0.5);
}

static void traces_are_replayed(void **state)
{
    static const char text[] = "time,temp\n0,40\n10,85.5\r\n10,86\n\n15,\r\n20,60\n";
    (void)state;
    tern_thermal *t;
    tern_error err = {0};
    assert_ok(tern_thermal_open_trace(&t, put_file("trace.csv", text, sizeof text - 1), &err), err);
    assert_true(tern_thermal_read(t, 0).celsius == 40);
    assert_true(tern_thermal_read(t, 9.99).celsius == 40);
    assert_true(tern_thermal_read(t, 10).celsius == 86);
    assert_true(isnan(tern_thermal_read(t, 15).celsius));
    assert_true(tern_thermal_read(t, 1e6).celsius == 60);
    assert_true(isnan(tern_thermal_read(t, 0).mhz));
    tern_thermal_close(t);
}

static void bad_traces_are_refused(void **state)
{
    static const struct {
        const char *text, *message;
    } cases[] = {
        {"", "nothing found"},       {"time,temp\n", "nothing found"}, {"0,40\n5;50\n", "line 2: \"5;50\" found"},
        {"0,40\n5,nan\n", "line 2"}, {"0,40\n5,50 C\n", "line 2"},     {"5,40\n4,50\n", "line 2: time 4 after 5"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tern_thermal *t;
        tern_error err = {0};
        const char *path = put_file("bad-trace.csv", cases[i].text, strlen(cases[i].text));
        assert_int_equal(tern_thermal_open_trace(&t, path, &err), TERN_MALFORMED);
        assert_null(t);
        if (!strstr(err.message, cases[i].message) || !strstr(err.message, "bad-trace.csv"))
            fail_msg("%s", err.message);
    }
    tern_thermal *t;
    tern_error err = {0};
    assert_int_equal(tern_thermal_open_trace(&t, test_scratch("no-such-trace"), &err), TERN_NOT_FOUND);
}

static void put_sensor(const char *root, const char *folder, const char *name, const char *text)
{
    char path[512];
    for (const char *at = folder; at; at = strchr(at + 1, '/')) {
        const char *next = strchr(at + 1, '/');
        snprintf(path, sizeof path, "%s/%.*s", root, (int)(next ? next - folder : (long)strlen(folder)), folder);
        mkdir(path, 0777);
    }
    snprintf(path, sizeof path, "%s/%s/%s", root, folder, name);
    test_write_text(path, text);
}

static void sensors_are_read(void **state)
{
    (void)state;
    const char *root = test_scratch("sys");
    mkdir(root, 0777);
    put_sensor(root, "class/thermal/thermal_zone0", "temp", "45000\n");
    put_sensor(root, "class/thermal/thermal_zone1", "temp", "71500\n");
    put_sensor(root, "class/thermal/thermal_zone2", "temp", "-274000\n"); /* switched off */
    put_sensor(root, "class/hwmon/hwmon0", "temp1_input", "66000\n");
    put_sensor(root, "class/hwmon/hwmon0", "temp1_crit", "100000\n");
    put_sensor(root, "devices/system/cpu/cpufreq/policy0", "scaling_cur_freq", "2000000\n");
    put_sensor(root, "devices/system/cpu/cpufreq/policy1", "scaling_cur_freq", "3000000\n");
    put_sensor(root, "class/powercap/intel-rapl:0", "energy_uj", "1000000\n");
    tern_thermal *t;
    tern_error err = {0};
    assert_ok(tern_thermal_open(&t, root, &err), err);
    tern_thermal_reading r = tern_thermal_read(t, 1);
    assert_true(r.celsius == 71.5 && r.mhz == 2500 && isnan(r.watts));
    put_sensor(root, "class/powercap/intel-rapl:0", "energy_uj", "31000000\n");
    assert_true(fabs(tern_thermal_read(t, 3).watts - 15) < 1e-9);
    tern_thermal_close(t);
    /* A machine without any. */
    assert_ok(tern_thermal_open(&t, test_scratch("no-sys"), &err), err);
    r = tern_thermal_read(t, 1);
    assert_true(isnan(r.celsius) && isnan(r.mhz) && isnan(r.watts));
    tern_thermal_close(t);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(modes_have_duty_cycles),
    cmocka_unit_test(heat_lowers_it_and_cold_raises_it),
    cmocka_unit_test(a_lost_sensor_stops_nothing_for_ever),
    cmocka_unit_test(danger_stops_it),
    cmocka_unit_test(a_warm_machine_is_held_at_its_limit),
    cmocka_unit_test(traces_are_replayed),
    cmocka_unit_test(bad_traces_are_refused),
    cmocka_unit_test(sensors_are_read),
};

TEST_GROUP(power, "", tests);
