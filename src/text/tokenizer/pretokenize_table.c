/* The table of known pre-tokenizers. */
#include <string.h>

#include "text/tokenizer/pretokenize.h"

/* clang-format off */
#define CONTRACTIONS "'s|'t|'re|'ve|'m|'ll|'d"
#define TAIL         " ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define SLASH_TAIL   " ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define UPPER        "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]"
#define LOWER        "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"
#define NOT_WORD     "[^\\r\\n\\p{L}\\p{N}]?"
#define GPT2         CONTRACTIONS "| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"
#define LLAMA3       "(?i:" CONTRACTIONS ")|" NOT_WORD "\\p{L}+|\\p{N}{1,3}|" TAIL
#define QWEN2        "(?i:" CONTRACTIONS ")|" NOT_WORD "\\p{L}+|\\p{N}|" TAIL
#define QWEN35                                                                                                         \
    "(?i:" CONTRACTIONS ")|" NOT_WORD "[\\p{L}\\p{M}]+|\\p{N}|"                                                        \
    " ?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define SEED_CODER                                                                                                     \
    "(?i:" CONTRACTIONS ")|" NOT_WORD "\\p{L}+|\\p{N}{1}|"                                                             \
    " ?[^\\s\\p{L}\\p{N}\\r\\n]+|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define BAILING                                                                                                        \
    "'(?i:[sdmt]|ll|ve|re)|[^\\r\\n\\p{L}\\p{N}]?+\\p{L}+|\\p{N}|"                                                     \
    " ?[^\\s\\p{L}\\p{N}]++[\\r\\n]*|\\s*[\\r\\n]|\\s+(?!\\S)|\\s+"
#define EXAONE_MOE                                                                                                     \
    "(?i:" CONTRACTIONS ")|" NOT_WORD "(?:\\p{L}\\p{M}*(?: \\p{L}\\p{M}*)*)+|\\p{N}|"                                  \
    " ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]?|\\s*[\\r\\n]|\\s+(?!\\S)|\\s+"
#define GPT4O                                                                                                          \
    NOT_WORD UPPER "*" LOWER "+(?i:" CONTRACTIONS ")?|"                                                                \
    NOT_WORD UPPER "+" LOWER "*(?i:" CONTRACTIONS ")?|\\p{N}{1,3}|" SLASH_TAIL
#define TEKKEN NOT_WORD UPPER "*" LOWER "+|" NOT_WORD UPPER "+" LOWER "*|\\p{N}|" SLASH_TAIL
#define CL100K                                                                                                         \
    "(?i:" CONTRACTIONS ")|[^\\r\\n\\p{L}\\p{N}]?+\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]++[\\r\\n]*|"                \
    "\\s*[\\r\\n]|\\s+(?!\\S)|\\s+"
#define DEEPSEEK3                                                                                                      \
    "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+|"               \
    " ?[\\p{P}\\p{S}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
/* clang-format on */

/* Names as llama.cpp's converter writes them; patterns as the models' own tokenizer.json and tiktoken
 * files state them. */
static const tern_pretokenizer_row ROWS[] = {
    {"llama-bpe,llama3,llama-v3,falcon3,falcon-h1,pixtral,midm-2.0,lfm2,jina-v5-nano", true, true, {LLAMA3}},
    {"smaug-bpe,dbrx,chatglm-bpe,glm4", false, true, {LLAMA3}},
    {"gpt-2,gpt2,phi-2,olmo,mpt,jais,trillion,jina-es,jina-de,jina-v2-es,jina-v2-de,jina-v2-code,gigachat,roberta-bpe",
     false,
     true,
     {GPT2}},
    {"granite-docling,exaone4,a.x-4.0,mellum,modern-bert,jina-v1-en", false, true, {GPT2}},
    {"qwen2,stablelm2,deepseek-r1-qwen,hunyuan,megrez,kormo,f2llmv2,grok-2,solar-open", false, true, {QWEN2}},
    {"qwen35", false, true, {QWEN35}},
    {"seed-coder", false, true, {SEED_CODER}},
    {"bailingmoe,bailingmoe2,llada-moe", false, true, {BAILING}},
    {"exaone-moe", false, true, {EXAONE_MOE}},
    {"tekken", true, true, {TEKKEN}},
    {"gpt-4o,llama4,kanana2,talkie,minimax-m2", false, true, {GPT4O}},
    {"cl100k", false, true, {CL100K}},
    {"starcoder,refact,command-r,smollm,codeshell,exaone,minerva-7b,mellum2", false, false, {"\\p{N}", GPT2}},
    {"default", false, false, {"[\\p{P}\\$\\+<=>\\^~\\|]+", GPT2, "\\p{N}+", "[0-9][0-9][0-9]"}},
    {"falcon", false, false, {"[\\p{P}\\$\\+<=>\\^~\\|`]+", GPT2, "[0-9][0-9][0-9]"}},
    {"bloom,poro-chat,gpt3-finnish", false, false, {" ?[^(\\s|.,!?…。，、।۔،)]+"}},
    {"viking", false, false, {" ?[^(\\s|.,!?…。，、।۔،)]+", "\\p{N}"}},
    /* Letters with case; the model's own file lists those of Unicode 11. */
    {"deepseek-llm",
     false,
     false,
     {"[\\r\\n]", "\\s?\\p{L&}+", "\\s?[!-/:-~！-／：-～‘-‟　-。]+", "\\s+$", "[一-龥ࠀ-一가-퟿]+", "\\p{N}"}},
    {"deepseek-coder", false, false, {"[\\r\\n]", "\\s?\\p{L}+", "\\s?\\p{P}+", "[一-龥ࠀ-一가-퟿]+", "\\p{N}"}},
    {"deepseek-v3,hunyuan-dense,joyai-llm,hy_v4", false, false, {"\\p{N}{1,3}", "[一-龥぀-ゟ゠-ヿ]+", DEEPSEEK3}},
};
enum { N_ROWS = sizeof ROWS / sizeof ROWS[0] };

static bool lists_name(const char *names, const void *name, size_t n)
{
    while (*names) {
        size_t length = strcspn(names, ",");
        if (length == n && memcmp(names, name, n) == 0) return true;
        names += length + (names[length] == ',');
    }
    return false;
}

const tern_pretokenizer_row *tern_pretokenizer__find(const void *name, size_t n)
{
    for (int i = 0; i < N_ROWS; i++)
        if (lists_name(ROWS[i].names, name, n)) return &ROWS[i];
    return NULL;
}

/* Whether two patterns are equal except for line ends, which files hold as they are or as escapes. */
static bool same_pattern(tern_span pattern, const char *known)
{
    for (size_t i = 0; i < pattern.size; i++, known++) {
        char c = (char)pattern.data[i];
        char letter = c == '\n' ? 'n' : c == '\r' ? 'r' : 0;
        if (letter && known[0] == '\\' && known[1] == letter) known++;
        else if (c == 0 || c != *known) return false;
    }
    return *known == 0;
}

bool tern_pretokenizer__covers(tern_span pattern)
{
    for (int i = 0; i < N_ROWS; i++)
        if (ROWS[i].whole && same_pattern(pattern, ROWS[i].patterns[0])) return true;
    return false;
}

static bool is_row(const tern_pretokenizer *p, const tern_pretokenizer_row *row)
{
    size_t n = 0;
    for (; row->patterns[n]; n++) {
        if (n >= p->n) return false;
        tern_span pattern = tern_splitter__pattern(p->stages[n]);
        if (tern_splitter__behavior(p->stages[n]) != TERN_SPLIT_ISOLATED) return false;
        if (!same_pattern(pattern, row->patterns[n])) return false;
    }
    return n == p->n;
}

const tern_pretokenizer_row *tern_pretokenizer__row_of(const tern_pretokenizer *p, bool ignore_merges)
{
    const tern_pretokenizer_row *found = NULL;
    for (int i = 0; i < N_ROWS; i++) {
        if (!is_row(p, &ROWS[i])) continue;
        if (ROWS[i].ignore_merges == ignore_merges) return &ROWS[i];
        if (!found) found = &ROWS[i];
    }
    return found;
}

tern_status tern_pretokenizer__add_row(tern_pretokenizer *p, const tern_pretokenizer_row *row, tern_error *err)
{
    for (size_t i = 0; row->patterns[i]; i++) {
        tern_span pattern = {(const uint8_t *)row->patterns[i], strlen(row->patterns[i])};
        TERN_TRY(tern_pretokenizer__add(p, pattern, TERN_SPLIT_ISOLATED, err));
    }
    return TERN_OK;
}
