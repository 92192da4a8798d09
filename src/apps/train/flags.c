/* Flags of training, and reading those that are more than a number or a word. */
#include "apps/train/flags.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "apps/app.h"
#include "apps/chat/talk.h"
#include "apps/lora.h"
#include "base/show.h"

#define FIELD(name)    offsetof(tern_options, name)
#define TRAINING(name) offsetof(tern_options, training.name)

const tern_flag tern_flags_train_data[] = {
    {"data", 'd', TERN_FLAG_TEXTS, "FILE", FIELD(data), 0, 0,
     "Text, JSONL or a file of `tern data`; a line of JSONL has text, prompt and completion, messages, Alpaca's or "
     "ShareGPT's names, or ids; may be repeated"},
    {"output", 'o', TERN_FLAG_TEXT, "OUT", TRAINING(output), 0, 0,
     "NAME.gguf, or a folder; beside it, or in it, loss.csv and the checkpoint"},
    {"resume", 0, TERN_FLAG_BOOL, NULL, TRAINING(resume), 0, 0,
     "Continue from the checkpoint; the losses stay the same, bit for bit"},
    {"overwrite", 'f', TERN_FLAG_BOOL, NULL, TRAINING(overwrite), 0, 0,
     "Replace an existing output and checkpoint; the run begins anew"},
    {"type", 0, TERN_FLAG_TEXT, "TYPE", TRAINING(type), 0, 0,
     "Encoding of the matrices in NAME.gguf: i2_s, tq1_0, tq2_0, t160; as the model has them when not given",
     .more = true},
    {"split", 0, TERN_FLAG_CHOICE, "file|blank|line", FIELD(train_split), 0, 0,
     "Where documents end in plain text: at the end of the file, at empty lines, at each line", .more = true},
    {"mark", 0, TERN_FLAG_TEXT, "TEXT", TRAINING(mark), 0, 0,
     "Documents in plain text end where this stands, as <|endoftext|>", .more = true},
    {"template", 0, TERN_FLAG_TEXT, "NAME", FIELD(template), 0, 0,
     "Chat template for messages; " TERN_CHAT_TEMPLATES ", or a Jinja file; the model's when not given"},
    {"json", 0, TERN_FLAG_BOOL, NULL, FIELD(json), 0, 0, "One JSON object a line for all that happens", .more = true},
    {"log-every", 0, TERN_FLAG_U32, "N", FIELD(log_every), 1, 1 << 30,
     "Steps between lines; a fiftieth of all when not given", .more = true},
    {"dry-run", 0, TERN_FLAG_BOOL, NULL, TRAINING(dry_run), 0, 0,
     "Print the memory plan and expected time, and stop; up to three steps are measured"},
    {0},
};

const tern_flag tern_flags_train_ranks[] = {
    {"gpus", 0, TERN_FLAG_U32, "N", FIELD(gpus), 1, TERN_MAX_RANKS,
     "Train on N GPUs of this machine, and start a process for each"},
    {0},
};

const tern_flag tern_flags_train_lora[] = {
    {"lora", 0, TERN_FLAG_U32, "R", TRAINING(lora_rank), 1, 4096,
     "Train adapters of rank R instead of all weights; the weights stay frozen"},
    {"lora-alpha", 0, TERN_FLAG_F32, "A", TRAINING(lora_alpha), -1e6, 1e6, "Their scale times R; 2 R when not given"},
    {"lora-dropout", 0, TERN_FLAG_F32, "P", TRAINING(lora_dropout), 0, 0.999, "Share of their inputs that is left out",
     .more = true},
    {"lora-targets", 0, TERN_FLAG_TEXT, "LIST", FIELD(lora_targets), 0, 0,
     "Which layers get one, as q_proj,v_proj: of q_proj, k_proj, v_proj, o_proj, gate_proj, up_proj, down_proj and, in "
     "layers that keep a state, in_proj_qkv, in_proj_z, in_proj_b, in_proj_a and out_proj; all but experts when not "
     "given",
     .more = true},
    {"lora-start", 0, TERN_FLAG_TEXT, "PATH", TRAINING(lora_start), 0, 0,
     "Begin with this adapter (PEFT folder, GGUF file, package of one or its name in tern list); its rank counts",
     .more = true},
    {"add-tokens", 0, TERN_FLAG_TEXTS, "TEXT", FIELD(add_tokens), 0, 0,
     "Add a special token, as a mark of the chat template: <|im_start|>; may be repeated", .more = true},
    {"freeze", 0, TERN_FLAG_TEXTS, "PATTERN", FIELD(freeze), 0, 0,
     "Do not change tensors of these names: model.embed_tokens.*, *.layers.[0-3].*; may be repeated", .more = true},
    {0},
};

const tern_flag tern_flags_train_length[] = {
    {"steps", 0, TERN_FLAG_U64, "N", TRAINING(steps), 1, 1e15, "Steps of the optimiser"},
    {"epochs", 0, TERN_FLAG_F64, "N", TRAINING(epochs), 1e-6, 1e6, "Instead: times through the data"},
    {"batch", 'b', TERN_FLAG_U32, "N", TRAINING(batch), 1, 1 << 20, "Rows of one pass; 4 when not given"},
    {"seq", 0, TERN_FLAG_U32, "N", TRAINING(seq), 1, 1 << 20, "Tokens of a row; 256 when not given"},
    {"accumulate", 0, TERN_FLAG_U32, "N", TRAINING(accumulate), 1, 1 << 20, "Passes to a step", .more = true},
    {"order", 0, TERN_FLAG_CHOICE, "shuffled|sequential", FIELD(order), 0, 0, "Order of the rows; shuffled by the seed",
     .more = true},
    {"seed", 0, TERN_FLAG_U64, "N", TRAINING(seed), 0, 0,
     "Random seed; of the order, held-out rows, dropout, first values"},
    {0},
};

const tern_flag tern_flags_train_optimizer[] = {
    {"optimizer", 0, TERN_FLAG_CHOICE, "adamw|sgd", FIELD(optimizer), 0, 0, "adamw when not given", .more = true},
    {"lr", 0, TERN_FLAG_F64, "LR", TRAINING(lr), 1e-12, 1e6,
     "Highest learning rate; by the width when not given: 2e-3 up to 256, less above; LoRA: 5e-3"},
    {"betas", 0, TERN_FLAG_TEXT, "B1,B2", FIELD(betas), 0, 0, "AdamW's decay of moments; 0.9,0.999", .more = true},
    {"eps", 0, TERN_FLAG_F64, "E", TRAINING(eps), 0, 1, "AdamW's epsilon", .more = true},
    {"weight-decay", 0, TERN_FLAG_F64, "D", TRAINING(weight_decay), 0, 1e6, "Weight decay of matrices", .more = true},
    {"momentum", 0, TERN_FLAG_F64, "M", TRAINING(momentum), 0, 0.999999, "Momentum of sgd", .more = true},
    {"clip", 0, TERN_FLAG_F64, "N", TRAINING(clip), 0, 1e12, "Largest norm of all gradients; 0 is off", .more = true},
    {"schedule", 0, TERN_FLAG_CHOICE, "cosine|linear|constant", FIELD(schedule), 0, 0,
     "How the learning rate falls; cosine when not given", .more = true},
    {"warmup", 0, TERN_FLAG_F64, "N", TRAINING(warmup), 0, 1e15,
     "Steps in which it rises; a twentieth of all, at most 100, when not given", .more = true},
    {"sync-every", 0, TERN_FLAG_U32, "N", TRAINING(sync_every), 1, 1 << 20,
     "Ternary weights are made anew every N steps", .more = true},
    {"threshold", 0, TERN_FLAG_F32, "T", TRAINING(threshold), 0, 10,
     "A weight is not 0 above T times the scale, instead of by rounding (absmean)", .more = true},
    {"clamp", 0, TERN_FLAG_F32, "C", TRAINING(clamp), 1, 1000, "Master weights stay within C times the scale",
     .more = true},
    {"blend-steps", 0, TERN_FLAG_U64, "N", TRAINING(blend_steps), 1, 1e15,
     "The quantisers come in over N steps; makes a ternary model of a dense one", .more = true},
    {"f32-activations", 0, TERN_FLAG_BOOL, NULL, TRAINING(f32_activations), 0, 0,
     "Inputs of linear layers stay f32 instead of int8", .more = true},
    {0},
};

const tern_flag tern_flags_train_memory[] = {
    {"checkpoint", 0, TERN_FLAG_BOOL, NULL, TRAINING(checkpoint), 0, 0,
     "Recompute activations in the backward pass; less memory, a third more work"},
    {"optimizer-in-backward", 0, TERN_FLAG_BOOL, NULL, TRAINING(optimizer_in_backward), 0, 0,
     "Update each weight as soon as its gradient is known: a layer's gradients in memory, the same result; twice the "
     "work but with --clip 0",
     .more = true},
    {"master", 0, TERN_FLAG_CHOICE, "f32|bf16", FIELD(master), 0, 0, "Master weights; bf16 is rounded at random",
     .more = true},
    {"states", 0, TERN_FLAG_CHOICE, "f32|bf16|8bit", FIELD(states), 0, 0, "The optimiser's moments", .more = true},
    {"precision", 0, TERN_FLAG_CHOICE, "f32|bf16", FIELD(precision), 0, 0,
     "Factors of gradients' products and of attention; bf16 is faster on CUDA"},
    {"memory-limit", 0, TERN_FLAG_TEXT, "SIZE", FIELD(memory_limit), 0, 0,
     "Bytes on the device at most, as 4G or 512M; a larger plan is refused", .more = true},
    {0},
};

const tern_flag tern_flags_train_quality[] = {
    {"column", 0, TERN_FLAG_TEXT, "NAME", TRAINING(column), 0, 0,
     "The column of CSV data with the text; text, or prompt and completion, when not given", .more = true},
    {"skip-bad", 0, TERN_FLAG_BOOL, NULL, TRAINING(skip_bad), 0, 0,
     "Leave out lines of data that cannot be used, and count them", .more = true},
    {"val-split", 0, TERN_FLAG_F64, "P", TRAINING(validation_split), 0, 0.999,
     "Share of the data held out for validation; 0.1 at most when not given, 0 is none"},
    {"val-data", 0, TERN_FLAG_TEXT, "FILE", TRAINING(validation_data), 0, 0, "Instead: data of its own", .more = true},
    {"eval-every", 0, TERN_FLAG_U64, "N", TRAINING(evaluate_every), 1, 1e15,
     "Steps between validations; a tenth of all when not given"},
    {"patience", 0, TERN_FLAG_U32, "N", TRAINING(patience), 1, 1 << 30, "Stop after N validations without a lower loss",
     .more = true},
    {"save-every", 0, TERN_FLAG_U64, "N", TRAINING(save_every), 1, 1e15,
     "Steps between checkpoints; every ten minutes when not given", .more = true},
    {"sample-every", 0, TERN_FLAG_U64, "N", TRAINING(sample_every), 1, 1e15, "Steps between samples of text",
     .more = true},
    {"sample-prompt", 0, TERN_FLAG_TEXT, "TEXT", TRAINING(sample_prompt), 0, 0, "The beginning of these samples",
     .more = true},
    {"sample-tokens", 0, TERN_FLAG_U32, "N", TRAINING(sample_tokens), 1, 1 << 20, "How long they are", .more = true},
    {"plot", 0, TERN_FLAG_BOOL, NULL, TRAINING(plot), 0, 0, "Draw loss.svg beside loss.csv"},
    {"profile", 0, TERN_FLAG_BOOL, NULL, TRAINING(profile), 0, 0, "Print at the end where the time of the steps went",
     .more = true},
    {0},
};

const tern_flag tern_flags_train_power[] = {
    {"power", 0, TERN_FLAG_CHOICE, "performance|balanced|saver", FIELD(power), 0, 0,
     "How much of the time is worked: all, 90 %, 60 % (and batches of one row)"},
    {"max-temp", 0, TERN_FLAG_F64, "C", TRAINING(max_temp), 1, 999,
     "Work less while the hottest sensor is above C degrees Celsius"},
    {"thermal-trace", 0, TERN_FLAG_TEXT, "FILE", TRAINING(thermal_trace), 0, 0,
     "Read temperatures from a CSV file of seconds,celsius, not from sensors"},
    {0},
};

void tern_train_words_deinit(tern_train_words *words)
{
    tern_buf_deinit(&words->template);
    free(words->lora_start);
}

void tern_train_defaults(tern_options *options)
{
    options->training.size = sizeof options->training;
    tern_finetune_defaults(&options->training, NULL); /* fails without a size alone */
}

/* A path, or the name of an adapter of the cache. */
static tern_status read_lora_start(tern_train_words *words, tern_finetune_options *out, tern_error *err)
{
    if (!out->lora_start) return TERN_OK;
    words->lora_start = strdup(out->lora_start);
    if (!words->lora_start) return tern_fail(err, TERN_OUT_OF_MEMORY, "--lora-start: out of memory");
    if (tern_app_find_lora(&words->lora_start, err) != TERN_OK) return tern_error_prefix(err, "--lora-start");
    out->lora_start = words->lora_start;
    return TERN_OK;
}

static tern_status read_betas(const char *text, tern_finetune_options *out, tern_error *err)
{
    char *end;
    if (!text) return TERN_OK;
    out->beta1 = strtod(text, &end);
    const char *second = *end == ',' ? end + 1 : end;
    const bool first_ok = end != text && *end == ',';
    out->beta2 = strtod(second, &end);
    const bool in_range = out->beta1 >= 0 && out->beta1 < 1 && out->beta2 >= 0 && out->beta2 < 1;
    if (first_ok && end != second && *end == 0 && in_range) return TERN_OK;
    return tern_fail(err, TERN_INVALID_ARGUMENT,
                     "--betas %s: two numbers from 0 to less than 1 expected, as "
                     "0.9,0.999",
                     tern_show_z(text).text);
}

/* "4G", "512M", "1.5GB": binary units. */
static tern_status read_size(const char *text, uint64_t *out, tern_error *err)
{
    static const char units[] = "KMGT";
    char *end;
    if (!text) return TERN_OK;
    double v = strtod(text, &end);
    const char *unit = *end ? strchr(units, *end >= 'a' ? *end - 'a' + 'A' : *end) : NULL;
    const bool bad_start = end == text || !(v > 0);
    if (unit) v = ldexp(v, 10 * (int)(unit - units + 1));
    if (unit) end++;
    if (unit && strncmp(end, "iB", 2) == 0) end += 2;
    else if (unit && *end == 'B') end++;
    if (bad_start || *end || !(v >= 1 && v < 1e18))
        return tern_fail(err, TERN_INVALID_ARGUMENT, "--memory-limit %s: a number of bytes expected, as 4G or 512M",
                         tern_show_z(text).text);
    *out = (uint64_t)v;
    return TERN_OK;
}

static tern_status read_targets(const char *text, tern_train_words *words, tern_finetune_options *out, tern_error *err)
{
    const size_t most = sizeof words->targets / sizeof *words->targets;
    size_t n = 0;
    if (!text) return TERN_OK;
    if (snprintf(words->target_text, sizeof words->target_text, "%s", text) >= (int)sizeof words->target_text)
        return tern_fail(err, TERN_INVALID_ARGUMENT,
                         "--lora-targets: a list of %zu bytes found, less than %zu expected", strlen(text),
                         sizeof words->target_text);
    for (char *at = words->target_text, *next; at; at = next) {
        next = strchr(at, ',');
        if (next) *next++ = 0;
        if (*at == 0 || n == most)
            return tern_fail(err, TERN_INVALID_ARGUMENT,
                             "--lora-targets %s: 1 to %zu names with commas between expected", tern_show_z(text).text,
                             most);
        words->targets[n++] = at;
    }
    out->lora_targets = words->targets;
    out->n_lora_targets = n;
    return TERN_OK;
}

static tern_status read_template(const char *name, tern_train_words *words, tern_finetune_options *out, tern_error *err)
{
    if (!name) return TERN_OK;
    out->chat_template = tern_chat_template_builtin(name);
    if (out->chat_template) return TERN_OK;
    TERN_TRY(tern_chat_template_read(name, &words->template, err));
    out->chat_template = words->template.data;
    return TERN_OK;
}

static tern_status read_device(const tern_options *o, tern_finetune_options *out, tern_error *err)
{
    uint32_t n;
    if (o->gpu_layers)
        return tern_fail(err, TERN_INVALID_ARGUMENT,
                         "--gpu-layers: training runs on one whole device, leave the flag out");
    TERN_TRY(tern_app_check_device(o, err));
    if (o->threads) TERN_TRY(tern_app_parse_list("threads", o->threads, 1024, &out->cpu.n_threads, 1, &n, err));
    TERN_TRY(tern_app_backend(o, &out->backend, err));
    out->cpu.pin = o->pin;
    out->cpu.features = o->cpu_features;
    out->gpu.device = o->device;
    out->gpu.validation = o->gpu_validate;
    return TERN_OK;
}

static tern_status read_choices(const tern_options *o, tern_finetune_options *out, tern_error *err)
{
    uint32_t split, optimizer, schedule, master, states, precision, power;
    if (o->train_split && out->mark)
        return tern_fail(err, TERN_INVALID_ARGUMENT, "--split and --mark: both found, one of them expected");
    TERN_TRY(tern_choice_parse(TERN_CHOICE_SPLIT, o->train_split, &split, err));
    TERN_TRY(tern_choice_parse(TERN_CHOICE_OPTIMIZER, o->optimizer, &optimizer, err));
    TERN_TRY(tern_choice_parse(TERN_CHOICE_SCHEDULE, o->schedule, &schedule, err));
    TERN_TRY(tern_choice_parse(TERN_CHOICE_MASTER, o->master, &master, err));
    TERN_TRY(tern_choice_parse(TERN_CHOICE_STATES, o->states, &states, err));
    TERN_TRY(tern_choice_parse(TERN_CHOICE_PRECISION, o->precision, &precision, err));
    TERN_TRY(tern_choice_parse(TERN_CHOICE_POWER, o->power, &power, err));
    out->split = (tern_finetune_split)split;
    out->optimizer = (tern_finetune_optimizer)optimizer;
    out->schedule = (tern_finetune_schedule)schedule;
    out->master = (tern_finetune_master)master;
    out->states = (tern_finetune_states)states;
    out->precision = (tern_finetune_precision)precision;
    out->power = (tern_finetune_power)power;
    return TERN_OK;
}

tern_status tern_train_read_flags(const tern_options *options, tern_train_words *words, tern_finetune_options *out,
                                  tern_error *err)
{
    *out = options->training;
    out->data = options->data.items;
    out->n_data = options->data.n;
    out->freeze = options->freeze.items;
    out->n_freeze = options->freeze.n;
    out->add_tokens = options->add_tokens.items;
    out->n_add_tokens = options->add_tokens.n;
    out->sequential = options->order && strcmp(options->order, "sequential") == 0;
    out->temp_dir = getenv("TMPDIR");
    if (!out->dry_run && out->n_data == 0)
        return tern_fail(err, TERN_INVALID_ARGUMENT, "no data: files of text expected with --data");
    if (!out->dry_run && !out->output)
        return tern_fail(err, TERN_INVALID_ARGUMENT, "no output: NAME.gguf or a folder expected with -o");
    TERN_TRY(read_choices(options, out, err));
    TERN_TRY(read_betas(options->betas, out, err));
    TERN_TRY(read_size(options->memory_limit, &out->memory_limit, err));
    TERN_TRY(read_lora_start(words, out, err));
    TERN_TRY(read_targets(options->lora_targets, words, out, err));
    TERN_TRY(read_template(options->template, words, out, err));
    return read_device(options, out, err);
}
