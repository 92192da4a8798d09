/* The memory of a run, before anything is allocated, and options that would help where that is too much. */
#include <stdio.h>
#include <string.h>

#include "base/bytes.h"
#include "ops/op.h"
#include "quant/encoding.h"
#include "train/trainer/internal.h"

/* ---- what it takes */

enum { LOGITS_BYTES = 64 << 20, MOST_LOGITS_BYTES = 256 << 20, LOGITS_SHARE = 512 };

/* Bytes of a chunk of logits: twice as many for twice the memory, as a large head is read for each chunk. */
static uint64_t logits_bytes(uint64_t memory)
{
    uint64_t bytes = LOGITS_BYTES;
    while (bytes < MOST_LOGITS_BYTES && 2 * bytes <= memory / LOGITS_SHARE) bytes *= 2;
    return bytes;
}

/* As few chunks of logits as their bytes allow, of one size; a run is as many rows as they have. */
void tern_trainer__count_rows(tern_trainer_plan *plan, const tern_config *config, const tern_trainer_params *params,
                              uint64_t memory)
{
    uint64_t n = (uint64_t)params->batch * params->seq, row_bytes = (uint64_t)config->n_vocab * sizeof(float);
    uint64_t most = logits_bytes(memory) / row_bytes / TERN_ROW_ALIGNMENT * TERN_ROW_ALIGNMENT;
    if (most == 0) most = TERN_ROW_ALIGNMENT;
    uint64_t n_chunks = (n + most - 1) / most;
    uint64_t chunk = n_chunks == 1 ? n : tern_round_up((n + n_chunks - 1) / n_chunks, TERN_ROW_ALIGNMENT);
    plan->chunk = (uint32_t)chunk;
    plan->n_tokens = (uint32_t)(n_chunks * chunk);
}

static void add_weight(const tern_trainer *t, const tern_trainer_weight *m, tern_trainer_plan *plan)
{
    const tern_weight *w = &m->weight;
    uint64_t weight = w->bytes + (w->encoding->ternary ? w->rows * sizeof(float) : 0);
    if (m->info.ternary) plan->masters += tern_trainer__state_bytes(m, TERN_STATE_MASTER);
    *(m->info.ternary || !m->learns ? &plan->weights : &plan->masters) += weight;
    if (t->params.ranks) plan->gradients += tern_trainer__state_bytes(m, TERN_STATE_GRADIENT); /* of a pass */
    if (tern_trainer__owns(t, m)) {
        plan->gradients += tern_trainer__state_bytes(m, TERN_STATE_GRADIENT);
        plan->moments += tern_trainer__state_bytes(m, TERN_STATE_M) + tern_trainer__state_bytes(m, TERN_STATE_V);
    }
    if (m->learns) plan->n_trained += (uint64_t)m->info.rows * m->info.cols;
    if (!m->source) plan->n_parameters += (uint64_t)m->info.rows * m->info.cols;
}

static void add_graph(const tern_trainer_graph *g, tern_trainer_plan *plan)
{
    plan->other += g->graph.param_bytes + tern_graph_bytes_of(&g->graph, TERN_VALUE_OUTPUT);
}

static void measure(tern_trainer *t)
{
    tern_trainer_plan *p = &t->plan;
    const tern_graph *g = &t->graphs.all[TERN_TRAINER_EVALUATE].graph;
    p->n_parameters = tern_model_parameters(t->model);
    for (size_t i = 0; i < t->tensors.n_frozen && !t->params.engine; i++)
        p->weights += t->tensors.frozen[i].weight->bytes;
    for (size_t i = 0; i < t->tensors.n_weights; i++) add_weight(t, &t->tensors.weights[i], p);
    for (int i = 0; i < TERN_TRAINER_N_GRAPHS; i++)
        if (t->graphs.all[i].used) add_graph(&t->graphs.all[i], p);
    p->other += tern_graph_bytes_of(g, TERN_VALUE_CONSTANT);
    p->activations = tern_trainer__activation_bytes(t);
    p->gradients += tern_trainer__gradient_bytes(t);
    p->total = p->weights + p->masters + p->gradients + p->moments + p->activations + p->other;
    p->limit = t->params.memory_limit ? t->params.memory_limit : t->backend->info.memory;
}

static tern_status check_engine(const tern_trainer *t, tern_error *err)
{
    const tern_engine *e = t->params.engine;
    if (!e || (tern_engine_backend(e) == t->backend && tern_engine_model(e) == t->model)) return TERN_OK;
    return tern_fail(err, TERN_INVALID_ARGUMENT, "an engine of another model or backend: the trainer's expected");
}

tern_status tern_trainer__init(tern_trainer *t, tern_backend *backend, const tern_model *model,
                               const tern_trainer_params *params, tern_error *err)
{
    *t = (tern_trainer){.backend = backend, .model = model, .config = tern_model_config(model), .params = *params};
    TERN_TRY(tern_trainer__check_params(params, t->config, err));
    TERN_TRY(check_engine(t, err));
    TERN_TRY(tern_trainer__check_ranks(t, err));
    t->blended = params->blend_steps > 0;
    tern_trainer__count_rows(&t->plan, t->config, params,
                             params->memory_limit ? params->memory_limit : backend->info.memory);
    TERN_TRY(tern_trainer__choose_tensors(t, err));
    tern_trainer__assign_owners(t);
    TERN_TRY(tern_trainer__build_graphs(t, err));
    measure(t);
    return TERN_OK;
}

tern_status tern_trainer_make_plan(tern_trainer_plan *plan, tern_backend *backend, const tern_model *model,
                                   const tern_trainer_params *params, tern_error *err)
{
    tern_trainer t;
    tern_status status = tern_trainer__init(&t, backend, model, params, err);
    *plan = status == TERN_OK ? t.plan : (tern_trainer_plan){0};
    tern_trainer__deinit(&t);
    return status;
}

/* ---- what would help: sets of options, each of which was planned before it is named */

/* Options that take less, in the order of their cost: time, then accuracy, then what is learned. A set of them is a
 * number with a bit for each, so that a smaller number costs less. TABLE: the embedding table stays; HALF: so does it
 * with the lower half of the layers. */
enum { CHECKPOINT, ONE_ROW, IN_BACKWARD, STATES, MASTER, TABLE, SGD, HALF, ADAPTER, N_SAVINGS };

enum { MOST_PATTERNS = 4 };

/* Shell patterns of the tensors that TABLE, the first of them, and HALF freeze. */
typedef struct frozen_names {
    char text[MOST_PATTERNS][40];
    const char *patterns[MOST_PATTERNS];
    size_t n;
} frozen_names;

typedef struct saving_set {
    unsigned set;
    uint32_t accumulate; /* of ONE_ROW */
    uint64_t total;      /* UINT64_MAX: none */
} saving_set;

static void add_pattern(frozen_names *names, const char *format, uint32_t a, uint32_t b)
{
    char *text = names->text[names->n];
    snprintf(text, sizeof names->text[0], format, a, b);
    names->patterns[names->n++] = text;
}

/* The table, and layers 0 to n_layers / 2 - 1, at most 99 of them. */
static void name_frozen(const tern_config *config, frozen_names *names)
{
    const uint32_t n = config->n_layers < 200 ? config->n_layers / 2 : 99, tens = n / 10;
    names->n = 0;
    add_pattern(names, "model.embed_tokens.*", 0, 0);
    if (tens >= 1) add_pattern(names, "model.layers.?.*", 0, 0);
    if (tens >= 2) add_pattern(names, "model.layers.[%u-%u]?.*", 1, tens - 1);
    if (tens >= 1 && n % 10) add_pattern(names, "model.layers.%u[0-%u].*", tens, n % 10 - 1);
    if (tens == 0 && n) add_pattern(names, "model.layers.[%u-%u].*", 0, n - 1);
}

static bool freeze(tern_trainer_params *p, const frozen_names *names, size_t n)
{
    const bool free = p->n_freeze == 0 && p->lora.rank == 0 && !p->lora.start && !p->from_nothing;
    p->freeze = names->patterns;
    p->n_freeze = n;
    return free;
}

/* False: it is so already, or does not go with what is wanted. */
static bool apply_saving(tern_trainer_params *p, int how, const frozen_names *names)
{
    const tern_trainer_params before = *p;
    switch (how) {
    case CHECKPOINT: p->checkpoint = true; return !before.checkpoint;
    case ONE_ROW:
        p->accumulate *= p->batch;
        p->batch = 1;
        return before.batch > 1 && !before.optimizer_in_backward;
    case IN_BACKWARD: p->optimizer_in_backward = true; return !before.optimizer_in_backward && before.accumulate == 1;
    case STATES:
        p->m = TERN_DTYPE_M8;
        p->v = TERN_DTYPE_V8;
        return before.m != p->m || before.v != p->v;
    case MASTER: p->master = TERN_DTYPE_BF16; return before.master != p->master;
    case SGD:
        p->optimizer = TERN_OPTIMIZER_SGD;
        p->momentum = 0;
        return before.optimizer != p->optimizer || before.momentum > 0;
    case TABLE: return freeze(p, names, 1);
    case HALF: return freeze(p, names, names->n);
    default: p->lora = (tern_trainer_lora){.rank = 16, .alpha = 16};
    }
    return before.lora.rank == 0 && !before.lora.start && !before.blend_steps && !before.from_nothing;
}

/* Bytes with these savings; UINT64_MAX: they do not go together, or the backend lacks an op that they need. */
static saving_set plan_with(const tern_trainer *t, unsigned set)
{
    tern_trainer_params p = t->params;
    tern_trainer with;
    saving_set c = {.set = set, .total = UINT64_MAX};
    frozen_names names;
    name_frozen(t->config, &names);
    if (set >> ADAPTER & 1 && set & (1u << TABLE | 1u << SGD | 1u << HALF)) return c; /* they would save little */
    for (int i = 0; i < N_SAVINGS; i++)
        if (set >> i & 1 && !apply_saving(&p, i, &names)) return c;
    c.accumulate = p.accumulate;
    tern_status status = tern_trainer__init(&with, t->backend, t->model, &p, NULL);
    if (status == TERN_OK) status = tern_trainer__check_graphs(&with, NULL);
    if (status == TERN_OK) c.total = with.plan.total;
    tern_trainer__deinit(&with);
    return c;
}

/* The first set of first .. end - 1 that fits, else the one that takes the least. */
static saving_set find_fitting(const tern_trainer *t, unsigned first, unsigned end)
{
    saving_set least = {.total = UINT64_MAX};
    for (unsigned set = first; set < end; set++) {
        const saving_set c = plan_with(t, set);
        if (c.total < least.total) least = c;
        if (c.total <= t->plan.limit) return c;
    }
    return least;
}

/* The words of one saving. */
static void name_saving(const tern_trainer *t, const saving_set *c, int how, char *out, size_t out_bytes)
{
    static const char *const words[N_SAVINGS] = {
        [CHECKPOINT] = " --checkpoint", [IN_BACKWARD] = " --optimizer-in-backward", [STATES] = " --states 8bit",
        [MASTER] = " --master bf16",    [SGD] = " --optimizer sgd --momentum 0",    [ADAPTER] = " --lora 16"};
    frozen_names names;
    size_t length = 0;
    name_frozen(t->config, &names);
    const size_t n = how == HALF ? names.n : how == TABLE;
    if (how == ONE_ROW) snprintf(out, out_bytes, " --batch 1 --accumulate %u", c->accumulate);
    else if (n == 0) snprintf(out, out_bytes, "%s", words[how]);
    for (size_t i = 0; i < n; i++)
        length += (size_t)snprintf(out + length, out_bytes - length, " --freeze '%s'", names.patterns[i]);
}

static size_t append_set(const tern_trainer *t, const saving_set *c, const char *verb, char *out, size_t out_bytes)
{
    size_t length = 0;
    for (int i = 0; i < N_SAVINGS; i++) {
        char words[MOST_PATTERNS * 56];
        if (!(c->set >> i & 1)) continue;
        name_saving(t, c, i, words, sizeof words);
        length += (size_t)snprintf(out + length, out_bytes - length, "%s", words);
    }
    return length +
           (size_t)snprintf(out + length, out_bytes - length, "%s %.2f GiB", verb, (double)c->total / (1 << 30));
}

/* Writes options with which a trainer over its limit fits, to follow the given ones (" --checkpoint --states 8bit takes
 * 3.20 GiB, --lora 16 1.10 GiB"). They are found by planning: the cheapest that tune all layers (else half of the
 * layers), and the cheapest with an adapter. If none fits, those that take the least memory, with "even". */
static void suggest(const tern_trainer *t, char *out, size_t out_bytes)
{
    const uint64_t limit = t->plan.limit;
    saving_set tuned = find_fitting(t, 1, 1u << HALF);
    if (tuned.total > limit) {
        const saving_set half = find_fitting(t, 1u << HALF, 1u << ADAPTER);
        if (half.total < tuned.total) tuned = half;
    }
    const saving_set adapter = find_fitting(t, 1u << ADAPTER, 1u << N_SAVINGS);
    const saving_set *least = adapter.total < tuned.total ? &adapter : &tuned;
    if (tuned.total <= limit) {
        const size_t n = append_set(t, &tuned, " takes", out, out_bytes);
        if (adapter.total > limit) return;
        out[n] = ',';
        append_set(t, &adapter, "", out + n + 1, out_bytes - n - 1);
    } else if (least->total <= limit) {
        append_set(t, least, " takes", out, out_bytes);
    } else if (least->total < t->plan.total) {
        const size_t n = (size_t)snprintf(out, out_bytes, " even");
        append_set(t, least, " takes", out + n, out_bytes - n);
    } else {
        snprintf(out, out_bytes, " nothing takes less (%.2f GiB)", (double)t->plan.total / (1 << 30));
    }
}

static double gib(uint64_t bytes)
{
    return (double)bytes / (1 << 30);
}

tern_status tern_trainer__check_memory(const tern_trainer *t, tern_error *err)
{
    const tern_trainer_plan *p = &t->plan;
    char help[512];
    if (p->limit == 0 || p->total <= p->limit) return TERN_OK;
    suggest(t, help, sizeof help);
    return tern_fail(err, TERN_OUT_OF_MEMORY,
                     "training takes %.2f GiB (weights %.2f, masters %.2f, gradients %.2f, moments %.2f, activations "
                     "%.2f, other %.2f), at most %.2f GiB expected;%s",
                     gib(p->total), gib(p->weights), gib(p->masters), gib(p->gradients), gib(p->moments),
                     gib(p->activations), gib(p->other), gib(p->limit), help);
}
