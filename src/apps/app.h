/* Helpers of the sub-commands: interrupts, text in and out, groups of flags. */
#ifndef TERN_APPS_APP_H
#define TERN_APPS_APP_H

#include <jansson.h>

#include "apps/args/args.h"
#include "tern.h"

/* Seconds of a clock that only goes forward. */
double tern_app_seconds(void);

/* Ctrl-C, SIGTERM and SIGHUP (a terminal that was closed; not under nohup) set a flag; a second Ctrl-C or SIGTERM
 * before it is taken back ends the program. SIGPIPE is ignored. */
void tern_app_catch_interrupts(void);
/* The words of the first one on standard error, where it takes a while to act; NULL: nothing. */
void tern_app_say_on_interrupt(const char *words);
bool tern_app_interrupted(void);
/* Takes the interrupt back; true when there was one. */
bool tern_app_take_interrupt(void);
/* CANCELLED. */
tern_status tern_app_fail_interrupted(tern_error *err);

/* Ids separated by commas, spaces or brackets, appended to *ids. */
tern_status tern_app_parse_ids(const char *text, tern_tokens *ids, tern_error *err);
/* A list of numbers "1,2,4" of at most cap; each from 1 to max. */
tern_status tern_app_parse_list(const char *flag, const char *text, uint32_t max, uint32_t *out, uint32_t cap,
                                uint32_t *n, tern_error *err);
/* A whole file of at most 1 GiB, or for "-" standard input, at most 256 MiB. Errors: also LIMIT, INVALID_ARGUMENT (the
 * kind of file, where it has a known form that is not text). */
tern_status tern_app_read_text(const char *path, tern_buf *text, tern_error *err);

/* Prints a document and a newline, and frees it. */
tern_status tern_app_print_json(json_t *document, tern_error *err);
/* As above, on one line. */
tern_status tern_app_print_json_line(json_t *document, tern_error *err);
/* Bytes that may be no UTF-8, as a JSON string (those are then shown as \xNN). */
json_t *tern_app_json_text(const void *bytes, size_t n);
/* A number; JSON has no NaN and no infinities: "nan" and "infinity" instead. */
json_t *tern_app_json_number(double value);
/* Writes to standard output, and what was written out at once; false once anything failed. */
bool tern_app_write(const void *bytes, size_t n);
/* Whether that is a terminal. mpirun gives its processes one in any case: what has started it says by this that its
 * own output is none. */
#define TERN_APP_PIPED "TERN_PIPED"
bool tern_app_on_terminal(void);
/* As above, for text that others have written: a model, a file. On a terminal its control characters, except tabs and
 * line breaks, become \xNN, so that it cannot move the cursor, set a title or ask the terminal for an answer. */
bool tern_app_write_text(const void *bytes, size_t n);
/* As above, on standard error, terminal or not: for messages that quote names of files and words of the command
 * line. */
void tern_app_say(const char *format, ...) __attribute__((format(printf, 1, 2)));
bool tern_app_flushed(void);
/* The error of standard output so far, after writing all out. A reader that went away is not an error. */
tern_status tern_app_flush(tern_error *err);
/* "1.2 GB". */
const char *tern_app_bytes(uint64_t bytes, char out[16]);

/* Before anything is written: base/output.h, with --overwrite and all files and folders that the flags name: words that
 * are not flags, --file, --template, adapters, and `model` (may be NULL). */
tern_status tern_app_check_output(const tern_options *options, const char *model, const char *path, bool folder,
                                  tern_error *err);
/* Its flag, a row of a command's table; the letter is 'f' where that is free. */
#define TERN_APP_FLAG_OVERWRITE(letter)                                                                                \
    {                                                                                                                  \
        "overwrite", letter, TERN_FLAG_BOOL, NULL, offsetof(tern_options, overwrite), 0, 0, "Replace existing files"   \
    }

/* The order of the texts around a gap; `where` begins its help. */
#define TERN_APP_FLAG_SPM_INFILL(where)                                                                                \
    {                                                                                                                  \
        "spm-infill", 0, TERN_FLAG_BOOL, NULL, offsetof(tern_options, suffix_first), 0, 0,                             \
            where "the suffix comes before the prefix, as some models were trained", .more = true                      \
    }

/* The types of the cache; text: what --kv is. */
#define TERN_APP_KV_TYPES "auto|f16|f32|q8_0|q4_0"
#define TERN_APP_FLAGS_KV(text)                                                                                        \
    {"kv", 0, TERN_FLAG_CHOICE, TERN_APP_KV_TYPES, offsetof(tern_options, kv), 0, 0, text, .more = true},              \
        {"cache-type-k",                                                                                               \
         0,                                                                                                            \
         TERN_FLAG_CHOICE,                                                                                             \
         TERN_APP_KV_TYPES,                                                                                            \
         offsetof(tern_options, kv_keys),                                                                              \
         0,                                                                                                            \
         0,                                                                                                            \
         "Type of the keys alone; -ctk",                                                                               \
         .more = true},                                                                                                \
    {                                                                                                                  \
        "cache-type-v", 0, TERN_FLAG_CHOICE, TERN_APP_KV_TYPES, offsetof(tern_options, kv_values), 0, 0,               \
            "Type of the values alone; -ctv", .more = true                                                             \
    }

/* Groups of flags that several commands have. */
extern const tern_flag tern_flags_model[], tern_flags_device[], tern_flags_ranks[], tern_flags_steps[],
    tern_flags_cpu[], tern_flags_numbers[], tern_flags_kernel[], tern_flags_fusion[], tern_flags_session[],
    tern_flags_sampling[], tern_flags_grammar[], tern_flags_generation[], tern_flags_thoughts[];

/* The sub-commands, ended by NULL. */
extern const tern_command *const tern_commands[];
extern const tern_command tern_command_run, tern_command_chat, tern_command_convert, tern_command_inspect,
    tern_command_imatrix, tern_command_embed, tern_command_tokenize, tern_command_logits, tern_command_perplexity,
    tern_command_eval, tern_command_bench, tern_command_synth, tern_command_compare, tern_command_devices,
    tern_command_version, tern_command_completion, tern_command_data, tern_command_export_lora, tern_command_package,
    tern_command_finetune, tern_command_train, tern_command_tune, tern_command_serve, tern_command_pull,
    tern_command_list, tern_command_rm;

#endif
