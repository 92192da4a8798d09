/* The metadata of random models whose weights lie in a rotated basis, as those of Bonsai 2 (model/hadamard.h). */
#include <string.h>

#include "base/alloc.h"
#include "base/rng.h"
#include "format/gguf.h"
#include "model/synth/internal.h"

enum { MAX_WIDTHS = 8 };

/* The names and the widths of what is rotated. */
typedef struct rotation {
    char (*texts)[TERN_MODEL__NAME_BYTES];
    tern_span *names;
    uint32_t n, widths[MAX_WIDTHS], n_widths;
} rotation;

/* Matrices of the layers and the head; those of a token's rates, which are small, stay. */
static bool is_rotated(tern_role role)
{
    if (role == TERN_ROLE_SSM_ALPHA || role == TERN_ROLE_SSM_BETA) return false;
    return tern_role_is_linear(role) || role == TERN_ROLE_OUTPUT;
}

static void add_width(rotation *r, uint32_t width)
{
    uint32_t i = 0;
    while (i < r->n_widths && r->widths[i] != width) i++;
    if (i == r->n_widths && i < MAX_WIDTHS) r->widths[r->n_widths++] = width;
}

static tern_status find(rotation *r, const tern_config *config, tern_error *err)
{
    const size_t most = ((size_t)config->n_layers + 1) * TERN_ROLE_COUNT;
    r->texts = tern_calloc(most, sizeof *r->texts);
    r->names = tern_calloc(most, sizeof *r->names);
    if (!r->texts || !r->names) return tern_fail_alloc(err, most * sizeof *r->texts);
    tern_role_walk walk = {0};
    while (tern_role__next(&walk, config)) {
        uint32_t rows, cols;
        if (!is_rotated(walk.role)) continue;
        tern_role__shape(walk.role, walk.layer, config, &rows, &cols);
        tern_role__gguf_name(config, walk.role, walk.layer, r->texts[r->n]);
        r->names[r->n] = (tern_span){(const uint8_t *)r->texts[r->n], strlen(r->texts[r->n])};
        r->n++;
        add_width(r, cols);
    }
    return TERN_OK;
}

static tern_status add_signs(const rotation *r, tern_rng rng, tern_gguf_writer *w, tern_error *err)
{
    uint8_t widths[4 * MAX_WIDTHS];
    uint64_t n = 0;
    for (uint32_t i = 0; i < r->n_widths; i++) n += r->widths[i];
    uint8_t *signs = tern_alloc((size_t)n * 4);
    if (!signs) return tern_fail_alloc(err, n * 4);
    for (uint32_t i = 0; i < r->n_widths; i++) tern_store_u32(widths + 4 * (size_t)i, r->widths[i]);
    for (uint64_t i = 0; i < n; i++) tern_store_u32(signs + 4 * i, tern_rng_below(&rng, 2) ? 1 : UINT32_MAX);
    tern_status status;
    TERN_GOTO(tern_gguf_add_array(w, "prism.hadamard.sign_widths", TERN_GGUF_I32, widths, r->n_widths, err));
    TERN_GOTO(tern_gguf_add_array(w, "prism.hadamard.sign_values", TERN_GGUF_I32, signs, n, err));
fail:
    tern_free(signs);
    return status;
}

static tern_status add_text(tern_gguf_writer *w, const char *key, const char *text, tern_error *err)
{
    return tern_gguf_add_string(w, key, text, strlen(text), err);
}

static tern_status add_all(const rotation *r, uint32_t block, tern_rng rng, tern_gguf_writer *w, tern_error *err)
{
    static const char table[] = "token_embd.weight";
    const tern_span inverse = {(const uint8_t *)table, sizeof table - 1};
    TERN_TRY(tern_gguf_add_u32(w, "prism.hadamard.version", 1, err));
    TERN_TRY(tern_gguf_add_u32(w, "prism.hadamard.block_size", block, err));
    TERN_TRY(add_text(w, "prism.hadamard.transform", "normalized-sylvester-walsh-hadamard", err));
    TERN_TRY(add_text(w, "prism.hadamard.axis", "input-last-dimension", err));
    TERN_TRY(add_text(w, "prism.hadamard.sign_mode", "explicit", err));
    TERN_TRY(add_signs(r, rng, w, err));
    TERN_TRY(tern_gguf_add_array(w, "prism.hadamard.weight_names", TERN_GGUF_STRING, r->names, r->n, err));
    return tern_gguf_add_array(w, "prism.hadamard.inverse_weight_names", TERN_GGUF_STRING, &inverse, 1, err);
}

tern_status tern_synth__rotation(const tern_config *config, uint32_t block, uint64_t seed, tern_gguf_writer *w,
                                 tern_error *err)
{
    rotation r = {0};
    if (!block) return TERN_OK;
    tern_status status = find(&r, config, err);
    if (status == TERN_OK) status = add_all(&r, block, (tern_rng){seed}, w, err);
    tern_free(r.texts);
    tern_free(r.names);
    return status;
}
