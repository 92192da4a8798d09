/* Lines, a bar and JSON for training. */
#include "apps/train_show.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "apps/app.h"

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

static void print_plan(const tern_train_show *s, const tern_finetune_plan *p)
{
    char size[8][16];
    printf("memory on %s: %s\n", p->device ? p->device : p->backend, tern_app_bytes(p->total, size[0]));
    printf("  weights      %9s\n  masters      %9s\n  gradients    %9s\n  moments      %9s\n  activations  %9s\n"
           "  other        %9s\n",
           tern_app_bytes(p->weights, size[1]), tern_app_bytes(p->masters, size[2]),
           tern_app_bytes(p->gradients, size[3]), tern_app_bytes(p->moments, size[4]),
           tern_app_bytes(p->activations, size[5]), tern_app_bytes(p->other, size[6]));
    if (p->limit) printf("  of           %9s that may be used\n", tern_app_bytes(p->limit, size[7]));
    printf("learns: %llu of %llu parameters; rows of %u tokens, %u a pass, %u passes a step; lr %g\n",
           (unsigned long long)p->n_trained, (unsigned long long)p->n_parameters, p->seq, p->batch, p->accumulate,
           p->lr);
    if (!s->dry_run)
        printf("data: %llu rows, %llu to validate with; %llu steps\n", (unsigned long long)p->n_rows,
               (unsigned long long)p->n_validation_rows, (unsigned long long)p->n_steps);
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
    case TERN_FINETUNE_PLANNED: print_plan(s, e->plan); break;
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
    case TERN_FINETUNE_NOTE: fprintf(stderr, "note: %s\n", e->text); break;
    case TERN_FINETUNE_WRITTEN: printf("wrote %s\n", e->text); break;
    default: break;
    }
    fflush(stdout);
}

/* ---- JSON */

static void add_number(json_t *out, const char *key, double v)
{
    json_object_set_new(out, key, isfinite(v) ? json_real(v) : json_null());
}

static void add_count(json_t *out, const char *key, uint64_t v)
{
    json_object_set_new(out, key, json_integer((json_int_t)v));
}

static void print_line(json_t *out)
{
    tern_app_print_json_line(out, NULL); /* a run goes on where nobody reads */
}

static json_t *plan_json(const tern_finetune_plan *p)
{
    json_t *out = json_pack("{s:s, s:s, s:s?}", "event", "plan", "backend", p->backend, "device", p->device);
    add_count(out, "weights", p->weights);
    add_count(out, "masters", p->masters);
    add_count(out, "gradients", p->gradients);
    add_count(out, "moments", p->moments);
    add_count(out, "activations", p->activations);
    add_count(out, "other", p->other);
    add_count(out, "total", p->total);
    add_count(out, "limit", p->limit);
    add_count(out, "trained", p->n_trained);
    add_count(out, "parameters", p->n_parameters);
    add_count(out, "steps", p->n_steps);
    add_count(out, "rows", p->n_rows);
    add_count(out, "validation_rows", p->n_validation_rows);
    add_count(out, "batch", p->batch);
    add_count(out, "seq", p->seq);
    add_count(out, "accumulate", p->accumulate);
    add_number(out, "lr", p->lr);
    return out;
}

/* Of each layer the share of its rows that each expert had. */
static json_t *experts_json(const tern_finetune_event *e)
{
    json_t *shares = json_array();
    for (uint32_t layer = 0; layer < e->n_layers; layer++) {
        const uint64_t *rows = e->expert_rows + (size_t)layer * e->n_experts;
        json_t *one = json_array();
        uint64_t sum = 0;
        for (uint32_t i = 0; i < e->n_experts; i++) sum += rows[i];
        for (uint32_t i = 0; i < e->n_experts; i++)
            json_array_append_new(one, json_real(sum ? (double)rows[i] / (double)sum : 0));
        json_array_append_new(shares, one);
    }
    return json_pack("{s:f, s:o}", "max_over_mean", e->expert_imbalance, "shares", shares);
}

static json_t *step_json(const tern_finetune_event *e)
{
    json_t *out = json_pack("{s:s}", "event", "step");
    add_count(out, "step", e->step);
    add_count(out, "steps", e->n_steps);
    add_number(out, "epoch", e->epoch);
    add_number(out, "loss", e->loss);
    add_number(out, "ppl", e->ppl);
    add_number(out, "grad_norm", e->norm);
    add_number(out, "lr", e->lr);
    add_number(out, "step_ms", e->step_ms);
    add_number(out, "tokens_per_second", e->tokens_per_second);
    add_number(out, "examples_per_second", e->examples_per_second);
    add_number(out, "eta", e->eta);
    add_number(out, "duty", e->duty);
    add_number(out, "celsius", e->celsius);
    add_number(out, "mhz", e->mhz);
    add_number(out, "watts", e->watts);
    add_count(out, "resident_bytes", e->resident);
    if (e->expert_rows) json_object_set_new(out, "experts", experts_json(e));
    return out;
}

static json_t *evaluation_json(const tern_finetune_event *e)
{
    json_t *out = json_pack("{s:s}", "event", "evaluation");
    add_count(out, "step", e->step);
    add_count(out, "steps", e->n_steps);
    add_number(out, "epoch", e->epoch);
    add_number(out, "loss", e->loss);
    add_number(out, "ppl", e->ppl);
    add_number(out, "best_loss", e->best_loss);
    add_count(out, "best_step", e->best_step);
    return out;
}

static json_t *text_json(const char *what, const tern_finetune_event *e)
{
    return json_pack("{s:s, s:I, s:o}", "event", what, "step", (json_int_t)e->step, "text",
                     tern_app_json_text(e->text, strlen(e->text)));
}

static void print_json(const tern_finetune_event *e)
{
    switch (e->kind) {
    case TERN_FINETUNE_PROGRESS: break;
    case TERN_FINETUNE_PLANNED: print_line(plan_json(e->plan)); break;
    case TERN_FINETUNE_STEP: print_line(step_json(e)); break;
    case TERN_FINETUNE_EVALUATED: print_line(evaluation_json(e)); break;
    case TERN_FINETUNE_SAMPLE: print_line(text_json("sample", e)); break;
    case TERN_FINETUNE_SAVED: print_line(text_json("saved", e)); break;
    case TERN_FINETUNE_NOTE: print_line(text_json("note", e)); break;
    case TERN_FINETUNE_WRITTEN: print_line(text_json("written", e)); break;
    }
}

void tern_train_show_event(void *context, const tern_finetune_event *event)
{
    tern_train_show *s = context;
    if (s->json) print_json(event);
    else print_event(s, event);
}

static void print_result_json(const tern_finetune_result *r)
{
    json_t *out = json_pack("{s:s, s:b}", "event", "done", "stopped_early", r->stopped_early);
    add_count(out, "steps", r->n_steps);
    add_number(out, "loss", r->loss);
    add_number(out, "first_validation_loss", r->first_validation);
    add_number(out, "last_validation_loss", r->last_validation);
    add_number(out, "best_validation_loss", r->best_validation);
    add_count(out, "best_step", r->best_step);
    add_count(out, "tokens", r->n_tokens);
    add_number(out, "seconds", r->seconds);
    add_number(out, "step_ms", r->step_ms);
    add_number(out, "tokens_per_second", r->tokens_per_second);
    add_number(out, "examples_per_second", r->examples_per_second);
    add_count(out, "planned_bytes", r->planned_bytes);
    add_count(out, "resident_bytes", r->resident_bytes);
    add_count(out, "dispatches", r->dispatches);
    print_line(out);
}

void tern_train_show_result(tern_train_show *show, const tern_finetune_result *r)
{
    char planned[16], held[16], before[24], after[24];
    tern_train_show_end(show);
    if (show->json) {
        print_result_json(r);
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
