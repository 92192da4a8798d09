/* Tensors that ranks exchange, owner by owner, and the pieces in which they are exchanged. All ranks use the same
 * pieces, through memory of the host (train/collective.h) or from device to device (tern_backend_peers). */
#ifndef TERN_BACKEND_COLLECTIVE_H
#define TERN_BACKEND_COLLECTIVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tern/ranks.h"

typedef struct tern_buffer tern_buffer;

/* A tensor that all ranks have whole, and one owns. */
typedef struct tern_collective_tensor {
    tern_buffer *buffer;
    tern_buffer *sum; /* the owner's, f32: what is added up; NULL on others, and where nothing is */
    uint64_t bytes;
    uint32_t owner;
} tern_collective_tensor;

/* Passes that follow each other, one of each rank 0 .. n - 1. */
typedef struct tern_collective_passes {
    uint32_t n;
    bool first;     /* the sums are zeros, whatever lies there */
    bool beside;    /* a graph that was started last touches neither tensors nor sums; of a backend with `copies` */
    bool *infinite; /* becomes true, at the end, where a number of this rank's tensors is NaN or infinite */
} tern_collective_passes;

/* A place in the tensors of one owner, one after the other. */
typedef struct tern_collective_place {
    const tern_collective_tensor *tensors;
    size_t n, tensor;
    uint64_t at; /* bytes of that one that are done */
    uint32_t owner;
} tern_collective_place;

/* Bytes from a place on. */
typedef struct tern_collective_piece {
    tern_collective_place from;
    size_t bytes;
} tern_collective_piece;

/* Bytes of one tensor. */
typedef struct tern_collective_part {
    const tern_collective_tensor *tensor;
    uint64_t at;
    size_t bytes; /* 0: there is none */
} tern_collective_part;

/* The beginning, of each of n owners. */
void tern_collective_begin(tern_collective_place *places, uint32_t n_owners, const tern_collective_tensor *tensors,
                           size_t n);
/* The next piece of each owner, of at most so many bytes; false: none has one. */
bool tern_collective_next(tern_collective_place *places, tern_collective_piece *pieces, uint32_t n_owners, size_t most);
/* The next bytes of one tensor, at most so many; those of a piece are gone through with a copy of `from`. */
tern_collective_part tern_collective_next_part(tern_collective_place *place, size_t most);

#endif
