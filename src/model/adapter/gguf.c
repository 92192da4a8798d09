/* Adapters as GGUF files, by the convention of llama.cpp's convert_lora_to_gguf.py. */
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/show.h"
#include "format/gguf.h"
#include "model/adapter/internal.h"
#include "quant/encoding_id.h"

static tern_status need_word(const tern_gguf *g, const char *key, const char *word, tern_error *err)
{
    tern_span s = {0};
    tern_status status = tern_gguf_get_string(g, key, &s, err);
    if (status == TERN_NOT_FOUND) return tern_fail(err, TERN_MALFORMED, "%s: not found, \"%s\" expected", key, word);
    TERN_TRY(status);
    if (s.size == strlen(word) && memcmp(s.data, word, s.size) == 0) return TERN_OK;
    return tern_fail(err, TERN_UNSUPPORTED, "%s: \"%s\" found, \"%s\" expected", key, tern_show(s).text, word);
}

/* Two words for the same layers ("bitnet-b1.58", "bitnet-25") may stand for each other. */
static bool same_layers(const tern_family *a, const tern_family *b)
{
    return a->activation == b->activation && a->ternary == b->ternary && a->needs_sub_norms == b->needs_sub_norms &&
           a->rope_adjacent == b->rope_adjacent;
}

static tern_status read_architecture(tern_adapter *adapter, const tern_gguf *g, tern_error *err)
{
    tern_span s = {0};
    char word[sizeof adapter->config.architecture] = "";
    tern_status status = tern_gguf_get_string(g, "general.architecture", &s, err);
    if (status == TERN_NOT_FOUND)
        return tern_fail(err, TERN_MALFORMED, "general.architecture: not found, that of the base model expected");
    TERN_TRY(status);
    if (s.size && s.size < sizeof word) memcpy(word, s.data, s.size);
    const tern_family *family = tern_family__find(word);
    if (!family)
        return tern_fail(err, TERN_UNSUPPORTED, "general.architecture: \"%s\" found, %s expected", tern_show(s).text,
                         tern_family__list());
    adapter->form = (tern_adapter_form){.adjacent = family->rope_adjacent, .tiled = family->tiled_heads};
    if (!adapter->has_model) {
        memcpy(adapter->config.architecture, word, sizeof word);
        return TERN_OK;
    }
    if (same_layers(family, tern_family__find(adapter->config.architecture))) return TERN_OK;
    return tern_fail(err, TERN_MALFORMED, "general.architecture: \"%s\" found, the model's \"%s\" expected", word,
                     adapter->config.architecture);
}

/* The reader of llama.cpp divides by the rank: a file for a rank-stabilised adapter has alpha * sqrt(rank) there, and
 * the alpha itself under a key of ours. */
static tern_status read_alpha(tern_adapter_info *info, const tern_gguf *g, tern_error *err)
{
    tern_status status = tern_gguf_get_f32(g, "adapter.lora.alpha", &info->alpha, err);
    if (status == TERN_NOT_FOUND)
        return tern_fail(err, TERN_MALFORMED, "adapter.lora.alpha: not found, a number expected");
    TERN_TRY(status);
    TERN_TRY_OPTIONAL(tern_gguf_get_f32(g, "tern.lora.dropout", &info->dropout, err));
    float alpha = 0.0f;
    status = tern_gguf_get_f32(g, "tern.lora.rslora_alpha", &alpha, err);
    if (status == TERN_NOT_FOUND) return TERN_OK;
    TERN_TRY(status);
    float wanted = (float)((double)alpha * sqrt((double)info->rank));
    if (!(info->alpha == wanted))
        return tern_fail(err, TERN_MALFORMED, "adapter.lora.alpha: %g found, %g expected (tern.lora.rslora_alpha %g)",
                         (double)info->alpha, (double)wanted, (double)alpha);
    info->alpha = alpha;
    info->rslora = true;
    return TERN_OK;
}

static tern_status read_base(tern_adapter *adapter, const tern_gguf *g, tern_error *err)
{
    static const char key[] = "general.base_model.0.name";
    tern_span base = {0};
    TERN_TRY_OPTIONAL(tern_gguf_get_string(g, key, &base, err));
    return tern_adapter__set_base(adapter, key, base, err);
}

static tern_status read_half(const tern_gguf_tensor *t, tern_adapter_half *half, tern_error *err)
{
    tern_span module = t->name;
    half->is_b = tern_adapter__cut(&module, ".weight.lora_b");
    if (!half->is_b && !tern_adapter__cut(&module, ".weight.lora_a"))
        return tern_fail(err, TERN_UNSUPPORTED, "%s: found, a layer's matrix with .lora_a or .lora_b expected",
                         tern_show(t->name).text);
    TERN_TRY(tern_adapter__parse_module(NULL, module, "blk.", false, t->name, half, err));
    tern_st_dtype dtype = TERN_ST_F32;
    if (t->type == TERN_ENC_F16) dtype = TERN_ST_F16;
    else if (t->type == TERN_ENC_BF16) dtype = TERN_ST_BF16;
    else if (t->type != TERN_ENC_F32)
        return tern_fail(err, TERN_UNSUPPORTED, "%s: %s found, f32, f16 or bf16 expected", tern_show(t->name).text,
                         tern_gguf_type_name(t->type));
    const bool experts = tern_role__of_experts(half->role);
    if (experts && (t->n_dims != 3 || t->dims[2] < 1 || t->dims[2] > TERN_MAX_EXPERTS))
        return tern_fail(err, TERN_MALFORMED, "%s: %u dimensions found, 3 expected, the last of 1 to %d experts",
                         tern_show(t->name).text, t->n_dims, TERN_MAX_EXPERTS);
    half->n_experts = experts ? (uint32_t)t->dims[2] : 1;
    half->rows = experts ? t->dims[1] : t->rows;
    half->cols = t->cols;
    half->values = (tern_st_tensor){
        .dtype = dtype, .data = t->data, .bytes = t->bytes, .n_elements = t->bytes / tern_st_dtype_bytes(dtype)};
    return TERN_OK;
}

/* The rank is what the first A has rows; the others must agree. */
static void find_rank(tern_adapter_info *info, const tern_adapter_half *halves, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (halves[i].is_b) continue;
        info->rank = halves[i].rows > TERN_ADAPTER_MAX_RANK ? TERN_ADAPTER_MAX_RANK + 1 : (uint32_t)halves[i].rows;
        return;
    }
}

static tern_status read_tensors(tern_adapter *adapter, const tern_gguf *g, tern_adapter_half *halves, tern_error *err)
{
    size_t n = tern_gguf_n_tensors(g);
    for (size_t i = 0; i < n; i++) TERN_TRY(read_half(tern_gguf_tensor_at(g, i), &halves[i], err));
    find_rank(&adapter->info, halves, n);
    if (adapter->info.rank == 0)
        return tern_fail(err, TERN_MALFORMED, "no lora_a with rows found, pairs of lora_a and lora_b expected");
    TERN_TRY(read_alpha(&adapter->info, g, err));
    TERN_TRY(tern_adapter__check_info(&adapter->info, err));
    return tern_adapter__fill(adapter, halves, n, err);
}

static tern_status read_file(tern_adapter *adapter, const tern_gguf *g, tern_error *err)
{
    if (need_word(g, "general.type", "adapter", err) != TERN_OK) return tern_error_prefix(err, "no LoRA adapter");
    TERN_TRY(need_word(g, "adapter.type", "lora", err));
    TERN_TRY(read_architecture(adapter, g, err));
    TERN_TRY(read_base(adapter, g, err));
    size_t n = tern_gguf_n_tensors(g);
    tern_adapter_half *halves = tern_calloc(n, sizeof *halves);
    if (!halves) return tern_fail_alloc(err, n * sizeof *halves);
    tern_status status = read_tensors(adapter, g, halves, err);
    tern_free(halves);
    return status;
}

tern_status tern_adapter__read_gguf(tern_adapter *adapter, const void *data, size_t size, tern_error *err)
{
    tern_gguf *g = NULL;
    adapter->info.format = "GGUF";
    TERN_TRY(tern_gguf_parse(&g, data, size, err));
    tern_status status = read_file(adapter, g, err);
    tern_gguf_close(g);
    return status;
}
