/* The tokens of fill in the middle: by their well-known texts, where a file does not name them. */
#include <string.h>

#include "base/show.h"
#include "text/tokenizer/internal.h"

enum { MOST_NAMES = 8 };

/* Those that published models have, among them Qwen, Granite, StarCoder, DeepSeek, CodeLlama, GLM and Falcon. */
static const char *const NAMES[TERN_FIM_TOKENS][MOST_NAMES] = {
    [TERN_FIM_PREFIX] = {"<|fim_prefix|>", "<fim_prefix>", "<fim-prefix>", "<｜fim▁begin｜>", "<PRE>", "▁<PRE>",
                         "<|code_prefix|>", "<|prefix|>"},
    [TERN_FIM_SUFFIX] = {"<|fim_suffix|>", "<fim_suffix>", "<fim-suffix>", "<｜fim▁hole｜>", "<SUF>", "▁<SUF>",
                         "<|code_suffix|>", "<|suffix|>"},
    [TERN_FIM_MIDDLE] = {"<|fim_middle|>", "<fim_middle>", "<fim-middle>", "<｜fim▁end｜>", "<MID>", "▁<MID>",
                         "<|code_middle|>", "<|middle|>"},
    [TERN_FIM_PAD] = {"<|fim_pad|>", "<fim_pad>", "<fim-pad>"},
    [TERN_FIM_REPOSITORY] = {"<|fim_repo|>", "<|repo_name|>", "<fim-repo>", "<REPO>", "<reponame>"},
    [TERN_FIM_FILE] = {"<|file_sep|>"},
};

bool tern_tokenizer__is_fim_name(tern_span piece)
{
    for (int kind = 0; kind < TERN_FIM_TOKENS; kind++)
        for (int i = 0; i < MOST_NAMES && NAMES[kind][i]; i++)
            if (piece.size == strlen(NAMES[kind][i]) && memcmp(piece.data, NAMES[kind][i], piece.size) == 0)
                return true;
    return false;
}

/* A special token: an ordinary one may be made of the words of a text. */
static int32_t find_special(const tern_tokenizer *t, tern_fim_token kind)
{
    for (int i = 0; i < MOST_NAMES && NAMES[kind][i]; i++) {
        const int32_t id = tern_vocab__find_piece(&t->vocab, NAMES[kind][i], strlen(NAMES[kind][i]));
        if (id >= 0 && t->vocab.entries[id].type == TERN_TOKEN_CONTROL) return id;
    }
    return -1;
}

tern_status tern_tokenizer__find_fim(tern_tokenizer *t, tern_error *err)
{
    for (int kind = 0; kind < TERN_FIM_TOKENS; kind++) {
        int32_t *id = &t->fim[kind];
        if (*id < 0) *id = find_special(t, (tern_fim_token)kind);
        if (*id >= (int64_t)t->vocab.n)
            return tern_fail(err, TERN_MALFORMED, "fill-in-the-middle token id %d: below %u expected", *id, t->vocab.n);
        if (*id >= 0 && kind >= TERN_FIM_PAD) TERN_TRY(tern_tokenizer__add_end(t, *id, err));
    }
    return TERN_OK;
}

int32_t tern_tokenizer_fim(const tern_tokenizer *t, tern_fim_token which)
{
    return t->fim[which];
}

bool tern_tokenizer_fills(const tern_tokenizer *t)
{
    return t->fim[TERN_FIM_PREFIX] >= 0 && t->fim[TERN_FIM_SUFFIX] >= 0 && t->fim[TERN_FIM_MIDDLE] >= 0;
}
