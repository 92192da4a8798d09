/* A model with more tokens than its file has: the same, with rows for them, as a folder that the run starts from. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"
#include "quant/weight.h"
#include "train/run/internal.h"

/* The base's masters, with other rows of the tables: those of new tokens are the mean of all before them, which is what
 * transformers' resize_token_embeddings begins with, its noise aside. */
typedef struct grown {
    tern_derived_masters masters;
    uint32_t first, end; /* rows of new tokens; more of the base than `first` were padding */
    uint32_t n_base;     /* rows that the base has */
    double *mean;        /* [cols] of the table asked for last */
    tern_role role;
    bool has_mean;
} grown;

static bool is_table(tern_role role)
{
    return role == TERN_ROLE_TOKEN_EMBD || role == TERN_ROLE_OUTPUT;
}

static tern_status find_mean(grown *g, tern_role role, uint32_t cols, float *row, tern_error *err)
{
    const tern_master_source base = tern_derived_source(&g->masters);
    if (g->has_mean && g->role == role) return TERN_OK;
    memset(g->mean, 0, cols * sizeof *g->mean);
    for (uint32_t r = 0; r < g->first; r++) {
        TERN_TRY(base.rows(base.context, role, 0, r, 1, row, err));
        for (uint32_t c = 0; c < cols; c++) g->mean[c] += (double)row[c] / g->first;
    }
    g->role = role;
    g->has_mean = true;
    return TERN_OK;
}

static tern_status table_row(grown *g, tern_role role, uint32_t cols, uint32_t r, float *out, tern_error *err)
{
    const tern_master_source base = tern_derived_source(&g->masters);
    const bool is_new = r >= g->first && r < g->end;
    if (!is_new && r < g->n_base) return base.rows(base.context, role, 0, r, 1, out, err);
    TERN_TRY(find_mean(g, role, cols, out, err));
    for (uint32_t c = 0; c < cols; c++) out[c] = (float)g->mean[c];
    return TERN_OK;
}

static tern_status grown_rows(void *context, tern_role role, uint32_t layer, uint32_t first, uint32_t n, float *out,
                              tern_error *err)
{
    grown *g = context;
    const tern_master_source base = tern_derived_source(&g->masters);
    if (!is_table(role)) return base.rows(base.context, role, layer, first, n, out, err);
    const uint32_t cols = tern_model_weight(g->masters.base, role, layer)->cols;
    for (uint32_t i = 0; i < n; i++) TERN_TRY(table_row(g, role, cols, first + i, out + (size_t)i * cols, err));
    return TERN_OK;
}

static tern_status write_grown(const tern_run *run, const char *dir, tern_model *base, tern_error *err)
{
    static const tern_derivation none;
    const tern_tokenizer *t = tern_model_tokenizer(base);
    tern_config config = *tern_model_config(base);
    if (!t) return tern_fail(err, TERN_INVALID_ARGUMENT, "tokens for a model without a tokenizer: one expected");
    grown g = {.masters = {.base = base, .how = &none}, .first = tern_tokenizer_size(t), .n_base = config.n_vocab};
    const tern_master_source source = {grown_rows, &g};
    TERN_TRY(tern_model_add_tokens(base, run->o->add_tokens, run->o->n_add_tokens, err));
    g.end = tern_tokenizer_size(t);
    if (config.n_vocab < g.end) config.n_vocab = g.end;
    g.mean = tern_calloc(config.n_embd, sizeof *g.mean);
    if (!g.mean) return tern_fail_alloc(err, config.n_embd * sizeof *g.mean);
    tern_status status = tern_hf_write(dir, &config, t, &source, NULL, err);
    tern_free(g.mean);
    return status;
}

tern_status tern_run__add_tokens(const tern_run *run, const char *dir, tern_error *err)
{
    tern_model *base;
    TERN_TRY(tern_model_open(&base, run->o->model, NULL, err));
    tern_status status = write_grown(run, dir, base, err);
    tern_model_close(base);
    return status;
}
