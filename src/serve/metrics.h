/* The counters of a server, in the text form of Prometheus. */
#ifndef TERN_SERVE_METRICS_H
#define TERN_SERVE_METRICS_H

#include <pthread.h>
#include <stdint.h>

#include "serve/serve.h"
#include "tern/bytes.h"

enum { TERN_METRICS_BUCKETS = 16 };

typedef struct tern_histogram {
    uint64_t counts[TERN_METRICS_BUCKETS + 1]; /* the last one: above all bounds */
    double sum;
} tern_histogram;

typedef struct tern_metrics {
    pthread_mutex_t lock;
    uint64_t requests[6]; /* by the first digit of the status */
    uint64_t gone;        /* clients that went before their answer's end */
    tern_histogram first_token, between_tokens, request;
} tern_metrics;

void tern_metrics_init(tern_metrics *metrics);
void tern_metrics_deinit(tern_metrics *metrics);
void tern_metrics_observe(tern_metrics *metrics, tern_histogram *histogram, double seconds);
void tern_metrics_request(tern_metrics *metrics, unsigned code, bool gone, double seconds);
/* All of a server. */
tern_status tern_metrics_write(tern_serve *server, tern_buf *out, tern_error *err);

#endif
