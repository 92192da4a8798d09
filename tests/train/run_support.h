/* Whole runs of training on a model of 170,000 parameters. */
#ifndef TERN_TESTS_TRAIN_RUN_SUPPORT_H
#define TERN_TESTS_TRAIN_RUN_SUPPORT_H

#include <math.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/rng.h"
#include "model/init.h"
#include "tern.h"
#include "train/support.h"

enum { RUN_SEQ = 16, RUN_VOCAB = 64 };

/* Sequences that can be learned: each token follows from the one before, now and then from chance. */
static inline const char *put_sequences(const char *name, size_t n, uint64_t seed)
{
    char *text = calloc(n * RUN_SEQ, 8);
    size_t at = 0;
    tern_rng rng = {.state = seed};
    assert_non_null(text);
    for (size_t i = 0; i < n; i++) {
        uint32_t id = tern_rng_below(&rng, RUN_VOCAB);
        at += (size_t)sprintf(text + at, "{\"ids\": [%u", id);
        for (size_t k = 1; k < RUN_SEQ; k++) {
            id = tern_rng_below(&rng, 8) ? (id * 5 + 3) % RUN_VOCAB : tern_rng_below(&rng, RUN_VOCAB);
            at += (size_t)sprintf(text + at, ", %u", id);
        }
        at += (size_t)sprintf(text + at, "]}\n");
    }
    const char *path = put_file(name, text, at);
    free(text);
    return path;
}

/* A path in the build folder that stays. */
typedef struct run_path {
    char text[512];
} run_path;

static inline run_path scratch(const char *name)
{
    run_path p;
    snprintf(p.text, sizeof p.text, "%s", test_scratch(name));
    return p;
}

static inline run_path inside(const char *folder, const char *name)
{
    run_path p;
    assert_true(snprintf(p.text, sizeof p.text, "%s/%s", folder, name) < (int)sizeof p.text);
    return p;
}

/* The model: ternary, as a folder of random masters without a tokenizer. */
static inline run_path put_model(const char *name)
{
    tern_error err = {0};
    tern_init init;
    const run_path dir = scratch(name);
    char text[256], config[64];
    int n = snprintf(text, sizeof text,
                     "{\"hidden_size\": 128, \"intermediate_size\": 128, \"num_hidden_layers\": 2, "
                     "\"num_attention_heads\": 2, \"vocab_size\": %d, \"max_position_embeddings\": 64}",
                     RUN_VOCAB);
    snprintf(config, sizeof config, "%s.json", name);
    assert_ok(tern_init_read(&init, put_file(config, text, (size_t)n), &err), err);
    init.seed = 7;
    const tern_master_source source = tern_init_source(&init);
    assert_ok(tern_hf_write(dir.text, &init.config, NULL, &source, NULL, &err), err);
    return dir;
}

/* What every run of these tests begins with; model and data are those of put_model and put_sequences. */
static inline tern_finetune_options run_options(const char *model, const char *const *data, const char *output)
{
    tern_finetune_options o = {.size = sizeof o};
    tern_finetune_defaults(&o, NULL);
    o.model = model;
    o.data = data;
    o.n_data = 1;
    o.output = output;
    o.overwrite = true;
    o.validation_split = 0;
    o.seq = RUN_SEQ - 1;
    o.batch = 2;
    o.steps = 10;
    o.cpu.n_threads = 1;
    return o;
}

static inline tern_buf bytes_of(const char *path)
{
    tern_buf file = {0};
    tern_error err = {0};
    assert_ok(tern_file_read(&file, path, (size_t)1 << 30, &err), err);
    return file;
}

static inline void assert_same_files(const char *a, const char *b)
{
    tern_buf x = bytes_of(a), y = bytes_of(b);
    if (x.size != y.size || memcmp(x.data, y.data, x.size) != 0) fail_msg("%s and %s differ", a, b);
    tern_buf_deinit(&x);
    tern_buf_deinit(&y);
}

#endif
