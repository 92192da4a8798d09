/* Questions of published benchmarks: members to prompt, choices and answer. */
#include "apps/eval/item.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"

static tern_status missing(const char *key, const char *what, tern_error *err)
{
    return tern_fail(err, TERN_MALFORMED, "\"%s\": %s expected", key, what);
}

static tern_status text_of(const json_t *object, const char *key, const char **out, tern_error *err)
{
    *out = json_string_value(json_object_get(object, key));
    return *out ? TERN_OK : missing(key, "a string", err);
}

static tern_status add(tern_buf *out, const char *text, tern_error *err)
{
    return tern_buf_add(out, text, strlen(text), err);
}

/* "Question: TEXT\nAnswer:" */
static tern_status add_question(tern_eval_item *item, const char *text, tern_error *err)
{
    TERN_TRY(add(&item->context, "Question: ", err));
    TERN_TRY(add(&item->context, text, err));
    return add(&item->context, "\nAnswer:", err);
}

static tern_status add_choice(tern_eval_item *item, const char *before, const char *text, tern_error *err)
{
    if (!text) return missing("choices", "strings", err);
    if (item->n_choices == TERN_EVAL_MAX_CHOICES)
        return tern_fail(err, TERN_MALFORMED, "choices: more than %d found, at most %d expected", TERN_EVAL_MAX_CHOICES,
                         TERN_EVAL_MAX_CHOICES);
    tern_buf *choice = &item->choices[item->n_choices++];
    TERN_TRY(add(choice, before, err));
    TERN_TRY(add(choice, text, err));
    return choice->size ? TERN_OK : missing("choices", "text in each", err);
}

static tern_status add_choices(tern_eval_item *item, const char *before, const json_t *array, tern_error *err)
{
    if (json_array_size(array) < 2) return missing("choices", "an array of at least two", err);
    for (size_t i = 0; i < json_array_size(array); i++)
        TERN_TRY(add_choice(item, before, json_string_value(json_array_get(array, i)), err));
    return TERN_OK;
}

/* A number, a number in a string, a letter, or one of `labels` (may be NULL). */
static tern_status read_answer(tern_eval_item *item, const char *key, const json_t *value, const json_t *labels,
                               tern_error *err)
{
    const char *text = json_string_value(value);
    double at = json_is_number(value) ? json_number_value(value) : -1;
    for (size_t i = 0; text && i < json_array_size(labels); i++) {
        const char *label = json_string_value(json_array_get(labels, i));
        if (label && strcmp(label, text) == 0) at = (double)i;
    }
    const char c = text && !labels && text[0] && !text[1] ? *text : ' ';
    if (isdigit((unsigned char)c)) at = c - '0';
    if (isalpha((unsigned char)c)) at = toupper((unsigned char)c) - 'A';
    if (!(at >= 0 && at < item->n_choices))
        return tern_fail(err, TERN_MALFORMED, "\"%s\": one of the %u choices expected", key, item->n_choices);
    item->answer = (uint32_t)at;
    return TERN_OK;
}

/* HellaSwag's texts without their [marks], with single spaces. */
static tern_status add_clean(tern_buf *out, const char *text, bool capital, tern_error *err)
{
    bool space = false;
    for (const char *p = text; *p; p++) {
        const char *end = *p == '[' ? strchr(p, ']') : NULL;
        if (end) {
            const bool title = strncmp(p, "[title]", 7) == 0;
            if (title && out->size && out->data[out->size - 1] == ' ') out->size--;
            if (title) TERN_TRY(add(out, ". ", err));
            space = space || title;
            p = end;
            continue;
        }
        if (*p == ' ' && (space || p == text)) continue;
        space = *p == ' ';
        const char c = capital && p == text ? (char)toupper((unsigned char)*p) : *p;
        TERN_TRY(tern_buf_add(out, &c, 1, err));
    }
    return TERN_OK;
}

static tern_status read_hellaswag(tern_eval_item *item, const json_t *object, tern_error *err)
{
    const char *activity = json_string_value(json_object_get(object, "activity_label"));
    const char *a = json_string_value(json_object_get(object, "ctx_a")),
               *b = json_string_value(json_object_get(object, "ctx_b"));
    const json_t *endings = json_object_get(object, "endings");
    if (activity) {
        TERN_TRY(add_clean(&item->context, activity, false, err));
        TERN_TRY(add(&item->context, ": ", err));
    }
    if (!a || !b) TERN_TRY(text_of(object, "ctx", &a, err));
    TERN_TRY(add_clean(&item->context, a, false, err));
    if (b && *b) {
        TERN_TRY(add(&item->context, " ", err));
        TERN_TRY(add_clean(&item->context, b, true, err));
    }
    if (json_array_size(endings) < 2) return missing("endings", "an array of at least two", err);
    for (size_t i = 0; i < json_array_size(endings); i++) {
        const char *ending = json_string_value(json_array_get(endings, i));
        if (!ending) return missing("endings", "strings", err);
        TERN_TRY(add_choice(item, " ", "", err));
        TERN_TRY(add_clean(&item->choices[i], ending, false, err));
    }
    return read_answer(item, "label", json_object_get(object, "label"), NULL, err);
}

static tern_status read_piqa(tern_eval_item *item, const json_t *object, tern_error *err)
{
    const char *goal;
    TERN_TRY(text_of(object, "goal", &goal, err));
    TERN_TRY(add_question(item, goal, err));
    TERN_TRY(add_choice(item, " ", json_string_value(json_object_get(object, "sol1")), err));
    TERN_TRY(add_choice(item, " ", json_string_value(json_object_get(object, "sol2")), err));
    return read_answer(item, "label", json_object_get(object, "label"), NULL, err);
}

static tern_status read_arc(tern_eval_item *item, const json_t *object, tern_error *err)
{
    const char *question;
    const json_t *choices = json_object_get(object, "choices");
    TERN_TRY(text_of(object, "question", &question, err));
    TERN_TRY(add_question(item, question, err));
    TERN_TRY(add_choices(item, " ", json_object_get(choices, "text"), err));
    return read_answer(item, "answerKey", json_object_get(object, "answerKey"), json_object_get(choices, "label"), err);
}

/* The choices stand in the question by their letters, and a letter is the answer. */
static tern_status read_mmlu(tern_eval_item *item, const json_t *object, tern_error *err)
{
    const char *question;
    const json_t *choices = json_object_get(object, "choices");
    TERN_TRY(text_of(object, "question", &question, err));
    TERN_TRY(add(&item->context, question, err));
    if (json_array_size(choices) < 2) return missing("choices", "an array of at least two", err);
    for (size_t i = 0; i < json_array_size(choices); i++) {
        const char letter[] = {(char)('A' + (int)i), 0};
        const char *text = json_string_value(json_array_get(choices, i));
        if (!text) return missing("choices", "strings", err);
        TERN_TRY(add_choice(item, " ", letter, err));
        TERN_TRY(tern_buf_add(&item->context, (const char[]){'\n', *letter, '.', ' '}, 4, err));
        TERN_TRY(add(&item->context, text, err));
    }
    TERN_TRY(add(&item->context, "\nAnswer:", err));
    return read_answer(item, "answer", json_object_get(object, "answer"), NULL, err);
}

static tern_status read_gsm8k(tern_eval_item *item, const json_t *object, const char *answer, tern_error *err)
{
    const char *question;
    TERN_TRY(text_of(object, "question", &question, err));
    TERN_TRY(add_question(item, question, err));
    item->number = strstr(answer, "####") != NULL;
    return add(&item->target, item->number ? strstr(answer, "####") + 4 : answer, err);
}

static tern_status read_own(tern_eval_item *item, const json_t *object, tern_error *err)
{
    const char *prompt, *answer;
    const json_t *choices = json_object_get(object, "choices");
    TERN_TRY(text_of(object, "prompt", &prompt, err));
    TERN_TRY(add(&item->context, prompt, err));
    if (choices) {
        TERN_TRY(add_choices(item, "", choices, err));
        return read_answer(item, "answer", json_object_get(object, "answer"), NULL, err);
    }
    TERN_TRY(text_of(object, "answer", &answer, err));
    return add(&item->target, answer, err);
}

tern_status tern_eval_item_read(tern_eval_item *item, const json_t *object, tern_error *err)
{
    const json_t *choices = json_object_get(object, "choices");
    const char *answer = json_string_value(json_object_get(object, "answer"));
    if (json_object_get(object, "endings")) return read_hellaswag(item, object, err);
    if (json_object_get(object, "goal")) return read_piqa(item, object, err);
    if (json_object_get(object, "prompt")) return read_own(item, object, err);
    if (json_is_object(choices)) return read_arc(item, object, err);
    if (choices) return read_mmlu(item, object, err);
    if (answer && json_object_get(object, "question")) return read_gsm8k(item, object, answer, err);
    return tern_fail(err, TERN_MALFORMED,
                     "no question: an object of HellaSwag, PIQA, ARC, MMLU or GSM8K, or one with \"prompt\" and "
                     "\"answer\" expected");
}

void tern_eval_item_deinit(tern_eval_item *item)
{
    tern_buf_deinit(&item->context);
    tern_buf_deinit(&item->target);
    for (uint32_t i = 0; i < item->n_choices; i++) tern_buf_deinit(&item->choices[i]);
    *item = (tern_eval_item){0};
}
