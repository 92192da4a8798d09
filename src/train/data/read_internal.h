/* Inside the reading of training data: the input at hand, and the readers of each kind. */
#ifndef TERN_TRAIN_DATA_READ_INTERNAL_H
#define TERN_TRAIN_DATA_READ_INTERNAL_H

#include "train/data/read.h"

typedef struct tern_train_reading {
    const tern_train_data_params *params;
    tern_train_data_report *report;
    tern_train_data_writer writer;
    tern_train_document document;
    const char *path;
    uint64_t line;          /* of the input, from 1 */
    uint64_t before, total; /* bytes of the inputs before this one, and of all */
} tern_train_reading;

/* Tells how many bytes of the input are done. Errors: CANCELLED. */
tern_status tern_train_reading__update(const tern_train_reading *r, uint64_t at, tern_error *err);
/* Keeps the document that r->document holds. */
tern_status tern_train_reading__keep(tern_train_reading *r, tern_error *err);
/* As above when making it gave `status`: with a failure, which `bad` tells, it is counted where params->skip_bad. */
tern_status tern_train_reading__made(tern_train_reading *r, tern_status status, const tern_error *bad, tern_error *err);
/* Makes and keeps a document from a line of JSON, or from a value of the caller's. */
tern_status tern_train_reading__add_line(tern_train_reading *r, tern_span line, tern_error *err);
tern_status tern_train_reading__add_value(tern_train_reading *r, const json_t *value, tern_error *err);

/* An array of objects, or one object. */
tern_status tern_train_reading__json(tern_train_reading *r, tern_span bytes, tern_error *err);
/* Records, of which the first names the columns: params->column, or "text", or "prompt" and "completion". */
tern_status tern_train_reading__csv(tern_train_reading *r, tern_span bytes, char separator, tern_error *err);

#endif
