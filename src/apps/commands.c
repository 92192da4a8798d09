/* The table of sub-commands. */
#include "apps/app.h"

const tern_command *const tern_commands[] = {
    &tern_command_run,      &tern_command_chat,       &tern_command_serve,
    &tern_command_pull,     &tern_command_list,       &tern_command_rm,
    &tern_command_convert,  &tern_command_package,    &tern_command_inspect,
    &tern_command_tokenize, &tern_command_logits,     &tern_command_perplexity,
    &tern_command_eval,     &tern_command_imatrix,    &tern_command_embed,
    &tern_command_bench,    &tern_command_tune,       &tern_command_compare,
    &tern_command_synth,    &tern_command_data,       &tern_command_export_lora,
    &tern_command_finetune, &tern_command_train,      &tern_command_devices,
    &tern_command_version,  &tern_command_completion, NULL,
};
