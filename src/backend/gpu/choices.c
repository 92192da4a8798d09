/* Which pipelines stand in for each other, and which one was chosen. */
#include "backend/gpu/choices.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/nearest.h"
#include "base/show.h"

uint32_t tern_gpu_token_class(uint32_t tokens)
{
    return tokens <= 1 ? 1 : tokens <= 8 ? 8 : tokens <= 64 ? 64 : 512;
}

/* Kernels of which there is a choice, and of which file another stands in as well. */
static const struct {
    const char *file, *instead;
} files[] = {{"linear_float_vec", NULL},
             {"linear_quant_vec", NULL},
             {"linear_dense_mat", NULL},
             {"linear_float_coop", "linear_dense_mat"},
             {"linear_ternary_vec", NULL},
             {"linear_ternary_mat", NULL},
             {"linear_ternary_coop", "linear_ternary_mat"}};

/* Overrides that say how the work is shared out, not what is computed. */
static const char *const geometry[] = {"LANES",   "ROWS",   "SUBGROUPS", "PARTIALS",    "WORKGROUP",   "CHUNKS",
                                       "CLUSTER", "BLOCKS", "SKIP",      "XCHUNKS",     "UNITS",       "FIXED",
                                       "WHOLE",   "PARTS",  "TILE_ROWS", "TILE_TOKENS", "ROW_THREADS", "TOKEN_THREADS"};

static size_t row_of(tern_gpu_pipeline p)
{
    size_t i = 0;
    while (i < sizeof files / sizeof *files && strcmp(files[i].file, tern_gpu_pipelines[p].file) != 0) i++;
    return i;
}

static bool can_be_chosen(tern_gpu_pipeline p)
{
    return row_of(p) < sizeof files / sizeof *files && strncmp(tern_gpu_pipelines[p].name, "DX_", 3) != 0 &&
           !(tern_gpu_pipelines[p].needs & TERN_GPU_NEEDS_WAITS);
}

static bool is_geometry(const char *key, size_t n)
{
    for (size_t i = 0; i < sizeof geometry / sizeof *geometry; i++)
        if (strlen(geometry[i]) == n && memcmp(geometry[i], key, n) == 0) return true;
    return false;
}

/* The next override that says what is computed, "FORMAT=6"; its length, 0 at the end. */
static size_t next_meaning(const char **at)
{
    for (;;) {
        *at += strspn(*at, " ");
        const size_t n = strcspn(*at, " ");
        if (n == 0 || !is_geometry(*at, strcspn(*at, "="))) return n;
        *at += n;
    }
}

static bool has_word(const char *overrides, const char *word, size_t n)
{
    for (size_t m; (m = next_meaning(&overrides)) > 0; overrides += m)
        if (m == n && memcmp(overrides, word, n) == 0) return true;
    return false;
}

/* Whether all that one's overrides mean the other's do too. */
static bool means(const char *all, const char *overrides)
{
    for (size_t n; (n = next_meaning(&all)) > 0; all += n)
        if (!has_word(overrides, all, n)) return false;
    return true;
}

/* Kernels of different files: the encoding and the gate, which both have; the rest is told by uniforms. */
static bool same_operands(const char *from, const char *to)
{
    static const char *const words[] = {"FORMAT=", "GATED="};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        const char *a = strstr(from, words[i]), *b = strstr(to, words[i]);
        if (!a != !b) return false;
        if (a && (strcspn(a, " ") != strcspn(b, " ") || memcmp(a, b, strcspn(a, " ")) != 0)) return false;
    }
    return true;
}

bool tern_gpu_interchangeable(tern_gpu_pipeline from, tern_gpu_pipeline to)
{
    const tern_gpu_pipeline_info *a = &tern_gpu_pipelines[from], *b = &tern_gpu_pipelines[to];
    if (from == to) return true;
    if (!can_be_chosen(from) || !can_be_chosen(to)) return false;
    const char *instead = files[row_of(from)].instead;
    if (instead && strcmp(instead, b->file) == 0) return same_operands(a->overrides, b->overrides);
    return strcmp(a->file, b->file) == 0 && strcmp(a->signature, b->signature) == 0 &&
           means(a->overrides, b->overrides) && means(b->overrides, a->overrides);
}

tern_gpu_pipeline tern_gpu_chosen(const tern_gpu_caps *caps, const tern_gpu_key *key, tern_gpu_pipeline usual,
                                  bool (*serves)(tern_gpu_pipeline pipeline, const tern_gpu_caps *caps,
                                                 const void *shape),
                                  const void *shape)
{
    const tern_gpu_choices *c = caps->choices;
    if (!c || usual >= TERN_GPU_PIPELINE_COUNT || !can_be_chosen(usual) || c->named[usual]) return usual;
    for (tern_gpu_pipeline p = 0; p < TERN_GPU_PIPELINE_COUNT; p++)
        if (c->named[p] && tern_gpu_interchangeable(usual, p) && tern_gpu_pipeline_fits(p, caps) &&
            (!serves || serves(p, caps, shape)))
            return p;
    for (size_t i = 0; i < c->n; i++) {
        const tern_gpu_choice *m = &c->measured[i];
        if (m->key.rows == key->rows && m->key.cols == key->cols && m->key.tokens == key->tokens &&
            tern_gpu_interchangeable(usual, m->pipeline) && tern_gpu_pipeline_fits(m->pipeline, caps) &&
            (!serves || serves(m->pipeline, caps, shape)))
            return m->pipeline;
    }
    return usual;
}

void tern_gpu_kernel_name(tern_gpu_pipeline pipeline, char out[static TERN_KERNEL_NAME_BYTES])
{
    const char *name = tern_gpu_pipelines[pipeline].name;
    size_t i = 0;
    for (; name[i] && i + 1 < TERN_KERNEL_NAME_BYTES; i++) out[i] = (char)tolower((unsigned char)name[i]);
    out[i] = 0;
}

tern_gpu_pipeline tern_gpu_kernel_by_name(const char *name)
{
    char other[TERN_KERNEL_NAME_BYTES];
    for (tern_gpu_pipeline p = 0; p < TERN_GPU_PIPELINE_COUNT; p++) {
        if (!can_be_chosen(p)) continue;
        tern_gpu_kernel_name(p, other);
        if (strcmp(name, other) == 0 || strcmp(name, tern_gpu_pipelines[p].name) == 0) return p;
    }
    return TERN_GPU_PIPELINE_COUNT;
}

typedef struct listing {
    tern_gpu_pipeline of;      /* those in its place; COUNT: all whose names begin as `word` does */
    const tern_gpu_caps *caps; /* those that fit */
    const char *word;
    size_t n_word;
} listing;

/* Names with commas between, as many as there is room for. */
static void list(const listing *l, char *out, size_t out_bytes)
{
    char name[TERN_KERNEL_NAME_BYTES];
    size_t at = 0;
    out[0] = 0;
    for (tern_gpu_pipeline p = 0; p < TERN_GPU_PIPELINE_COUNT; p++) {
        if (!can_be_chosen(p) || (l->caps && !tern_gpu_pipeline_fits(p, l->caps))) continue;
        if (l->of < TERN_GPU_PIPELINE_COUNT && !tern_gpu_interchangeable(l->of, p)) continue;
        tern_gpu_kernel_name(p, name);
        if (strncmp(name, l->word, l->n_word) != 0) continue;
        if (at + strlen(name) + 8 > out_bytes) {
            snprintf(out + at, out_bytes - at, ", ...");
            return;
        }
        at += (size_t)snprintf(out + at, out_bytes - at, "%s%s", at ? ", " : "", name);
    }
}

static const char *name_at(const void *context, size_t i)
{
    static _Thread_local char name[TERN_KERNEL_NAME_BYTES];
    (void)context;
    for (tern_gpu_pipeline p = 0; p < TERN_GPU_PIPELINE_COUNT; p++)
        if (can_be_chosen(p) && i-- == 0) {
            tern_gpu_kernel_name(p, name);
            return name;
        }
    return NULL;
}

/* The nearest name, and those of its encoding. */
static tern_status fail_unknown(const char *word, tern_error *err)
{
    char names[300] = "";
    const size_t nearest = tern_nearest_at(word, name_at, NULL);
    listing l = {.of = TERN_GPU_PIPELINE_COUNT, .word = word, .n_word = 0};
    for (size_t n = strlen(word); n > 0; n--) { /* the longest beginning that some have */
        l.n_word = n;
        list(&l, names, sizeof names);
        if (*names) break;
    }
    if (!*names || l.n_word == 0) {
        l.n_word = 0;
        list(&l, names, sizeof names);
    }
    if (nearest != SIZE_MAX)
        return tern_fail(err, TERN_INVALID_ARGUMENT,
                         "kernel \"%s\": GPUs have no kernel of that name; did you mean %s? (%s)",
                         tern_show_z(word).text, name_at(NULL, nearest), names);
    return tern_fail(err, TERN_INVALID_ARGUMENT, "kernel \"%s\": GPUs have no kernel of that name; they have %s",
                     tern_show_z(word).text, names);
}

static tern_status add_name(tern_gpu_choices *choices, const char *word, const tern_gpu_caps *caps, tern_error *err)
{
    char names[300];
    const tern_gpu_pipeline p = tern_gpu_kernel_by_name(word);
    if (p == TERN_GPU_PIPELINE_COUNT) return fail_unknown(word, err);
    choices->named[p] = true;
    if (!caps || tern_gpu_pipeline_fits(p, caps)) return TERN_OK;
    const listing l = {.of = p, .caps = caps, .word = ""};
    list(&l, names, sizeof names);
    return tern_fail(err, TERN_UNSUPPORTED, "kernel \"%s\": this device lacks what it needs; in its place it has %s",
                     word, *names ? names : "none");
}

tern_status tern_gpu_choices_parse(tern_gpu_choices *choices, const char *names, const tern_gpu_caps *caps,
                                   tern_error *err)
{
    char word[TERN_KERNEL_NAME_BYTES];
    for (const char *at = names;; at++) {
        const size_t n = strcspn(at, ",");
        snprintf(word, sizeof word, "%.*s", n < sizeof word ? (int)n : (int)sizeof word - 1, at);
        TERN_TRY(add_name(choices, word, caps, err));
        at += n;
        if (!*at) return TERN_OK;
    }
}

tern_status tern_gpu_choices_take(tern_gpu_choices *out, const tern_kernel_choice *choices, size_t n,
                                  const char *device, tern_error *err)
{
    tern_gpu_choice *measured = n ? tern_calloc(n, sizeof *measured) : NULL;
    if (n && !measured) return tern_fail_alloc(err, n * sizeof *measured);
    tern_gpu_choices_deinit(out);
    out->measured = measured;
    for (size_t i = 0; i < n; i++) {
        const tern_kernel_choice *c = &choices[i];
        const tern_gpu_pipeline p = tern_gpu_kernel_by_name(c->kernel);
        if (strcmp(c->device, device) != 0 || p == TERN_GPU_PIPELINE_COUNT) continue;
        measured[out->n++] = (tern_gpu_choice){.key = {c->rows, c->cols, c->tokens}, .pipeline = p};
    }
    return TERN_OK;
}

void tern_gpu_choices_deinit(tern_gpu_choices *choices)
{
    tern_free(choices->measured);
    choices->measured = NULL;
    choices->n = 0;
}
