/* Functions that backends around another one (paged, spill) have in common: graphs that are run part by part, and
 * functions that the inner backend answers. */
#ifndef TERN_BACKEND_WRAP_H
#define TERN_BACKEND_WRAP_H

#include "backend/backend.h"
#include "ops/graph.h"

/* A run of ops of a prepared graph. First in the parts of a wrapping backend. */
typedef struct tern_wrap_part {
    tern_graph graph;        /* ops: its part of the prepared copy */
    tern_binding *bindings;  /* [n_values] on the inner backend; nowhere for those that its ops do not use */
    tern_prepared *prepared; /* by the inner backend */
} tern_wrap_part;

/* A prepared graph as its parts. */
typedef struct tern_wrap_parts {
    const tern_wrap_part *parts; /* [n] of so many bytes each */
    size_t n, part_bytes;
    const tern_op *ops;   /* all of them, as they follow each other in the parts */
    const size_t *copies; /* op i of the graph is ops [copies[i], copies[i + 1]) of these; NULL: op i */
} tern_wrap_parts;

/* A wrapping backend begins with this. Its buffers begin with the inner backend's (tern_buffer *inner), or NULL, where
 * they are something else. */
typedef struct tern_wrap {
    tern_backend base;
    tern_backend *inner;
    const char *no_sampling; /* why SAMPLE is for the host */
    tern_wrap_parts (*parts_of)(const tern_prepared *prepared);
    char name[64];
} tern_wrap;

static inline tern_backend *tern_wrap__inner(const tern_backend *b)
{
    return ((const tern_wrap *)b)->inner;
}

/* Fills base with what the inner backend is and answers; what the wrapping one does itself it sets afterwards. One step
 * at a time; the host samples. `word` comes before the inner one's name. */
void tern_wrap__init(tern_wrap *wrap, tern_backend *inner, const char *word, const char *no_sampling,
                     tern_wrap_parts (*parts_of)(const tern_prepared *prepared));

/* *out is what was made, where that went well; else its memory is freed. Returns status. */
tern_status tern_wrap__give(tern_status status, tern_buffer *made, tern_buffer **out);

/* The bindings of a part: of the values that its ops use, as they are in at[n_values] on the inner backend, and of all
 * parameters. The part's own. Errors: OUT_OF_MEMORY. */
tern_status tern_wrap__bind_part(tern_wrap_part *part, const tern_binding *at, tern_error *err);

#endif
