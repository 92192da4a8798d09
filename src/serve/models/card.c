/* The members that lists show of models. */
#include "serve/models/card.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "format/gguf.h"

/* GGUF's general.file_type, where it says more than the type of the tensors. */
static const char *file_type_name(uint32_t type)
{
    static const char *const names[] = {
        [10] = "Q2_K",   [11] = "Q3_K_S", [12] = "Q3_K_M", [13] = "Q3_K_L", [14] = "Q4_K_S",
        [15] = "Q4_K_M", [16] = "Q5_K_S", [17] = "Q5_K_M", [18] = "Q6_K"};
    return type < sizeof names / sizeof *names ? names[type] : NULL;
}

static void set_upper(char *out, size_t cap, const char *text)
{
    snprintf(out, cap, "%s", text);
    for (char *c = out; *c; c++) *c = (char)toupper((unsigned char)*c);
}

/* The type that most elements of matrices have. */
static uint32_t main_type(const tern_gguf *g)
{
    enum { MAX_TYPES = 64 };
    uint64_t elements[MAX_TYPES] = {0};
    uint32_t most = 0;
    for (size_t i = 0; i < tern_gguf_n_tensors(g); i++) {
        const tern_gguf_tensor *t = tern_gguf_tensor_at(g, i);
        if (t->n_dims >= 2 && t->type < MAX_TYPES) elements[t->type] += t->rows * t->cols;
    }
    for (uint32_t i = 1; i < MAX_TYPES; i++)
        if (elements[i] > elements[most]) most = i;
    return most;
}

static void read_number(const tern_gguf *g, const char *family, const char *name, uint32_t *out)
{
    char key[96];
    tern_error err;
    snprintf(key, sizeof key, "%s.%s", family, name);
    (void)tern_gguf_get_u32(g, key, out, &err);
}

static void read_head(tern_model_card *card, const tern_gguf *g)
{
    tern_span family;
    tern_error err;
    uint32_t type = 0;
    if (tern_gguf_get_string(g, "general.architecture", &family, &err) == TERN_OK)
        snprintf(card->family, sizeof card->family, "%.*s", (int)family.size, (const char *)family.data);
    for (size_t i = 0; i < tern_gguf_n_tensors(g); i++) {
        const tern_gguf_tensor *t = tern_gguf_tensor_at(g, i);
        card->parameters += t->rows * t->cols;
    }
    (void)tern_gguf_get_u32(g, "general.file_type", &type, &err);
    const char *name = file_type_name(type);
    set_upper(card->quantization, sizeof card->quantization, name ? name : tern_gguf_type_name(main_type(g)));
    read_number(g, card->family, "context_length", &card->n_ctx_train);
    read_number(g, card->family, "embedding_length", &card->n_embd);
}

void tern_model_card_read(tern_model_card *card, const char *path)
{
    tern_file_map map = {0};
    tern_gguf *g = NULL;
    tern_error err;
    if (tern_file_is_dir(path) || tern_file_map_open(&map, path, &err) != TERN_OK) return;
    if (tern_gguf_parse(&g, map.data, map.size, &err) == TERN_OK) read_head(card, g);
    tern_gguf_close(g);
    tern_file_map_close(&map);
}

void tern_model_card_set(tern_model_card *card, const tern_engine_info *i)
{
    snprintf(card->family, sizeof card->family, "%s", i->architecture);
    if (!card->quantization[0]) set_upper(card->quantization, sizeof card->quantization, i->encoding);
    card->parameters = i->parameters;
    card->bytes = i->bytes;
    card->gpu_bytes = strcmp(i->backend, "cpu") == 0 ? 0 : i->bytes - i->experts_bytes + i->experts_held_bytes;
    card->n_ctx_train = i->n_ctx_train;
    card->n_embd = i->n_embd;
    card->known = true;
}

void tern_model_card_size(const tern_model_card *card, char out[32])
{
    const double n = (double)card->parameters, billions = n * 1e-9, millions = n * 1e-6;
    if (n <= 0) *out = 0;
    else if (billions >= 1) snprintf(out, 32, "%.*fB", floor(billions) < billions, billions);
    else if (millions >= 1) snprintf(out, 32, "%.*fM", floor(millions) < millions ? 2 : 0, millions);
    else snprintf(out, 32, "%.0fK", n * 1e-3);
}
