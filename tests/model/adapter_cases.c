/* Adapters for tests, written piece by piece. */
#include "model/adapter_cases.h"

tern_error adapter_err;

tern_adapter *adapter_open_adapter(const char *path, const tern_model *model)
{
    tern_adapter *adapter = NULL;
    assert_ok(tern_adapter_open(&adapter, path, model, &adapter_err), adapter_err);
    return adapter;
}

void adapter_assert_same(const tern_adapter *a, const tern_adapter *b)
{
    const tern_adapter_info *x = tern_adapter_describe(a), *y = tern_adapter_describe(b);
    assert_int_equal(x->rank, y->rank);
    assert_memory_equal(&x->alpha, &y->alpha, sizeof x->alpha);
    assert_memory_equal(&x->dropout, &y->dropout, sizeof x->dropout);
    assert_memory_equal(&x->scale, &y->scale, sizeof x->scale);
    assert_int_equal(x->rslora, y->rslora);
    assert_int_equal(x->n_pairs, y->n_pairs);
    assert_int_equal(x->n_layers, y->n_layers);
    assert_int_equal(x->parameters, y->parameters);
    assert_string_equal(x->base, y->base);
    for (uint32_t layer = 0; layer < x->n_layers; layer++) {
        for (int role = 0; role < TERN_ROLE_COUNT; role++) {
            const tern_adapter_pair *p = tern_adapter_find(a, (tern_role)role, layer);
            const tern_adapter_pair *q = tern_adapter_find(b, (tern_role)role, layer);
            assert_int_equal(!p, !q);
            if (!p) continue;
            assert_int_equal(p->in, q->in);
            assert_int_equal(p->out, q->out);
            assert_memory_equal(p->a, q->a, (size_t)x->rank * p->in * sizeof *p->a);
            assert_memory_equal(p->b, q->b, (size_t)x->rank * p->out * sizeof *p->b);
        }
    }
}

void adapter_add(folder *f, const char *name, uint32_t rows, uint32_t cols)
{
    tern_st_tensor *t = &f->tensors[f->n];
    snprintf(f->names[f->n], sizeof *f->names, "%s", name);
    for (uint32_t i = 0; i < 64; i++) f->values[f->n][i] = (float)(i + 1) / 8.0f;
    *t = (tern_st_tensor){.name = f->names[f->n],
                          .dtype = TERN_ST_F32,
                          .n_dims = 2,
                          .dims = {rows, cols},
                          .n_elements = (uint64_t)rows * cols,
                          .data = (const uint8_t *)f->values[f->n],
                          .bytes = (size_t)rows * cols * 4};
    assert_true(t->bytes <= sizeof *f->values);
    f->n++;
}

folder adapter_sound(const char *config)
{
    folder f = {.config = config};
    adapter_add(&f, Q_A, RANK, 16);
    adapter_add(&f, Q_B, 16, RANK);
    return f;
}

const char *adapter_write_made(folder *f)
{
    const char *dir = test_scratch("lora-made");
    char path[1100];
    mkdir(dir, 0777);
    snprintf(path, sizeof path, "%s/adapter_config.json", dir);
    test_write_text(path, f->config);
    snprintf(path, sizeof path, "%s/adapter_model.safetensors", dir);
    for (size_t i = 0; i < f->n; i++) f->tensors[i].name = f->names[i], f->tensors[i].data = (uint8_t *)f->values[i];
    assert_ok(tern_safetensors_write(path, f->tensors, f->n, NULL, &adapter_err), adapter_err);
    return dir;
}

tern_model *adapter_open_micro(const char *architecture, tern_buf *bytes)
{
    tern_model *model = NULL;
    micro_change change = {.architecture = architecture};
    *bytes = micro_model(&change);
    assert_ok(tern_model_open_memory(&model, bytes->data, bytes->size, NULL, &adapter_err), adapter_err);
    return model;
}
