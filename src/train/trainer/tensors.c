/* Which tensors learn, and what the graphs see in the place of the model's own. */
#include <fnmatch.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/show.h"
#include "quant/encoding.h"
#include "train/trainer/internal.h"

/* One tensor of the model at a time, in the order of files: those outside the layers, then layer by layer. */
typedef struct tensor_walk {
    const tern_trainer *t;
    uint32_t at;
    tern_role role;
    uint32_t layer;
    const tern_weight *weight;
    char name[TERN_ROLE_NAME_BYTES];
} tensor_walk;

static bool outside_layers(tern_role role)
{
    return role == TERN_ROLE_TOKEN_EMBD || role == TERN_ROLE_OUTPUT_NORM || role == TERN_ROLE_OUTPUT;
}

static bool next_tensor(tensor_walk *w)
{
    const tern_config *c = w->t->config;
    for (uint32_t end = (c->n_layers + 1) * TERN_ROLE_COUNT; w->at < end;) {
        uint32_t at = w->at++;
        w->role = (tern_role)(at % TERN_ROLE_COUNT);
        w->layer = at < TERN_ROLE_COUNT ? 0 : at / TERN_ROLE_COUNT - 1;
        w->weight = tern_model_weight(w->t->model, w->role, w->layer);
        if (outside_layers(w->role) != (at < TERN_ROLE_COUNT) || !w->weight->encoding) continue;
        if (w->role == TERN_ROLE_OUTPUT && c->tied_head) continue;
        tern_role_hf_name(c, w->role, w->layer, w->name);
        return true;
    }
    return false;
}

static bool is_frozen(const tern_trainer *t, const char *name)
{
    for (size_t i = 0; i < t->params.n_freeze; i++)
        if (fnmatch(t->params.freeze[i], name, 0) == 0) return true;
    return false;
}

/* A pattern that names nothing was meant for something. */
static tern_status check_patterns(const tern_trainer *t, tern_error *err)
{
    for (size_t i = 0; i < t->params.n_freeze; i++) {
        bool found = false;
        for (tensor_walk w = {.t = t}; !found && next_tensor(&w);) found = fnmatch(t->params.freeze[i], w.name, 0) == 0;
        if (!found)
            return tern_fail(
                err, TERN_INVALID_ARGUMENT,
                "freeze %s: no tensor of that name found, one such as model.layers.0.self_attn.q_proj.weight "
                "expected",
                tern_show_z(t->params.freeze[i]).text);
    }
    return TERN_OK;
}

static bool uses_lora(const tern_trainer *t)
{
    return t->params.lora.rank || t->params.lora.start;
}

static const tern_adapter_pair *start_of(const tern_trainer *t, const tensor_walk *w)
{
    return t->params.lora.start ? tern_adapter_find(t->params.lora.start, w->role, w->layer) : NULL;
}

/* Whether the tensor gets an adapter: those of one to go on from, else the targets. */
static bool gets_adapter(const tern_trainer *t, const tensor_walk *w)
{
    const tern_trainer_lora *lora = &t->params.lora;
    if (!uses_lora(t) || !tern_adapter_target(w->role)) return false;
    if (lora->start) return start_of(t, w) != NULL;
    bool found = lora->n_targets == 0 && tern_role_is_linear(w->role); /* experts get one when they are named */
    for (size_t i = 0; i < lora->n_targets; i++) found = found || tern_adapter_targets(lora->targets[i], w->role);
    return found && !is_frozen(t, w->name);
}

static void set_states(const tern_trainer *t, tern_trainer_weight *m, tern_dtype master)
{
    const tern_trainer_params *p = &t->params;
    bool adamw = p->optimizer == TERN_OPTIMIZER_ADAMW;
    for (int i = 0; i < TERN_STATE_COUNT; i++) m->info.dtype[i] = TERN_DTYPE_U32;
    m->info.dtype[TERN_STATE_MASTER] = master;
    if (!m->learns) return;
    if (!p->optimizer_in_backward) m->info.dtype[TERN_STATE_GRADIENT] = TERN_DTYPE_F32; /* else it is brief */
    if (adamw || p->momentum > 0) m->info.dtype[TERN_STATE_M] = p->m;
    if (adamw) m->info.dtype[TERN_STATE_V] = p->v;
}

static tern_trainer_weight *add_weight(tern_trainer *t, const tensor_walk *w, bool learns)
{
    tern_trainer_weight *m = &t->tensors.weights[t->tensors.n_weights++];
    m->learns = learns;
    m->info.name = m->name;
    m->info.role = w->role;
    m->info.layer = w->layer;
    if (learns) t->tensors.trainable[t->tensors.n_trainable++] = m;
    return m;
}

static void add_tensor(tern_trainer *t, const tensor_walk *w)
{
    tern_trainer_weight *m = add_weight(t, w, true);
    bool linear = tern_role_is_linear(w->role), vector = tern_role_is_vector(w->role);
    m->source = w->weight;
    m->info.rows = w->weight->rows;
    m->info.cols = w->weight->cols;
    m->info.ternary = linear && (w->weight->encoding->ternary || t->params.blend_steps);
    snprintf(m->name, sizeof m->name, "%s", w->name);
    set_states(t, m, vector ? TERN_DTYPE_F32 : t->params.master);
    for (int i = 0; i < 2; i++) {
        tern_graph_weight *weights = t->tensors.graph_weights[i];
        weights[(size_t)w->layer * TERN_ROLE_COUNT + w->role].weight = &m->weight;
        if (w->role == TERN_ROLE_TOKEN_EMBD && t->config->tied_head) weights[TERN_ROLE_OUTPUT].weight = &m->weight;
    }
}

/* Ranks are rounded up: the rows of B are then whole 16 bytes, as GPUs want of what they train. Rows of A and columns
 * of B that are zero get gradients of zero, and stay. */
static uint32_t padded_rank(const tern_trainer *t)
{
    return (t->tensors.lora_rank + 3) / 4 * 4;
}

static tern_trainer_weight *add_half(tern_trainer *t, const tensor_walk *w, bool is_b)
{
    uint32_t rank = padded_rank(t);
    const tern_adapter_pair *start = start_of(t, w);
    tern_trainer_weight *m = add_weight(t, w, !is_frozen(t, w->name));
    m->is_b = is_b;
    m->n_experts = tern_role_is_linear(w->role) ? 1 : t->config->n_experts;
    m->info.rows = is_b ? w->weight->rows : rank * m->n_experts;
    m->info.cols = is_b ? rank : w->weight->cols;
    m->start = !start ? NULL : is_b ? start->b : start->a;
    snprintf(m->name, sizeof m->name, "base_model.model.%.*s.lora_%c.weight",
             (int)(strlen(w->name) - strlen(".weight")), w->name, is_b ? 'B' : 'A');
    set_states(t, m, TERN_DTYPE_F32);
    return m;
}

static tern_status add_adapter(tern_trainer *t, const tensor_walk *w, tern_error *err)
{
    const tern_trainer_lora *lora = &t->params.lora;
    const tern_adapter_pair *start = start_of(t, w);
    if (start && (start->in != w->weight->cols || start->out != w->weight->rows))
        return tern_fail(err, TERN_INVALID_ARGUMENT, "adapter of %s: %u x %u found, %u x %u expected", w->name,
                         start->out, start->in, w->weight->rows, w->weight->cols);
    const tern_trainer_weight *a = add_half(t, w, false), *b = add_half(t, w, true);
    size_t at = (size_t)w->layer * TERN_ROLE_COUNT + w->role;
    for (int i = 0; i < 2; i++) {
        t->tensors.graph_loras[i][at] = (tern_graph_lora){
            .a = &a->weight, .b = &b->weight, .scale = t->tensors.lora_scale, .dropout = i == 0 ? lora->dropout : 0};
        t->tensors.graph_weights[i][at].loras = &t->tensors.graph_loras[i][at];
        t->tensors.graph_weights[i][at].n_loras = 1;
    }
    return TERN_OK;
}

static tern_status add_chosen(tern_trainer *t, tensor_walk *w, tern_error *err)
{
    bool tuned = !uses_lora(t) && !is_frozen(t, w->name);
    if (tuned) add_tensor(t, w);
    else t->tensors.frozen[t->tensors.n_frozen++].weight = w->weight;
    return gets_adapter(t, w) ? add_adapter(t, w, err) : TERN_OK;
}

static tern_status allocate(tern_trainer *t, tern_error *err)
{
    size_t n_weights = (size_t)t->config->n_layers * TERN_ROLE_COUNT, n = n_weights + TERN_ROLE_COUNT;
    t->tensors.weights = tern_calloc(2 * n, sizeof *t->tensors.weights);
    t->tensors.trainable = tern_calloc(2 * n, sizeof *t->tensors.trainable);
    t->tensors.frozen = tern_calloc(n, sizeof *t->tensors.frozen);
    bool ok = t->tensors.weights && t->tensors.trainable && t->tensors.frozen;
    for (int i = 0; i < 2; i++) {
        t->tensors.graph_loras[i] = tern_calloc(n_weights, sizeof *t->tensors.graph_loras[i]);
        t->tensors.graph_weights[i] = tern_calloc(n_weights, sizeof *t->tensors.graph_weights[i]);
        t->tensors.updates[i] = tern_calloc(2 * n, sizeof *t->tensors.updates[i]);
        ok = ok && t->tensors.graph_loras[i] && t->tensors.graph_weights[i] && t->tensors.updates[i];
    }
    return ok ? TERN_OK : tern_fail_alloc(err, 4 * n * sizeof *t->tensors.weights);
}

tern_status tern_trainer__choose_tensors(tern_trainer *t, tern_error *err)
{
    const tern_trainer_lora *lora = &t->params.lora;
    TERN_TRY(allocate(t, err));
    TERN_TRY(check_patterns(t, err));
    t->tensors.lora_rank = lora->start ? tern_adapter_describe(lora->start)->rank : lora->rank;
    t->tensors.lora_scale = lora->start  ? tern_adapter_describe(lora->start)->scale
                            : lora->rank ? lora->alpha / (float)lora->rank
                                         : 0;
    for (tensor_walk w = {.t = t}; next_tensor(&w);) TERN_TRY(add_chosen(t, &w, err));
    if (t->tensors.n_trainable == 0)
        return tern_fail(err, TERN_INVALID_ARGUMENT, "nothing to train: all %zu tensors are frozen",
                         t->tensors.n_frozen);
    return tern_trainer__shape_weights(t, err);
}

void tern_trainer__free_tensors(tern_trainer *t)
{
    tern_trainer_tensors *x = &t->tensors;
    tern_trainer__free_states(t, true);
    for (size_t i = 0; i < x->n_weights; i++) tern_trainer__free_weight(t, &x->weights[i]);
    for (size_t i = 0; i < x->n_frozen; i++)
        if (!x->frozen[i].borrowed) t->backend->buffer_free(t->backend, x->frozen[i].buffer);
    for (int i = 0; i < 2; i++) {
        tern_free(x->graph_loras[i]);
        tern_free(x->graph_weights[i]);
        tern_free(x->updates[i]);
    }
    tern_free(x->weights);
    tern_free(x->trainable);
    tern_free(x->frozen);
}
