/* Input files of training data to one file of documents. */
#ifndef TERN_TRAIN_DATA_READ_H
#define TERN_TRAIN_DATA_READ_H

#include "train/data/document.h"
#include "train/data/file.h"

typedef enum tern_train_split {
    TERN_TRAIN_SPLIT_FILE,  /* a text file is one document */
    TERN_TRAIN_SPLIT_BLANK, /* runs of empty lines part documents */
    TERN_TRAIN_SPLIT_LINE,  /* each line is one */
    TERN_TRAIN_SPLIT_MARK   /* they end at each `mark`; empty lines around them are not theirs */
} tern_train_split;

/* Zero-initialised except for the maker and the inputs. */
typedef struct tern_train_data_params {
    tern_train_maker maker;
    const char *const *inputs; /* [n_inputs]; train/data/kind.h says how each is read */
    size_t n_inputs;
    tern_train_split split;
    const char *mark;                            /* not empty; with SPLIT_MARK */
    const char *column;                          /* of CSV and TSV: the one with the text; NULL: "text" */
    bool skip_bad;                               /* lines of JSONL, elements of JSON and records of CSV that cannot be
                                                    used are counted and left out */
    bool (*progress)(void *context, float done); /* false: CANCELLED; may be NULL */
    void *context;
} tern_train_data_params;

/* The bytes that were read. */
typedef struct tern_train_data_report {
    tern_train_data_info info;
    uint64_t longest;                   /* tokens of the longest document */
    uint64_t skipped[TERN_TRAIN_SKIPS]; /* documents left out, by reason */
    uint64_t conversations;             /* documents kept that the chat template has made */
    uint64_t joined;                    /* of them, those of tern_train_document.joined */
    uint64_t empty_answers;             /* in them: answers that are not learned because they are empty */
    uint64_t unlike_answers;            /* because of tern_train_document.n_unlike */
    uint64_t bad;                       /* lines left out by skip_bad, and what was wrong with the first of them */
    tern_error first_bad;
} tern_train_data_report;

/* Reads the inputs in their order and writes `path`. Errors name file and line: those of document.h and
 * file.h; INVALID_ARGUMENT for ids beside other documents, whose rows follow other rules. Nothing is written on
 * failure. */
tern_status tern_train_data_make(const tern_train_data_params *params, const char *path, tern_train_data_report *report,
                                 tern_error *err);
/* As above from one input in memory, in the place of params->inputs, to the end of a buffer. `name` is the input's, for
 * messages and to tell JSONL by. */
tern_status tern_train_data_make_memory(const tern_train_data_params *params, const char *name, const void *bytes,
                                        size_t n, tern_buf *out, tern_train_data_report *report, tern_error *err);

#endif
