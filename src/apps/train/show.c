/* Lines, a bar and JSON for training. */
#include "apps/train/show.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "apps/app.h"
#include "apps/train/json.h"

static const double redraw_every = 0.1;

/* A number in three digits: 10.4, 0.81, 1.2e+05. */
static const char *three_digits(double v, char out[24])
{
    if (fabs(v) >= 999.5) snprintf(out, 24, fabs(v) < 99999.5 ? "%.0f" : "%.2e", v);
    else
        snprintf(out, 24, "%.*f", fabs(v) >= 99.95 ? 0 : fabs(v) >= 9.995 ? 1 : fabs(v) >= 0.0995 || v == 0 ? 2 : 4, v);
    return out;
}

/* 1e-3, 3.2e-4, as people write learning rates. */
static const char *rate(double v, char out[24])
{
    if (v == 0 || !isfinite(v)) {
        snprintf(out, 24, "%g", v);
        return out;
    }
    int power = (int)floor(log10(fabs(v)) + 1e-9);
    snprintf(out, 24, "%.3ge%d", round(v / pow(10, power) * 100) / 100, power);
    return out;
}

static const char *clock_time(double seconds, char out[24])
{
    const unsigned long long s = seconds > 0 && seconds < 1e12 ? (unsigned long long)(seconds + 0.5) : 0;
    if (s >= 3600) snprintf(out, 24, "%llu:%02llu:%02llu", s / 3600, s / 60 % 60, s % 60);
    else snprintf(out, 24, "%llu:%02llu", s / 60, s % 60);
    return out;
}

/* step 100/100  loss 2.345  ppl 10.4  grad 0.81  lr 1e-3  1234 tok/s  eta 0:12 */
static void print_step(FILE *out, const tern_finetune_event *e)
{
    char ppl[24], norm[24], lr[24], eta[24];
    fprintf(out, "step %llu/%llu  loss %.3f  ppl %s  grad %s  lr %s  %.0f tok/s  eta %s", (unsigned long long)e->step,
            (unsigned long long)e->n_steps, e->loss, three_digits(e->ppl, ppl), three_digits(e->norm, norm),
            rate(e->lr, lr), e->tokens_per_second, clock_time(e->eta, eta));
    if (e->expert_rows) fprintf(out, "  experts %.2f", e->expert_imbalance);
    if (e->duty < 1) fprintf(out, "  duty %.0f %%", 100 * e->duty);
    if (e->duty < 1 && isfinite(e->celsius)) fprintf(out, "  %.0f C", e->celsius);
}

static void draw_bar(tern_train_show *s, const tern_finetune_event *e)
{
    enum { WIDTH = 20 };
    const double now = tern_app_seconds();
    if (!isatty(STDERR_FILENO) || (s->has_bar && now - s->drawn < redraw_every)) return;
    fputs("\r[", stderr);
    for (int i = 0; i < WIDTH; i++) fputc((double)i * (double)e->n_steps < (double)e->step * WIDTH ? '#' : '.', stderr);
    fputs("] ", stderr);
    print_step(stderr, e);
    fputs("\033[K", stderr);
    fflush(stderr);
    s->has_bar = true;
    s->drawn = now;
}

void tern_train_show_end(tern_train_show *show)
{
    tern_progress_end(&show->progress);
    if (show->has_bar) fputs("\r\033[K", stderr);
    show->has_bar = false;
}

static void print_plan(const tern_finetune_plan *p)
{
    char size[8][16];
    printf("memory on %s: %s\n", p->device ? p->device : p->backend, tern_app_bytes(p->total, size[0]));
    printf("  weights      %9s\n  masters      %9s\n  gradients    %9s\n  moments      %9s\n  activations  %9s\n"
           "  other        %9s\n",
           tern_app_bytes(p->weights, size[1]), tern_app_bytes(p->masters, size[2]),
           tern_app_bytes(p->gradients, size[3]), tern_app_bytes(p->moments, size[4]),
           tern_app_bytes(p->activations, size[5]), tern_app_bytes(p->other, size[6]));
    if (p->limit) printf("  of           %9s that may be used\n", tern_app_bytes(p->limit, size[7]));
    printf("learns: %llu of %llu parameters; rows of %u tokens, %u a pass, %u passes a step; lr %g; "
           "products in %s\n",
           (unsigned long long)p->n_trained, (unsigned long long)p->n_parameters, p->seq, p->batch, p->accumulate,
           p->lr, p->bf16 ? "bf16" : "f32");
    if (p->n_rows)
        printf("data: %llu rows, %llu to validate with; %llu steps\n", (unsigned long long)p->n_rows,
               (unsigned long long)p->n_validation_rows, (unsigned long long)p->n_steps);
}

/* The measurements of a dry run. */
static void print_estimate(const tern_finetune_event *e)
{
    char all[24];
    printf("measured: %.1f ms a step, %.0f tokens/s\n", e->step_ms, e->tokens_per_second);
    if (isfinite(e->eta))
        printf("estimated: %s for %llu steps, with their validations%s\n", clock_time(e->eta, all),
               (unsigned long long)e->n_steps, e->duty < 1 ? " and rests" : "");
    else puts("the number of steps is not known: --data or --steps says it");
}

static void print_profile(const tern_finetune_event *e)
{
    const double n = (double)e->n_profiled;
    double all = 0;
    for (size_t i = 0; i < e->n_profile; i++) all += (double)e->profile[i].ns * 1e-6;
    printf("a step's time: %.1f ms in kernels, mean of %llu steps\n  %-26s %-28s %8s %10s %7s\n", all / n,
           (unsigned long long)e->n_profiled, "makes", "kernel", "count", "ms", "share");
    for (size_t i = 0; i < e->n_profile; i++) {
        const tern_finetune_profile_row *r = &e->profile[i];
        const double ms = (double)r->ns * 1e-6;
        printf("  %-26s %-28s %8.1f %10.2f %6.1f%%\n", r->name, r->kernel, (double)r->n / n, ms / n,
               all > 0 ? 100 * ms / all : 0);
    }
}

static bool is_logged(const tern_train_show *s, const tern_finetune_event *e)
{
    const uint64_t every = s->log_every ? s->log_every : (e->n_steps + 49) / 50;
    return e->step == 1 || e->step == e->n_steps || e->step % every == 0;
}

static void print_event(tern_train_show *s, const tern_finetune_event *e)
{
    char ppl[24];
    switch (e->kind) {
    case TERN_FINETUNE_PROGRESS:
        s->progress.label = e->text;
        tern_progress_update(&s->progress, (float)e->done);
        if (e->done >= 1) tern_progress_end(&s->progress);
        return;
    case TERN_FINETUNE_STEP:
        if (is_logged(s, e)) {
            tern_train_show_end(s);
            print_step(stdout, e);
            putchar('\n');
        }
        fflush(stdout);
        draw_bar(s, e);
        return;
    default: break;
    }
    tern_train_show_end(s);
    switch (e->kind) {
    case TERN_FINETUNE_PLANNED: print_plan(e->plan); break;
    case TERN_FINETUNE_EVALUATED:
        printf("step %llu/%llu  validation loss %.3f  ppl %s%s\n", (unsigned long long)e->step,
               (unsigned long long)e->n_steps, e->loss, three_digits(e->ppl, ppl),
               e->best_step == e->step && e->step ? "  (best)" : "");
        break;
    case TERN_FINETUNE_SAMPLE:
        fputs("sample: ", stdout);
        tern_app_write_text(e->text, strlen(e->text));
        putchar('\n');
        break;
    case TERN_FINETUNE_NOTE: tern_app_say("note: %s\n", e->text); break;
    case TERN_FINETUNE_WRITTEN:
        printf("wrote ");
        tern_app_write_text(e->text, strlen(e->text));
        putchar('\n');
        break;
    case TERN_FINETUNE_ESTIMATED: print_estimate(e); break;
    case TERN_FINETUNE_PROFILED: print_profile(e); break;
    default: break;
    }
    fflush(stdout);
}

void tern_train_show_event(void *context, const tern_finetune_event *event)
{
    tern_train_show *s = context;
    if (s->json) tern_train_print_json(event);
    else print_event(s, event);
}

void tern_train_show_result(tern_train_show *show, const tern_finetune_result *r)
{
    char planned[16], held[16], before[24], after[24];
    tern_train_show_end(show);
    if (show->json) {
        tern_train_print_result_json(r);
        return;
    }
    if (r->stopped_early) printf("stopped early: the validation loss did not fall any more\n");
    if (isfinite(r->first_validation) && isfinite(r->best_validation))
        printf("validation loss %.3f to %.3f, ppl %s to %s (step %llu, whose weights were written)\n",
               r->first_validation, r->best_validation, three_digits(exp(r->first_validation), before),
               three_digits(exp(r->best_validation), after), (unsigned long long)r->best_step);
    if (r->n_tokens == 0) return;
    printf("%.1f ms a step, %.0f tokens/s, %.2f examples/s; memory: %s planned on the device, %s of the process",
           r->step_ms, r->tokens_per_second, r->examples_per_second, tern_app_bytes(r->planned_bytes, planned),
           tern_app_bytes(r->resident_bytes, held));
    if (r->dispatches) printf("; %llu dispatches", (unsigned long long)r->dispatches);
    putchar('\n');
}
