/* Events of training as JSON, an object per line. */
#include "apps/train/json.h"

#include <math.h>
#include <string.h>

#include "apps/app.h"

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
    json_object_set_new(out, "precision", json_string(p->bf16 ? "bf16" : "f32"));
    return out;
}

/* The share of rows that each expert of each layer had. */
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

static json_t *estimate_json(const tern_finetune_event *e)
{
    json_t *out = json_pack("{s:s}", "event", "estimate");
    add_count(out, "steps", isfinite(e->eta) ? e->n_steps : 0);
    add_number(out, "step_ms", e->step_ms);
    add_number(out, "tokens_per_second", e->tokens_per_second);
    add_number(out, "examples_per_second", e->examples_per_second);
    add_number(out, "duty", e->duty);
    add_number(out, "seconds", e->eta);
    return out;
}

/* The mean of one step. */
static json_t *profile_json(const tern_finetune_event *e)
{
    const double n = (double)e->n_profiled;
    json_t *rows = json_array();
    for (size_t i = 0; i < e->n_profile; i++) {
        const tern_finetune_profile_row *r = &e->profile[i];
        json_array_append_new(rows,
                              json_pack("{s:s, s:s, s:f, s:f}", "makes", r->name, "kernel", r->kernel, "count_per_step",
                                        (double)r->n / n, "ms_per_step", (double)r->ns * 1e-6 / n));
    }
    return json_pack("{s:s, s:I, s:I, s:o}", "event", "profile", "step", (json_int_t)e->step, "steps_profiled",
                     (json_int_t)e->n_profiled, "dispatches", rows);
}

static json_t *text_json(const char *what, const tern_finetune_event *e)
{
    return json_pack("{s:s, s:I, s:o}", "event", what, "step", (json_int_t)e->step, "text",
                     tern_app_json_text(e->text, strlen(e->text)));
}

void tern_train_print_json(const tern_finetune_event *e)
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
    case TERN_FINETUNE_ESTIMATED: print_line(estimate_json(e)); break;
    case TERN_FINETUNE_PROFILED: print_line(profile_json(e)); break;
    }
}

void tern_train_print_result_json(const tern_finetune_result *r)
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
