/* tern train: a small model from nothing, its tokenizer too. */
#include "apps/app.h"
#include "apps/train_flags.h"
#include "apps/train_run.h"

static const tern_flag flags[] = {
    {"config", 'c', TERN_FLAG_TEXT, "FILE", offsetof(tern_options, training.config), 0, 0,
     "The model's shapes, in a config.json (docs/training.md)"},
    {"tokenizer", 0, TERN_FLAG_TEXT, "PATH", offsetof(tern_options, training.tokenizer), 0, 0,
     "A GGUF file or folder whose tokenizer is taken; one is learned from the data when not given"},
    {0},
};

static const tern_flag_group groups[] = {{"The model", flags},
                                         {"Files", tern_flags_train_data},
                                         {"How long", tern_flags_train_length},
                                         {"Optimiser", tern_flags_train_optimizer},
                                         {"Memory", tern_flags_train_memory},
                                         {"Quality", tern_flags_train_quality},
                                         {"Power", tern_flags_train_power},
                                         {"Device", tern_flags_device},
                                         {"CPU", tern_flags_cpu},
                                         {0}};

static tern_status run(const tern_options *o, tern_error *err)
{
    if (!o->training.config)
        return tern_fail(err, TERN_INVALID_ARGUMENT, "no shapes of the model: a config.json expected with --config");
    return tern_train_run_command(o, NULL, err);
}

const tern_command tern_command_train = {
    .name = "train",
    .usage = "--config FILE --data FILE -o OUT [--epochs N | --steps N]",
    .summary = "Train a small model from nothing",
    .detail = "FILE needs hidden_size, intermediate_size, num_hidden_layers and num_attention_heads; the rest of\n"
              "what transformers writes there has defaults. Everything else is as in tern finetune.",
    .groups = groups,
    .defaults = tern_train_defaults,
    .max_args = 0,
    .run = run,
};
