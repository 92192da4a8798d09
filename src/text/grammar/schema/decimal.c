/* Decimal numbers of JSON Schema: bounds and steps as they are written, without the rounding of binary fractions. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "format/json.h"
#include "text/grammar/schema/schema.h"

enum { MOST_DIGITS = 15 }; /* so many are kept apart by every double */
static const double MOST_EXACT = 999999999999999, LOOSE = 999999999999;

tern_schema_decimal tern_schema__decimal(double value)
{
    tern_schema_decimal d = {.negative = value < 0};
    char text[40];
    for (int digits = 14; digits < 17; digits++) {
        snprintf(text, sizeof text, "%.*e", digits, fabs(value));
        if (strtod(text, NULL) == fabs(value)) break;
    }
    const char *mark = strchr(text, 'e');
    for (const char *c = text; c < mark; c++)
        if (*c != '.') d.digits = d.digits * 10 + (uint64_t)(*c - '0');
    d.exponent = (int)strtol(mark + 1, NULL, 10) - (int)(mark - text - 2);
    if (d.digits == 0) d.exponent = 0;
    while (d.digits && d.digits % 10 == 0) {
        d.digits /= 10;
        d.exponent++;
    }
    return d;
}

static uint64_t common(uint64_t a, uint64_t b)
{
    while (b) {
        const uint64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

/* a * 10^n; false: it is above 10^18. */
static bool scale(uint64_t a, uint32_t n, uint64_t *out)
{
    for (; n && a; n--) {
        if (a > 100000000000000000u) return false;
        a *= 10;
    }
    *out = a;
    return a <= 1000000000000000000u;
}

/* value * 10^places as a whole number, rounded up or down where it is none; false: it is above 10^18 in size. */
static bool scale_bound(double value, uint32_t places, bool up, bool exclusive, int64_t *out)
{
    const tern_schema_decimal d = tern_schema__decimal(value);
    const int exponent = d.exponent + (int)places;
    uint64_t size = d.digits, unit = 1;
    bool whole = true;
    if (exponent >= 0) {
        if (!scale(d.digits, (uint32_t)exponent, &size)) return false;
    } else {
        for (int i = exponent; i < 0 && unit < 1000000000000000000u; i++) unit *= 10;
        size = d.digits / unit;
        whole = d.digits % unit == 0;
    }
    *out = d.negative ? -(int64_t)size : (int64_t)size;
    if (whole) *out += exclusive ? (up ? 1 : -1) : 0;
    else if (up != d.negative) *out += up ? 1 : -1;
    return true;
}

bool tern_schema__is_multiple(double value, double step)
{
    const tern_schema_decimal v = tern_schema__decimal(value), d = tern_schema__decimal(step);
    const int places = -(v.exponent < d.exponent ? v.exponent : d.exponent);
    uint64_t a = v.digits, b = d.digits;
    if (v.digits == 0) return true;
    if (v.exponent + places > 18 || d.exponent + places > 18) return fmod(value, step) == 0;
    if (!scale(v.digits, (uint32_t)(v.exponent + places), &a) || !scale(d.digits, (uint32_t)(d.exponent + places), &b))
        return fmod(value, step) == 0;
    return a % b == 0;
}

/* The smallest step that is a multiple of all of multipleOf: step * 10^-places. */
static tern_status find_step(tern_schema *s, const json_t *steps, bool whole, tern_schema_range *r, tern_error *err)
{
    static const char wide[] = "a step of fewer digits expected";
    size_t i;
    json_t *item;
    r->step = 1;
    r->places = 0;
    json_array_foreach((json_t *)steps, i, item)
    {
        const tern_schema_decimal d = tern_schema__decimal(json_number_value(item));
        if (d.exponent < -MOST_DIGITS) return tern_schema__fail(s, TERN_UNSUPPORTED, "multipleOf", wide, err);
        if (d.exponent < 0 && (uint32_t)-d.exponent > r->places) r->places = (uint32_t)-d.exponent;
    }
    json_array_foreach((json_t *)steps, i, item)
    {
        const tern_schema_decimal d = tern_schema__decimal(json_number_value(item));
        uint64_t step = 1;
        const int exponent = d.exponent + (int)r->places;
        if (exponent > 18 || !scale(d.digits, (uint32_t)exponent, &step) || step == 0)
            return tern_schema__fail(s, TERN_UNSUPPORTED, "multipleOf", wide, err);
        const uint64_t shared = i ? common(step, r->step) : 1;
        step /= shared ? shared : 1;
        if (i && r->step > 1000000000000000000u / step)
            return tern_schema__fail(s, TERN_UNSUPPORTED, "multipleOf", wide, err);
        r->step = i ? r->step * step : step;
    }
    uint64_t unit = 1;
    scale(1, r->places, &unit);
    if (!whole) return TERN_OK;
    r->step /= common(r->step, unit);
    r->places = 0;
    return TERN_OK;
}

/* The formats that are ranges of whole numbers. */
static void add_format(const json_t *plain, double *least, double *most)
{
    static const struct {
        const char *name;
        double least, most;
    } formats[] = {{"int8", -128, 127},
                   {"uint8", 0, 255},
                   {"int16", -32768, 32767},
                   {"uint16", 0, 65535},
                   {"int32", -2147483648.0, 2147483647.0},
                   {"uint32", 0, 4294967295.0},
                   {"int64", -9223372036854775808.0, 9223372036854774784.0},
                   {"uint64", 0, 9223372036854774784.0}};
    size_t i;
    json_t *format;
    json_array_foreach(json_object_get(plain, "format"), i, format)
    {
        for (size_t k = 0; k < sizeof formats / sizeof *formats; k++) {
            if (strcmp(json_string_value(format), formats[k].name) != 0) continue;
            *least = fmax(*least, formats[k].least);
            *most = fmin(*most, formats[k].most);
        }
    }
}

typedef struct bounds {
    double least, most; /* infinite: none */
    bool above, below;  /* exclusive */
} bounds;

static bounds bounds_of(const json_t *plain)
{
    bounds b = {-INFINITY, INFINITY, false, false};
    const json_t *at;
    add_format(plain, &b.least, &b.most);
    if ((at = json_object_get(plain, "minimum")) != NULL) b.least = fmax(b.least, json_number_value(at));
    if ((at = json_object_get(plain, "maximum")) != NULL) b.most = fmin(b.most, json_number_value(at));
    if ((at = json_object_get(plain, "exclusiveMinimum")) != NULL && json_number_value(at) >= b.least) {
        b.least = json_number_value(at);
        b.above = true;
    }
    if ((at = json_object_get(plain, "exclusiveMaximum")) != NULL && json_number_value(at) <= b.most) {
        b.most = json_number_value(at);
        b.below = true;
    }
    return b;
}

/* Decimal places that doubles keep apart beside a number. */
static uint32_t places_beside(double number)
{
    uint32_t places = MOST_DIGITS - 1;
    double size = fabs(number);
    for (; size >= 10 && places; places--) size /= 10;
    return places;
}

/* Decimal places of fractions within bounds. A bound of 10^12 and more is loose: numbers are written with at most 12
 * digits before the point and 6 behind it, unless the other bound is as large. */
static tern_status find_places(tern_schema *s, bounds *b, uint32_t *places, tern_error *err)
{
    const bool low = isfinite(b->least), high = isfinite(b->most);
    if ((low && b->least > MOST_EXACT) || (high && b->most < -MOST_EXACT))
        return tern_schema__fail(s, TERN_UNSUPPORTED, NULL, "bounds of at most 15 digits expected", err);
    const bool large = (low && b->least > LOOSE) || (high && b->most < -LOOSE);
    const double loose = large ? MOST_EXACT : LOOSE;
    *places = MOST_DIGITS - 1;
    if (low && b->least < -loose) *b = (bounds){-loose, b->most, false, b->below};
    else if (low && places_beside(b->least) < *places) *places = places_beside(b->least);
    if (high && b->most > loose) *b = (bounds){b->least, loose, b->above, false};
    else if (high && places_beside(b->most) < *places) *places = places_beside(b->most);
    if (((low && b->least == -loose) || (high && b->most == loose)) && *places > 6) *places = large ? 0 : 6;
    return TERN_OK;
}

tern_status tern_schema__range(tern_schema *s, const json_t *plain, bool whole, tern_schema_range *r, bool *none,
                               tern_error *err)
{
    const json_t *steps = json_object_get(plain, "multipleOf");
    bounds b = bounds_of(plain);
    *r = (tern_schema_range){.step = 1};
    uint32_t places = 0;
    TERN_TRY(find_step(s, steps, whole, r, err));
    if (!whole) TERN_TRY(find_places(s, &b, &places, err));
    if (!whole && !steps) r->places = places;
    r->low = isfinite(b.least);
    r->high = isfinite(b.most);
    /* whole numbers beyond 10^18 are not written, where there is a bound */
    if (r->low && !scale_bound(b.least, r->places, true, b.above, &r->least)) {
        if (b.least > 0)
            return tern_schema__fail(s, TERN_UNSUPPORTED, NULL, "a minimum of at most 10^18 expected", err);
        r->least = -1000000000000000000;
    }
    if (r->high && !scale_bound(b.most, r->places, false, b.below, &r->most)) {
        if (b.most < 0)
            return tern_schema__fail(s, TERN_UNSUPPORTED, NULL, "a maximum of at least -10^18 expected", err);
        r->most = 1000000000000000000;
    }
    *none = r->low && r->high && r->least > r->most;
    return TERN_OK;
}
