/* Running the library's training as a command. */
#include "apps/train_run.h"

#include "apps/app.h"
#include "apps/train_flags.h"
#include "apps/train_show.h"

static bool go_on(void *context)
{
    (void)context;
    return !tern_app_interrupted();
}

static tern_status train(const tern_options *options, const char *model, tern_train_words *words, tern_error *err)
{
    tern_finetune_options how;
    tern_finetune_result result;
    TERN_TRY(tern_train_read_flags(options, words, &how, err));
    tern_train_show show = {.json = options->json, .dry_run = how.dry_run, .log_every = options->log_every};
    how.model = model;
    how.on_event = tern_train_show_event;
    how.go_on = go_on;
    how.context = &show;
    tern_app_say_on_interrupt("\nstopping after this step, with a checkpoint; Ctrl-C once more stops at once\n");
    tern_status status = tern_finetune(&how, &result, err);
    tern_app_say_on_interrupt(NULL);
    tern_train_show_end(&show);
    if (status == TERN_OK && !how.dry_run) tern_train_show_result(&show, &result);
    if (status == TERN_CANCELLED) fprintf(stderr, "%s\n", err->message);
    return status;
}

tern_status tern_train_run_command(const tern_options *options, const char *model, tern_error *err)
{
    tern_train_words words = {0};
    tern_status status = train(options, model, &words, err);
    tern_train_words_deinit(&words);
    return status;
}
