/* Pre-tokenisation by PCRE2: the translation of patterns, and the cutting of text. */
#define PCRE2_CODE_UNIT_WIDTH 8
#include "text/tokenizer/pretokenize.h"

#include <pcre2.h>
#include <string.h>

#include "base/alloc.h"
#include "base/show.h"
#include "text/utf8.h"

/* PCRE2 counts the steps of a match for each place that it could start at. STEPS are free for every place of a text;
 * places that need more share SPARE_STEPS and SPARE_STEPS_A_BYTE of the text. */
enum {
    MAX_PATTERN_BYTES = 16384,
    STEPS = 1000,
    STEPS_GROWTH = 8,
    SPARE_STEPS = 10000000,
    SPARE_STEPS_A_BYTE = 100,
    HEAP_LIMIT_KIB = 65536
};

struct tern_splitter {
    tern_split_behavior behavior;
    tern_buf pattern; /* as it was given */
    pcre2_general_context *general;
    pcre2_match_context *limits;
    pcre2_code *code; /* NULL for PREFIX_SPACE */
};

static const char *const BEHAVIORS[] = {"isolated",    "removed",    "matches",     "merged_previous",
                                        "merged_next", "contiguous", "prefix_space"};

const char *tern_split_behavior__name(tern_split_behavior behavior)
{
    return BEHAVIORS[behavior];
}

int tern_split_behavior__find(const void *name, size_t n)
{
    for (int i = 0; i < (int)(sizeof BEHAVIORS / sizeof BEHAVIORS[0]); i++)
        if (strlen(BEHAVIORS[i]) == n && memcmp(BEHAVIORS[i], name, n) == 0) return i;
    return -1;
}

tern_span tern_splitter__pattern(const tern_splitter *s)
{
    return (tern_span){(const uint8_t *)s->pattern.data, s->pattern.size};
}

tern_split_behavior tern_splitter__behavior(const tern_splitter *s)
{
    return s->behavior;
}

/* One escape sequence at p (n >= 2 bytes), as PCRE2 spells what Rust means by it; how many bytes were read. */
static size_t translate_escape(tern_buf *out, const uint8_t *p, size_t n, tern_status *status, tern_error *err)
{
    static const struct {
        const char *from, *to;
    } SPELLINGS[] = {{"\\s", "\\p{White_Space}"}, {"\\S", "\\P{White_Space}"}, {"\\p{Han}", "\\p{sc:Han}"}};
    for (size_t i = 0; i < sizeof SPELLINGS / sizeof SPELLINGS[0]; i++) {
        size_t length = strlen(SPELLINGS[i].from);
        if (length > n || memcmp(p, SPELLINGS[i].from, length) != 0) continue;
        *status = tern_buf_add(out, SPELLINGS[i].to, strlen(SPELLINGS[i].to), err);
        return length;
    }
    *status = tern_buf_add(out, p, 2, err);
    return 2;
}

/* PCRE2's \s also takes U+180E, which has not been white space since Unicode 6.3, and its \p{Han} takes script
 * extensions. */
static tern_status translate(tern_buf *out, tern_span pattern, tern_error *err)
{
    tern_status status = tern_buf_add(out, "", 0, err);
    for (size_t at = 0; status == TERN_OK && at < pattern.size;) {
        if (pattern.data[at] == '\\' && pattern.size - at >= 2)
            at += translate_escape(out, pattern.data + at, pattern.size - at, &status, err);
        else status = tern_buf_add(out, pattern.data + at++, 1, err);
    }
    return status;
}

static void *pcre_alloc(PCRE2_SIZE bytes, void *user)
{
    (void)user;
    return tern_alloc(bytes);
}

static void pcre_free(void *p, void *user)
{
    (void)user;
    tern_free(p);
}

static tern_status fail_pattern(tern_span pattern, int code, PCRE2_SIZE at, tern_error *err)
{
    PCRE2_UCHAR message[128];
    if (code == PCRE2_ERROR_HEAP_FAILED) return tern_fail_alloc(err, pattern.size);
    pcre2_get_error_message(code, message, sizeof message);
    return tern_fail(err, TERN_UNSUPPORTED, "pre-tokenizer pattern \"%s\": %s, at byte %zu", tern_show(pattern).text,
                     (const char *)message, (size_t)at);
}

static tern_status compile(tern_splitter *s, tern_span pattern, tern_error *err)
{
    tern_buf spelled = {0};
    int code = 0;
    PCRE2_SIZE at = 0;
    pcre2_compile_context *context = pcre2_compile_context_create(s->general);
    tern_status status = context ? translate(&spelled, pattern, err) : tern_fail_alloc(err, pattern.size);
    if (status == TERN_OK) {
        pcre2_set_newline(context, PCRE2_NEWLINE_LF);
        s->code = pcre2_compile((PCRE2_SPTR)spelled.data, spelled.size,
                                PCRE2_UTF | PCRE2_UCP | PCRE2_DOLLAR_ENDONLY | PCRE2_NEVER_BACKSLASH_C |
                                    PCRE2_NO_AUTO_CAPTURE,
                                &code, &at, context);
        if (!s->code) status = fail_pattern(pattern, code == 121 ? PCRE2_ERROR_HEAP_FAILED : code, at, err);
        else pcre2_jit_compile(s->code, PCRE2_JIT_COMPLETE); /* where it cannot, matching is interpreted */
    }
    pcre2_compile_context_free(context);
    tern_buf_deinit(&spelled);
    return status;
}

static void close_splitter(tern_splitter *s)
{
    if (!s) return;
    pcre2_code_free(s->code);
    pcre2_match_context_free(s->limits);
    pcre2_general_context_free(s->general);
    tern_buf_deinit(&s->pattern);
    tern_free(s);
}

static tern_status open_splitter(tern_splitter *s, tern_span pattern, tern_error *err)
{
    TERN_TRY(tern_buf_add(&s->pattern, pattern.data, pattern.size, err));
    if (s->behavior == TERN_SPLIT_PREFIX_SPACE) return TERN_OK;
    s->general = pcre2_general_context_create(pcre_alloc, pcre_free, NULL);
    s->limits = pcre2_match_context_create(s->general);
    if (!s->general || !s->limits) return tern_fail_alloc(err, pattern.size);
    pcre2_set_match_limit(s->limits, STEPS);
    pcre2_set_heap_limit(s->limits, HEAP_LIMIT_KIB);
    return compile(s, pattern, err);
}

tern_status tern_pretokenizer__add(tern_pretokenizer *p, tern_span pattern, tern_split_behavior behavior,
                                   tern_error *err)
{
    if (p->n == TERN_SPLIT_MAX_STAGES)
        return tern_fail(err, TERN_LIMIT, "pre-tokenizer: more than %d stages", TERN_SPLIT_MAX_STAGES);
    if (pattern.size > MAX_PATTERN_BYTES)
        return tern_fail(err, TERN_LIMIT, "pre-tokenizer pattern of %zu bytes: at most %d expected", pattern.size,
                         MAX_PATTERN_BYTES);
    tern_splitter *s = tern_calloc(1, sizeof *s);
    if (!s) return tern_fail_alloc(err, sizeof *s);
    s->behavior = behavior;
    tern_status status = open_splitter(s, pattern, err);
    if (status != TERN_OK) close_splitter(s);
    else p->stages[p->n++] = s;
    return status;
}

void tern_pretokenizer__deinit(tern_pretokenizer *p)
{
    for (size_t i = 0; i < p->n; i++) close_splitter(p->stages[i]);
    *p = (tern_pretokenizer){0};
}

/* One call of run. */
typedef struct cutting {
    const tern_pretokenizer *p;
    pcre2_match_data *found[TERN_SPLIT_MAX_STAGES];
    pcre2_match_context *limits[TERN_SPLIT_MAX_STAGES]; /* of what needs more than STEPS */
    uint64_t spare_steps;                               /* left for the rest of the text */
    tern_piece_fn fn;
    void *user;
} cutting;

/* The parts of one text under one stage, of which the last may still grow. */
typedef struct parts {
    cutting *cut;
    size_t stage;
    tern_span last;
    bool has_last, last_matched;
} parts;

static tern_status run_stage(cutting *cut, size_t stage, tern_span text, tern_error *err);

static tern_status flush(parts *s, tern_error *err)
{
    if (!s->has_last) return TERN_OK;
    s->has_last = false;
    return run_stage(s->cut, s->stage + 1, s->last, err);
}

static bool joins(tern_split_behavior behavior, bool last_matched, bool matched)
{
    switch (behavior) {
    case TERN_SPLIT_CONTIGUOUS: return matched == last_matched;
    case TERN_SPLIT_MERGED_PREVIOUS: return matched && !last_matched;
    case TERN_SPLIT_MERGED_NEXT: return !matched && last_matched;
    default: return false;
    }
}

static tern_status add_part(parts *s, tern_span part, bool matched, tern_error *err)
{
    tern_split_behavior behavior = s->cut->p->stages[s->stage]->behavior;
    if (part.size == 0) return TERN_OK;
    if (behavior == TERN_SPLIT_ISOLATED) return run_stage(s->cut, s->stage + 1, part, err);
    if (behavior == TERN_SPLIT_REMOVED || behavior == TERN_SPLIT_MATCHES)
        return matched == (behavior == TERN_SPLIT_MATCHES) ? run_stage(s->cut, s->stage + 1, part, err) : TERN_OK;
    if (s->has_last && joins(behavior, s->last_matched, matched)) {
        s->last.size += part.size;
    } else {
        TERN_TRY(flush(s, err));
        s->last = part;
        s->has_last = true;
    }
    s->last_matched = matched;
    return TERN_OK;
}

/* The compiled matcher has a small stack; what does not fit is interpreted. */
static int match(const tern_splitter *s, pcre2_match_data *found, pcre2_match_context *limits, tern_span text,
                 size_t at, uint32_t options)
{
    options |= PCRE2_NO_UTF_CHECK;
    int rc = pcre2_match(s->code, text.data, text.size, at, options, found, limits);
    if (rc != PCRE2_ERROR_JIT_STACKLIMIT) return rc;
    return pcre2_match(s->code, text.data, text.size, at, options | PCRE2_NO_JIT, found, limits);
}

/* A match that starts at `at`, with ever more of the spare steps; PCRE2_ERROR_MATCHLIMIT when they do not suffice. */
static int match_long(cutting *cut, size_t stage, tern_span text, size_t at)
{
    const tern_splitter *s = cut->p->stages[stage];
    int rc = match(s, cut->found[stage], s->limits, text, at, PCRE2_ANCHORED);
    for (uint64_t steps = STEPS * STEPS_GROWTH; rc == PCRE2_ERROR_MATCHLIMIT; steps *= STEPS_GROWTH) {
        if (steps > cut->spare_steps || steps > UINT32_MAX) return rc;
        cut->spare_steps -= steps;
        pcre2_set_match_limit(cut->limits[stage], (uint32_t)steps);
        rc = match(s, cut->found[stage], cut->limits[stage], text, at, PCRE2_ANCHORED);
    }
    return rc;
}

/* The next match at or after `at`: false when there is none. */
static tern_status match_at(cutting *cut, size_t stage, tern_span text, size_t at, bool *matched, tern_error *err)
{
    const tern_splitter *s = cut->p->stages[stage];
    int rc = match(s, cut->found[stage], s->limits, text, at, 0);
    if (rc == PCRE2_ERROR_MATCHLIMIT) { /* some place needs more: find it */
        uint32_t code;
        rc = match_long(cut, stage, text, at);
        while (rc == PCRE2_ERROR_NOMATCH && at < text.size) {
            at += tern_utf8__decode(text.data + at, text.size - at, &code);
            rc = match_long(cut, stage, text, at);
        }
    }
    *matched = rc >= 0;
    if (rc >= 0 || rc == PCRE2_ERROR_NOMATCH) return TERN_OK;
    if (rc == PCRE2_ERROR_NOMEMORY) return tern_fail_alloc(err, text.size);
    return tern_fail(err, TERN_LIMIT,
                     "pre-tokenizer pattern \"%s\": takes too many steps at byte %zu of the text (PCRE2 code %d)",
                     tern_show(tern_splitter__pattern(s)).text, at, rc);
}

/* Matches over text that is valid UTF-8. */
static tern_status cut_valid(parts *s, tern_span text, tern_error *err)
{
    pcre2_match_data *found = s->cut->found[s->stage];
    size_t gap = 0, at = 0;
    uint32_t code;
    while (at < text.size) {
        bool matched;
        TERN_TRY(match_at(s->cut, s->stage, text, at, &matched, err));
        const PCRE2_SIZE *range = pcre2_get_ovector_pointer(found);
        if (!matched) break;
        if (range[1] <= range[0] || range[0] < at) { /* nothing taken: go on after one character */
            at = range[0] > at ? range[0] : at;
            at += tern_utf8__decode(text.data + at, text.size - at, &code);
            if (range[0] >= text.size) break;
            continue;
        }
        TERN_TRY(add_part(s, (tern_span){text.data + gap, range[0] - gap}, false, err));
        TERN_TRY(add_part(s, (tern_span){text.data + range[0], range[1] - range[0]}, true, err));
        gap = at = range[1];
    }
    return add_part(s, (tern_span){text.data + gap, text.size - gap}, false, err);
}

static tern_status cut_all(parts *s, tern_span text, tern_error *err)
{
    size_t at = 0;
    uint32_t code;
    while (at < text.size) {
        size_t valid = tern_utf8__valid_run(text.data + at, text.size - at);
        if (valid) TERN_TRY(cut_valid(s, (tern_span){text.data + at, valid}, err));
        at += valid;
        size_t bad = at;
        while (bad < text.size && !tern_utf8__decode(text.data + bad, text.size - bad, &code)) bad++;
        TERN_TRY(add_part(s, (tern_span){text.data + at, bad - at}, false, err));
        at = bad;
    }
    return flush(s, err);
}

static tern_status prefix_space(cutting *cut, size_t stage, tern_span text, tern_error *err)
{
    if (text.size && text.data[0] == ' ') return run_stage(cut, stage + 1, text, err);
    uint8_t *spaced = tern_alloc(text.size + 1);
    if (!spaced) return tern_fail_alloc(err, text.size + 1);
    spaced[0] = ' ';
    memcpy(spaced + 1, text.data, text.size);
    tern_status status = run_stage(cut, stage + 1, (tern_span){spaced, text.size + 1}, err);
    tern_free(spaced);
    return status;
}

static tern_status run_stage(cutting *cut, size_t stage, tern_span text, tern_error *err)
{
    if (stage == cut->p->n) return cut->fn(cut->user, text, err);
    if (cut->p->stages[stage]->behavior == TERN_SPLIT_PREFIX_SPACE) return prefix_space(cut, stage, text, err);
    parts s = {.cut = cut, .stage = stage};
    return cut_all(&s, text, err);
}

tern_status tern_pretokenizer__run(const tern_pretokenizer *p, const uint8_t *text, size_t n, tern_piece_fn fn,
                                   void *user, tern_error *err)
{
    cutting cut = {.p = p, .fn = fn, .user = user, .spare_steps = SPARE_STEPS + (uint64_t)n * SPARE_STEPS_A_BYTE};
    tern_status status = TERN_OK;
    for (size_t i = 0; i < p->n && status == TERN_OK; i++) {
        if (p->stages[i]->behavior == TERN_SPLIT_PREFIX_SPACE) continue;
        cut.found[i] = pcre2_match_data_create(1, p->stages[i]->general);
        cut.limits[i] = pcre2_match_context_copy(p->stages[i]->limits);
        if (!cut.found[i] || !cut.limits[i]) status = tern_fail_alloc(err, 1);
    }
    if (status == TERN_OK && n) status = run_stage(&cut, 0, (tern_span){text, n}, err);
    for (size_t i = 0; i < p->n; i++) {
        pcre2_match_data_free(cut.found[i]);
        pcre2_match_context_free(cut.limits[i]);
    }
    return status;
}
