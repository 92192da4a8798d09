/* Numbers of JSON Schema as digits: from both bounds, and by what they leave when they are divided by a step. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/bytes.h"
#include "format/json.h"
#include "text/grammar/schema/schema.h"

enum { MOST_STEP = 512, MOST_VALUES = 64, MOST_DIGITS = 18 };
static const uint32_t NOTHING = TERN_SCHEMA_NOTHING;

/* Texts of digits whose number is a multiple of `step`, the last `places` of them behind a point. `low` and `high` are
 * bounds of n digits, for texts that have so many. */
typedef struct digits {
    tern_schema *s;
    uint64_t step;
    uint32_t places, n;
    char low[24], high[24];
} digits;

/* Where a text is: i digits are read, which are those of a bound, and leave `rest`. */
typedef struct place {
    uint32_t i;
    uint64_t rest;
    bool lowest, highest;
} place;

static tern_status after(digits *x, place at, uint32_t *node, tern_error *err);

static tern_status class_of(digits *x, char first, char last, uint32_t *node, tern_error *err)
{
    const tern_grammar_range range = {(uint8_t)first, (uint8_t)last};
    return tern_grammar_tree__class(x->s->tree, &range, 1, false, node, err);
}

static tern_status sequence(digits *x, uint32_t a, uint32_t b, uint32_t *node, tern_error *err)
{
    const uint32_t items[] = {a, b};
    *node = NOTHING;
    if (a == NOTHING || b == NOTHING) return TERN_OK;
    return tern_grammar_tree__join_n(x->s->tree, TERN_GRAMMAR_ALL, items, 2, node, err);
}

static place next(const digits *x, place at, char digit)
{
    return (place){at.i + 1, (at.rest * 10 + (uint64_t)(digit - '0')) % x->step, at.lowest && digit == x->low[at.i],
                   at.highest && digit == x->high[at.i]};
}

static bool is_same(place a, place b)
{
    return a.rest == b.rest && a.lowest == b.lowest && a.highest == b.highest;
}

/* One more digit, and what may follow it; digits after which the same may follow are one class. */
static tern_status digit(digits *x, place at, uint32_t *node, tern_error *err)
{
    const char first = at.lowest ? x->low[at.i] : '0', last = at.highest ? x->high[at.i] : '9';
    tern_grammar_list items = {0};
    tern_status status = TERN_OK;
    for (char from = first, to; from <= last; from = (char)(to + 1)) {
        const place then = next(x, at, from);
        uint32_t one, rest;
        for (to = from; to < last && is_same(next(x, at, (char)(to + 1)), then);) to++;
        TERN_GOTO(after(x, then, &rest, err));
        if (rest == NOTHING) continue;
        TERN_GOTO(class_of(x, from, to, &one, err));
        TERN_GOTO(sequence(x, one, rest, node, err));
        TERN_GOTO(tern_grammar_list__add(&items, *node, err));
    }
    status = tern_schema__any(x->s, &items, node, err);
fail:
    tern_grammar_list__deinit(&items);
    return status;
}

/* Whether the text may end where digits are left: as if they were zeros. */
static bool may_end(const digits *x, place at)
{
    const uint32_t left = x->n - at.i;
    uint64_t rest = at.rest;
    if (left > x->places) return false;
    for (uint32_t i = 0; i < left; i++) rest = rest * 10 % x->step;
    if (rest) return false;
    for (uint32_t i = at.i; i < x->n && at.lowest; i++)
        if (x->low[i] != '0') return false;
    return true;
}

/* Writes out what may follow. */
static tern_status write(digits *x, place at, uint32_t *node, tern_error *err)
{
    const uint32_t left = x->n - at.i;
    tern_grammar_list items = {0};
    tern_status status = TERN_OK;
    uint32_t point;
    if (may_end(x, at)) {
        TERN_GOTO(tern_grammar_tree__bytes(x->s->tree, "", 0, node, err));
        TERN_GOTO(tern_grammar_list__add(&items, *node, err));
    }
    if (left) {
        TERN_GOTO(digit(x, at, node, err));
        if (left == x->places) {
            TERN_GOTO(tern_grammar_tree__text(x->s->tree, ".", &point, err));
            TERN_GOTO(sequence(x, point, *node, node, err));
        }
        TERN_GOTO(tern_grammar_list__add(&items, *node, err));
    }
    status = tern_schema__any(x->s, &items, node, err);
fail:
    tern_grammar_list__deinit(&items);
    return status;
}

/* The shared part of a name, made when it is not there; *made says that its rule wants a body. */
static tern_status share(tern_schema *s, const char *name, uint32_t *i, bool *made, tern_error *err)
{
    const size_t n = strlen(name);
    bool added;
    *made = !tern_map_find(&s->rules, (tern_span){(const uint8_t *)name, n}, i);
    if (!*made) return TERN_OK;
    const char *key = tern_arena_strndup(&s->names, name, n);
    if (!key) return tern_fail_alloc(err, n);
    TERN_TRY(tern_grow((void **)&s->shared, &s->cap_shared, s->n_shared + 1, sizeof *s->shared, err));
    *i = (uint32_t)s->n_shared;
    s->shared[*i].nothing = false;
    TERN_TRY(tern_schema__rule(s, "digits", true, 0, &s->shared[*i].rule, err));
    s->n_shared++;
    return tern_map_add(&s->rules, (tern_span){(const uint8_t *)key, n}, *i, &added, err);
}

static tern_status call(tern_schema *s, uint32_t i, uint32_t *node, tern_error *err)
{
    *node = NOTHING;
    return s->shared[i].nothing ? TERN_OK : tern_grammar_tree__call(s->tree, s->shared[i].rule, node, err);
}

/* Gives a shared part its body, and calls it. */
static tern_status define(tern_schema *s, uint32_t i, uint32_t body, uint32_t *node, tern_error *err)
{
    s->shared[i].nothing = body == NOTHING;
    if (body != NOTHING) tern_grammar_tree__define(s->tree, s->shared[i].rule, body);
    return call(s, i, node, err);
}

/* Gives what may follow. Where no bound is near, this depends on few things, and is written once for a schema. */
static tern_status after(digits *x, place at, uint32_t *node, tern_error *err)
{
    char name[96];
    uint32_t i;
    bool made;
    TERN_TRY(tern_schema__count_work(x->s, 1, err));
    if (at.lowest || at.highest) return write(x, at, node, err);
    snprintf(name, sizeof name, "digits %" PRIu64 " %u %u %" PRIu64, x->step, x->places, x->n - at.i, at.rest);
    TERN_TRY(share(x->s, name, &i, &made, err));
    if (!made) return call(x->s, i, node, err);
    TERN_TRY(write(x, at, node, err));
    return define(x->s, i, *node, node, err);
}

/* More digits before the point, up to 18 with the `read` ones: any parser takes such a number. Then what may end it. */
static tern_status few(digits *x, uint32_t read, uint32_t *node, tern_error *err)
{
    uint32_t more, end;
    TERN_TRY(after(x, (place){x->n - x->places, 0, false, false}, &end, err));
    *node = end;
    if (read >= MOST_DIGITS) return TERN_OK;
    TERN_TRY(class_of(x, '0', '9', &more, err));
    TERN_TRY(tern_grammar_tree__repeat(x->s->tree, more, 0, MOST_DIGITS - read, &more, err));
    return sequence(x, more, end, node, err);
}

/* Any number of digits before the point, then what may end a number. */
static tern_status loop(digits *x, uint64_t rest, uint32_t *node, tern_error *err)
{
    char name[96];
    uint32_t i, one, two;
    bool made;
    tern_grammar_list items = {0};
    tern_status status = TERN_OK;
    snprintf(name, sizeof name, "more %" PRIu64 " %u %" PRIu64, x->step, x->places, rest);
    TERN_TRY(tern_schema__count_work(x->s, 1, err));
    TERN_TRY(share(x->s, name, &i, &made, err));
    if (!made) return call(x->s, i, node, err);
    TERN_GOTO(after(x, (place){x->n - x->places, rest, false, false}, &one, err));
    TERN_GOTO(tern_grammar_list__add(&items, one, err));
    for (int from = '0', to; from <= '9'; from = to + 1) {
        const uint64_t then = next(x, (place){.rest = rest}, (char)from).rest;
        for (to = from; to < '9' && next(x, (place){.rest = rest}, (char)(to + 1)).rest == then;) to++;
        TERN_GOTO(class_of(x, (char)from, (char)to, &one, err));
        TERN_GOTO(loop(x, then, &two, err));
        TERN_GOTO(sequence(x, one, two, &one, err));
        TERN_GOTO(tern_grammar_list__add(&items, one, err));
    }
    TERN_GOTO(tern_schema__any(x->s, &items, node, err));
    status = define(x->s, i, *node, node, err);
fail:
    tern_grammar_list__deinit(&items);
    return status;
}

/* `count` digits before the point, `read` with those before, then more of them. */
static tern_status lead(digits *x, uint32_t count, uint32_t read, uint64_t rest, bool first, uint32_t *node,
                        tern_error *err)
{
    char name[96];
    uint32_t i, one, two;
    bool made;
    tern_grammar_list items = {0};
    tern_status status = TERN_OK;
    if (count == 0) return x->step == 1 ? few(x, read, node, err) : loop(x, rest, node, err);
    snprintf(name, sizeof name, "lead %" PRIu64 " %u %u %u %" PRIu64 " %d", x->step, x->places, count, read, rest,
             first);
    TERN_TRY(tern_schema__count_work(x->s, 1, err));
    TERN_TRY(share(x->s, name, &i, &made, err));
    if (!made) return call(x->s, i, node, err);
    for (int from = first ? '1' : '0', to; from <= '9'; from = to + 1) {
        const uint64_t then = next(x, (place){.rest = rest}, (char)from).rest;
        for (to = from; to < '9' && next(x, (place){.rest = rest}, (char)(to + 1)).rest == then;) to++;
        TERN_GOTO(class_of(x, (char)from, (char)to, &one, err));
        TERN_GOTO(lead(x, count - 1, read + 1, then, false, &two, err));
        TERN_GOTO(sequence(x, one, two, &one, err));
        TERN_GOTO(tern_grammar_list__add(&items, one, err));
    }
    TERN_GOTO(tern_schema__any(x->s, &items, node, err));
    status = define(x->s, i, *node, node, err);
fail:
    tern_grammar_list__deinit(&items);
    return status;
}

/* Numbers of least to most without a sign, by their count of digits; `high` false: there is no most. */
static tern_status positive(digits *x, uint64_t least, uint64_t most, bool high, uint32_t *node, tern_error *err)
{
    tern_grammar_list items = {0};
    tern_status status = TERN_OK;
    const uint64_t bound = high ? most : least;
    bool more = true;
    while (more) {
        const int pad = (int)x->places + 1;
        x->n = (uint32_t)snprintf(x->low, sizeof x->low, "%0*" PRIu64, pad, least);
        uint64_t end = 9;
        for (uint32_t i = 1; i < x->n; i++) end = end * 10 + 9;
        more = end < bound;
        if (high && end > most) end = most;
        snprintf(x->high, sizeof x->high, "%0*" PRIu64, pad, end);
        TERN_GOTO(after(x, (place){0, 0, true, true}, node, err));
        TERN_GOTO(tern_grammar_list__add(&items, *node, err));
        least = end + 1;
    }
    if (!high) {
        TERN_GOTO(lead(x, x->n - x->places + 1, 0, 0, true, node, err));
        TERN_GOTO(tern_grammar_list__add(&items, *node, err));
    }
    status = tern_schema__any(x->s, &items, node, err);
fail:
    tern_grammar_list__deinit(&items);
    return status;
}

static uint64_t size_of(int64_t n)
{
    return n < 0 ? (uint64_t)-n : (uint64_t)n;
}

/* Few values: each for itself. */
static tern_status listed(digits *x, uint64_t least, uint64_t most, uint32_t *node, tern_error *err)
{
    tern_buf text = {0};
    tern_grammar_list items = {0};
    tern_status status = TERN_OK;
    for (uint64_t n = (least + x->step - 1) / x->step * x->step; n <= most; n += x->step) {
        text.size = 0;
        TERN_GOTO(tern_buf_addf(&text, err, "%0*" PRIu64, (int)x->places + 1, n));
        const size_t whole = text.size - x->places;
        size_t end = text.size;
        while (end > whole && text.data[end - 1] == '0') end--;
        uint32_t parts[3];
        TERN_GOTO(tern_grammar_tree__bytes(x->s->tree, text.data, whole, &parts[0], err));
        TERN_GOTO(tern_grammar_tree__text(x->s->tree, end > whole ? "." : "", &parts[1], err));
        TERN_GOTO(tern_grammar_tree__bytes(x->s->tree, (const char *)text.data + whole, end - whole, &parts[2], err));
        TERN_GOTO(tern_grammar_tree__join_n(x->s->tree, TERN_GRAMMAR_ALL, parts, 3, node, err));
        TERN_GOTO(tern_grammar_list__add(&items, *node, err));
    }
    status = tern_schema__any(x->s, &items, node, err);
fail:
    tern_buf_deinit(&text);
    tern_grammar_list__deinit(&items);
    return status;
}

/* Multiples of a large step: those of a tenth of it, and a zero. */
static tern_status with_zeros(digits *x, uint64_t least, uint64_t most, bool high, uint32_t *node, tern_error *err)
{
    uint64_t unit = 1;
    uint32_t items[2] = {NOTHING, NOTHING};
    char zeros[24] = "";
    for (size_t n = 0; x->places == 0 && x->step % 10 == 0; n++) {
        x->step /= 10;
        unit *= 10;
        zeros[n] = '0';
    }
    if (x->step > MOST_STEP)
        return tern_schema__fail(
            x->s, TERN_LIMIT, "multipleOf",
            "more values than can be listed: a step of at most 512, or times 10, 100, ... expected", err);
    if (unit == 1) return positive(x, least, most, high, node, err);
    if (least == 0) TERN_TRY(tern_grammar_tree__text(x->s->tree, "0", &items[0], err));
    const uint64_t first = least ? (least + unit - 1) / unit : 1;
    if (!high || first <= most / unit) {
        TERN_TRY(positive(x, first, most / unit, high, &items[1], err));
        TERN_TRY(tern_grammar_tree__text(x->s->tree, zeros, node, err));
        TERN_TRY(sequence(x, items[1], *node, &items[1], err));
    }
    tern_grammar_list list = {0};
    tern_status status = TERN_OK;
    for (size_t i = 0; i < 2 && status == TERN_OK; i++) status = tern_grammar_list__add(&list, items[i], err);
    if (status == TERN_OK) status = tern_schema__any(x->s, &list, node, err);
    tern_grammar_list__deinit(&list);
    return status;
}

/* Numbers without a sign. */
static tern_status unsigned_range(tern_schema *s, const tern_schema_range *r, uint64_t least, uint64_t most, bool high,
                                  uint32_t *node, tern_error *err)
{
    digits x = {.s = s, .step = r->step, .places = r->places};
    *node = NOTHING;
    if (high && least > most) return TERN_OK;
    const uint64_t count = high ? most / r->step - (least ? (least - 1) / r->step : 0) : UINT64_MAX;
    if (r->step > 1 && count <= (r->step > MOST_STEP ? TERN_SCHEMA_MAX_LISTED : MOST_VALUES))
        return listed(&x, least, most, node, err);
    return with_zeros(&x, least, most, high, node, err);
}

tern_status tern_schema__digits(tern_schema *s, const tern_schema_range *r, uint32_t *node, tern_error *err)
{
    tern_grammar_list items = {0};
    tern_status status = TERN_OK;
    uint32_t sign;
    if (!r->low || r->least < 0) { /* with a sign: from 1 on, or from the maximum */
        const uint64_t first = r->high && r->most < 0 ? size_of(r->most) : 1;
        TERN_GOTO(unsigned_range(s, r, first, size_of(r->least), r->low, node, err));
        TERN_GOTO(tern_grammar_tree__text(s->tree, "-", &sign, err));
        TERN_GOTO(sequence(&(digits){.s = s}, sign, *node, node, err));
        TERN_GOTO(tern_grammar_list__add(&items, *node, err));
    }
    if (!r->high || r->most >= 0) {
        const uint64_t first = r->low && r->least > 0 ? size_of(r->least) : 0;
        TERN_GOTO(unsigned_range(s, r, first, size_of(r->most), r->high, node, err));
        TERN_GOTO(tern_grammar_list__add(&items, *node, err));
    }
    status = tern_schema__any(s, &items, node, err);
fail:
    tern_grammar_list__deinit(&items);
    return status;
}

static bool has_bound(const json_t *plain)
{
    static const char *const keys[] = {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (json_object_get(plain, keys[i])) return true;
    return false;
}

/* int32, uint64 and the like: whole numbers. */
static bool is_whole(const json_t *plain)
{
    size_t i;
    json_t *format;
    json_array_foreach(json_object_get(plain, "format"), i, format)
    {
        const char *text = json_string_value(format);
        const char *bits = text + (text[0] == 'u' ? 1 : 0);
        if (strncmp(bits, "int", 3) == 0 && bits[3] >= '1' && bits[3] <= '8') return true;
    }
    return false;
}

tern_status tern_schema__number(tern_schema *s, const json_t *plain, bool whole, uint32_t *node, tern_error *err)
{
    tern_schema_range range;
    char name[128];
    uint32_t i;
    bool none, made;
    whole = whole || is_whole(plain);
    if (!whole && !has_bound(plain)) return tern_grammar_tree__call(s->tree, s->number, node, err);
    TERN_TRY(tern_schema__range(s, plain, whole, &range, &none, err));
    if (none) return tern_schema__nothing(s, NULL, "a minimum above the maximum", node);
    snprintf(name, sizeof name, "range %d %" PRId64 " %d %" PRId64 " %" PRIu64 " %u", range.low, range.least,
             range.high, range.most, range.step, range.places);
    TERN_TRY(share(s, name, &i, &made, err));
    if (!made) return call(s, i, node, err);
    TERN_TRY(tern_schema__digits(s, &range, node, err));
    if (*node == NOTHING) tern_schema__nothing(s, "multipleOf", "no multiple between the bounds", node);
    return define(s, i, *node, node, err);
}
