/* Command lines: tables of flags that parse, explain and complete themselves. */
#ifndef TERN_APPS_ARGS_ARGS_H
#define TERN_APPS_ARGS_ARGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "apps/options.h"
#include "base/error.h"

typedef enum tern_flag_kind {
    TERN_FLAG_BOOL,   /* bool; takes no value */
    TERN_FLAG_TEXT,   /* const char * */
    TERN_FLAG_TEXTS,  /* tern_texts; may be given several times */
    TERN_FLAG_CHOICE, /* const char *, one of the words of the metavar: "f16|f32" */
    TERN_FLAG_U32,
    TERN_FLAG_U64,
    TERN_FLAG_F32,
    TERN_FLAG_F64
} tern_flag_kind;

/* A value that a flag takes, for its help. */
typedef struct tern_flag_value {
    const char *name, *what;
} tern_flag_value;

/* One flag; a list of them ends with one without a name. */
typedef struct tern_flag {
    const char *name; /* without its dashes */
    char letter;      /* the short form, or 0 */
    tern_flag_kind kind;
    const char *metavar;
    size_t field;    /* offset in tern_options */
    double min, max; /* numbers: both ends allowed; max <= min: any */
    const char *help;
    size_t given; /* offset of a bool that says that the flag was there; 0: none */
    bool (*value_at)(uint32_t i,
                     tern_flag_value *value); /* what help lists below it; false at the end. NULL: nothing */
    bool more; /* no usual flag: a page of --help that does not fit a screen leaves it out */
} tern_flag;

typedef struct tern_flag_group {
    const char *title;
    const tern_flag *flags;
    bool more; /* for all of its flags */
} tern_flag_group;

/* The processes that mpirun has started with a command. */
typedef enum tern_ranked {
    TERN_RANKED_ALONE,    /* refused: it is for one */
    TERN_RANKED_FOLLOWED, /* rank 0 runs it, the others what it does with its engine */
    TERN_RANKED_TOGETHER  /* all run it */
} tern_ranked;

typedef struct tern_command {
    const char *name;
    const char *usage;             /* what follows the name */
    const char *summary;           /* one line */
    const char *detail;            /* more lines, or NULL */
    const tern_flag_group *groups; /* ends with one without flags */
    tern_ranked ranks;             /* whether several processes may run it together (apps/ranks.h) */
    /* The options that another rank than 0 follows with, where they differ from options->model. NULL: these */
    tern_status (*followed)(const tern_options *options, tern_options *followed, tern_error *err);
    uint32_t min_args, max_args;             /* words that are not flags */
    void (*defaults)(tern_options *options); /* may be NULL: all zero */
    /* Does the work; an error is printed by the caller. CANCELLED after Ctrl-C. */
    tern_status (*run)(const tern_options *options, tern_error *err);
} tern_command;

/* Reads the words after the sub-command into *options, which holds the defaults. Flags are "--name value",
 * "--name=value", "-l value", "-lvalue"; a long name may be cut short where it stays unique; "--" ends the flags. A
 * next word that looks like a long flag is not a value: the value was forgotten. Errors: INVALID_ARGUMENT with the
 * flag, the value found and what was expected, or the nearest flag for one that is unknown. */
tern_status tern_args_parse(const tern_command *command, int n, char **words, tern_options *options, tern_error *err);
/* Frees what parsing allocated. */
void tern_args_deinit(tern_options *options);

/* The page of --help-all: every flag, in its group. --help (`all` false) prints the same page where that has at most 40
 * lines, else the usual flags, each with the part of its help before a semicolon. Lines have at most 80 columns. */
void tern_args_help(const tern_command *command, bool all, FILE *out);
/* As above, as a page for man(1), in mdoc. */
void tern_args_man(const tern_command *command, FILE *out);
/* Prints what a flag's value is when it is not given: " (default 40)". */
void tern_args_print_default(const tern_flag *f, const tern_options *defaults, FILE *out);
/* The i-th flag of a command over all its groups, then --help and --help-all; NULL at the end. */
const tern_flag *tern_args_flag_at(const tern_command *command, size_t i);

#endif
