/* Log-probabilities of choices. */
#include "apps/eval/score.h"

#include <math.h>

#include "base/bytes.h"

/* A question's context and one choice as ids: the choice's begin at n_context. */
typedef struct spelled {
    tern_tokens ids;
    uint32_t n_context;
} spelled;

/* As lm-evaluation-harness does: the whole is tokenised at once, and what goes beyond the context's tokens is the
 * choice; at least one token is. */
static tern_status spell(const tern_engine *engine, const tern_buf *context, const tern_buf *choice, spelled *out,
                         tern_error *err)
{
    tern_buf text = {0};
    tern_tokens alone = {0};
    tern_status status;
    TERN_GOTO(tern_buf_add(&text, context->data, context->size, err));
    TERN_GOTO(tern_engine_tokenize(engine, text.data, text.size, TERN_TOKENIZE_BOS, &alone, err));
    TERN_GOTO(tern_buf_add(&text, choice->data, choice->size, err));
    TERN_GOTO(tern_engine_tokenize(engine, text.data, text.size, TERN_TOKENIZE_BOS, &out->ids, err));
    out->n_context = (uint32_t)(alone.n < out->ids.n ? alone.n : out->ids.n - 1);
    if (out->n_context == 0)
        status = tern_fail(err, TERN_INVALID_ARGUMENT,
                           "a choice with nothing before it found: a question of at least one token expected");
fail:
    tern_buf_deinit(&text);
    tern_tokens_deinit(&alone);
    return status;
}

/* The last one ends the request: nothing is written behind it. */
static bool take_token(void *context, const tern_request_piece *piece)
{
    tern_eval_part *part = context;
    if (part->n_left) part->sum += (double)piece->logprob;
    return part->n_left && --part->n_left;
}

static void end(void *context, const tern_request_result *result);

static tern_status submit(tern_eval_question *q, uint32_t choice, tern_error *err)
{
    spelled s = {0};
    tern_eval_part *part = &q->parts[choice];
    tern_request_params how = {.size = sizeof how,
                               .sampler = TERN_SAMPLER_DEFAULTS,
                               .echo = true,
                               .logprobs = true,
                               .loras = q->loras,
                               .n_loras = q->n_loras,
                               .on_piece = take_token,
                               .on_end = end,
                               .context = part};
    tern_status status;
    part->question = q;
    TERN_GOTO(spell(q->engine, &q->item.context, &q->item.choices[choice], &s, err));
    how.prompt = s.ids.ids;
    how.n_prompt = (uint32_t)s.ids.n;
    how.echo_from = s.n_context;
    part->n_left = how.n_prompt - s.n_context;
    TERN_GOTO(tern_batch_submit(q->batch, &how, &part->request, err));
fail:
    tern_tokens_deinit(&s.ids);
    return status;
}

static void end(void *context, const tern_request_result *result)
{
    tern_eval_part *part = context;
    tern_eval_question *q = part->question;
    tern_eval_part_end(part, result);
    if (part != q->parts || part->n_left) return;
    for (uint32_t i = 1; i < q->item.n_choices && q->error.code == TERN_OK; i++) (void)submit(q, i, &q->error);
}

tern_status tern_eval_choose(tern_eval_question *question, tern_error *err)
{
    return submit(question, 0, err);
}

/* Characters of UTF-8, without the space that a choice begins with. */
static size_t characters(const tern_buf *text)
{
    size_t n = 0;
    for (size_t i = 0; i < text->size; i++) n += ((uint8_t)text->data[i] & 0xC0) != 0x80;
    return n > 1 && text->data[0] == ' ' ? n - 1 : n;
}

void tern_eval_choose_count(const tern_eval_question *q, tern_eval_score *score)
{
    double best = -INFINITY, best_norm = -INFINITY;
    uint32_t at = 0, at_norm = 0;
    for (uint32_t i = 0; i < q->item.n_choices; i++) {
        const double sum = q->parts[i].sum, norm = sum / (double)characters(&q->item.choices[i]);
        if (sum > best) best = sum, at = i;
        if (norm > best_norm) best_norm = norm, at_norm = i;
    }
    score->n_choices++;
    score->right += at == q->item.answer;
    score->right_norm += at_norm == q->item.answer;
}

double tern_eval_stderr(uint64_t right, uint64_t n)
{
    const double p = n ? (double)right / (double)n : 0;
    return n > 1 ? sqrt(p * (1 - p) / (double)(n - 1)) : 0;
}
