/* tern finetune: a model learns from text, all its weights or an adapter. */
#include "apps/open.h"
#include "apps/train_flags.h"
#include "apps/train_run.h"

static const tern_flag_group groups[] = {{"Files", tern_flags_train_data},
                                         {"Model", tern_flags_model},
                                         {"What is trained", tern_flags_train_lora},
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
    tern_app_path model;
    TERN_TRY(tern_app_find_model(o, &model, err));
    return tern_train_run_command(o, model.text, err);
}

const tern_command tern_command_finetune = {
    .name = "finetune",
    .usage = "[-m MODEL] --data FILE -o OUT [--lora R] [--epochs N | --steps N]",
    .summary = "Fine-tune a model on text: all its weights, or a LoRA adapter",
    .detail = "The memory plan is printed before anything is allocated. Ctrl-C saves a checkpoint and ends;\n"
              "--resume goes on. OUT.gguf runs at once with tern run -m; a folder holds bf16 master weights for\n"
              "transformers, or with --lora an adapter for PEFT (docs/training.md).",
    .groups = groups,
    .defaults = tern_train_defaults,
    .max_args = 0,
    .run = run,
};
