/* The order of a file's I2_S layers: asked for, stated, or found; and bringing them into Tern's own. */
#include <string.h>

#include "base/show.h"
#include "format/gguf.h"
#include "model/open/i2s_evidence.h"
#include "quant/encoding.h"
#include "quant/encoding_id.h"

tern_status tern_model__read_i2s_order(tern_model *model, const tern_gguf *g, tern_error *err)
{
    tern_span name;
    if (!tern_gguf_find(g, TERN_MODEL__I2S_ORDER)) return TERN_OK;
    TERN_TRY(tern_gguf_get_string(g, TERN_MODEL__I2S_ORDER, &name, err));
    if (name.size != 3 || memcmp(name.data, "x86", 3) != 0)
        return tern_fail(err, TERN_UNSUPPORTED, TERN_MODEL__I2S_ORDER ": %s found, x86 expected", tern_show(name).text);
    model->i2s_stated = true;
    return TERN_OK;
}

static bool is_i2s(const tern_weight *w)
{
    return w->encoding && w->encoding->id == TERN_ENC_I2_S;
}

static tern_status reorder(tern_model *model, tern_weight *w, const tern_i2s_order *order, tern_error *err)
{
    void *out;
    if (!w->data) return tern_fail(err, TERN_UNSUPPORTED, "%s: passed on already in its own order", w->name);
    TERN_TRY(tern_model__own(model, w->bytes, &out, err));
    if (tern_i2s_reorder(order, w->data, w->rows, w->cols, out, err) != TERN_OK)
        return tern_error_prefix(err, "%s", w->name);
    w->data = out;
    w->rsr = NULL;
    w->rsr_bytes = 0;
    return TERN_OK;
}

static tern_status reorder_all(tern_model *model, const tern_i2s_order *order, tern_error *err)
{
    size_t n = 0;
    for (size_t i = 0; i < (size_t)model->config.n_layers * TERN_ROLE_COUNT; i++) {
        if (!is_i2s(&model->weights[i])) continue;
        TERN_TRY(reorder(model, &model->weights[i], order, err));
        n++;
    }
    if (n) return TERN_OK;
    return tern_fail(err, TERN_INVALID_ARGUMENT, "order of i2_s \"%s\": no i2_s tensor found, some expected",
                     order->name);
}

static tern_status refuse(const tern_i2s_order *order, double z, tern_error *err)
{
    return tern_fail(err, TERN_UNSUPPORTED,
                     "the i2_s layers are in the order \"%s\" (%s), \"x86\" expected: the norms before them agree with "
                     "it by %.1f standard deviations more; tern convert --i2s-order %s writes a file that can be read "
                     "(--i2s-order x86 one that is taken as it is)",
                     order->name, order->whose, z, order->name);
}

tern_status tern_model__settle_i2s_order(tern_model *model, tern_error *err)
{
    double z;
    const char *asked = model->options->i2s_order;
    const tern_i2s_order *order = tern_i2s_order_at(0);
    const bool find = asked && strcmp(asked, TERN_I2S_ORDER_AUTO) == 0;
    if (asked && !find) {
        TERN_TRY(tern_i2s_order_parse(asked, &order, err));
        model->i2s_stated = true;
    } else if (!model->i2s_stated) {
        TERN_TRY(tern_i2s_evidence_judge(model, &order, &z, err));
        if (order != tern_i2s_order_at(0) && !find) return refuse(order, z, err);
    }
    tern_i2s_evidence_close(model->evidence);
    model->evidence = NULL;
    return order == tern_i2s_order_at(0) ? TERN_OK : reorder_all(model, order, err);
}
