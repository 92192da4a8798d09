/* The hyperparameters of a configuration, one row for each: what shows them goes through this table, so that a new one
 * is added in one place. */
#ifndef TERN_MODEL_HYPER_H
#define TERN_MODEL_HYPER_H

#include "format/json.h"
#include "model/model.h"

typedef enum tern_hyper_kind { TERN_HYPER_U32, TERN_HYPER_F32, TERN_HYPER_BOOL, TERN_HYPER_ACTIVATION } tern_hyper_kind;

typedef struct tern_hyper {
    const char *name;      /* `tern inspect` */
    const char *inference; /* `inference` of a package's manifest; NULL: not there, or in an object of its own */
    const char *hf;        /* config.json of all classes; NULL: classes differ in it, or in where it is */
    tern_hyper_kind kind;
    size_t at;   /* in tern_config */
    bool always; /* shown where it is 0 as well */
    bool cached; /* keys and values of a saved session depend on it, and no weight tells */
} tern_hyper;

/* NULL past the last. */
const tern_hyper *tern_hyper_at(size_t i);
/* 0 and 1 of flags; an activation's number. */
double tern_hyper_value(const tern_hyper *hyper, const tern_config *config);
/* An integer, a real, a boolean or an activation's name; the caller's. */
json_t *tern_hyper_json(const tern_hyper *hyper, const tern_config *config);

#endif
