/* Which sequences run, and how many of their tokens a step takes. */
#include "infer/batch/batch_internal.h"

static uint32_t smaller(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

static uint32_t pages_for(uint32_t n_tokens)
{
    return (n_tokens + TERN_PAGE_SIZE - 1) / TERN_PAGE_SIZE;
}

/* The first that does not wait for another completion. */
static tern_sequence **find_ready(tern_batch *b)
{
    tern_sequence **at = &b->queue;
    while (*at && (*at)->awaits_prompt) at = &(*at)->next;
    return at;
}

/* Room for its tokens and the next one, and for a page of each that runs, so that it is not put back at once. */
static bool fits_pool(const tern_batch *b, const tern_sequence *s)
{
    const uint32_t n_tokens = s->started ? s->n_tokens : s->result.n_prompt;
    return b->n_running == 0 || tern_pages_available(&b->kv.pages) >= pages_for(n_tokens + 1) + b->n_running;
}

static void count_cached(tern_batch *b, tern_sequence *s, bool first)
{
    if (!first) return;
    s->result.n_cached = s->n_evaluated;
    b->counters.prompt_tokens += s->result.n_prompt;
    b->counters.cached_tokens += s->n_evaluated;
}

void tern_batch__admit(tern_batch *b)
{
    for (tern_sequence **at = find_ready(b); *at && b->n_running < b->params.n_parallel; at = find_ready(b)) {
        tern_sequence *s = *at;
        tern_error error = {0};
        if (!fits_pool(b, s)) return;
        const bool first = !s->started;
        *at = s->next;
        b->n_waiting--;
        if (tern_sequence__start(b, s, &error) != TERN_OK) {
            tern_sequence__finish(b, s, &error);
            continue;
        }
        tern_request__leave_queue(b, s->request);
        if (tern_batch__assign_slot(b, s, &error) != TERN_OK) tern_batch__end(b, s, &error);
        else count_cached(b, s, first);
    }
}

void tern_batch__fork(tern_batch *b, tern_sequence *first)
{
    tern_request *r = first->request;
    const bool alone = r->params.echo && r->params.logprobs;
    for (tern_sequence **at = &b->queue; *at;) {
        tern_sequence *s = *at;
        tern_error error = {0};
        if (s->request != r || !s->awaits_prompt) {
            at = &s->next;
            continue;
        }
        s->awaits_prompt = false;
        if (alone || b->n_running == b->params.n_parallel || tern_pages_available(&b->kv.pages) <= b->n_running) {
            at = &s->next;
            continue;
        }
        *at = s->next;
        b->n_waiting--;
        if (tern_sequence__start(b, s, &error) != TERN_OK) {
            tern_sequence__finish(b, s, &error);
            continue;
        }
        tern_batch__fork_slot(b, s, first);
        count_cached(b, s, true);
        s->must_fork = true;
    }
}

void tern_batch__preempt(tern_batch *b, tern_sequence *s)
{
    tern_batch__release_slot(b, s);
    s->holds = false;
    s->next = b->queue;
    b->queue = s;
    b->n_waiting++;
    b->counters.preemptions++;
}

/* Pages up to position `end`, from those that are younger if need be; else the sequence itself is put back. */
static tern_status reserve_or_preempt(tern_batch *b, tern_sequence *s, uint32_t end, tern_error *err)
{
    for (bool ok = false; !ok;) {
        TERN_TRY(tern_batch__reserve_pages(b, s, end, &ok, err));
        tern_sequence *youngest = b->running[b->n_running - 1];
        if (!ok) tern_batch__preempt(b, youngest);
        if (!ok && youngest == s) break;
    }
    return TERN_OK;
}

/* The room that a step still has. */
typedef struct budget {
    uint32_t rows, outputs; /* outputs beside one for each running sequence */
    uint32_t n_decoding;
    tern_step_plan plan; /* of all that decode, with the guesses so far */
} budget;

static bool is_decoding(const tern_sequence *s)
{
    return s->n_evaluated + 1 == s->n_tokens && s->result.n_generated > 0;
}

/* How many tokens are to be guessed after the last one, of at most `most`: as many as pay beside what is planned. */
static uint32_t draft_length(tern_batch *b, tern_sequence *s, tern_step_plan *plan, uint32_t most)
{
    const tern_request_params *p = &s->request->params;
    const bool by_model = tern_batch__drafts_by_model(b);
    const uint32_t match = by_model ? TERN_DRAFT_BY_MODEL : s->match;
    uint32_t n = smaller(smaller(p->draft_tokens, most), b->params.n_ctx - s->n_tokens);
    n = smaller(n, tern_batch__most_drafted(b));
    if (p->max_tokens) n = smaller(n, p->max_tokens - s->result.n_generated);
    if (n == 0 || (!by_model && !match)) return 0;
    s->rates.model_ms = b->drafts.token_ms;
    n = tern_speculate(&b->drafts.costs, &s->rates, plan, match, n);
    plan->n_rows += n;
    plan->n_tokens += tern_accept_rates_expect(&s->rates, match, n);
    return n;
}

static uint32_t plan_draft(tern_batch *b, tern_sequence *s, tern_step_plan *plan, uint32_t most)
{
    const bool by_model = tern_batch__drafts_by_model(b);
    uint32_t n = by_model ? smaller(most, s->n_model_drafted) : draft_length(b, s, plan, most);
    if (n == 0) return 0;
    if (!by_model) n = tern_draft_propose(&s->draft, 1, s->draft_ids, n);
    s->result.n_drafted += n;
    b->counters.drafted_tokens += n;
    return n;
}

/* The model's own block writes the keys and values of guesses to the sequence's pages. */
static tern_status reserve_guesses(tern_batch *b, tern_sequence *s, uint32_t n, bool *ok, tern_error *err)
{
    *ok = true;
    return b->drafts.block ? tern_batch__reserve_pages(b, s, s->n_tokens + n, ok, err) : TERN_OK;
}

static tern_status propose(tern_batch *b, uint32_t n, uint32_t *n_rows, tern_error *err)
{
    tern_draft_request *requests = b->drafts.requests;
    return b->drafts.block ? tern_batch__propose_by_block(b, requests, n, n_rows, err)
                           : tern_drafter_propose(b->drafts.drafter, requests, n, n_rows, err);
}

/* Lets a model guess for the sequences that decode, where that pays; what a token of it takes is learnt. */
static tern_status draft_by_model(tern_batch *b, tern_step_plan *plan, uint32_t most, tern_error *err)
{
    const double start = tern_batch__now_ms();
    tern_sequence *whose[TERN_BATCH_MAX_PARALLEL];
    uint32_t n = 0, n_rows;
    for (uint32_t i = 0; i < b->n_running; i++) {
        tern_sequence *s = b->running[i];
        const uint32_t wanted = is_decoding(s) ? draft_length(b, s, plan, most) : 0;
        bool fits = false;
        s->n_model_drafted = 0;
        if (wanted) TERN_TRY(reserve_guesses(b, s, wanted, &fits, err));
        if (!fits) continue;
        most -= wanted;
        whose[n] = s;
        b->drafts.requests[n++] = (tern_draft_request){
            .slot = s->slot, .tokens = s->tokens, .n_tokens = s->n_tokens, .out = s->draft_ids, .most = wanted};
    }
    if (n == 0) return TERN_OK;
    TERN_TRY(propose(b, n, &n_rows, err));
    for (uint32_t i = 0; i < n; i++) whose[i]->n_model_drafted = b->drafts.requests[i].n;
    b->drafts.step_ms = tern_batch__now_ms() - start;
    if (!b->params.draft_costs && n_rows) b->drafts.token_ms = b->drafts.step_ms / n_rows;
    return TERN_OK;
}

static tern_status plan_decode(tern_batch *b, tern_sequence *s, budget *left, tern_error *err)
{
    s->n_drafted = plan_draft(b, s, &left->plan,
                              smaller(left->outputs, left->rows > b->n_running ? left->rows - b->n_running : 0));
    TERN_TRY(reserve_or_preempt(b, s, s->n_tokens + s->n_drafted, err));
    if (b->slots[s->slot] != s) return TERN_OK; /* it was put back */
    s->n_rows = 1;
    s->n_outputs = 1 + s->n_drafted;
    left->rows -= s->n_outputs;
    left->outputs -= s->n_drafted;
    left->n_decoding++;
    return TERN_OK;
}

/* Rows before the first whose logits are wanted: of all tokens that are echoed with their log-probabilities, and of the
 * last one. */
static uint32_t rows_without_logits(const tern_sequence *s)
{
    const uint32_t first = s->request->params.embed ? s->n_tokens : tern_sequence__first_wanted(s);
    return first > s->n_evaluated ? first - s->n_evaluated : 0;
}

static tern_status plan_prefill(tern_batch *b, tern_sequence *s, budget *left, tern_error *err)
{
    const uint32_t without_logits = rows_without_logits(s);
    const uint32_t n = smaller(smaller(s->n_tokens - s->n_evaluated, left->rows), without_logits + 1 + left->outputs);
    if (n == 0) return TERN_OK;
    TERN_TRY(reserve_or_preempt(b, s, s->n_evaluated + n, err));
    if (b->slots[s->slot] != s) return TERN_OK; /* it was put back */
    s->n_rows = n;
    s->n_outputs = n > without_logits ? n - without_logits : 0;
    left->rows -= n;
    left->outputs -= s->n_outputs ? s->n_outputs - 1 : 0;
    return TERN_OK;
}

/* Tokens of prompts beside so many rows that decode. */
static uint32_t prefill_chunk(const tern_batch *b, uint32_t n_rows)
{
    if (b->params.n_chunk) return b->params.n_chunk;
    return n_rows < b->params.n_batch ? tern_pace_chunk(&b->pace, n_rows) : 0;
}

tern_status tern_batch__plan(tern_batch *b, tern_error *err)
{
    budget left = {.rows = b->params.n_batch, .outputs = b->max_outputs - b->n_running};
    b->drafts.step_ms = 0;
    for (uint32_t i = 0; i < b->n_running; i++) {
        b->running[i]->n_rows = b->running[i]->n_drafted = 0;
        tern_sequence__settle_states(b, b->running[i]);
        left.plan.n_rows += is_decoding(b->running[i]);
    }
    left.plan.n_tokens = left.plan.n_rows;
    if (tern_batch__drafts_by_model(b)) TERN_TRY(draft_by_model(b, &left.plan, left.outputs, err));
    for (uint32_t i = 0; i < b->n_running; i++)
        if (is_decoding(b->running[i])) TERN_TRY(plan_decode(b, b->running[i], &left, err));
    if (left.n_decoding) left.rows = smaller(left.rows, prefill_chunk(b, b->params.n_batch - left.rows));
    for (uint32_t i = 0; i < b->n_running; i++)
        if (!b->running[i]->n_rows) TERN_TRY(plan_prefill(b, b->running[i], &left, err));
    return TERN_OK;
}
