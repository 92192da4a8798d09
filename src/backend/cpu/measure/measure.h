/* The highest rates of this machine, measured with the backend's own threads. */
#ifndef TERN_BACKEND_CPU_MEASURE_MEASURE_H
#define TERN_BACKEND_CPU_MEASURE_MEASURE_H

#include "backend/backend.h"

/* tern_backend.measure.
 *   READ  bytes per second at which all threads together read the buffers: the best of the passes that begin within
 *         `seconds` (at least two). Buffers of less than 256 MiB in all are replaced by one of that size, more than
 *         caches hold. 0 when out of memory.
 *   DOTS  integer multiply-adds per second of all threads together at the level of the kernel that takes i2_s weights,
 *         in a loop that touches registers only: the best of a few short runs.
 *   FMA   f32 multiply-adds in the same way, at the level of the kernel that multiplies f32 matrices. */
double tern_cpu__measure(tern_backend *backend, tern_measure what, tern_buffer *const *buffers, size_t n,
                         double seconds);

#endif
