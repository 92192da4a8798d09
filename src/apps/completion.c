/* What the scripts of all shells need to know of a flag. */
#include "apps/completion.h"

#include <string.h>

static void add(tern_completion_words *words, const char *word, size_t n)
{
    const size_t used = strlen(words->text);
    if (used + n + 2 > sizeof words->text) return;
    snprintf(words->text + used, sizeof words->text - used, "%s%.*s", used ? " " : "", (int)n, word);
}

tern_completion_words tern_completion_values(const tern_flag *flag)
{
    tern_completion_words words = {0};
    tern_flag_value value;
    if (flag->kind == TERN_FLAG_CHOICE)
        for (const char *at = flag->metavar; *at; at += *at == '|') {
            const size_t n = strcspn(at, "|");
            add(&words, at, n);
            at += n;
        }
    for (uint32_t i = 0; flag->value_at && flag->value_at(i, &value); i++) add(&words, value.name, strlen(value.name));
    return words;
}

bool tern_completion_is_path(const tern_flag *flag)
{
    static const char *const words[] = {"FILE", "PATH", "DIR", "FOLDER", "OUT"};
    for (size_t i = 0; flag->metavar && i < sizeof words / sizeof *words; i++)
        if (strncmp(flag->metavar, words[i], strlen(words[i])) == 0) return true;
    return false;
}

bool tern_completion_is_model(const tern_flag *flag)
{
    return strcmp(flag->name, "model") == 0 || strcmp(flag->name, "draft-model") == 0;
}

const char *tern_completion_words_of(const tern_command *command)
{
    if (strcmp(command->name, "pull") == 0) return "tern list --known --names 2>/dev/null";
    return strcmp(command->name, "rm") == 0 ? "tern list --names 2>/dev/null" : NULL;
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
