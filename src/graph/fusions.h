/* The passes of fusion by their names, so that each can be left out: what it is worth is the difference. */
#ifndef TERN_GRAPH_FUSIONS_H
#define TERN_GRAPH_FUSIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

/* One pass; the table is in fuse.c, in the order in which they run. */
typedef struct tern_fusion_pass {
    const char *name; /* "siblings": letters and underscores */
    const char *what; /* the ops that become one, and the pass that has to come before, in a few words */
} tern_fusion_pass;

/* The i-th pass, false behind the last one. There are at most 32. */
bool tern_graph_fusion_at(uint32_t i, tern_fusion_pass *pass);
/* "siblings,gate", "all", "" and NULL (none) into a mask of bits 1 << i, for tern_graph_options.no_fusion. Errors:
 * INVALID_ARGUMENT (a name that is none, with the nearest one or all of them). */
tern_status tern_graph_fusions_parse(const char *list, uint32_t *mask, tern_error *err);

/* The first row of the table: the one pass that belongs to the memory plan. */
enum { TERN_FUSION_PASS_IN_PLACE = 1 };

#endif
