/* Text on its way out: whole UTF-8, held back while it may be the beginning of a stop string. */
#ifndef TERN_INFER_SAMPLE_STOP_H
#define TERN_INFER_SAMPLE_STOP_H

#include <stdbool.h>
#include <stdint.h>

#include "tern/bytes.h"

typedef struct tern_stop_filter {
    const char *const *stops;
    uint32_t n_stops;
    tern_buf text;   /* what is held back, and what was just added */
    size_t n_shown;  /* how much of text the last call let go */
    const char *met; /* the stop string that was complete; NULL: none */
} tern_stop_filter;

/* The stop strings are borrowed; empty ones never match. Takes memory for pieces of ordinary length. */
tern_status tern_stop_filter_init(tern_stop_filter *f, const char *const *stops, uint32_t n_stops, tern_error *err);
void tern_stop_filter_deinit(tern_stop_filter *f);

/* Forgets what was let go, so that text can be added to f->text. */
void tern_stop_filter_advance(tern_stop_filter *f);
/* Decides how much of f->text can be shown: f->n_shown bytes. True when a stop string is complete: the one that ends
 * first, the longest of those; what comes before it is shown, the rest is dropped. How the text was cut into pieces
 * makes no difference. */
bool tern_stop_filter_scan(tern_stop_filter *f);
/* Lets go of everything. */
void tern_stop_filter_release(tern_stop_filter *f);

#endif
