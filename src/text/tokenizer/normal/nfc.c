/* Normalisation form C: decompose, order the marks, compose. */
#include "text/tokenizer/normal/nfc.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "text/utf8.h"

/* Hangul syllables are computed (Unicode, section 3.12). */
enum {
    S_BASE = 0xAC00,
    L_BASE = 0x1100,
    V_BASE = 0x1161,
    T_BASE = 0x11A7,
    L_COUNT = 19,
    V_COUNT = 21,
    T_COUNT = 28,
    S_COUNT = L_COUNT * V_COUNT * T_COUNT
};
enum { FIRST_CHANGING = 0x300 }; /* text below it is normal already */

typedef struct mark {
    uint32_t code, value; /* value: combining class */
} mark;

/* A starter with the marks behind it, decomposed. */
typedef struct cluster {
    mark *marks;
    size_t n, cap;
} cluster;

static int compare_code(const void *key, const void *row)
{
    uint32_t code = *(const uint32_t *)key, other = ((const tern_nfc_pair *)row)->code;
    return (code > other) - (code < other);
}

static int compare_class(const void *key, const void *row)
{
    uint32_t code = *(const uint32_t *)key;
    const tern_nfc_class *range = row;
    return (code > range->high) - (code < range->low);
}

static uint32_t class_of(uint32_t code)
{
    if (code < FIRST_CHANGING) return 0;
    const tern_nfc_class *found = bsearch(&code, tern_nfc__classes, tern_nfc__n_classes, sizeof *found, compare_class);
    return found ? found->value : 0;
}

static int compare_composed(const void *key, const void *row)
{
    const tern_nfc_pair *wanted = key, *pair = &tern_nfc__pairs[*(const uint16_t *)row];
    if (wanted->first != pair->first) return wanted->first > pair->first ? 1 : -1;
    return (wanted->second > pair->second) - (wanted->second < pair->second);
}

/* Unsigned differences: what lies below a base is out of range too. */
static uint32_t compose_hangul(uint32_t a, uint32_t b)
{
    uint32_t l = a - L_BASE, v = b - V_BASE, s = a - S_BASE, t = b - T_BASE;
    if (l < L_COUNT && v < V_COUNT) return S_BASE + (l * V_COUNT + v) * T_COUNT;
    return s < S_COUNT && s % T_COUNT == 0 && t > 0 && t < T_COUNT ? a + t : 0;
}

/* The character that both make, or 0. */
static uint32_t compose(uint32_t a, uint32_t b)
{
    uint32_t hangul = compose_hangul(a, b);
    if (hangul) return hangul;
    tern_nfc_pair wanted = {.first = a, .second = b};
    const uint16_t *found = bsearch(&wanted, tern_nfc__composed, tern_nfc__n_composed, sizeof *found, compare_composed);
    return found ? tern_nfc__pairs[*found].code : 0;
}

static tern_status put(cluster *c, uint32_t code, tern_error *err)
{
    void *marks = c->marks;
    TERN_TRY(tern_grow(&marks, &c->cap, c->n + 1, sizeof *c->marks, err));
    c->marks = marks;
    c->marks[c->n++] = (mark){code, class_of(code)};
    return TERN_OK;
}

static tern_status put_hangul(cluster *c, uint32_t syllable, tern_error *err)
{
    uint32_t t = syllable % T_COUNT;
    TERN_TRY(put(c, L_BASE + syllable / (V_COUNT * T_COUNT), err));
    TERN_TRY(put(c, V_BASE + syllable % (V_COUNT * T_COUNT) / T_COUNT, err));
    return t ? put(c, T_BASE + t, err) : TERN_OK;
}

/* The full decomposition: only the first part can be taken apart further. */
static tern_status decompose(cluster *c, uint32_t code, tern_error *err)
{
    if (code - S_BASE < S_COUNT) return put_hangul(c, code - S_BASE, err);
    const tern_nfc_pair *pair = bsearch(&code, tern_nfc__pairs, tern_nfc__n_pairs, sizeof *pair, compare_code);
    if (!pair) return put(c, code, err);
    TERN_TRY(decompose(c, pair->first, err));
    return pair->second ? put(c, pair->second, err) : TERN_OK;
}

/* Stable order by class of the marks in [low, high), none of which is a starter: 255 counters instead of comparisons,
 * so that a long row of marks takes little time. */
static tern_status order_marks(cluster *c, size_t low, size_t high, tern_error *err)
{
    size_t starts[257] = {0}, n = high - low;
    if (n < 2) return TERN_OK;
    mark *sorted = tern_alloc(n * sizeof *sorted);
    if (!sorted) return tern_fail_alloc(err, n * sizeof *sorted);
    for (size_t i = low; i < high; i++) starts[c->marks[i].value + 1]++;
    for (size_t k = 1; k < 257; k++) starts[k] += starts[k - 1];
    for (size_t i = low; i < high; i++) sorted[starts[c->marks[i].value]++] = c->marks[i];
    memcpy(c->marks + low, sorted, n * sizeof *sorted);
    tern_free(sorted);
    return TERN_OK;
}

static tern_status order_all(cluster *c, tern_error *err)
{
    for (size_t low = 0; low < c->n;) {
        size_t high = low;
        while (high < c->n && c->marks[high].value) high++;
        TERN_TRY(order_marks(c, low, high, err));
        low = high + 1;
    }
    return TERN_OK;
}

/* Joins each mark with the last starter before it, unless a mark of the same or a higher class stands between. */
static void compose_all(cluster *c)
{
    size_t n = 0, starter = SIZE_MAX;
    for (size_t i = 0; i < c->n; i++) {
        mark m = c->marks[i];
        bool next_to = starter != SIZE_MAX && n == starter + 1;
        bool blocked = starter == SIZE_MAX || (!next_to && c->marks[n - 1].value >= m.value);
        uint32_t both = blocked ? 0 : compose(c->marks[starter].code, m.code);
        if (both) {
            c->marks[starter].code = both;
            continue;
        }
        if (m.value == 0) starter = n;
        c->marks[n++] = m;
    }
    c->n = n;
}

/* A stretch of valid UTF-8. */
static tern_status normalize_valid(cluster *c, tern_span text, tern_buf *out, tern_error *err)
{
    uint32_t code;
    c->n = 0;
    for (size_t at = 0; at < text.size;) {
        at += tern_utf8__decode(text.data + at, text.size - at, &code);
        TERN_TRY(decompose(c, code, err));
    }
    TERN_TRY(order_all(c, err));
    compose_all(c);
    for (size_t i = 0; i < c->n; i++) {
        uint8_t bytes[4];
        TERN_TRY(tern_buf_add(out, bytes, tern_utf8__encode(bytes, c->marks[i].code), err));
    }
    return TERN_OK;
}

/* Bytes at the start of text that are normal whatever follows: no character from FIRST_CHANGING on, nor the one before
 * it. */
static size_t plain_run(tern_span text)
{
    size_t at = 0, settled = 0;
    uint32_t code = 0;
    while (at < text.size) {
        unsigned length = tern_utf8__decode(text.data + at, text.size - at, &code);
        if (length && code >= FIRST_CHANGING) return settled;
        settled = length ? at : at + 1;
        at += length ? length : 1;
    }
    return at;
}

/* Bytes that may change: up to the next plain character, since none of those joins the text before it, or the next byte
 * that is not UTF-8. */
static size_t changing_run(tern_span text)
{
    size_t at = 0;
    uint32_t code = 0;
    while (at < text.size) {
        unsigned length = tern_utf8__decode(text.data + at, text.size - at, &code);
        if (length == 0 || (at && code < FIRST_CHANGING)) break;
        at += length;
    }
    return at;
}

tern_status tern_nfc__normalize(tern_span text, tern_buf *out, tern_error *err)
{
    cluster c = {0};
    tern_status status = TERN_OK;
    while (status == TERN_OK && text.size) {
        size_t plain = plain_run(text);
        status = tern_buf_add(out, text.data, plain, err);
        text.data += plain;
        text.size -= plain;
        size_t changing = changing_run(text);
        if (status == TERN_OK && changing) status = normalize_valid(&c, (tern_span){text.data, changing}, out, err);
        text.data += changing;
        text.size -= changing;
    }
    tern_free(c.marks);
    return status;
}
