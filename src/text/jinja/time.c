/* strftime for chat templates: English names, UTC, the same on every machine. */
#include <stdio.h>

#include "text/jinja/render.h"

typedef struct civil_time {
    int64_t year;
    int month, day, hour, minute, second, weekday,
        yearday; /* month 1-12, day 1-31, weekday 0 = Sunday, yearday 1-366 */
} civil_time;

/* Source: Howard Hinnant, "chrono-compatible low-level date algorithms", civil_from_days. */
static civil_time civil(int64_t seconds)
{
    int64_t days = seconds / 86400, rest = seconds % 86400;
    if (rest < 0) rest += 86400, days--;
    int64_t z = days + 719468, era = (z >= 0 ? z : z - 146096) / 146097;
    int64_t doe = z - era * 146097, yoe = (doe - doe / 1460 + doe / 36524 - doe / 146096) / 365;
    int64_t doy = doe - (365 * yoe + yoe / 4 - yoe / 100), mp = (5 * doy + 2) / 153;
    civil_time t = {.day = (int)(doy - (153 * mp + 2) / 5 + 1), .month = (int)(mp < 10 ? mp + 3 : mp - 9)};
    t.year = yoe + era * 400 + (t.month <= 2);
    bool leap = (t.year % 4 == 0 && t.year % 100 != 0) || t.year % 400 == 0;
    t.yearday = (int)(mp < 10 ? doy + 60 + leap : doy - 305);
    t.weekday = (int)(((days + 4) % 7 + 7) % 7);
    t.hour = (int)(rest / 3600);
    t.minute = (int)(rest / 60 % 60);
    t.second = (int)(rest % 60);
    return t;
}

static const char *const weekdays[] = {"Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"};
static const char *const months[] = {"January", "February", "March",     "April",   "May",      "June",
                                     "July",    "August",   "September", "October", "November", "December"};

/* Writes one directive; false when it is none that we know. */
static bool write_directive(char c, const civil_time *t, char out[64])
{
    int hour12 = t->hour % 12 ? t->hour % 12 : 12;
    switch (c) {
    case 'a': snprintf(out, 64, "%.3s", weekdays[t->weekday]); return true;
    case 'A': snprintf(out, 64, "%s", weekdays[t->weekday]); return true;
    case 'b': snprintf(out, 64, "%.3s", months[t->month - 1]); return true;
    case 'B': snprintf(out, 64, "%s", months[t->month - 1]); return true;
    case 'd': snprintf(out, 64, "%02d", t->day); return true;
    case 'e': snprintf(out, 64, "%2d", t->day); return true;
    case 'F': snprintf(out, 64, "%04lld-%02d-%02d", (long long)t->year, t->month, t->day); return true;
    case 'H': snprintf(out, 64, "%02d", t->hour); return true;
    case 'I': snprintf(out, 64, "%02d", hour12); return true;
    case 'j': snprintf(out, 64, "%03d", t->yearday); return true;
    case 'm': snprintf(out, 64, "%02d", t->month); return true;
    case 'M': snprintf(out, 64, "%02d", t->minute); return true;
    case 'p': snprintf(out, 64, "%s", t->hour < 12 ? "AM" : "PM"); return true;
    case 'S': snprintf(out, 64, "%02d", t->second); return true;
    case 'T': snprintf(out, 64, "%02d:%02d:%02d", t->hour, t->minute, t->second); return true;
    case 'w': snprintf(out, 64, "%d", t->weekday); return true;
    case 'y': snprintf(out, 64, "%02d", (int)(t->year % 100)); return true;
    case 'Y': snprintf(out, 64, "%04lld", (long long)t->year); return true;
    case '%': snprintf(out, 64, "%%"); return true;
    default: return false;
    }
}

tern_status tern_jinja__strftime(tern_jinja_render *r, tern_jinja_str format, tern_jinja_rope *rope)
{
    civil_time t = civil(r->now);
    for (size_t i = 0; i < format.n;) {
        size_t percent = tern_jinja__str_find(format, tern_jinja__words("%"), i);
        if (percent == SIZE_MAX) percent = format.n;
        TERN_TRY(tern_jinja__emit(r, rope, tern_jinja__slice(format, i, percent)));
        i = percent + 1;
        if (percent == format.n) break;
        bool unpadded = i < format.n && format.data[i] == '-';
        if (unpadded) i++;
        char text[64];
        if (i >= format.n || !write_directive(format.data[i], &t, text))
            return tern_jinja__unsupported(r, "strftime directive %%%c", i < format.n ? format.data[i] : ' ');
        TERN_TRY(tern_jinja__emit_words(r, rope, unpadded && text[0] == '0' && text[1] ? text + 1 : text, false));
        i++;
    }
    return TERN_OK;
}
