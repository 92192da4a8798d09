/* The head of a model that classifies texts (GGUF's cls.output), as floats on the host. */
#include "format/gguf.h"
#include "model/model_internal.h"
#include "quant/encoding.h"

enum { MAX_LABELS = 1024 };

bool tern_model__has_classifier(const tern_gguf *g)
{
    return tern_gguf_find_tensor(g, TERN_MODEL__CLASSIFIER) && !tern_gguf_find_tensor(g, "cls.weight");
}

static tern_status read_floats(tern_model *model, const tern_gguf_tensor *t, const char *name, const float **out,
                               tern_error *err)
{
    const tern_encoding *e = tern_encoding_find(t->type);
    void *block;
    if (!e || e->ternary)
        return tern_fail(err, TERN_UNSUPPORTED, "%s: %s found, floats or blocks of them expected", name,
                         tern_gguf_type_name(t->type));
    TERN_TRY(tern_model__own(model, (size_t)(t->rows * t->cols) * sizeof(float), &block, err));
    *out = block;
    return tern_decode_rows(e, t->data, t->rows, t->cols, 0, t->rows, block, err);
}

tern_status tern_model__read_classifier(tern_model *model, const tern_gguf *g, tern_error *err)
{
    const tern_gguf_tensor *t = tern_gguf_find_tensor(g, TERN_MODEL__CLASSIFIER);
    const tern_gguf_tensor *bias = tern_gguf_find_tensor(g, TERN_MODEL__CLASSIFIER_BIAS);
    tern_classifier c = {.n_embd = model->config.n_embd};
    if (!tern_model__has_classifier(g)) return TERN_OK;
    if (t->cols != c.n_embd || t->rows == 0 || t->rows > MAX_LABELS)
        return tern_fail(err, TERN_MALFORMED, "%s: %llu x %llu found, 1 to %d rows of %u expected",
                         TERN_MODEL__CLASSIFIER, (unsigned long long)t->rows, (unsigned long long)t->cols, MAX_LABELS,
                         c.n_embd);
    if (bias && (bias->rows != 1 || bias->cols != t->rows))
        return tern_fail(err, TERN_MALFORMED, "%s: %llu x %llu found, %llu values expected",
                         TERN_MODEL__CLASSIFIER_BIAS, (unsigned long long)bias->rows, (unsigned long long)bias->cols,
                         (unsigned long long)t->rows);
    c.n_labels = (uint32_t)t->rows;
    TERN_TRY(read_floats(model, t, TERN_MODEL__CLASSIFIER, &c.weights, err));
    if (bias) TERN_TRY(read_floats(model, bias, TERN_MODEL__CLASSIFIER_BIAS, &c.bias, err));
    model->classifier = c;
    return TERN_OK;
}

const tern_classifier *tern_model_classifier(const tern_model *model)
{
    return model->classifier.n_labels ? &model->classifier : NULL;
}
