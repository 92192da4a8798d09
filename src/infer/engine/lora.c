/* Adapters on an engine. */
#include "infer/engine/lora.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/half.h"
#include "infer/follow/follow.h"
#include "model/cut.h"
#include "quant/encoding.h"
#include "quant/weight.h"

enum { HALVES = 2 }; /* A and B */

struct tern_lora {
    tern_engine *engine;
    uint32_t number;       /* that other ranks have it by */
    tern_weight *weights;  /* [n_layers][TERN_ROLE_COUNT][HALVES], encoding NULL where there is none */
    tern_buffer **buffers; /* the same */
    size_t n;
    float scale;          /* alpha / rank, or what takes its place; 1 where it is in B */
    float fold;           /* what B is multiplied with */
    uint64_t fingerprint; /* FNV-1a over the bytes of all of it, and its scale */
    tern_lora_info info;
};

/* Rows of each run of so many, one of each expert. */
typedef struct rows_of_runs {
    tern_share share;
    uint32_t run;
    bool here; /* else this stage knows the shape alone */
} rows_of_runs;

static bool bf16_holds(const float *x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (tern_bf16_to_f32(tern_f32_to_bf16(x[i])) != x[i]) return false;
    return true;
}

static bool f16_holds(const float *x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (tern_f16_to_f32(tern_f32_to_f16(x[i])) != x[i]) return false;
    return true;
}

static tern_encoding_id shortest_encoding(const float *x, size_t n)
{
    return bf16_holds(x, n) ? TERN_ENC_BF16 : f16_holds(x, n) ? TERN_ENC_F16 : TERN_ENC_F32;
}

/* "model.layers.0.self_attn.q_proj.lora_A" */
static void name_half(tern_weight *w, tern_role role, uint32_t layer, int half)
{
    char name[TERN_ROLE_NAME_BYTES];
    tern_role_hf_name(NULL, role, layer, name);
    int n = (int)(strlen(name) - strlen(".weight"));
    snprintf(w->name, sizeof w->name, "%.*s.lora_%c", n, name, "AB"[half]);
}

/* Times a power of two, exactly, unless something would leave the range of floats. */
static bool holds_times(const float *x, size_t n, float factor)
{
    for (size_t i = 0; i < n; i++)
        if (x[i] * factor / factor != x[i] || (x[i] != 0 && fabsf(x[i] * factor) < FLT_MIN)) return false;
    return true;
}

/* Whether the scale can go into B without changing a bit of what is computed: then graphs need no op for it. */
static bool scale_folds_into_b(const tern_adapter *adapter)
{
    int exponent;
    const tern_adapter_info *info = tern_adapter_describe(adapter);
    if (fabsf(frexpf(info->scale, &exponent)) != 0.5f) return false;
    for (uint32_t layer = 0; layer < info->n_layers; layer++)
        for (int role = 0; role < TERN_ROLE_COUNT; role++) {
            const tern_adapter_pair *pair = tern_adapter_find(adapter, (tern_role)role, layer);
            if (pair && !holds_times(pair->b, (size_t)pair->out * info->rank, info->scale)) return false;
        }
    return true;
}

static void hash_bytes(tern_lora *lora, const uint8_t *bytes, size_t n)
{
    for (size_t i = 0; i < n; i++) lora->fingerprint = (lora->fingerprint ^ bytes[i]) * 0x100000001b3u;
}

/* Takes the place of the rows that it is made of. */
static tern_status take_rows(tern_weight *w, uint8_t **data, const rows_of_runs *r, tern_error *err)
{
    size_t row_bytes, bytes;
    const uint32_t n_runs = w->rows / r->run;
    if (r->share.n == r->run) return TERN_OK;
    TERN_TRY(tern_encoding_row_bytes(w->encoding, w->cols, &row_bytes, err));
    TERN_TRY(tern_encoding_bytes(w->encoding, n_runs * r->share.n, w->cols, &bytes, err));
    uint8_t *part = tern_alloc_aligned(bytes, 64);
    if (!part) return tern_fail_alloc(err, bytes);
    for (uint32_t i = 0; i < n_runs; i++)
        memcpy(part + (size_t)i * r->share.n * row_bytes, *data + ((size_t)i * r->run + r->share.first) * row_bytes,
               r->share.n * row_bytes);
    tern_free_aligned(*data);
    *data = part;
    w->rows = n_runs * r->share.n;
    w->bytes = bytes;
    return TERN_OK;
}

static tern_status make_half(tern_lora *lora, size_t at, const float *values, const rows_of_runs *kept, tern_error *err)
{
    tern_weight *w = &lora->weights[at];
    tern_backend *b = tern_engine_backend(lora->engine);
    w->encoding = tern_encoding_find(shortest_encoding(values, (size_t)w->rows * w->cols));
    w->scale = 1;
    TERN_TRY(tern_encoding_bytes(w->encoding, w->rows, w->cols, &w->bytes, err));
    uint8_t *data = tern_alloc_aligned(w->bytes, 64);
    if (!data) return tern_fail_alloc(err, w->bytes);
    tern_status status = tern_encode(w->encoding, values, w->rows, w->cols, data, err);
    if (status == TERN_OK) {
        hash_bytes(lora, data, w->bytes);
        lora->info.bytes += w->bytes;
        status = take_rows(w, &data, kept, err);
    }
    if (!kept->here) {
        tern_free_aligned(data);
        return status;
    }
    w->data = data;
    return status == TERN_OK ? b->weight_create(b, w, &lora->buffers[at], err) : status;
}

/* Which rows of B go with those that this rank has of the layer. */
static tern_status rows_of_b(const tern_lora *lora, const tern_lora_target *target, const tern_adapter_pair *pair,
                             rows_of_runs *out, tern_error *err)
{
    const tern_model *model = tern_engine_model(lora->engine);
    const tern_weight *w = tern_model_weight(model, target->role, target->layer);
    out->share = tern_cut_rows(tern_model_config(model), target->role, target->layer, tern_model_cut(model), &out->run);
    out->here = tern_model_is_own(model, target->role, target->layer);
    const uint32_t n_runs = w->encoding ? w->rows / out->share.n : 0;
    if (w->encoding && n_runs * out->run == pair->out && w->cols == pair->in) return TERN_OK;
    return tern_fail(err, TERN_INVALID_ARGUMENT, "%s: adapter of %u x %u found, %u x %u expected", w->name, pair->out,
                     pair->in, n_runs * out->run, w->cols);
}

static tern_status make_b(tern_lora *lora, size_t at, const tern_adapter_pair *pair, const rows_of_runs *kept,
                          tern_error *err)
{
    if (lora->fold == 1) return make_half(lora, at, pair->b, kept, err);
    const size_t n = (size_t)pair->out * lora->info.rank;
    float *b = tern_alloc(n * sizeof *b);
    if (!b) return tern_fail_alloc(err, n * sizeof *b);
    for (size_t i = 0; i < n; i++) b[i] = pair->b[i] * lora->fold;
    const tern_status status = make_half(lora, at, b, kept, err);
    tern_free(b);
    return status;
}

tern_status tern_lora__add_pair(tern_lora *lora, const tern_lora_target *target, const tern_adapter_pair *pair,
                                tern_error *err)
{
    const size_t at = ((size_t)target->layer * TERN_ROLE_COUNT + (size_t)target->role) * HALVES;
    const uint32_t rank = lora->info.rank, a_rows = rank * pair->n_experts;
    tern_weight *halves = &lora->weights[at];
    rows_of_runs kept;
    TERN_TRY(rows_of_b(lora, target, pair, &kept, err));
    TERN_TRY(tern_follow__add_lora_pair(lora->engine, lora->number, target, pair, rank, err));
    for (int half = 0; half < HALVES; half++) name_half(&halves[half], target->role, target->layer, half);
    halves[0].rows = a_rows;
    halves[0].cols = pair->in;
    halves[1].rows = pair->out;
    halves[1].cols = rank;
    const rows_of_runs all = {.share = {0, a_rows}, .run = a_rows, .here = kept.here};
    TERN_TRY(make_half(lora, at, pair->a, &all, err));
    return make_b(lora, at + 1, pair, &kept, err);
}

static tern_status add_pairs(tern_lora *lora, const tern_adapter *adapter, tern_error *err)
{
    for (uint32_t layer = 0; layer < tern_engine_config(lora->engine)->n_layers; layer++)
        for (int role = 0; role < TERN_ROLE_COUNT; role++) {
            const tern_adapter_pair *pair = tern_adapter_find(adapter, (tern_role)role, layer);
            const tern_lora_target target = {(tern_role)role, layer};
            if (pair) TERN_TRY(tern_lora__add_pair(lora, &target, pair, err));
        }
    return TERN_OK;
}

tern_status tern_lora__begin(tern_lora **lora, tern_engine *engine, uint32_t number, const tern_lora_header *head,
                             tern_error *err)
{
    tern_lora *l = *lora = tern_calloc(1, sizeof *l);
    if (!l) return tern_fail_alloc(err, sizeof *l);
    l->engine = engine;
    l->number = number;
    l->fold = head->fold;
    l->scale = head->scale;
    l->info = head->info;
    l->fingerprint = 0xcbf29ce484222325u ^ tern_f32_bits(l->scale);
    l->n = (size_t)tern_engine_config(engine)->n_layers * TERN_ROLE_COUNT * HALVES;
    l->weights = tern_calloc(l->n, sizeof *l->weights);
    l->buffers = tern_calloc(l->n, sizeof *l->buffers);
    if (!l->weights || !l->buffers) return tern_fail_alloc(err, l->n * sizeof *l->weights);
    return tern_follow__load_lora(engine, number, head, err);
}

tern_status tern_lora_open(tern_lora **lora, tern_engine *engine, const tern_adapter *adapter, tern_error *err)
{
    const tern_adapter_info *info = tern_adapter_describe(adapter);
    const uint32_t n_layers = tern_engine_config(engine)->n_layers;
    *lora = NULL;
    if (info->n_layers != n_layers)
        return tern_fail(err, TERN_INVALID_ARGUMENT, "adapter of %u layers: %u expected", info->n_layers, n_layers);
    tern_lora *l = NULL;
    tern_lora_header head = {.fold = scale_folds_into_b(adapter) ? info->scale : 1};
    head.scale = info->scale / head.fold;
    head.info = (tern_lora_info){
        .rank = info->rank, .alpha = info->alpha, .n_layers = info->n_pairs, .parameters = info->parameters};
    tern_status status = tern_lora__begin(&l, engine, tern_engine__next_lora(engine), &head, err);
    if (status == TERN_OK) status = add_pairs(l, adapter, err);
    if (status == TERN_OK) *lora = l;
    else tern_lora_close(l);
    return status;
}

tern_status tern_lora_load(tern_lora **lora, tern_engine *engine, const char *path, tern_error *err)
{
    TERN_NEED(lora, err);
    *lora = NULL;
    TERN_NEED(engine, err);
    TERN_NEED(path, err);
    tern_adapter *adapter;
    TERN_TRY(tern_adapter_open(&adapter, path, tern_engine_model(engine), err));
    tern_status status = tern_lora_open(lora, engine, adapter, err);
    tern_adapter_close(adapter);
    return status == TERN_OK ? TERN_OK : tern_error_prefix(err, "%s", path);
}

tern_status tern_lora_load_memory(tern_lora **lora, tern_engine *engine, const tern_lora_file *files, uint32_t n_files,
                                  tern_error *err)
{
    TERN_NEED(lora, err);
    *lora = NULL;
    TERN_NEED(engine, err);
    TERN_NEED(files, err);
    tern_adapter *adapter;
    tern_adapter_file at_most[2]; /* more are refused, by their number */
    for (uint32_t i = 0; i < n_files && i < 2; i++)
        at_most[i] = (tern_adapter_file){files[i].name, files[i].data, files[i].bytes};
    TERN_TRY(tern_adapter_open_memory(&adapter, at_most, n_files, tern_engine_model(engine), err));
    tern_status status = tern_lora_open(lora, engine, adapter, err);
    tern_adapter_close(adapter);
    return status;
}

void tern_lora_close(tern_lora *lora)
{
    if (!lora) return;
    tern_backend *b = tern_engine_backend(lora->engine);
    tern_follow__unload_lora(lora->engine, lora->number);
    for (size_t i = 0; lora->buffers && i < lora->n; i++) b->buffer_free(b, lora->buffers[i]);
    for (size_t i = 0; lora->weights && i < lora->n; i++) tern_free_aligned((void *)(uintptr_t)lora->weights[i].data);
    tern_free(lora->weights);
    tern_free(lora->buffers);
    tern_free(lora);
}

tern_status tern_lora_describe(const tern_lora *lora, tern_lora_info *info, tern_error *err)
{
    TERN_NEED(lora, err);
    TERN_NEED(info, err);
    *info = lora->info;
    return TERN_OK;
}

tern_status tern_lora__check(const tern_engine *engine, const tern_lora_use *uses, uint32_t n, tern_error *err)
{
    if (n) TERN_NEED(uses, err);
    for (uint32_t i = 0; i < n; i++) {
        if (!uses[i].lora || uses[i].lora->engine != engine)
            return tern_fail(err, TERN_INVALID_ARGUMENT, "adapter %u: %s found, one of this session's engine expected",
                             i, uses[i].lora ? "one of another engine" : "none");
        if (!isfinite(uses[i].scale) || !isfinite(uses[i].scale * uses[i].lora->scale))
            return tern_fail(err, TERN_INVALID_ARGUMENT, "adapter %u: scale %g found, a finite number expected", i,
                             (double)uses[i].scale);
    }
    return TERN_OK;
}

tern_buffer *tern_lora__buffer(const tern_lora *lora, const tern_weight *weight)
{
    for (size_t i = 0; i < lora->n; i++)
        if (&lora->weights[i] == weight) return lora->buffers[i];
    return NULL;
}

/* Adds the adapters that are beside this weight, in their order, behind the `n_loras` so far. */
static void add_loras(tern_lora_weights *weights, size_t at, const tern_lora_uses *all, size_t *n_loras)
{
    tern_graph_weight *weight = &weights->weights[at];
    weight->loras = weights->loras + *n_loras;
    for (uint32_t i = 0; i < all->n; i++) {
        const tern_lora_use *use = &all->uses[i];
        const tern_weight *pair = &use->lora->weights[at * HALVES];
        if (!pair->encoding) continue;
        weights->loras[(*n_loras)++] = (tern_graph_lora){
            .a = pair, .b = pair + 1, .scale = use->scale * use->lora->scale, .group = all->groups[i]};
        weight->n_loras++;
    }
}

tern_status tern_lora__weights(tern_lora_weights *weights, const tern_engine *engine, const tern_lora_uses *uses,
                               tern_error *err)
{
    const uint32_t n = uses->n;
    const size_t n_weights = (size_t)tern_engine_config(engine)->n_layers * TERN_ROLE_COUNT;
    size_t n_loras = 0;
    *weights = (tern_lora_weights){0};
    if (n == 0) return TERN_OK;
    weights->weights = tern_calloc(n_weights, sizeof *weights->weights);
    weights->loras = tern_calloc(n_weights * n, sizeof *weights->loras);
    if (!weights->weights || !weights->loras) {
        tern_lora__weights_deinit(weights);
        return tern_fail_alloc(err, n_weights * n * sizeof *weights->loras);
    }
    for (size_t at = 0; at < n_weights; at++) add_loras(weights, at, uses, &n_loras);
    return TERN_OK;
}

void tern_lora__weights_deinit(tern_lora_weights *weights)
{
    tern_free(weights->weights);
    tern_free(weights->loras);
    *weights = (tern_lora_weights){0};
}

uint64_t tern_lora__fingerprint(const tern_lora *lora)
{
    return lora->fingerprint;
}

uint32_t tern_lora__number(const tern_lora *lora)
{
    return lora->number;
}
