/* Small Hugging Face folders, written for tests. */
#include "model/hf_cases.h"

#include "base/bytes.h"

tern_error hf_err;

uint8_t *hf_add(folder *f, const char *name, tern_st_dtype dtype, uint32_t rows, uint32_t cols)
{
    tern_st_tensor *t = &f->tensors[f->n];
    snprintf(f->names[f->n], sizeof *f->names, "%s", name);
    *t = (tern_st_tensor){.name = f->names[f->n], .dtype = dtype, .n_dims = rows ? 2 : 1, .data = f->data + f->used};
    t->dims[0] = rows ? rows : cols;
    t->dims[1] = cols;
    t->n_elements = (uint64_t)(rows ? rows : 1) * cols;
    t->bytes = t->n_elements * tern_st_dtype_bytes(dtype);
    uint8_t *data = f->data + f->used;
    f->used += t->bytes;
    f->n++;
    assert_true(f->used <= ROOM && f->n <= MAX_TENSORS);
    return data;
}

void hf_add_floats(folder *f, const char *name, uint32_t rows, uint32_t cols)
{
    uint8_t *data = hf_add(f, name, TERN_ST_BF16, rows, cols);
    for (size_t i = 0; i < (size_t)(rows ? rows : 1) * cols; i++)
        tern_store_u16(data + 2 * i, tern_f32_to_bf16((float)(i % 5) * 0.5f - 1.0f));
}

void hf_add_linear(folder *f, const char *name, uint32_t rows, uint32_t cols)
{
    char full[80], scale[96];
    snprintf(full, sizeof full, "model.layers.0.%s.weight", name);
    if (!f->packed) {
        hf_add_floats(f, full, rows, cols);
        return;
    }
    uint8_t *data =
        f->lsb ? hf_add(f, full, TERN_ST_U8, rows, cols / 4) : hf_add(f, full, TERN_ST_U8, (rows + 3) / 4, cols);
    for (size_t i = 0; i < (size_t)((rows + 3) / 4) * cols; i++) data[i] = i % 3 == 0 ? 0x24 : i % 3 == 1 ? 0x92 : 0x49;
    if (f->first_byte) data[0] = f->first_byte;
    snprintf(scale, sizeof scale, "%s_scale", full);
    uint8_t *scales = hf_add(f, scale, TERN_ST_BF16, 0, f->n_scales == 1 ? 1 : rows);
    for (uint32_t r = 0; r < (f->n_scales == 1 ? 1 : rows); r++)
        tern_store_u16(scales + 2 * r, tern_f32_to_bf16(f->scale ? *f->scale : 0.25f));
}

void hf_add_layer(folder *f)
{
    hf_add_linear(f, "self_attn.q_proj", f->n_embd, f->n_embd);
    hf_add_linear(f, "self_attn.k_proj", f->n_kv, f->n_embd);
    hf_add_linear(f, "self_attn.v_proj", f->n_kv, f->n_embd);
    hf_add_linear(f, "self_attn.o_proj", f->n_embd, f->n_embd);
    hf_add_linear(f, "mlp.gate_proj", f->n_ff, f->n_embd);
    hf_add_linear(f, "mlp.up_proj", f->n_ff, f->n_embd);
    hf_add_linear(f, "mlp.down_proj", f->n_embd, f->n_ff);
    hf_add_floats(f, "model.layers.0.input_layernorm.weight", 0, f->n_embd);
    hf_add_floats(f, "model.layers.0.post_attention_layernorm.weight", 0, f->n_embd);
    if (!f->sub_norms) return;
    hf_add_floats(f,
                  f->older_names ? "model.layers.0.self_attn.inner_attn_ln.weight"
                                 : "model.layers.0.self_attn.attn_sub_norm.weight",
                  0, f->n_embd);
    hf_add_floats(f,
                  f->older_names ? "model.layers.0.mlp.ffn_layernorm.weight" : "model.layers.0.mlp.ffn_sub_norm.weight",
                  0, f->n_ff);
}

const char *hf_write_folder(folder *f, const char *json)
{
    if (!f->n_embd) f->n_embd = f->n_ff = 16, f->n_kv = 8;
    if (!f->n_scales) f->n_scales = 1;
    const char *dir = test_scratch("hf");
    mkdir(dir, 0777);
    hf_add_floats(f, "model.embed_tokens.weight", N_VOCAB, f->n_embd);
    hf_add_layer(f);
    hf_add_floats(f, "model.norm.weight", 0, f->n_embd);
    tern_file_writer w;
    assert_ok(tern_file_writer_open(&w, test_scratch("hf/config.json"), &hf_err), hf_err);
    tern_file_writer_add(&w, "{", 1);
    tern_file_writer_add(&w, json, strlen(json));
    tern_file_writer_add(&w, "}", 1);
    assert_ok(tern_file_writer_commit(&w, &hf_err), hf_err);
    assert_ok(tern_safetensors_write(test_scratch("hf/model.safetensors"), f->tensors, f->n, NULL, &hf_err), hf_err);
    return dir;
}

tern_model *hf_open_folder(folder *f, const char *json)
{
    return open_model(hf_write_folder(f, json));
}

const tern_weight *hf_q_of(const tern_model *model)
{
    return tern_model_weight(model, TERN_ROLE_ATTN_Q, 0);
}
