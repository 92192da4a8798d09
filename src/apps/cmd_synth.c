/* tern synth: a model of random weights. */
#include "apps/model.h"
#include "apps/progress.h"
#include "base/parts.h"

static const tern_flag flags[] = {
    {"preset", 0, TERN_FLAG_TEXT, "NAME", offsetof(tern_options, preset), 0, 0, "Shapes: " TERN_SYNTH_PRESETS},
    {"output", 'o', TERN_FLAG_TEXT, "FILE", offsetof(tern_options, output), 0, 0, "The GGUF file to write"},
    TERN_APP_FLAG_OVERWRITE('f'),
    {"type", 0, TERN_FLAG_TEXT, "TYPE", offsetof(tern_options, type), 0, 0,
     "Layers: i2_s (of dense models q8_0) when not given; tq2_0, tq1_0, t160, q4_k, ..., q4_k_m"},
    {"head", 0, TERN_FLAG_TEXT, "TYPE", offsetof(tern_options, head), 0, 0,
     "Embedding table: f16 (when not given, or as the mix has it), q8_0, q6_k, ..."},
    {"layers", 0, TERN_FLAG_U32, "N", offsetof(tern_options, synth_layers), 1, TERN_MAX_LAYERS,
     "Layers, instead of the preset's"},
    {"ctx", 'c', TERN_FLAG_U32, "N", offsetof(tern_options, ctx), 1, 1 << 24,
     "Positions of context that its metadata name, instead of the preset's"},
    {"experts", 0, TERN_FLAG_U32, "N", offsetof(tern_options, synth_experts), 1, TERN_MAX_EXPERTS,
     "Experts of a layer, in presets that have them"},
    {"experts-used", 0, TERN_FLAG_U32, "K", offsetof(tern_options, synth_experts_used), 1, TERN_MAX_ROUTES,
     "Experts of a token"},
    {"closed-gates", 0, TERN_FLAG_F32, "SHARE", offsetof(tern_options, closed_gates), 0, 1,
     "That share of the gates of squared ReLU is closed, 0.5 to 1; half of them when not given"},
    {"seed", 0, TERN_FLAG_U64, "N", offsetof(tern_options, seed), 0, 0,
     "Seed of the weights; an equal seed gives an equal file"},
    {0},
};

static const tern_flag_group groups[] = {{"Flags", flags}, {0}};

static void defaults(tern_options *o)
{
    o->preset = "bitnet-2b4t";
}

static tern_status run(const tern_options *o, tern_error *err)
{
    tern_progress progress = {.label = "Writing"};
    tern_export_report report = {0};
    tern_synth_options how = {.preset = o->preset,
                              .seed = o->seed,
                              .layers = o->synth_layers,
                              .n_ctx = o->ctx,
                              .experts = o->synth_experts,
                              .experts_used = o->synth_experts_used,
                              .closed_gates = o->closed_gates,
                              .progress = tern_progress_update,
                              .progress_context = &progress};
    how.report = &report;
    if (!o->output) return tern_fail(err, TERN_INVALID_ARGUMENT, "no output: give the GGUF file to write with -o");
    TERN_TRY(tern_app_type(o->type, &how.linear, &how.mix, err));
    TERN_TRY(tern_app_encoding("head", o->head, &how.head, err));
    TERN_TRY(tern_app_check_output(o, NULL, o->output, false, err));
    tern_status status = tern_synth_write(o->output, &how, err);
    tern_progress_end(&progress);
    char size[16];
    if (status == TERN_OK) tern_app_say("%s: %s\n", o->output, tern_app_bytes(tern_parts_bytes(o->output), size));
    tern_app_say_fallbacks(o->output, &report);
    return status;
}

const tern_command tern_command_synth = {
    .name = "synth",
    .usage = "--preset bitnet-2b4t -o FILE [--type TYPE] [--seed N]",
    .summary = "Write a model of random weights in real shapes, for measuring",
    .groups = groups,
    .defaults = defaults,
    .run = run,
};
