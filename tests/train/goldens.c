/* The golden files of training, and how far from them something is. */
#include "train/goldens.h"

#include <math.h>

tern_safetensors *open_file(const char *name)
{
    tern_error err = {0};
    tern_safetensors *st;
    assert_ok(tern_safetensors_open(&st, test_fixture(name), &err), err);
    return st;
}

const void *data_of(const tern_safetensors *st, const char *name, size_t n)
{
    const tern_st_tensor *t = tern_safetensors_find(st, name);
    if (!t) fail_msg("no %s", name);
    assert_int_equal(t->n_elements, n);
    return t->data;
}

double distance(const float *got, const float *want, size_t n)
{
    double error = 0, size = 0;
    for (size_t i = 0; i < n; i++) {
        double d = (double)got[i] - (double)want[i];
        error += d * d;
        size += (double)want[i] * (double)want[i];
    }
    return sqrt(error / size);
}

const char *half_name(const ref_param *p, const char *before, const char *half)
{
    static char name[160];
    snprintf(name, sizeof name, "%sbase_model.model.%.*s.%s.weight", before, (int)(strlen(p->name) - strlen(".weight")),
             p->name, half);
    return name;
}

void attach(ref_model *model, ref_param *p, const tern_safetensors *adapter)
{
    ref_lora *lora = &p->lora;
    *lora = (ref_lora){.rank = RANK, .scale = 16.0f / RANK};
    float **const parts[] = {&lora->a, &lora->b, &lora->da, &lora->db, &lora->u, &lora->du};
    const size_t sizes[] = {p->cols, p->rows, p->cols, p->rows, REF_TOKENS, REF_TOKENS};
    for (size_t i = 0; i < 6; i++) {
        *parts[i] = tern_arena_alloc(&model->arena, sizes[i] * RANK, sizeof(float));
        assert_non_null(*parts[i]);
    }
    memcpy(lora->a, data_of(adapter, half_name(p, "", "lora_A"), RANK * p->cols), RANK * p->cols * sizeof(float));
    memcpy(lora->b, data_of(adapter, half_name(p, "", "lora_B"), RANK * p->rows), RANK * p->rows * sizeof(float));
}
