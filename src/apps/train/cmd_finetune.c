/* tern finetune: a model learns from text, all its weights or an adapter; tern train: a small model from scratch, its
 * tokenizer too. */
#include "apps/open.h"
#include "apps/ranks.h"
#include "apps/train/flags.h"
#include "apps/train/show.h"

static bool go_on(void *context)
{
    (void)context;
    return !tern_app_interrupted();
}

static tern_status train(const tern_options *options, const char *model, tern_train_words *words, tern_error *err)
{
    tern_finetune_options how = {.size = sizeof how};
    tern_finetune_result result = {.size = sizeof result};
    TERN_TRY(tern_train_read_flags(options, words, &how, err));
    tern_train_show show = {.json = options->json, .log_every = options->log_every};
    how.model = model;
    how.ranks = tern_app_ranks();
    if (how.cpu.n_threads == 0) how.cpu.n_threads = tern_app_rank_threads();
    if (tern_app_is_first()) {
        how.on_event = tern_train_show_event;
        how.go_on = go_on;
        how.context = &show;
    }
    tern_app_say_on_interrupt("\nstopping after this step, with a checkpoint; Ctrl-C once more stops at once\n");
    tern_status status = tern_finetune(&how, &result, err);
    tern_app_say_on_interrupt(NULL);
    tern_train_show_end(&show);
    if (!tern_app_is_first()) return status;
    if (status == TERN_OK && !how.dry_run) tern_train_show_result(&show, &result);
    if (status == TERN_CANCELLED) fprintf(stderr, "%s\n", err->message);
    return status;
}

/* model NULL: from --config. */
static tern_status run_training(const tern_options *options, const char *model, tern_error *err)
{
    tern_train_words words = {0};
    tern_status status = train(options, model, &words, err);
    tern_train_words_deinit(&words);
    return status;
}

static const tern_flag_group finetune_groups[] = {{"Files", tern_flags_train_data},
                                                  {"Model", tern_flags_model},
                                                  {"Trained weights", tern_flags_train_lora},
                                                  {"How long", tern_flags_train_length},
                                                  {"Optimiser", tern_flags_train_optimizer},
                                                  {"Memory", tern_flags_train_memory},
                                                  {"Quality", tern_flags_train_quality},
                                                  {"Power", tern_flags_train_power, true},
                                                  {"Several processes (mpirun)", tern_flags_train_ranks, true},
                                                  {"Device", tern_flags_device},
                                                  {"CPU", tern_flags_cpu},
                                                  {0}};

static tern_status run_finetune(const tern_options *o, tern_error *err)
{
    tern_app_path model;
    TERN_TRY(tern_app_find_model(o, &model, err));
    return run_training(o, model.text, err);
}

const tern_command tern_command_finetune = {
    .name = "finetune",
    .usage = "[-m MODEL] --data FILE -o OUT [--lora R] [--epochs N | --steps N]",
    .summary = "Fine-tune a model on text: all its weights, or a LoRA adapter",
    .detail = "The memory plan is printed before anything is allocated. Ctrl-C saves a checkpoint and ends;\n"
              "--resume goes on. OUT.gguf runs at once with tern run -m; a folder holds bf16 master weights for\n"
              "transformers, or with --lora an adapter for PEFT (docs/guides/fine-tuning.md).",
    .groups = finetune_groups,
    .defaults = tern_train_defaults,
    .max_args = 0,
    .ranks = TERN_RANKED_TOGETHER,
    .run = run_finetune,
};

static const tern_flag model_flags[] = {
    {"config", 'c', TERN_FLAG_TEXT, "FILE", offsetof(tern_options, training.config), 0, 0,
     "The model's shapes, in a config.json (docs/guides/fine-tuning.md)"},
    {"tokenizer", 0, TERN_FLAG_TEXT, "PATH", offsetof(tern_options, training.tokenizer), 0, 0,
     "A GGUF file or folder whose tokenizer is taken; one is learned from the data when not given"},
    {0},
};

static const tern_flag_group train_groups[] = {{"The model", model_flags},
                                               {"Files", tern_flags_train_data},
                                               {"How long", tern_flags_train_length},
                                               {"Optimiser", tern_flags_train_optimizer},
                                               {"Memory", tern_flags_train_memory},
                                               {"Quality", tern_flags_train_quality},
                                               {"Power", tern_flags_train_power, true},
                                               {"Several processes (mpirun)", tern_flags_train_ranks, true},
                                               {"Device", tern_flags_device},
                                               {"CPU", tern_flags_cpu},
                                               {0}};

static tern_status run_train(const tern_options *o, tern_error *err)
{
    if (!o->training.config)
        return tern_fail(err, TERN_INVALID_ARGUMENT, "no shapes of the model: --config with a config.json expected");
    return run_training(o, NULL, err);
}

const tern_command tern_command_train = {
    .name = "train",
    .usage = "--config FILE --data FILE -o OUT [--epochs N | --steps N]",
    .summary = "Train a small model from scratch",
    .detail = "FILE needs hidden_size, intermediate_size, num_hidden_layers and num_attention_heads; the rest of\n"
              "what transformers writes there has defaults. Everything else is as in tern finetune.",
    .groups = train_groups,
    .defaults = tern_train_defaults,
    .max_args = 0,
    .ranks = TERN_RANKED_TOGETHER,
    .run = run_train,
};
