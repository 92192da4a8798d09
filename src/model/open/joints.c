/* Matrices that some files store as one tensor: q, k and v, or gate and up, one below the other. */
#include <stdio.h>
#include <string.h>

#include "format/gguf.h"
#include "model/model_internal.h"
#include "quant/encoding.h"

/* Phi-3 has both, in both kinds of file: Hugging Face's names are its own, the others llama.cpp's. */
static const struct {
    const char *gguf, *hf;
    tern_role first;
    uint32_t n;
} joints[] = {
    {"blk.%u.attn_qkv.weight", "model.layers.%u.self_attn.qkv_proj.weight", TERN_ROLE_ATTN_Q, 3},
    {"blk.%u.ffn_up.weight", "model.layers.%u.mlp.gate_up_proj.weight", TERN_ROLE_FFN_GATE, 2},
};

static uint32_t rows_of(const tern_config *config, uint32_t role, uint32_t layer)
{
    uint32_t rows, cols;
    tern_role__shape((tern_role)role, layer, config, &rows, &cols);
    return rows;
}

bool tern_role__joint(const tern_config *config, tern_role role, uint32_t layer, tern_joint *out)
{
    for (size_t i = 0; i < sizeof joints / sizeof *joints; i++) {
        const uint32_t first = joints[i].first, n = joints[i].n;
        if (role < first || role >= first + n) continue;
        *out = (tern_joint){.first = joints[i].first, .last = (tern_role)(first + n - 1)};
        for (uint32_t k = 0; k < n; k++) {
            if (first + k == role) out->first_row = out->rows;
            out->rows += rows_of(config, first + k, layer);
        }
        tern_role__name_in_layer(joints[i].gguf, layer, out->gguf);
        tern_role__name_in_layer(joints[i].hf, layer, out->hf);
        return true;
    }
    return false;
}

const tern_gguf_tensor *tern_joint__find(const tern_config *config, const tern_gguf *g, tern_role role, uint32_t layer,
                                         tern_joint *joint)
{
    char name[TERN_MODEL__NAME_BYTES];
    if (!tern_role__joint(config, role, layer, joint)) return NULL;
    tern_role__gguf_name(config, joint->first, layer, name);
    if (tern_gguf_find_tensor(g, name)) return NULL;
    const tern_gguf_tensor *t = tern_gguf_find_tensor(g, joint->gguf);
    tern_role__gguf_name(config, joint->last, layer, name);
    const bool other_name = strcmp(name, joint->gguf) != 0;
    return t && (other_name || t->rows == joint->rows) ? t : NULL;
}

tern_status tern_joint__check(const tern_joint *joint, const tern_gguf_tensor *t, uint32_t cols, tern_error *err)
{
    if (t->rows != joint->rows || t->cols != cols)
        return tern_fail(err, TERN_MALFORMED, "%s: %llu rows of %llu found, %u rows of %u expected", joint->gguf,
                         (unsigned long long)t->rows, (unsigned long long)t->cols, joint->rows, cols);
    if (tern_encoding_find(t->type)) return TERN_OK;
    return tern_fail(err, TERN_UNSUPPORTED, "%s: several matrices in one of %s found, an encoding of weights expected",
                     joint->gguf, tern_gguf_type_name(t->type));
}

tern_status tern_joint__slice(const tern_joint *joint, const tern_encoding *e, uint32_t cols, size_t *offset,
                              tern_error *err)
{
    size_t row_bytes;
    if (e->tail_bytes || e->linear)
        return tern_fail(err, TERN_UNSUPPORTED,
                         "%s: several matrices in one of %s found, an encoding whose rows stand alone expected",
                         joint->gguf, e->name);
    TERN_TRY(tern_encoding_bytes(e, 1, cols, &row_bytes, err));
    *offset = (size_t)joint->first_row * row_bytes;
    return TERN_OK;
}
