/* A trainer on the backend under test against PyTorch. */
#include "train/golden_trainer.h"

#include "support/op_case.h"

ref_model model;
test_batch batch;

static tern_error err;

bool exact(void)
{
    return !test_on_gpu();
}

ref_nudges golden_nudges(void)
{
    return (ref_nudges){.width = REF_TIE_WIDTH, .margin = exact() ? 2e-6f : 1e-4f};
}

ref_nudges own_nudges(void)
{
    return (ref_nudges){.width = 2e-4f, .margin = 2e-4f};
}

golden_bounds golden_most(void)
{
    static const golden_bounds same = {1e-6, 1e-6, 2e-6, 1e-6, .losses = 5e-6, .parameters = 2e-6},
                               other = {1e-6, 1e-5, 1e-5, 2e-6, .losses = 2e-4, .parameters = 1e-5};
    return exact() ? same : other;
}

void check(const char *name, double found, double most)
{
    print_message("%s: %.2g of at most %.2g\n", name, found, most);
    if (!(found <= most)) fail_msg("%s: relative distance %g, at most %g expected", name, found, most);
}

target golden_target(const tern_safetensors *golden)
{
    target aim = {.golden = golden,
                  .ids = data_of(golden, "input_ids", REF_TOKENS),
                  .labels = data_of(golden, "labels", REF_TOKENS)};
    test_batch_fill(&batch, aim.ids, aim.labels, 2, REF_SEQUENCE);
    return aim;
}

void write_gains(tern_trainer *trainer)
{
    for (uint32_t i = 0; i < REF_PARAMS; i++) {
        const ref_param *p = &model.params[i];
        if (!p->is_norm) continue;
        size_t at = test_trainer_find(trainer, p->name);
        assert_ok(tern_trainer_write(trainer, at, TERN_STATE_MASTER, p->w, &err), err);
    }
}

tern_trainer_params golden_params(void)
{
    tern_trainer_params p = tern_trainer_defaults();
    p.batch = 2;
    p.seq = REF_SEQUENCE;
    p.lr = 1e-3;
    p.schedule = TERN_SCHEDULE_CONSTANT;
    p.n_steps = 30;
    return p;
}

double logits_error(void *context)
{
    const target *aim = context;
    size_t n = REF_TOKENS * REF_VOCAB;
    ref_forward(&model, aim->ids);
    return distance(model.logits, aim->logits, n);
}
