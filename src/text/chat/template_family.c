/* The chat template of a model's family, for files that bring none. */
#include <string.h>

#include "text/chat/template.h"

/* The template that a family's published chat models have, where the vocabulary has its mark as a special token. The
 * first that fits counts. Sources: the tokenizer_config.json of the models that are named at the templates' texts. */
static const struct {
    const char *architecture, *mark, *name;
} of_family[] = {
    {"llama", "<|start_header_id|>", "llama3"},
    {"llama", "<|im_start|>", "chatml"},
    {"llama", "<SPECIAL_20>", "mistral-tekken"}, /* of Tekken vocabularies, which have [INST] too */
    {"llama", "[INST]", "mistral"},
    {"llama", "<s>", "llama2"}, /* it has no mark of its own: not for vocabularies of other programs, at least */
    {"bitnet-b1.58", "<|eot_id|>", "bitnet"},
    {"bitnet-25", "<|eot_id|>", "bitnet"},
    {"granite", "<|start_of_role|>", "granite"},
    {"phi3", "<|im_sep|>", "phi4"},
    {"phi3", "<|endofprompt|>", "phi4-mini"},
    {"phi3", "<|end|>", "phi3"},
    {"qwen2", "<|im_start|>", "chatml"},
    {"qwen3", "<|im_start|>", "qwen"},
    {"qwen3moe", "<|im_start|>", "qwen"},
    {"maple", "<|im_start|>", "qwen"},
    {"gemma2", "<start_of_turn>", "gemma"},
    {"gemma3", "<start_of_turn>", "gemma"},
};

static bool has_mark(const tern_tokenizer *t, const char *mark)
{
    const int32_t id = tern_token_find(t, mark, strlen(mark));
    return id >= 0 && tern_token_is_special(t, id);
}

const char *tern_chat_template_of_family(const tern_tokenizer *t, const char *architecture)
{
    for (size_t i = 0; t && i < sizeof of_family / sizeof *of_family; i++)
        if (strcmp(of_family[i].architecture, architecture) == 0 && has_mark(t, of_family[i].mark))
            return of_family[i].name;
    return NULL;
}
