/* Written answers, and texts compared. */
#include <ctype.h>
#include <string.h>

#include "apps/eval/score.h"
#include "base/bytes.h"

/* The last number of a text, without commas, "$" and a dot at its end; false: there is none. */
static bool last_number(const tern_buf *text, tern_buf *out)
{
    size_t end = text->size;
    while (end && !isdigit((uint8_t)text->data[end - 1])) end--;
    size_t begin = end;
    while (begin && (isdigit((uint8_t)text->data[begin - 1]) || strchr(",.", text->data[begin - 1]))) begin--;
    if (begin && text->data[begin - 1] == '-') begin--;
    out->size = 0;
    for (size_t i = begin; i < end; i++)
        if (text->data[i] != ',' && tern_buf_add(out, &text->data[i], 1, NULL) != TERN_OK) return false;
    return end > begin;
}

static void trim(tern_buf *text)
{
    size_t begin = 0;
    while (text->size && isspace((uint8_t)text->data[text->size - 1])) text->size--;
    while (begin < text->size && isspace((uint8_t)text->data[begin])) begin++;
    if (begin) memmove(text->data, text->data + begin, text->size - begin);
    text->size -= begin;
}

static bool equal(const tern_buf *a, const tern_buf *b)
{
    if (a->size != b->size || !a->data || !b->data) return a->size == b->size && a->size == 0;
    return memcmp(a->data, b->data, a->size) == 0;
}

static bool is_same(tern_buf *written, const tern_eval_item *item)
{
    tern_buf a = {0}, b = {0};
    bool same;
    if (item->number) {
        same = last_number(written, &a) && last_number(&item->target, &b) && equal(&a, &b);
    } else {
        tern_buf target = {0};
        same = tern_buf_add(&target, item->target.data, item->target.size, NULL) == TERN_OK;
        trim(&target);
        trim(written);
        same = same && equal(&target, written);
        tern_buf_deinit(&target);
    }
    tern_buf_deinit(&a);
    tern_buf_deinit(&b);
    return same;
}

static bool take_piece(void *context, const tern_request_piece *piece)
{
    tern_eval_part *part = context;
    return tern_buf_add(&part->question->written, piece->text, piece->n_text, &part->question->error) == TERN_OK;
}

tern_status tern_eval_write(tern_eval_question *q, tern_error *err)
{
    static const char *const of_number[] = {"Question:"}, *const of_text[] = {"\n"};
    tern_tokens ids = {0};
    tern_request_params how = {.size = sizeof how,
                               .sampler = TERN_SAMPLER_DEFAULTS,
                               .max_tokens = q->max_tokens,
                               .stops = q->item.number ? of_number : of_text,
                               .n_stops = 1,
                               .loras = q->loras,
                               .n_loras = q->n_loras,
                               .on_piece = take_piece,
                               .on_end = tern_eval_part_end,
                               .context = q->parts};
    const tern_buf *text = &q->item.context;
    tern_status status;
    q->parts->question = q;
    how.sampler.temperature = 0;
    TERN_GOTO(tern_engine_tokenize(q->engine, text->data, text->size, TERN_TOKENIZE_BOS, &ids, err));
    how.prompt = ids.ids;
    how.n_prompt = (uint32_t)ids.n;
    TERN_GOTO(tern_batch_submit(q->batch, &how, &q->parts->request, err));
fail:
    tern_tokens_deinit(&ids);
    return status;
}

void tern_eval_write_count(tern_eval_question *q, tern_eval_score *score)
{
    score->n_exact++;
    score->exact += is_same(&q->written, &q->item);
}
