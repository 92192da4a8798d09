/* The counters of a server. */
#include "serve/metrics.h"

#include "base/bytes.h"
#include "serve/server.h"

/* Seconds; each bucket has what is at most so long. */
static const double bounds[TERN_METRICS_BUCKETS] = {0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2,
                                                    0.5,   1,     2,     5,    10,   20,   60,  300};

void tern_metrics_init(tern_metrics *m)
{
    *m = (tern_metrics){0};
    pthread_mutex_init(&m->lock, NULL);
}

void tern_metrics_deinit(tern_metrics *m)
{
    pthread_mutex_destroy(&m->lock);
}

static void observe(tern_histogram *h, double seconds)
{
    size_t i = 0;
    while (i < TERN_METRICS_BUCKETS && seconds > bounds[i]) i++;
    h->counts[i]++;
    h->sum += seconds;
}

void tern_metrics_observe(tern_metrics *m, tern_histogram *h, double seconds)
{
    pthread_mutex_lock(&m->lock);
    observe(h, seconds);
    pthread_mutex_unlock(&m->lock);
}

void tern_metrics_request(tern_metrics *m, unsigned code, bool gone, double seconds)
{
    pthread_mutex_lock(&m->lock);
    m->requests[code / 100 < 6 ? code / 100 : 5]++;
    m->gone += gone;
    observe(&m->request, seconds);
    pthread_mutex_unlock(&m->lock);
}

static tern_status write_histogram(const tern_histogram *h, const char *name, const char *help, tern_buf *out,
                                   tern_error *err)
{
    uint64_t n = 0;
    TERN_TRY(tern_buf_addf(out, err, "# HELP %s %s\n# TYPE %s histogram\n", name, help, name));
    for (size_t i = 0; i < TERN_METRICS_BUCKETS; i++) {
        n += h->counts[i];
        TERN_TRY(tern_buf_addf(out, err, "%s_bucket{le=\"%g\"} %llu\n", name, bounds[i], (unsigned long long)n));
    }
    n += h->counts[TERN_METRICS_BUCKETS];
    return tern_buf_addf(out, err, "%s_bucket{le=\"+Inf\"} %llu\n%s_sum %.9g\n%s_count %llu\n", name,
                         (unsigned long long)n, name, h->sum, name, (unsigned long long)n);
}

static tern_status write_server(tern_metrics *m, tern_buf *out, tern_error *err)
{
    TERN_TRY(tern_buf_addf(out, err,
                           "# HELP tern_requests_total Requests answered, by status\n"
                           "# TYPE tern_requests_total counter\n"));
    for (size_t i = 2; i < 6; i++)
        TERN_TRY(tern_buf_addf(out, err, "tern_requests_total{status=\"%zuxx\"} %llu\n", i,
                               (unsigned long long)m->requests[i]));
    TERN_TRY(tern_buf_addf(out, err,
                           "# HELP tern_clients_gone_total Clients that left before their answer ended\n"
                           "# TYPE tern_clients_gone_total counter\ntern_clients_gone_total %llu\n",
                           (unsigned long long)m->gone));
    TERN_TRY(
        write_histogram(&m->request, "tern_request_seconds", "From a whole request to its answer's end", out, err));
    TERN_TRY(write_histogram(&m->first_token, "tern_first_token_seconds", "From a whole request to its first token",
                             out, err));
    return write_histogram(&m->between_tokens, "tern_between_tokens_seconds", "Between two tokens of a completion", out,
                           err);
}

#define COUNTER(field, name, type, help)                                                                               \
    {                                                                                                                  \
        name, type, help, offsetof(tern_batch_counters, field), sizeof(((tern_batch_counters *)0)->field)              \
    }
static const struct {
    const char *name, *type, *help;
    size_t at, bytes;
} counters[] = {
    COUNTER(running, "tern_sequences_running", "gauge", "Completions that are being generated"),
    COUNTER(waiting, "tern_sequences_waiting", "gauge", "Completions in the queue"),
    COUNTER(pages, "tern_pages", "gauge", "Pages of keys and values in the pool"),
    COUNTER(pages_used, "tern_pages_used", "gauge", "Pages of running sequences"),
    COUNTER(pages_cached, "tern_pages_cached", "gauge", "Pages that are kept for reuse"),
    COUNTER(prompt_tokens, "tern_prompt_tokens_total", "counter", "Tokens of prompts"),
    COUNTER(cached_tokens, "tern_cached_tokens_total", "counter", "Tokens of prompts that were found in the pool"),
    COUNTER(generated_tokens, "tern_generated_tokens_total", "counter", "Tokens generated"),
    COUNTER(steps, "tern_steps_total", "counter", "Steps of the engine"),
    COUNTER(step_tokens, "tern_step_tokens_total", "counter", "Tokens evaluated in steps"),
    COUNTER(drafted_tokens, "tern_drafted_tokens_total", "counter", "Tokens guessed by speculation"),
    COUNTER(accepted_tokens, "tern_accepted_tokens_total", "counter", "Of them, those that the model confirmed"),
    COUNTER(device_tokens, "tern_device_tokens_total", "counter", "Tokens that a GPU chose itself"),
    COUNTER(preemptions, "tern_preemptions_total", "counter", "Sequences put back for want of pages"),
};

/* A counter of each model. */
typedef struct row {
    size_t k;
    tern_buf *out;
    tern_status status;
} row;

static void write_row(void *context, tern_host *host)
{
    row *r = context;
    tern_batch_counters c = {0};
    tern_host_count(host, &c);
    const char *at = (const char *)&c + counters[r->k].at;
    const uint64_t v =
        counters[r->k].bytes == 4 ? *(const uint32_t *)(const void *)at : *(const uint64_t *)(const void *)at;
    if (r->status == TERN_OK)
        r->status = tern_buf_addf(r->out, NULL, "%s{model=\"%s\"} %llu\n", counters[r->k].name, host->name,
                                  (unsigned long long)v);
}

static tern_status write_models(tern_serve *server, tern_buf *out, tern_error *err)
{
    for (size_t k = 0; k < sizeof counters / sizeof *counters; k++) {
        TERN_TRY(tern_buf_addf(out, err, "# HELP %s %s\n# TYPE %s %s\n", counters[k].name, counters[k].help,
                               counters[k].name, counters[k].type));
        row r = {.k = k, .out = out};
        tern_hosts_each(server, write_row, &r);
        if (r.status != TERN_OK) return tern_fail_alloc(err, out->size);
    }
    return TERN_OK;
}

tern_status tern_metrics_write(tern_serve *server, tern_buf *out, tern_error *err)
{
    tern_metrics *m = &server->metrics;
    pthread_mutex_lock(&m->lock);
    tern_status status = write_server(m, out, err);
    pthread_mutex_unlock(&m->lock);
    return status == TERN_OK ? write_models(server, out, err) : status;
}
