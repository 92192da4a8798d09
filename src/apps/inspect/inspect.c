/* `tern inspect` of a model. */
#include "apps/inspect/inspect.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "apps/app.h"
#include "base/file.h"
#include "base/half.h"
#include "base/show.h"
#include "format/gguf_parts.h"
#include "model/hadamard.h"
#include "model/hyper.h"
#include "quant/encoding.h"
#include "quant/weight.h"

static json_t *text_of(tern_span s)
{
    return tern_app_json_text(s.data, s.size);
}

/* One number in the layout of its kind. */
static json_t *number(tern_gguf_kind kind, const uint8_t *p)
{
    switch (kind) {
    case TERN_GGUF_U8: return json_integer(*p);
    case TERN_GGUF_I8: return json_integer((int8_t)*p);
    case TERN_GGUF_U16: return json_integer(tern_load_u16(p));
    case TERN_GGUF_I16: return json_integer((int16_t)tern_load_u16(p));
    case TERN_GGUF_U32: return json_integer(tern_load_u32(p));
    case TERN_GGUF_I32: return json_integer((int32_t)tern_load_u32(p));
    case TERN_GGUF_U64:
    case TERN_GGUF_I64: return json_integer((json_int_t)tern_load_u64(p));
    case TERN_GGUF_BOOL: return json_boolean(*p);
    case TERN_GGUF_F32: return json_real((double)tern_load_f32(p));
    case TERN_GGUF_F64: {
        uint64_t bits = tern_load_u64(p);
        double v;
        memcpy(&v, &bits, sizeof v);
        return json_real(v);
    }
    case TERN_GGUF_STRING:
    case TERN_GGUF_ARRAY: break;
    }
    return json_null();
}

static json_t *kv_value(const tern_gguf_kv *kv)
{
    if (kv->kind == TERN_GGUF_STRING) return text_of(kv->value);
    if (kv->kind == TERN_GGUF_ARRAY)
        return json_pack("{s:s, s:I}", "array_of", tern_gguf_kind_name(kv->element), "count", (json_int_t)kv->count);
    json_t *v = number(kv->kind, kv->value.data);
    return v ? v : json_null(); /* JSON has no NaN */
}

static json_t *tensor_json(json_t *name, const char *encoding, uint64_t rows, uint64_t cols, uint64_t bytes)
{
    return json_pack("{s:o, s:s, s:[I, I], s:I}", "name", name, "encoding", encoding, "shape", (json_int_t)rows,
                     (json_int_t)cols, "bytes", (json_int_t)bytes);
}

/* How many tensors there are of each encoding, in the order of their first. */
static json_t *count_encodings(const json_t *tensors)
{
    size_t i;
    const json_t *t;
    json_t *counts = json_object();
    json_array_foreach(tensors, i, t)
    {
        const char *name = json_string_value(json_object_get(t, "encoding"));
        json_object_set_new(counts, name, json_integer(json_integer_value(json_object_get(counts, name)) + 1));
    }
    return counts;
}

static void describe_file(const tern_gguf *g, json_t *out)
{
    json_t *metadata = json_object(), *tensors = json_array();
    for (size_t i = 0; i < tern_gguf_n_kv(g); i++) {
        const tern_gguf_kv *kv = tern_gguf_kv_at(g, i);
        if (json_object_setn_new(metadata, (const char *)kv->key.data, kv->key.size, kv_value(kv)) != 0)
            json_object_set_new(metadata, tern_show(kv->key).text, kv_value(kv));
    }
    for (size_t i = 0; i < tern_gguf_n_tensors(g); i++) {
        const tern_gguf_tensor *t = tern_gguf_tensor_at(g, i);
        json_array_append_new(tensors,
                              tensor_json(text_of(t->name), tern_gguf_type_name(t->type), t->rows, t->cols, t->bytes));
    }
    char format[48];
    const uint32_t parts = tern_gguf_n_parts(g);
    snprintf(format, sizeof format, parts > 1 ? "GGUF version %u, in %u parts" : "GGUF version %u",
             tern_gguf_version(g), parts);
    json_object_set_new(out, "file_bytes", json_integer((json_int_t)tern_gguf_bytes(g)));
    json_object_set_new(out, "format", json_string(format));
    json_object_set_new(out, "metadata", metadata);
    json_object_set_new(out, "encodings", count_encodings(tensors));
    json_object_set_new(out, "tensors", tensors);
}

tern_status tern_app_describe_gguf(const char *path, json_t *out, tern_error *err)
{
    tern_gguf_file file;
    TERN_TRY(tern_gguf_file_open(&file, path, err));
    describe_file(file.gguf, out);
    tern_gguf_file_close(&file);
    return TERN_OK;
}

static void add_experts(json_t *out, const tern_config *c)
{
    static const char *const rules[] = {[TERN_ROUTE_SOFTMAX_ALL_NORMED] = "softmax over all, sum 1",
                                        [TERN_ROUTE_SOFTMAX_ALL] = "softmax over all",
                                        [TERN_ROUTE_SOFTMAX_TOP] = "softmax over the chosen"};
    json_object_set_new(out, "expert_weights", json_string(rules[c->route_rule]));
    if (c->activation >= TERN_ACT_SWIGLU_OAI) json_object_set_new(out, "swiglu_limit", json_real((double)c->ffn_limit));
}

/* The properties of a configuration that have words. */
static void add_rope_scaling(json_t *out, const tern_config *c)
{
    static const char *const words[] = {[TERN_ROPE_LINEAR] = "linear",
                                        [TERN_ROPE_LLAMA3] = "llama3",
                                        [TERN_ROPE_LONG] = "longrope",
                                        [TERN_ROPE_YARN] = "yarn"};
    if (c->rope[0].scaling != TERN_ROPE_PLAIN)
        json_object_set_new(out, "rope_scaling", json_string(words[c->rope[0].scaling]));
}

static void add_rotation(json_t *out, const tern_hadamard *h)
{
    char inputs[64];
    snprintf(inputs, sizeof inputs, "%u weights, blocks of %u", h->n_inputs, h->block);
    json_object_set_new(out, "rotated_inputs", json_string(inputs));
    json_object_set_new(out, "rotated_embedding", json_boolean(h->embedding));
}

static json_t *config_json(const tern_config *c)
{
    json_t *out = json_object();
    const tern_hyper *h;
    for (size_t i = 0; (h = tern_hyper_at(i)) != NULL; i++)
        if (h->always || tern_hyper_value(h, c) != 0) json_object_set_new(out, h->name, tern_hyper_json(h, c));
    add_rope_scaling(out, c);
    if (c->n_experts) add_experts(out, c);
    return out;
}

static void add_weight(const tern_model *model, int role, uint32_t layer, json_t *tensors)
{
    const tern_weight *w = tern_model_weight(model, (tern_role)role, layer);
    bool tied = role == TERN_ROLE_OUTPUT && tern_model_config(model)->tied_head;
    if (!w->encoding || tied) return;
    json_array_append_new(tensors, tensor_json(tern_app_json_text(w->name, strlen(w->name)), w->encoding->name, w->rows,
                                               w->cols, w->bytes));
}

static bool is_global(int role)
{
    return role == TERN_ROLE_TOKEN_EMBD || role == TERN_ROLE_OUTPUT_NORM || role == TERN_ROLE_OUTPUT;
}

void tern_app_describe_model(const tern_model *model, json_t *out)
{
    const tern_config *c = tern_model_config(model);
    uint64_t parameters = tern_model_parameters(model), bytes = tern_model_bytes(model);
    json_t *tensors = json_array();
    for (int role = 0; role < TERN_ROLE_COUNT; role++)
        if (is_global(role)) add_weight(model, role, 0, tensors);
    for (uint32_t layer = 0; layer < c->n_layers; layer++)
        for (int role = 0; role < TERN_ROLE_COUNT; role++)
            if (!is_global(role)) add_weight(model, role, layer, tensors);
    for (int role = 0; tern_model_mtp(model) && role < TERN_ROLE_COUNT; role++)
        if (!is_global(role)) add_weight(tern_model_mtp(model), role, 0, tensors);
    json_object_set_new(out, "format", json_string("Hugging Face folder"));
    json_object_set_new(out, "architecture", tern_app_json_text(c->architecture, strlen(c->architecture)));
    json_object_set_new(out, "name", tern_app_json_text(c->name, strlen(c->name)));
    json_object_set_new(out, "parameters", json_integer((json_int_t)parameters));
    json_object_set_new(out, "weight_bytes", json_integer((json_int_t)bytes));
    json_object_set_new(out, "bits_per_weight", json_real((double)bytes * 8 / (double)parameters));
    json_object_set_new(out, "unused_tensors", json_integer((json_int_t)tern_model_unused(model)->n));
    json_object_set_new(out, "unused_names", json_string(tern_model_unused(model)->names));
    json_t *config = config_json(c);
    if (tern_model_hadamard(model)) add_rotation(config, tern_model_hadamard(model));
    json_object_set_new(out, "config", config);
    json_object_set_new(out, "encodings", count_encodings(tensors));
    json_object_set_new(out, "tensors", tensors);
}

/* A text of a document that a package has in its own words: fit for a terminal, "none" where it is not text. */
static tern_shown text_at(const json_t *object, const char *key)
{
    const json_t *v = json_object_get(object, key);
    if (!json_is_string(v)) return tern_show_z("none");
    return tern_show((tern_span){(const uint8_t *)json_string_value(v), json_string_length(v)});
}

static void print_value(const json_t *v)
{
    if (json_is_string(v)) {
        printf("%s\n", tern_show((tern_span){(const uint8_t *)json_string_value(v), json_string_length(v)}).text);
    } else if (json_is_object(v)) {
        printf("%" JSON_INTEGER_FORMAT " x %s\n", json_integer_value(json_object_get(v, "count")),
               text_at(v, "array_of").text);
    } else if (json_is_integer(v)) {
        printf("%" JSON_INTEGER_FORMAT "\n", json_integer_value(v));
    } else if (json_is_real(v)) {
        printf("%g\n", json_real_value(v));
    } else {
        puts(json_is_null(v) ? "none" : json_is_true(v) ? "yes" : "no");
    }
}

static void print_members(const char *title, const json_t *object, int width)
{
    const char *key;
    json_t *v;
    if (!object) return;
    printf("\n%s:\n", title);
    json_object_foreach((json_t *)(uintptr_t)object, key, v)
    {
        printf("  %-*s ", width, tern_show_z(key).text);
        print_value(v);
    }
}

static void print_tensors(const json_t *tensors)
{
    size_t i;
    json_t *t;
    printf("\nTensors (%zu):\n", json_array_size(tensors));
    json_array_foreach(tensors, i, t)
    {
        const json_t *shape = json_object_get(t, "shape");
        printf("  %-36s %-8s [%" JSON_INTEGER_FORMAT "][%" JSON_INTEGER_FORMAT "] %" JSON_INTEGER_FORMAT " bytes\n",
               text_at(t, "name").text, text_at(t, "encoding").text, json_integer_value(json_array_get(shape, 0)),
               json_integer_value(json_array_get(shape, 1)), json_integer_value(json_object_get(t, "bytes")));
    }
}

static void print_encodings(const json_t *counts)
{
    const char *key, *before = "";
    json_t *n;
    printf("%-14s ", "tensors");
    json_object_foreach((json_t *)(uintptr_t)counts, key, n)
    {
        printf("%s%" JSON_INTEGER_FORMAT " %s", before, json_integer_value(n), key);
        before = ", ";
    }
    puts("");
}

static void print_head(const json_t *d)
{
    char size[16];
    printf("%-14s %s\n", "file", json_string_value(json_object_get(d, "file")));
    printf("%-14s %s\n", "format", json_string_value(json_object_get(d, "format")));
    if (json_string_length(json_object_get(d, "architecture")))
        printf("%-14s %s\n", "architecture", text_at(d, "architecture").text);
    if (json_string_length(json_object_get(d, "name"))) printf("%-14s %s\n", "name", text_at(d, "name").text);
    if (json_object_get(d, "problem"))
        printf("%-14s %s\n", "problem", json_string_value(json_object_get(d, "problem")));
    if (json_object_get(d, "chat_template_problem"))
        printf("%-14s %s\n", "conversations", json_string_value(json_object_get(d, "chat_template_problem")));
    printf("%-14s %s\n", "file size",
           tern_app_bytes((uint64_t)json_integer_value(json_object_get(d, "file_bytes")), size));
    if (json_object_size(json_object_get(d, "encodings"))) print_encodings(json_object_get(d, "encodings"));
    if (!json_object_get(d, "parameters")) return;
    printf("%-14s %.2f million\n", "parameters", (double)json_integer_value(json_object_get(d, "parameters")) * 1e-6);
    printf("%-14s %s, %.2f bits each\n", "weights",
           tern_app_bytes((uint64_t)json_integer_value(json_object_get(d, "weight_bytes")), size),
           json_real_value(json_object_get(d, "bits_per_weight")));
    if (json_integer_value(json_object_get(d, "unused_tensors")))
        printf("%-14s %" JSON_INTEGER_FORMAT " of the tensors: %s\n", "unused",
               json_integer_value(json_object_get(d, "unused_tensors")), text_at(d, "unused_names").text);
}

void tern_app_print_description(const json_t *description)
{
    print_head(description);
    print_members("Configuration", json_object_get(description, "config"), 21);
    print_members("Adapter", json_object_get(description, "adapter"), 14);
    print_members("Metadata", json_object_get(description, "metadata"), 40);
    if (json_object_get(description, "tensors")) print_tensors(json_object_get(description, "tensors"));
}
