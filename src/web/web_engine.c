/* Exports: what a model is and what it takes, counters, bandwidth. */
#include "web/web_engine.h"

#include "backend/counters.h"
#include "base/show.h"
#include "graph/graph.h"
#include "infer/session/session.h"
#include "quant/weight.h"
#include "text/tokenizer/tokenizer.h"
#include "web/web.h"
#include "web/web_tools.h"

TERN_WEB tern_status tern_web_engine_describe(const tern_engine *engine);
TERN_WEB tern_status tern_web_engine_plan(const tern_engine *engine, uint32_t n_ctx, uint32_t kv);
TERN_WEB tern_status tern_web_engine_counters(const tern_engine *engine);
TERN_WEB tern_status tern_web_engine_experts(const tern_engine *engine);
TERN_WEB double tern_web_engine_measure(const tern_engine *engine, double seconds);
TERN_WEB void tern_web_engine_close(tern_engine *engine);

enum { DEFAULT_CTX = 2048, BATCH = TERN_SESSION_DEFAULT_BATCH };

/* Texts of files may not be UTF-8. */
static json_t *words(const char *s)
{
    json_t *value = json_string(s);
    return value ? value : json_string(tern_show_z(s).text);
}

json_t *tern_web__describe(const tern_model *model)
{
    const tern_config *c = tern_model_config(model);
    const tern_tokenizer *t = tern_model_tokenizer(model);
    const uint32_t n_ctx = c->n_ctx_train < DEFAULT_CTX ? c->n_ctx_train : DEFAULT_CTX;
    return json_pack("{s:o, s:o, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:b, s:b, s:b}", "name", words(c->name),
                     "architecture", words(c->architecture), "parameters", (json_int_t)tern_model_parameters(model),
                     "bytes", (json_int_t)tern_model_bytes(model), "contextLength", (json_int_t)n_ctx,
                     "trainedContextLength", (json_int_t)c->n_ctx_train, "layers", (json_int_t)c->n_layers, "embedding",
                     (json_int_t)c->n_embd, "vocabulary", (json_int_t)c->n_vocab, "hasChatTemplate",
                     t && tern_tokenizer_chat_template(t), "hasTokenizer", t != NULL, "hasTools",
                     tern_web__tool_form(t) != TERN_TOOLS_NONE);
}

/* Bytes of memory by use, and the largest piece that a device needs at once. */
typedef struct plan {
    uint64_t weights, cache, activations, largest;
} plan;

static void add_value(plan *p, const tern_value *v)
{
    if (v->kind == TERN_VALUE_WEIGHT) p->weights += v->weight->bytes;
    else if (tern_value_is_kept(v)) p->cache += v->bytes;
    else if (v->kind != TERN_VALUE_ACTIVATION) p->activations += v->bytes;
    const uint64_t bytes = v->kind == TERN_VALUE_WEIGHT ? v->weight->bytes : v->bytes;
    if (v->kind != TERN_VALUE_ACTIVATION && bytes > p->largest) p->largest = bytes;
}

/* A table that is both embedding and output is there once. */
static bool seen_before(const tern_graph *g, size_t at)
{
    for (size_t i = 0; i < at; i++)
        if (g->values[i].kind == TERN_VALUE_WEIGHT && g->values[i].weight == g->values[at].weight) return true;
    return false;
}

static void add_graph(plan *p, const tern_graph *g)
{
    for (size_t i = 0; i < g->n_values; i++)
        if (g->values[i].kind != TERN_VALUE_WEIGHT || !seen_before(g, i)) add_value(p, &g->values[i]);
    p->activations += g->activation_bytes;
    if (g->activation_bytes > p->largest) p->largest = g->activation_bytes;
}

static tern_status make_plan(plan *p, const tern_model *model, const tern_backend *backend, uint32_t n_ctx, uint32_t kv,
                             tern_error *err)
{
    const tern_config *c = tern_model_config(model);
    if (n_ctx == 0) n_ctx = c->n_ctx_train < DEFAULT_CTX ? c->n_ctx_train : DEFAULT_CTX;
    if (n_ctx > c->n_ctx_train)
        return tern_fail(err, TERN_INVALID_ARGUMENT, "context of %u tokens: the model was trained for at most %u",
                         n_ctx, c->n_ctx_train);
    tern_graph_options options = {
        .max_tokens = n_ctx < BATCH ? n_ctx : BATCH, .max_outputs = 1, .n_ctx = n_ctx, .n_sequences = 1};
    tern_graph graph = {0};
    tern_status status;
    const tern_kv_types types = {(tern_kv_type)kv, (tern_kv_type)kv};
    TERN_GOTO(tern_kv_resolve(types, c, n_ctx, backend, &options.kv, err));
    tern_graph_size_caches(&options, c, options.max_tokens);
    TERN_GOTO(tern_graph_build(&graph, model, &options, err));
    TERN_GOTO(tern_graph_fuse(&graph, NULL, err));
    TERN_GOTO(tern_graph_plan(&graph, 0, err));
    add_graph(p, &graph);
fail:
    tern_graph_deinit(&graph);
    return status;
}

tern_status tern_web__plan(const tern_model *model, const tern_backend *backend, uint32_t n_ctx, uint32_t kv,
                           json_t **out, tern_error *err)
{
    const tern_paged_info *paged = backend->info.paged;
    plan p = {0};
    TERN_TRY(make_plan(&p, model, backend, n_ctx, kv, err));
    if (paged) p.weights = p.weights - paged->all_bytes + paged->slot_bytes;
    *out = json_pack("{s:I, s:I, s:I, s:I, s:I}", "weights", (json_int_t)p.weights, "cache", (json_int_t)p.cache,
                     "activations", (json_int_t)p.activations, "total",
                     (json_int_t)(p.weights + p.cache + p.activations), "largestBuffer", (json_int_t)p.largest);
    return TERN_OK;
}

tern_status tern_web_engine_describe(const tern_engine *engine)
{
    json_t *about = tern_web__describe(tern_engine_model(engine));
    if (about) json_object_set_new(about, "activations", json_string(tern_engine_activations(engine)));
    return tern_web__answer(about, tern_web__error());
}

tern_status tern_web_engine_plan(const tern_engine *engine, uint32_t n_ctx, uint32_t kv)
{
    tern_error *err = tern_web__error();
    json_t *plan;
    TERN_TRY(tern_web__plan(tern_engine_model(engine), tern_engine_backend(engine), n_ctx, kv, &plan, err));
    return tern_web__answer(plan, err);
}

/* Since opening, of its backend. */
tern_status tern_web_engine_counters(const tern_engine *engine)
{
    tern_error *err = tern_web__error();
    tern_backend *b = tern_engine_backend(engine);
    tern_backend_counters c = {0};
    b->counters(b, &c);
    return tern_web__answer(json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "runs", (json_int_t)c.runs,
                                      "ops", (json_int_t)c.ops, "weightBytes", (json_int_t)c.weight_bytes, "dispatches",
                                      (json_int_t)c.dispatches, "submits", (json_int_t)c.submits, "uploadedBytes",
                                      (json_int_t)c.uploaded_bytes, "downloadedBytes", (json_int_t)c.downloaded_bytes,
                                      "allocations", (json_int_t)c.allocations, "pipelines", (json_int_t)c.pipelines),
                            err);
}

/* Bytes a second that the backend reads of weights; 0 when it cannot be measured without waiting. */
double tern_web_engine_measure(const tern_engine *engine, double seconds)
{
    return tern_engine_backend(engine)->info.never_waits ? 0 : tern_engine_measure(engine, TERN_MEASURE_READ, seconds);
}

/* ExpertCache of web/lib/index.d.ts without what JavaScript counts; null where all experts are there. */
tern_status tern_web_engine_experts(const tern_engine *engine)
{
    tern_error *err = tern_web__error();
    tern_backend *b = tern_engine_backend(engine);
    const tern_paged_info *paged = b->info.paged;
    tern_backend_counters c = {0};
    if (!paged) return tern_web__answer(json_null(), err);
    b->counters(b, &c);
    return tern_web__answer(json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "experts",
                                      (json_int_t)paged->n_all, "held", (json_int_t)paged->n_slots, "bytes",
                                      (json_int_t)paged->all_bytes, "heldBytes", (json_int_t)paged->slot_bytes, "hits",
                                      (json_int_t)c.expert_hits, "misses", (json_int_t)c.expert_misses, "prefetched",
                                      (json_int_t)c.expert_prefetched, "evictions", (json_int_t)c.expert_evictions,
                                      "copiedBytes", (json_int_t)c.expert_bytes),
                            err);
}

void tern_web_engine_close(tern_engine *engine)
{
    tern_engine_close(engine);
}
