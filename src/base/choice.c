/* The words of options with a closed set of values. */
#include "base/choice.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/show.h"

enum { MOST_WORDS = 10 };

static const struct {
    const char *name;
    const char *words[MOST_WORDS + 1];
} choices[] = {
    [TERN_CHOICE_BACKEND] = {"backend",
                             {[TERN_BACKEND_CPU] = "cpu",
                              [TERN_BACKEND_VULKAN] = "vulkan",
                              [TERN_BACKEND_CUDA] = "cuda",
                              [TERN_BACKEND_WEBGPU] = "webgpu",
                              [TERN_BACKEND_AUTO] = "auto"}},
    [TERN_CHOICE_FFN] = {"ffn", {[TERN_FFN_AUTO] = "auto", [TERN_FFN_DENSE] = "dense", [TERN_FFN_SPARSE] = "sparse"}},
    [TERN_CHOICE_ACTIVATIONS] = {"activations",
                                 {[TERN_ACTIVATIONS_AUTO] = "auto",
                                  [TERN_ACTIVATIONS_F32] = "f32",
                                  [TERN_ACTIVATIONS_INT8] = "int8",
                                  [TERN_ACTIVATIONS_F16] = "f16"}},
    [TERN_CHOICE_KV_TYPE] = {"kv",
                             {[TERN_KV_AUTO] = "auto",
                              [TERN_KV_F16] = "f16",
                              [TERN_KV_F32] = "f32",
                              [TERN_KV_Q8_0] = "q8_0",
                              [TERN_KV_Q4_0] = "q4_0"}},
    [TERN_CHOICE_POOLING] = {"pooling",
                             {[TERN_POOLING_LAST] = "last", [TERN_POOLING_MEAN] = "mean", [TERN_POOLING_CLS] = "cls"}},
    [TERN_CHOICE_SPLIT] = {"split",
                           {[TERN_FINETUNE_SPLIT_FILE] = "file",
                            [TERN_FINETUNE_SPLIT_BLANK] = "blank",
                            [TERN_FINETUNE_SPLIT_LINE] = "line"}},
    [TERN_CHOICE_OPTIMIZER] = {"optimizer",
                               {[TERN_FINETUNE_OPTIMIZER_ADAMW] = "adamw", [TERN_FINETUNE_OPTIMIZER_SGD] = "sgd"}},
    [TERN_CHOICE_SCHEDULE] = {"schedule",
                              {[TERN_FINETUNE_SCHEDULE_COSINE] = "cosine",
                               [TERN_FINETUNE_SCHEDULE_LINEAR] = "linear",
                               [TERN_FINETUNE_SCHEDULE_CONSTANT] = "constant"}},
    [TERN_CHOICE_MASTER] = {"master", {[TERN_FINETUNE_MASTER_F32] = "f32", [TERN_FINETUNE_MASTER_BF16] = "bf16"}},
    [TERN_CHOICE_STATES] = {"states",
                            {[TERN_FINETUNE_STATES_F32] = "f32",
                             [TERN_FINETUNE_STATES_BF16] = "bf16",
                             [TERN_FINETUNE_STATES_8BIT] = "8bit"}},
    [TERN_CHOICE_POWER] = {"power",
                           {[TERN_FINETUNE_POWER_PERFORMANCE] = "performance",
                            [TERN_FINETUNE_POWER_BALANCED] = "balanced",
                            [TERN_FINETUNE_POWER_SAVER] = "saver"}},
    [TERN_CHOICE_SAMPLER_STEP] = {"sampler",
                                  {"penalties", "dry", "top_n_sigma", "temperature", "top_k", "typical_p", "top_p",
                                   "min_p", "xtc", "infill"}},
    [TERN_CHOICE_PRECISION] = {"precision",
                               {[TERN_FINETUNE_PRECISION_F32] = "f32", [TERN_FINETUNE_PRECISION_BF16] = "bf16"}},
};

static bool exists(tern_choice choice)
{
    return (size_t)choice < sizeof choices / sizeof *choices;
}

const char *tern_choice_word(tern_choice choice, uint32_t value)
{
    return exists(choice) && value < MOST_WORDS ? choices[choice].words[value] : NULL;
}

/* "a, b or c" */
static void list_words(tern_choice choice, char *out, size_t cap)
{
    const char *const *words = choices[choice].words;
    size_t at = 0;
    for (uint32_t i = 0; words[i]; i++) {
        const char *between = i == 0 ? "" : words[i + 1] ? ", " : " or ";
        at += (size_t)snprintf(out + at, cap - at, "%s\"%s\"", between, words[i]);
    }
}

tern_status tern_choice_parse(tern_choice choice, const char *word, uint32_t *value, tern_error *err)
{
    char list[160];
    TERN_NEED(value, err);
    *value = 0;
    if (!exists(choice)) return tern_fail(err, TERN_INVALID_ARGUMENT, "choice %u: unknown", (unsigned)choice);
    if (!word) return TERN_OK;
    for (uint32_t i = 0; choices[choice].words[i]; i++)
        if (strcmp(word, choices[choice].words[i]) == 0) {
            *value = i;
            return TERN_OK;
        }
    list_words(choice, list, sizeof list);
    return tern_fail(err, TERN_INVALID_ARGUMENT, "%s \"%s\": %s expected", choices[choice].name, tern_show_z(word).text,
                     list);
}

tern_status tern_choice_check(tern_choice choice, uint32_t value, tern_error *err)
{
    uint32_t n = 0;
    if (tern_choice_word(choice, value)) return TERN_OK;
    while (choices[choice].words[n]) n++;
    return tern_fail(err, TERN_INVALID_ARGUMENT, "option %s is %u: 0 to %u expected", choices[choice].name, value,
                     n - 1);
}
