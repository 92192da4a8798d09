/* Declarations that the files of RSR share: one unit sorted, and the pieces that blocks leave behind. */
#ifndef TERN_QUANT_RSR_INTERNAL_H
#define TERN_QUANT_RSR_INTERNAL_H

#include "quant/rsr.h"

enum { TERN_RSR__STREAMS = 3 };

/* One unit, sorted: groups[n_groups] over perm[n_columns], the pattern 0 left out. */
typedef struct tern_rsr__unit {
    uint32_t k, width; /* columns of the panel */
    uint32_t n_columns, n_groups;
    const uint16_t *perm;
    const tern_rsr_group *groups;
} tern_rsr__unit;

/* Bytes that grow. */
typedef struct tern_rsr__stream {
    uint8_t *data;
    size_t bytes, cap;
} tern_rsr__stream;

/* Room for n more bytes at the end; NULL when out of memory. */
void *tern_rsr__append(tern_rsr__stream *stream, size_t n);

/* Appends what is kept of a unit to the streams; counts are what `first` sums up. `scratch` is scratch_bytes of the
 * thread's own. */
typedef tern_status (*tern_rsr__emit_fn)(const tern_rsr__unit *unit, void *scratch, tern_rsr__stream *streams,
                                         uint32_t counts[2], tern_error *err);

/* All units, one after the other. */
typedef struct tern_rsr__joined {
    uint32_t n_blocks, n_panels, panel_cols;
    uint32_t *first[2]; /* [n_units + 1] */
    uint8_t *data[TERN_RSR__STREAMS];
    size_t bytes[TERN_RSR__STREAMS];
} tern_rsr__joined;

tern_status tern_rsr__build(tern_rsr__joined *out, const tern_rsr_source *source, const tern_rsr_options *options,
                            tern_rsr__emit_fn emit, size_t (*scratch_bytes)(uint32_t panel_cols), tern_error *err);
void tern_rsr__joined_deinit(tern_rsr__joined *joined);

/* Sorting one unit. The memory of one thread: */
typedef struct tern_rsr__sorter {
    uint32_t k, base, panel_cols, n_patterns; /* base^k */
    bool counting;
    uint32_t *keys, *counts; /* counts: [n_patterns + 1] when counting, else [257] */
    uint16_t *perm, *other;
    tern_rsr_group *groups; /* [panel_cols] */
} tern_rsr__sorter;

tern_status tern_rsr__sorter_init(tern_rsr__sorter *s, const tern_rsr_options *options, uint32_t panel_cols,
                                  tern_error *err);
void tern_rsr__sorter_deinit(tern_rsr__sorter *s);
/* rows: codes of the block, rows `stride` apart, n_rows of them (the others of the k are zeros); the unit lives until
 * the next call. */
void tern_rsr__sort(tern_rsr__sorter *s, const int8_t *rows, size_t stride, uint32_t n_rows, uint32_t width,
                    tern_rsr__unit *out);

#endif
