/* Parsing a command line by a command's table of flags. */
#include "apps/args/args.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "apps/app.h"
#include "base/alloc.h"
#include "base/nearest.h"

static const tern_flag help_flags[] = {
    {"help", 'h', TERN_FLAG_BOOL, NULL, offsetof(tern_options, help), 0, 0, "Show the usual flags"},
    {"help-all", 0, TERN_FLAG_BOOL, NULL, offsetof(tern_options, help_all), 0, 0, "Explain all flags"},
};

const tern_flag *tern_args_flag_at(const tern_command *command, size_t i)
{
    for (const tern_flag_group *g = command->groups; g && g->flags; g++)
        for (const tern_flag *f = g->flags; f->name; f++)
            if (i-- == 0) return f;
    return i < 2 ? &help_flags[i] : NULL;
}

static const char *flag_name_at(const void *command, size_t i)
{
    const tern_flag *f = tern_args_flag_at(command, i);
    return f ? f->name : NULL;
}

static const tern_flag *find_letter(const tern_command *command, char letter)
{
    for (size_t i = 0;; i++) {
        const tern_flag *f = tern_args_flag_at(command, i);
        if (!f || f->letter == letter) return f;
    }
}

/* Names that other programs of the field give to flags. */
static const char *const other_names[][2] = {
    {"ngl", "gpu-layers"},
    {"n-gpu-layers", "gpu-layers"},
    {"n-predict", "n-tokens"},
    {"predict", "n-tokens"},
    {"max-tokens", "n-tokens"},
    {"ctx-size", "ctx"},
    {"batch-size", "batch"},
    {"temperature", "temp"},
    {"repeat-penalty", "repetition-penalty"},
    {"repeat-last-n", "penalty-last-n"},
    {"typical", "typical-p"},
    {"max-steps", "steps"},
    {"lora-scaled", "lora"},
    {"top-nsigma", "top-n-sigma"},
    {"dynatemp-exp", "dynatemp-exponent"},
    {"dry-penalty-last-n", "dry-last-n"},
    {"dry-sequence-breaker", "dry-breaker"},
    {"mirostat-ent", "mirostat-tau"},
    {"mirostat-lr", "mirostat-eta"},
    {"system-prompt", "system"},
    {"chat-template", "template"},
    {"model-path", "model"},
    {"hf-repo", "hf"},
    {"md", "draft-model"},
    {"model-draft", "draft-model"},
    {"draft-max", "draft-tokens"},
    {"ctk", "cache-type-k"},
    {"ctv", "cache-type-v"},
};

static const char *own_name(const char *name, size_t *n)
{
    for (size_t i = 0; i < sizeof other_names / sizeof *other_names; i++)
        if (strlen(other_names[i][0]) == *n && strncmp(other_names[i][0], name, *n) == 0) {
            *n = strlen(other_names[i][1]);
            return other_names[i][1];
        }
    return name;
}

static bool has_flag(const tern_command *command, const char *name, size_t n)
{
    for (size_t i = 0;; i++) {
        const tern_flag *f = tern_args_flag_at(command, i);
        if (!f) return false;
        if (strncmp(f->name, name, n) == 0 && f->name[n] == 0) return true;
    }
}

/* The flag of this name, or the only one that begins with it. */
static tern_status find_name(const tern_command *command, const char *name, size_t n, const tern_flag **out,
                             tern_error *err)
{
    const tern_flag *found = NULL, *second = NULL;
    if (!has_flag(command, name, n)) name = own_name(name, &n);
    for (size_t i = 0;; i++) {
        const tern_flag *f = tern_args_flag_at(command, i);
        if (!f) break;
        if (n == 0 || strncmp(f->name, name, n) != 0) continue;
        if (f->name[n] == 0) {
            *out = f;
            return TERN_OK;
        }
        if (found) second = f;
        else found = f;
    }
    if (second)
        return tern_fail(err, TERN_INVALID_ARGUMENT, "flag --%.*s is ambiguous: --%s or --%s?", (int)n, name,
                         found->name, second->name);
    *out = found;
    return TERN_OK;
}

/* Flags of other programs for what Tern does not do. */
static bool is_of_images(const char *name, size_t n)
{
    static const char *const names[] = {"image", "mmproj", "audio"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (n == strlen(names[i]) && memcmp(name, names[i], n) == 0) return true;
    return false;
}

/* The first command that has this flag; NULL: none. */
static const char *command_with(const char *name)
{
    for (const tern_command *const *c = tern_commands; *c; c++)
        if (has_flag(*c, name, strlen(name))) return (*c)->name;
    return NULL;
}

static tern_status fail_unknown(const tern_command *command, const char *name, size_t n, tern_error *err)
{
    if (is_of_images(name, n))
        return tern_fail(err, TERN_INVALID_ARGUMENT, "--%.*s: images and sound are not supported, only text", (int)n,
                         name);
    char *word = tern_strndup(name, n < 64 ? n : 64);
    const char *nearest = word ? tern_nearest(word, flag_name_at, command) : NULL;
    const char *other = word && !nearest ? command_with(word) : NULL;
    tern_status status =
        nearest ? tern_fail(err, TERN_INVALID_ARGUMENT, "unknown flag --%s: did you mean --%s?", word, nearest)
                : tern_fail(err, TERN_INVALID_ARGUMENT, "unknown flag --%s%s%s%s (tern %s --help-all lists the flags)",
                            word ? word : "", other ? ": tern " : "", other ? other : "", other ? " has it" : "",
                            command->name);
    tern_free(word);
    return status;
}

static tern_status fail_number(const tern_flag *f, const char *value, tern_error *err)
{
    const char *kind = f->kind == TERN_FLAG_F32 || f->kind == TERN_FLAG_F64 ? "a number" : "a whole number";
    if (f->kind == TERN_FLAG_U64 && f->min < 0)
        return tern_fail(err, TERN_INVALID_ARGUMENT, "--%s %s: a whole number, or -1, expected", f->name, value);
    if (f->max <= f->min) return tern_fail(err, TERN_INVALID_ARGUMENT, "--%s %s: %s expected", f->name, value, kind);
    return tern_fail(err, TERN_INVALID_ARGUMENT, "--%s %s: %s from %.10g to %.10g expected", f->name, value, kind,
                     f->min, f->max);
}

static tern_status set_whole(const tern_flag *f, const char *value, void *field, tern_error *err)
{
    char *end;
    errno = 0;
    if (f->min < 0 && strcmp(value, "-1") == 0) {
        if (f->kind == TERN_FLAG_U64) *(uint64_t *)field = UINT64_MAX; /* not given */
        else *(uint32_t *)field = UINT32_MAX;                          /* no limit */
        return TERN_OK;
    }
    unsigned long long v = strtoull(value, &end, 10);
    bool in_range = (double)v >= f->min && (f->max <= f->min || (double)v <= f->max) &&
                    (f->kind == TERN_FLAG_U64 || v <= UINT32_MAX);
    if (*value < '0' || *value > '9' || *end || errno || !in_range) return fail_number(f, value, err);
    if (f->kind == TERN_FLAG_U64) *(uint64_t *)field = v;
    else *(uint32_t *)field = (uint32_t)v;
    return TERN_OK;
}

static tern_status set_float(const tern_flag *f, const char *value, void *field, tern_error *err)
{
    char *end;
    double v = strtod(value, &end);
    bool in_range = isfinite(v) && v >= f->min && (f->max <= f->min || v <= f->max);
    if (end == value || *end || !in_range) return fail_number(f, value, err);
    if (f->kind == TERN_FLAG_F64) *(double *)field = v;
    else *(float *)field = (float)v;
    return TERN_OK;
}

static bool is_choice(const char *choices, const char *value)
{
    size_t n = strlen(value);
    for (const char *at = choices; n; at++) {
        size_t length = strcspn(at, "|");
        if (length == n && memcmp(at, value, n) == 0) return true;
        at += length;
        if (*at == 0) break;
    }
    return false;
}

/* Words "a|b|c", and a place for one of them. */
typedef struct choices {
    const char *all;
    char word[32];
} choices;

static const char *choice_at(const void *context, size_t i)
{
    choices *c = (choices *)(uintptr_t)context;
    const char *at = c->all;
    for (; i; i--) {
        at += strcspn(at, "|");
        if (*at++ == 0) return NULL;
    }
    size_t n = strcspn(at, "|");
    if (n >= sizeof c->word) return NULL;
    memcpy(c->word, at, n);
    c->word[n] = 0;
    return c->word;
}

static tern_status fail_choice(const tern_flag *f, const char *value, tern_error *err)
{
    choices c = {.all = f->metavar};
    size_t nearest = tern_nearest_at(value, choice_at, &c);
    if (nearest == SIZE_MAX)
        return tern_fail(err, TERN_INVALID_ARGUMENT, "--%s %s: %s expected", f->name, value, f->metavar);
    return tern_fail(err, TERN_INVALID_ARGUMENT, "--%s %s: %s expected; did you mean %s?", f->name, value, f->metavar,
                     choice_at(&c, nearest));
}

static tern_status add_text(tern_texts *texts, const char *text, tern_error *err)
{
    void *items = texts->items;
    TERN_TRY(tern_grow(&items, &texts->cap, texts->n + 1, sizeof *texts->items, err));
    texts->items = items;
    texts->items[texts->n++] = text;
    return TERN_OK;
}

static tern_status set_value(const tern_flag *f, const char *value, tern_options *options, tern_error *err)
{
    void *field = (char *)options + f->field;
    if (f->given) *(bool *)((char *)options + f->given) = f->kind != TERN_FLAG_U64 || strcmp(value, "-1") != 0;
    switch (f->kind) {
    case TERN_FLAG_BOOL: *(bool *)field = true; return TERN_OK;
    case TERN_FLAG_U32:
    case TERN_FLAG_U64: return set_whole(f, value, field, err);
    case TERN_FLAG_F32:
    case TERN_FLAG_F64: return set_float(f, value, field, err);
    case TERN_FLAG_TEXTS: return add_text(field, value, err);
    case TERN_FLAG_CHOICE:
        if (!is_choice(f->metavar, value)) return fail_choice(f, value, err);
        break;
    case TERN_FLAG_TEXT: break;
    }
    *(const char **)field = value;
    return TERN_OK;
}

/* The words being read, and where. */
typedef struct reader {
    const tern_command *command;
    char **words;
    int n, at;
} reader;

/* "--name" and "--name=..."; a text may begin with dashes as well. */
static bool looks_like_flag(const char *word)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyz0123456789-";
    if (word[0] != '-' || word[1] != '-' || !word[2]) return false;
    const size_t n = strspn(word + 2, letters);
    return n > 0 && (word[2 + n] == 0 || word[2 + n] == '=');
}

/* Gives the flag its value: what stands behind "=" or the letter, or the next word. */
static tern_status take_value(reader *r, const tern_flag *f, const char *attached, tern_options *options,
                              tern_error *err)
{
    if (f->kind == TERN_FLAG_BOOL && attached)
        return tern_fail(err, TERN_INVALID_ARGUMENT, "--%s takes no value, found \"%s\"", f->name, attached);
    if (f->kind != TERN_FLAG_BOOL && !attached) {
        if (r->at >= r->n) return tern_fail(err, TERN_INVALID_ARGUMENT, "--%s needs a value: %s", f->name, f->metavar);
        if (looks_like_flag(r->words[r->at]))
            return tern_fail(err, TERN_INVALID_ARGUMENT,
                             "--%s needs a value: %s; the flag %s found (--%s=%s takes it as the value)", f->name,
                             f->metavar, r->words[r->at], f->name, r->words[r->at]);
        attached = r->words[r->at++];
    }
    return set_value(f, attached, options, err);
}

static tern_status read_long(reader *r, const char *word, tern_options *options, tern_error *err)
{
    size_t n = strcspn(word, "=");
    const tern_flag *f;
    TERN_TRY(find_name(r->command, word, n, &f, err));
    if (!f) return fail_unknown(r->command, word, n, err);
    return take_value(r, f, word[n] ? word + n + 1 : NULL, options, err);
}

/* Long names that llama.cpp gives one dash. */
static bool is_long(const char *word)
{
    static const char *const names[] = {"ngl", "hf", "md", "ctk", "ctv"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcspn(word, "=") == strlen(names[i]) && strncmp(word, names[i], strlen(names[i])) == 0) return true;
    return false;
}

/* "-l", "-lvalue", "-l=value"; "-temp" is read as a long flag that lost a dash. */
static tern_status read_short(reader *r, const char *word, tern_options *options, tern_error *err)
{
    const tern_flag *f = find_letter(r->command, word[0]), *longer = NULL;
    if (is_long(word)) return read_long(r, word, options, err);
    if (word[1] && find_name(r->command, word, strcspn(word, "="), &longer, err) == TERN_OK && longer)
        return tern_fail(err, TERN_INVALID_ARGUMENT, "unknown flag -%s: did you mean --%s?", word, longer->name);
    if (!f)
        return tern_fail(err, TERN_INVALID_ARGUMENT, "unknown flag -%s (tern %s --help-all lists the flags)", word,
                         r->command->name);
    const char *attached = word[1] == '=' ? word + 2 : word + 1;
    return take_value(r, f, word[1] ? attached : NULL, options, err);
}

/* The i-th word of a usage that is not the value of a flag: "FILE..." of "[-m MODEL] FILE... -o OUT". */
static const char *missing_word(const tern_command *command, size_t i, size_t *n)
{
    static const char any[] = "an argument";
    bool value = false, optional = false;
    for (const char *at = command->usage; *at; at += *n + strspn(at + *n, " ")) {
        *n = strcspn(at, " ");
        optional |= *at == '[' && strcspn(at, "]") >= *n;
        const bool plain = *at != '[' && *at != '-' && !value && !optional;
        if (optional && memchr(at, ']', *n)) optional = false;
        value = *at == '-';
        if (plain && i-- == 0) return at;
    }
    *n = sizeof any - 1;
    return any;
}

static tern_status check_count(const tern_command *command, const tern_options *options, tern_error *err)
{
    const size_t n = options->args.n;
    if (n < command->min_args) {
        size_t n_word;
        const char *word = missing_word(command, n, &n_word);
        return tern_fail(err, TERN_INVALID_ARGUMENT, "%.*s is missing (usage: tern %s %s)", (int)n_word, word,
                         command->name, command->usage);
    }
    if (n <= command->max_args) return TERN_OK;
    const char *word = options->args.items[command->max_args];
    const char *hint = command->max_args == 0 && find_letter(command, 'm') ? "; a model is given with -m" : "";
    return tern_fail(err, TERN_INVALID_ARGUMENT, "\"%s\" is an unexpected argument%s (usage: tern %s %s)", word, hint,
                     command->name, command->usage);
}

tern_status tern_args_parse(const tern_command *command, int n, char **words, tern_options *options, tern_error *err)
{
    reader r = {command, words, n, 0};
    for (bool flags = true; r.at < n;) {
        const char *word = words[r.at++];
        if (flags && strcmp(word, "--") == 0) flags = false;
        else if (flags && word[0] == '-' && word[1] == '-') TERN_TRY(read_long(&r, word + 2, options, err));
        else if (flags && word[0] == '-' && word[1]) TERN_TRY(read_short(&r, word + 1, options, err));
        else TERN_TRY(add_text(&options->args, word, err));
    }
    if (options->help || options->help_all) return TERN_OK;
    return check_count(command, options, err);
}

void tern_args_deinit(tern_options *options)
{
    tern_free(options->args.items);
    tern_free(options->stops.items);
    tern_free(options->biases.items);
    tern_free(options->breakers.items);
    tern_free(options->loras.items);
    tern_free(options->data.items);
    tern_free(options->freeze.items);
    tern_free(options->add_tokens.items);
    tern_free(options->web_seeds.items);
    tern_free(options->trackers.items);
    tern_free(options->peers.items);
    tern_free(options->serve.models.items);
    tern_free(options->serve.loras.items);
}
