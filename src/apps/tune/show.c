/* The output of `tern tune`. */
#include <string.h>

#include "apps/tune/internal.h"
#include "base/show.h"
#include "quant/encoding.h"
#include "quant/weight.h"

static json_t *row_json(const tern_weight *w, const tern_tune_row *r, bool standard, bool chosen)
{
    return json_pack("{s:s, s:i, s:i, s:i, s:s, s:i, s:I, s:f, s:b, s:b}", "encoding", w->encoding->name, "rows",
                     (int)w->rows, "cols", (int)w->cols, "threads", (int)r->n_threads, "kernel", r->kernel, "task_rows",
                     (int)r->task_rows, "bytes", (json_int_t)r->bytes, "microseconds", r->seconds * 1e6, "default",
                     standard, "chosen", chosen);
}

static void print_row(const tern_tune_row *r, double weights, bool standard, bool chosen)
{
    char bytes[16], split[16] = "-";
    if (r->task_rows) snprintf(split, sizeof split, "%u", r->task_rows);
    printf("  %c %-10s %9s %9s %7.2f %10.1f %8.1f%s\n", chosen ? '*' : ' ', r->kernel, split,
           tern_app_bytes(r->bytes, bytes), 8 * (double)r->bytes / weights, r->seconds * 1e6,
           (double)r->bytes / r->seconds * 1e-9, standard ? "  default" : "");
}

void tern_tune_show_rows(const tern_tune_job *j, const tern_weight *w, const tern_tune_result *r, uint32_t b)
{
    const size_t standard = r->of[b].standard, best = r->of[b].best;
    const uint32_t threads = r->rows[standard].n_threads;
    if (!j->o->json)
        printf("\n%s, %u x %u (%u of them), %u thread%s\n  %c %-10s %9s %9s %7s %10s %8s\n", w->encoding->name, w->rows,
               w->cols, j->n_of[j->shape], threads, threads == 1 ? "" : "s", ' ', "kernel", "task rows", "bytes",
               "bits/w", "us", "GB/s");
    for (size_t i = 0; i < r->n; i++) {
        if (r->rows[i].n_threads != threads) continue;
        if (j->o->json) json_array_append_new(j->results, row_json(w, &r->rows[i], i == standard, i == best));
        else print_row(&r->rows[i], (double)w->rows * w->cols, i == standard, i == best);
    }
    if (!j->o->json && best != standard)
        printf("    once more, in turns: default %.1f us, %s %.1f us: %.2f times as fast\n",
               r->of[b].standard_seconds * 1e6, r->rows[best].kernel, r->of[b].best_seconds * 1e6,
               r->of[b].standard_seconds / r->of[b].best_seconds);
    fflush(stdout);
}

static void print_round(const tern_tune_decode_result *r, size_t i)
{
    const tern_tune_round *round = &r->rounds[i];
    printf("    decode: default %.1f tokens/s, tuned %.1f tokens/s (%zu choice%s)", round->standard, round->tuned,
           round->n_choices, round->n_choices == 1 ? "" : "s");
    const size_t next = i + 1 < r->n_rounds ? r->rounds[i + 1].n_choices : r->n_keep;
    if (next < round->n_choices)
        printf(": slower, %zu that gain%s least left out", round->n_choices - next,
               round->n_choices - next == 1 ? "s" : "");
    printf("\n");
}

void tern_tune_show_decode(const tern_tune_job *j, uint32_t n_threads, const tern_tune_decode_result *r)
{
    for (size_t i = 0; i < r->n_rounds && j->o->json; i++)
        json_array_append_new(
            j->decodes, json_pack("{s:i, s:f, s:f, s:i, s:b}", "threads", (int)n_threads, "default_tokens_per_second",
                                  r->rounds[i].standard, "tuned_tokens_per_second", r->rounds[i].tuned, "choices",
                                  (int)r->rounds[i].n_choices, "kept", i + 1 == r->n_rounds && r->n_keep > 0));
    if (j->o->json) return;
    if (n_threads) printf("  %u thread%s\n", n_threads, n_threads == 1 ? "" : "s");
    for (size_t i = 0; i < r->n_rounds; i++) print_round(r, i);
    if (r->n_rounds == 0) printf("    the defaults are the choice: nothing to compare\n");
    else if (r->n_keep == 0) printf("    the defaults stay\n");
    fflush(stdout);
}

static void print_choices(const tern_tune_cache *c)
{
    printf("\n%-8s %13s %8s  %-10s %9s %10s %10s\n", "encoding", "rows x cols", "threads", "kernel", "task rows", "us",
           "default us");
    const char *device = "";
    for (size_t i = 0; i < c->n; i++) {
        const tern_kernel_choice *k = &c->choices[i];
        char split[16] = "-";
        if (strcmp(k->device, device) != 0) printf("%s (threads: tokens)\n", tern_show_z(device = k->device).text);
        if (k->task_rows) snprintf(split, sizeof split, "%u", k->task_rows);
        printf("%-8s %6u x %-6u %6u  %-10s %9s %10.1f %10.1f\n", k->encoding->name, k->rows, k->cols,
               k->device[0] ? k->tokens : k->n_threads, k->kernel, split, c->costs[i].microseconds,
               c->costs[i].default_microseconds);
    }
}

void tern_tune_show_cache(const tern_tune_cache *c, const char *path, const char *why)
{
    printf("%s\n%s\n%s\n", tern_show_z(path).text, tern_show_z(c->cpu).text, tern_show_z(c->build).text);
    if (why) printf("not used, default kernels are: %s\n", why);
    print_choices(c);
    if (c->n_decodes)
        printf("\nwhole models, tokens a second\n%8s %10s %10s %8s\n", "threads", "default", "tuned", "left out");
    for (size_t i = 0; i < c->n_decodes; i++)
        printf("%8u %10.1f %10.1f %8u  %s\n", c->decodes[i].n_threads, c->decodes[i].standard, c->decodes[i].tuned,
               c->decodes[i].n_left_out, tern_show_z(c->decodes[i].model).text);
}

static json_t *choices_json(const tern_tune_cache *c)
{
    json_t *list = json_array();
    for (size_t i = 0; i < c->n; i++) {
        const tern_kernel_choice *k = &c->choices[i];
        json_array_append_new(list, json_pack("{s:s, s:i, s:i, s:i, s:i, s:s, s:s, s:i, s:I, s:f, s:f}", "encoding",
                                              k->encoding->name, "rows", (int)k->rows, "cols", (int)k->cols, "threads",
                                              (int)k->n_threads, "tokens", (int)k->tokens, "device", k->device,
                                              "kernel", k->kernel, "task_rows", (int)k->task_rows, "bytes",
                                              (json_int_t)c->costs[i].bytes, "microseconds", c->costs[i].microseconds,
                                              "default_microseconds", c->costs[i].default_microseconds));
    }
    return list;
}

static json_t *decodes_json(const tern_tune_cache *c)
{
    json_t *list = json_array();
    for (size_t i = 0; i < c->n_decodes; i++) {
        const tern_tune_decoded *d = &c->decodes[i];
        json_array_append_new(list,
                              json_pack("{s:o, s:i, s:f, s:f, s:i, s:i}", "model",
                                        tern_app_json_text(d->model, strlen(d->model)), "threads", (int)d->n_threads,
                                        "default_tokens_per_second", d->standard, "tuned_tokens_per_second", d->tuned,
                                        "choices", (int)d->n_choices, "left_out", (int)d->n_left_out));
    }
    return list;
}

json_t *tern_tune_cache_document(const tern_tune_cache *c, const char *path, const char *why)
{
    return json_pack("{s:o, s:o, s:o, s:b, s:o, s:o, s:o}", "file", tern_app_json_text(path, strlen(path)), "cpu",
                     tern_app_json_text(c->cpu, strlen(c->cpu)), "build",
                     tern_app_json_text(c->build, strlen(c->build)), "used", !why, "not_used_because",
                     why ? tern_app_json_text(why, strlen(why)) : json_null(), "choices", choices_json(c), "decode",
                     decodes_json(c));
}
