/* Facts about a flag that the scripts of all shells need. */
#include "apps/completion/completion.h"

#include <string.h>

#include "base/cpu.h"
#include "model/model.h"
#include "quant/encoding.h"
#include "quant/i2_s_order.h"
#include "quant/mix.h"

static void add(tern_completion_words *words, const char *word, size_t n)
{
    const size_t used = strlen(words->text);
    if (used + n + 2 > sizeof words->text) return;
    snprintf(words->text + used, sizeof words->text - used, "%s%.*s", used ? " " : "", (int)n, word);
}

/* Names that end at any of these characters. */
static void add_names(tern_completion_words *words, const char *names, const char *ends)
{
    for (const char *at = names + strspn(names, ends); *at; at += strspn(at, ends)) {
        const size_t n = strcspn(at, ends);
        add(words, at, n);
        at += n;
    }
}

/* The names that flags of texts take, by flag. */
static const char *names_of(const char *flag)
{
#define CPU_LEVEL(name, bit, words) ", " words
#define TYPES                       TERN_ENCODING_TERNARY_NAMES ", " TERN_ENCODING_DENSE_NAMES ", " TERN_MIX_NAMES
    static const char *const named[][2] = {
        {"preset", TERN_SYNTH_PRESETS},
        {"template", TERN_CHAT_TEMPLATES},
        {"type", TYPES},
        {"head", TERN_ENCODING_DENSE_NAMES ", exact"},
        {"i2s-order", "auto, " TERN_I2S_ORDER_NAMES},
        {"reference", "cpu, cpu:scalar, vulkan"},
        {"kernel", "dot, t160, lut, rsr"},
        {"cpu-features", "scalar" TERN_CPU_FEATURE_LIST(CPU_LEVEL)},
    };
#undef TYPES
#undef CPU_LEVEL
    for (size_t i = 0; i < sizeof named / sizeof *named; i++)
        if (strcmp(named[i][0], flag) == 0) return named[i][1];
    return "";
}

tern_completion_words tern_completion_values(const tern_flag *flag)
{
    tern_completion_words words = {0};
    tern_flag_value value;
    if (flag->kind == TERN_FLAG_CHOICE) add_names(&words, flag->metavar, "|");
    if (flag->kind == TERN_FLAG_TEXT) add_names(&words, names_of(flag->name), ", ");
    for (uint32_t i = 0; flag->value_at && flag->value_at(i, &value); i++) add(&words, value.name, strlen(value.name));
    return words;
}

bool tern_completion_is_path(const tern_flag *flag)
{
    static const char *const words[] = {"FILE", "PATH", "DIR", "FOLDER", "OUT"}, *const flags[] = {"file", "template"};
    if (flag->kind != TERN_FLAG_TEXT && flag->kind != TERN_FLAG_TEXTS) return false;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strncmp(flag->metavar, words[i], strlen(words[i])) == 0) return true;
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++)
        if (strcmp(flag->name, flags[i]) == 0) return true;
    return tern_completion_is_model(flag);
}

bool tern_completion_is_model(const tern_flag *flag)
{
    return strcmp(flag->name, "model") == 0 || strcmp(flag->name, "draft-model") == 0;
}

static bool is_one_of(const tern_command *command, const char *const *names, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(names[i], command->name) == 0) return true;
    return false;
}

const char *tern_completion_words_of(const tern_command *command)
{
    static const char *const takes_models[] = {"rm", "convert", "package", "inspect"};
    if (strcmp(command->name, "pull") == 0) return "tern list --known --names 2>/dev/null";
    if (strcmp(command->name, "completion") == 0) return "printf \"%s\\n\" bash zsh fish";
    return is_one_of(command, takes_models, 4) ? "tern list --names 2>/dev/null" : NULL;
}

bool tern_completion_takes_files(const tern_command *command)
{
    static const char *const takes_words[] = {"pull", "rm", "completion", "run", "tokenize", "embed"};
    return command->max_args > 0 && !is_one_of(command, takes_words, 6);
}

void tern_completion_quoted(const char *text, const char *special, const char *quote)
{
    for (; *text && *text != ';'; text++) {
        if (*text == '\'') {
            fputs(quote, stdout);
            continue;
        }
        if (strchr(special, *text)) putchar('\\');
        putchar(*text);
    }
}
