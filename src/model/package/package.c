/* The facts of a package's manifest about its model. */
#include "model/package/package.h"

#include <string.h>

#include "base/show.h"
#include "format/gguf.h"
#include "format/json.h"
#include "model/hyper.h"
#include "model/package/internal.h"
#include "quant/encoding.h"
#include "text/tokenizer/tokenizer.h"

/* How people sample when the model does not say: TERN_SAMPLER_DEFAULTS of tern/infer.h. */
static const double temperature = 0.8, top_p = 0.95, min_p = 0.05;
enum { TOP_K = 40 };

static json_t *text_or_shown(const char *s)
{
    json_t *v = json_string(s);
    return v ? v : json_string(tern_show_z(s).text);
}

static json_t *id_or_null(const tern_tokenizer *t, int32_t id)
{
    return t && id >= 0 ? json_integer(id) : json_null();
}

static json_t *scaling_json(const tern_rope *r)
{
    if (r->scaling == TERN_ROPE_LINEAR) return json_pack("{s:s, s:f}", "type", "linear", "factor", (double)r->factor);
    if (r->scaling != TERN_ROPE_YARN) return json_null();
    return json_pack("{s:s, s:f, s:f, s:f, s:b, s:f, s:I}", "type", "yarn", "factor", (double)r->factor, "beta_fast",
                     (double)r->beta_fast, "beta_slow", (double)r->beta_slow, "truncate", r->truncate, "size",
                     (double)r->size, "original_context_length", (json_int_t)r->original_ctx);
}

static json_t *rope_json(const tern_config *c, const tern_gguf *gguf)
{
    return json_pack("{s:f, s:s, s:o, s:o}", "base", (double)c->rope[0].base, "pairs",
                     c->rope_adjacent ? "adjacent" : "halves", "factors",
                     tern_gguf_find_tensor(gguf, TERN_MODEL__ROPE_FACTORS) ? json_string(TERN_MODEL__ROPE_FACTORS)
                                                                           : json_null(),
                     "scaling", scaling_json(&c->rope[0]));
}

static json_t *ends_json(const tern_tokenizer *t)
{
    size_t n = 0;
    const int32_t *ids = t ? tern_tokenizer_ends(t, &n) : NULL;
    json_t *list = json_array();
    for (size_t i = 0; i < n; i++) json_array_append_new(list, json_integer(ids[i]));
    return list;
}

static json_t *sampling_json(void)
{
    return json_pack("{s:f, s:i, s:f, s:f}", "temperature", temperature, "top_k", TOP_K, "top_p", top_p, "min_p",
                     min_p);
}

static json_t *experts_json(const tern_config *c)
{
    static const char *const rules[] = {[TERN_ROUTE_SOFTMAX_ALL_NORMED] = "softmax_all_normed",
                                        [TERN_ROUTE_SOFTMAX_ALL] = "softmax_all",
                                        [TERN_ROUTE_SOFTMAX_TOP] = "softmax_top"};
    return json_pack("{s:I, s:I, s:s}", "count", (json_int_t)c->n_experts, "used", (json_int_t)c->n_experts_used,
                     "rule", rules[c->route_rule]);
}

static json_t *inference_json(const tern_model *model, const tern_gguf *gguf, uint32_t version)
{
    const tern_config *c = tern_model_config(model);
    const tern_tokenizer *t = tern_model_tokenizer(model);
    const char *chat = t ? tern_tokenizer_chat_template(t) : NULL;
    json_t *out = json_object();
    const tern_hyper *h;
    for (size_t i = 0; (h = tern_hyper_at(i)) != NULL; i++)
        if (h->inference) json_object_set_new(out, h->inference, tern_hyper_json(h, c));
    json_object_set_new(out, "rope", rope_json(c, gguf));
    const bool experts = version == TERN_MANIFEST_EXPERTS_VERSION;
    json_object_set_new(out, "sliding_window", c->window ? json_integer(c->window) : json_null());
    json_object_set_new(out, "experts", experts ? experts_json(c) : json_null());
    json_object_set_new(out, "bos", id_or_null(t, t ? tern_tokenizer_bos(t) : -1));
    json_object_set_new(out, "eos", id_or_null(t, t ? tern_tokenizer_eos(t) : -1));
    json_object_set_new(out, "add_bos", json_boolean(t && tern_tokenizer_adds_bos(t)));
    json_object_set_new(out, "end_tokens", ends_json(t));
    json_object_set_new(out, "chat_template", chat ? json_string(chat) : json_null());
    json_object_set_new(out, "sampling", sampling_json());
    return out;
}

/* The encoding of all matrices of layers, experts too, or "mixed". */
static const char *layers_encoding(const tern_model *model)
{
    const char *name = NULL;
    for (uint32_t layer = 0; layer < tern_model_config(model)->n_layers; layer++)
        for (int role = 0; role < TERN_ROLE_COUNT; role++) {
            const tern_weight *w = tern_model_weight(model, (tern_role)role, layer);
            if (!tern_role_is_matrix((tern_role)role) || !w->encoding) continue;
            if (name && strcmp(name, w->encoding->name) != 0) return "mixed";
            name = w->encoding->name;
        }
    return name ? name : "none";
}

static json_t *quantization_json(const tern_model *model)
{
    const bool tied = tern_model_config(model)->tied_head;
    const char *output = tern_model_weight(model, TERN_ROLE_OUTPUT, 0)->encoding->name;
    return json_pack("{s:s, s:s, s:o}", "layers", layers_encoding(model), "embedding",
                     tern_model_weight(model, TERN_ROLE_TOKEN_EMBD, 0)->encoding->name, "output",
                     tied ? json_null() : json_string(output));
}

/* Where a tensor begins; it may go on in the next shards. For version 2: in the file. */
static json_t *tensor_json(const tern_gguf_tensor *t, const tern_manifest *sizes)
{
    const uint64_t shard_bytes = sizes->shard_bytes;
    json_t *name = json_stringn((const char *)t->name.data, t->name.size);
    if (sizes->version == TERN_MANIFEST_EXPERTS_VERSION)
        return json_pack("{s:o, s:[I, I], s:s, s:I, s:I}", "name", name ? name : json_string(tern_show(t->name).text),
                         "shape", (json_int_t)t->rows, (json_int_t)t->cols, "encoding", tern_gguf_type_name(t->type),
                         "offset", (json_int_t)t->offset, "bytes", (json_int_t)t->bytes);
    return json_pack("{s:o, s:[I, I], s:s, s:I, s:I, s:I}", "name", name ? name : json_string(tern_show(t->name).text),
                     "shape", (json_int_t)t->rows, (json_int_t)t->cols, "encoding", tern_gguf_type_name(t->type),
                     "shard", (json_int_t)(t->offset / shard_bytes), "offset", (json_int_t)(t->offset % shard_bytes),
                     "bytes", (json_int_t)t->bytes);
}

static json_t *tensors_json(const tern_gguf *gguf, const tern_manifest *sizes)
{
    json_t *list = json_array();
    for (size_t i = 0; i < tern_gguf_n_tensors(gguf); i++)
        json_array_append_new(list, tensor_json(tern_gguf_tensor_at(gguf, i), sizes));
    return list;
}

/* Counted here: a model that is being loaded has only its shapes. */
static uint64_t parameters(const tern_model *model)
{
    uint64_t n = 0;
    for (size_t i = 0; i < (size_t)model->config.n_layers * TERN_ROLE_COUNT; i++)
        if (model->weights[i].encoding) n += (uint64_t)model->weights[i].rows * model->weights[i].cols;
    return n;
}

static int add_experts(json_t *out, const tern_config *c)
{
    return json_object_set_new(out, "shardingStrategy", json_string("expert")) |
           json_object_set_new(out, "moeConfig",
                               json_pack("{s:I, s:I}", "numExperts", (json_int_t)c->n_experts, "numExpertsPerTok",
                                         (json_int_t)c->n_experts_used));
}

tern_status tern_package_describe(const tern_model *model, const tern_gguf *gguf, const tern_manifest *sizes,
                                  json_t **json, tern_error *err)
{
    const tern_config *c = tern_model_config(model);
    tern_json_use_allocator();
    json_t *out = json_pack("{s:s, s:i, s:o, s:s, s:I, s:I, s:I}", "format", TERN_MANIFEST_FORMAT, "version",
                            (int)sizes->version, "name", text_or_shown(c->name), "architecture", c->architecture,
                            "parameters", (json_int_t)parameters(model), "bytes", (json_int_t)sizes->bytes,
                            "shard_bytes", (json_int_t)sizes->shard_bytes);
    int failed = json_object_set_new(out, "quantization", quantization_json(model));
    if (sizes->version == TERN_MANIFEST_EXPERTS_VERSION) failed |= add_experts(out, c);
    json_t *inference = inference_json(model, gguf, sizes->version);
    const bool no_utf8 = inference && !json_object_get(inference, "chat_template");
    failed |= json_object_set_new(out, "inference", inference);
    failed |= json_object_set_new(out, "tensors", tensors_json(gguf, sizes));
    *json = out;
    if (!failed && !no_utf8 && json_array_size(json_object_get(out, "tensors")) == tern_gguf_n_tensors(gguf))
        return TERN_OK;
    json_decref(out);
    *json = NULL;
    return no_utf8 ? tern_fail(err, TERN_MALFORMED, "tokenizer.chat_template: UTF-8 expected")
                   : tern_fail_alloc(err, tern_gguf_n_tensors(gguf) * 256);
}

tern_status tern_package_match(const tern_manifest *manifest, const tern_model *model, const tern_gguf *gguf,
                               tern_error *err)
{
    json_t *expected;
    TERN_TRY(tern_package_describe(model, gguf, manifest, &expected, err));
    json_t *inference = json_object_get(expected, "inference");
    json_object_del(inference, "sampling");
    static const char *const text[] = {"bos", "eos", "add_bos", "end_tokens", "chat_template"};
    const bool unread = !tern_model_tokenizer(model) && tern_gguf_find(gguf, "tokenizer.ggml.model");
    for (size_t i = 0; unread && i < sizeof text / sizeof *text; i++) json_object_del(inference, text[i]);
    tern_status status = tern_manifest_compare(manifest->root, expected, "", err);
    json_decref(expected);
    if (status == TERN_OK) status = tern_package__match_experts(manifest, model, gguf, err);
    return status == TERN_OK ? TERN_OK : tern_error_prefix(err, "manifest");
}
