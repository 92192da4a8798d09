/* Layers in layouts that Tern converts but does not compute with: refused, or taken as its own while opening. */
#include <string.h>

#include "base/alloc.h"
#include "format/gguf.h"
#include "model/model_internal.h"
#include "quant/encoding.h"
#include "quant/foreign.h"

static tern_status refuse(const tern_weight *w, const tern_foreign *f, tern_error *err)
{
    return tern_fail(
        err, TERN_UNSUPPORTED,
        "%s: %s found, a layout of %s that Tern converts but does not run; tern convert IN -o OUT.gguf writes the "
        "same weights as i2_s",
        w->name, f->name, f->whose);
}

tern_status tern_model__describe_foreign(const tern_model *model, const tern_gguf_weight *p, tern_error *err)
{
    tern_weight *w = p->weight;
    const char *order = model->options->i2s_order;
    if (!model->options->foreign) return refuse(w, p->foreign, err);
    if (order && strcmp(order, TERN_I2S_ORDER_AUTO) != 0)
        return tern_fail(err, TERN_INVALID_ARGUMENT, "order of i2_s \"%s\": %s is %s, an i2_s tensor expected", order,
                         w->name, p->foreign->name);
    w->encoding = tern_encoding_find(TERN_ENC_I2_S);
    if (tern_encoding_bytes(w->encoding, w->rows, w->cols, &w->bytes, err) == TERN_OK) return TERN_OK;
    w->encoding = tern_encoding_find(TERN_ENC_T160); /* takes any shape */
    return tern_encoding_bytes(w->encoding, w->rows, w->cols, &w->bytes, err);
}

/* ik_llama.cpp's quantiser gives rows of zeros the scale 0 and codes that mean nothing. *scale: that of all other rows;
 * 1 where they have several. */
static bool clear_zero_rows(const tern_weight *w, int8_t *codes, const float *scales, float *scale)
{
    float one = 0;
    bool uniform = true;
    for (uint32_t r = 0; r < w->rows; r++) {
        if (scales[r] == 0) memset(codes + (size_t)r * w->cols, 0, w->cols);
        else if (one == 0) one = scales[r];
        else uniform = uniform && scales[r] == one;
    }
    *scale = uniform && one != 0 ? one : 1.0f;
    return uniform;
}

static tern_status take(tern_model *model, const tern_gguf_weight *p, int8_t *codes, float *scales, tern_error *err)
{
    tern_weight *w = p->weight;
    void *out;
    float scale;
    if (tern_foreign_decode(p->foreign, p->tensor->data, w->rows, w->cols, model->options->tiles, codes, scales, err) !=
        TERN_OK)
        return tern_error_prefix(err, "%s", w->name);
    const bool uniform = clear_zero_rows(w, codes, scales, &scale);
    TERN_TRY(tern_model__own(model, w->bytes, &out, err));
    if (tern_encode_codes(w->encoding, codes, scale, w->rows, w->cols, out, err) != TERN_OK)
        return tern_error_prefix(err, "%s", w->name);
    w->data = out;
    model->i2s_stated = true;
    for (uint32_t r = 0; r < w->rows; r++) tern_store_f32((uint8_t *)&scales[r], scales[r]);
    return tern_model__fill(model, p->role, w, (const uint8_t *)scales, uniform ? 0 : w->rows, err);
}

tern_status tern_model__take_foreign(tern_model *model, const tern_gguf_weight *p, tern_error *err)
{
    const size_t n = (size_t)p->weight->rows * p->weight->cols;
    int8_t *codes = tern_alloc(n);
    float *scales = tern_calloc(p->weight->rows, sizeof *scales);
    const tern_status status = codes && scales ? take(model, p, codes, scales, err)
                                               : tern_fail_alloc(err, n + p->weight->rows * sizeof *scales);
    tern_free(codes);
    tern_free(scales);
    return status;
}
