/* Measuring the machine beside a model. */
#ifndef TERN_APPS_MEASURE_H
#define TERN_APPS_MEASURE_H

#include "infer/engine.h"

/* Bytes per second at which the engine's threads read its model's weights, or a large buffer when those are small.
 * 0 when it could not be measured. */
double tern_app_measure_read(const tern_engine *engine, double seconds);

#endif
