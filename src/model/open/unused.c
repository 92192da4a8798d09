/* Tensors of a file that no role has: those of a layer are refused, the others said, not passed over in silence. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/show.h"
#include "format/gguf.h"
#include "model/model_internal.h"

enum { MOST_NAMES = 3 };

/* Which tensors of a file are used. */
typedef struct marks {
    bool *used;
    size_t n;
} marks;

static void add_name(tern_unused_tensors *out, tern_span name)
{
    const size_t at = strlen(out->names);
    if (out->n++ < MOST_NAMES)
        snprintf(out->names + at, sizeof out->names - at, "%s%.48s", at ? ", " : "", tern_show(name).text);
    else if (out->n == MOST_NAMES + 1) snprintf(out->names + at, sizeof out->names - at, ", ...");
}

static bool ends_in(tern_span name, const char *ending)
{
    const size_t m = strlen(ending);
    return name.size >= m && memcmp(name.data + name.size - m, ending, m) == 0;
}

/* Whether it is a tensor of one of n layers: "blk.12." */
static bool in_layers(tern_span name, const char *mark, uint32_t n)
{
    size_t at = strlen(mark), first = at;
    uint32_t layer = 0;
    if (name.size < at || memcmp(name.data, mark, at) != 0) return false;
    for (; at < name.size && name.data[at] >= '0' && name.data[at] <= '9' && layer < n; at++)
        layer = layer * 10 + (uint32_t)(name.data[at] - '0');
    return at > first && at < name.size && name.data[at] == '.' && layer < n;
}

/* `layers` and `text` begin the names of the layers and of the model: others beside it (of images) are none of its.
 * Older versions of transformers saved frequencies, which the configuration tells. */
static tern_status leave_out(tern_model *model, tern_span name, const char *layers, const char *text, tern_error *err)
{
    const tern_config *c = &model->config;
    const bool own = name.size >= strlen(text) && memcmp(name.data, text, strlen(text)) == 0;
    const bool computes = in_layers(name, layers, c->n_layers) || (own && ends_in(name, ".bias"));
    if (computes && !ends_in(name, ".rotary_emb.inv_freq"))
        return tern_fail(err, TERN_UNSUPPORTED, "%s: found, models of %s have no such tensor", tern_show(name).text,
                         c->architecture);
    add_name(&model->unused, name);
    return TERN_OK;
}

static tern_status marks_open(marks *m, size_t n, tern_error *err)
{
    *m = (marks){.used = tern_calloc(n + 1, sizeof(bool)), .n = n};
    return m->used ? TERN_OK : tern_fail_alloc(err, n);
}

static void use_gguf(marks *m, const tern_gguf *g, const char *name)
{
    const tern_gguf_tensor *t = tern_gguf_find_tensor(g, name);
    if (t) m->used[t - tern_gguf_tensor_at(g, 0)] = true;
}

static void use_roles_gguf(marks *m, const tern_gguf *g, const tern_config *config)
{
    char name[TERN_MODEL__NAME_BYTES + 8], beside[TERN_MODEL__NAME_BYTES + 8];
    tern_role_walk walk = {0};
    while (tern_role__next(&walk, config)) {
        tern_role__gguf_name(config, walk.role, walk.layer, name);
        use_gguf(m, g, name);
        tern_joint joint;
        if (tern_joint__find(config, g, walk.role, walk.layer, &joint)) use_gguf(m, g, joint.gguf);
        tern_role__rsr_name(name, beside, sizeof beside);
        use_gguf(m, g, beside);
        tern_role__scale_name(name, beside, sizeof beside);
        use_gguf(m, g, beside);
    }
}

tern_status tern_model__note_unused_gguf(tern_model *model, const tern_gguf *g, tern_error *err)
{
    marks m;
    TERN_TRY(marks_open(&m, tern_gguf_n_tensors(g), err));
    for (unsigned i = 0; i < TERN_FACTORS_KINDS; i++) use_gguf(&m, g, tern_model__factors_name((tern_rope_factors)i));
    use_roles_gguf(&m, g, &model->config);
    if (model->mtp) use_roles_gguf(&m, g, &model->mtp->config);
    if (tern_model__has_classifier(g)) {
        use_gguf(&m, g, TERN_MODEL__CLASSIFIER);
        use_gguf(&m, g, TERN_MODEL__CLASSIFIER_BIAS);
    }
    tern_status status = TERN_OK;
    for (size_t i = 0; status == TERN_OK && i < m.n; i++)
        if (!m.used[i]) status = leave_out(model, tern_gguf_tensor_at(g, i)->name, "blk.", "", err);
    tern_free(m.used);
    return status;
}

static bool use_hf(marks *m, const tern_safetensors *st, const char *name)
{
    const tern_st_tensor *t = tern_safetensors_find(st, name);
    if (t) m->used[t - tern_safetensors_at(st, 0)] = true;
    return t != NULL;
}

/* Those of all experts. */
static void use_experts(marks *m, const tern_model *model, tern_role role, uint32_t layer)
{
    static const char *const endings[] = {"", TERN_HF__BLOCKS, TERN_HF__SCALES};
    char spelt[TERN_MODEL__NAME_BYTES], name[TERN_MODEL__NAME_BYTES + 8];
    tern_hf_experts at = {.single = true};
    for (uint32_t e = 0; at.single && e < model->config.n_experts; e++) {
        if (!tern_role__hf_experts(&model->config, role, layer, e, model->halves, &at)) return;
        tern_role__spell(model->spelling, at.name, spelt);
        for (size_t i = 0; i < sizeof endings / sizeof *endings; i++) {
            snprintf(name, sizeof name, "%s%s", spelt, endings[i]);
            use_hf(m, model->safetensors, name);
        }
    }
}

static void use_roles_hf(marks *m, const tern_model *model)
{
    char own[TERN_MODEL__NAME_BYTES], name[TERN_MODEL__NAME_BYTES], scale[TERN_MODEL__NAME_BYTES + 8];
    const tern_safetensors *st = model->safetensors;
    tern_role_walk walk = {0};
    while (tern_role__next(&walk, &model->config)) {
        tern_joint joint;
        bool found = false;
        if (tern_role__of_experts(walk.role)) {
            use_experts(m, model, walk.role, walk.layer);
            continue;
        }
        for (unsigned i = 0; !found && tern_role__hf_name(&model->config, walk.role, walk.layer, i, own); i++) {
            tern_role__spell(model->spelling, own, name);
            found = use_hf(m, st, name); /* under another name it would be there twice */
            snprintf(scale, sizeof scale, "%s_scale", name);
            if (found) use_hf(m, st, scale);
        }
        if (found || !tern_role__joint(&model->config, walk.role, walk.layer, &joint)) continue;
        tern_role__spell(model->spelling, joint.hf, name);
        use_hf(m, st, name);
    }
}

tern_status tern_model__note_unused_hf(tern_model *model, tern_error *err)
{
    const char *layers = tern_role__layers_prefix(model->spelling), *text = tern_role__text_prefix(model->spelling);
    const tern_safetensors *st = model->safetensors;
    marks m;
    TERN_TRY(marks_open(&m, tern_safetensors_count(st), err));
    use_roles_hf(&m, model);
    if (model->mtp) use_roles_hf(&m, model->mtp);
    tern_status status = TERN_OK;
    for (size_t i = 0; status == TERN_OK && i < m.n; i++) {
        const char *unused = tern_safetensors_at(st, i)->name;
        const tern_span found = {(const uint8_t *)unused, strlen(unused)};
        if (!m.used[i]) status = leave_out(model, found, layers, text, err);
    }
    tern_free(m.used);
    return status;
}

const tern_unused_tensors *tern_model_unused(const tern_model *model)
{
    return &model->unused;
}
