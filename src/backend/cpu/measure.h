/* What this machine can do at most, measured with the backend's own threads. */
#ifndef TERN_BACKEND_CPU_MEASURE_H
#define TERN_BACKEND_CPU_MEASURE_H

#include "backend/backend.h"
#include "base/bytes.h"

/* Bytes per second at which all threads together read n regions of memory: the best of the passes that begin within
 * `seconds` (at least two). Regions of less than 256 MiB in all are replaced by a buffer of that size, more than caches
 * hold. 0 when out of memory. */
double tern_cpu_measure_read(tern_backend *backend, const tern_span *regions, size_t n, double seconds);

/* Integer multiply-adds per second of all threads together at the level of the kernel that takes i2_s weights, in a
 * loop that touches registers only: the best of a few short runs. */
double tern_cpu_measure_dots(tern_backend *backend);

#endif
