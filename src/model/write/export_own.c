/* The notes about a written file: which tensors have another type than asked for, and the parts that Tern alone reads.
 * Sources for what others read: the loaders of llama.cpp (src/llama-arch.cpp, src/llama-model.cpp: a file with a tensor
 * that was not asked for is refused), of bitnet.cpp's llama.cpp and of ik_llama.cpp (src/llama-load-tensors.cpp). */
#include <stdio.h>
#include <string.h>

#include "model/write/export_internal.h"
#include "quant/encoding.h"
#include "quant/encoding_id.h"

static const char *const texts[TERN_OWN_KINDS] = {
    [TERN_OWN_ENCODING] =
        "its layers are t160, an encoding that Tern alone reads; other engines read i2_s (bitnet.cpp, "
        "ik_llama.cpp) and tq2_0 (bitnet.cpp, llama.cpp)",
    [TERN_OWN_SECTIONS] = "its RSR sections are tensors that Tern alone knows; other engines refuse the file, and read "
                          "one that is written without them",
    [TERN_OWN_SCALES] = "its scales by row are tensors that Tern alone knows beside layers of this type; other engines "
                        "refuse the file, and read scales by row in tq2_0",
    [TERN_OWN_ARCHITECTURE] =
        "its architecture has norms or a head where other engines expect none, or none where they "
        "expect them: Tern alone reads it, in any type, and norms before each linear layer in "
        "i2_s bitnet.cpp",
};

const char *tern_export_own_text(tern_export_own own)
{
    return texts[own];
}

static uint32_t bit(tern_export_own own, bool is)
{
    return is ? 1u << own : 0;
}

static uint32_t own(const tern_export_plan *p)
{
    return bit(TERN_OWN_ENCODING, p->encoding->id == TERN_ENC_T160) | bit(TERN_OWN_SECTIONS, p->rsr_rows != 0) |
           bit(TERN_OWN_SCALES, p->n_scales != 0);
}

void tern_export_fallback_text(const tern_export_fallback *f, char out[TERN_EXPORT_CLAUSE_BYTES])
{
    const int n = snprintf(out, TERN_EXPORT_CLAUSE_BYTES, "%u tensor%s %s instead of %s: ", f->tensors,
                           f->tensors == 1 ? " is" : "s are", f->got->name, f->asked->name);
    const size_t used = n > 0 && n < TERN_EXPORT_CLAUSE_BYTES ? (size_t)n : 0, left = TERN_EXPORT_CLAUSE_BYTES - used;
    if (f->asked->ternary) snprintf(out + used, left, "several scales in a row");
    else snprintf(out + used, left, "%u columns, no multiple of %u", f->cols, f->asked->block_elements);
}

static void note_fallback(tern_export_report *r, const tern_export_plan *p)
{
    uint32_t i = 0;
    while (i < r->n_fallbacks && !(r->fallbacks[i].asked == p->asked && r->fallbacks[i].got == p->encoding)) i++;
    if (i == TERN_EXPORT_FALLBACKS) return;
    if (i == r->n_fallbacks)
        r->fallbacks[r->n_fallbacks++] = (tern_export_fallback){p->asked, p->encoding, p->weight->cols, 0};
    r->fallbacks[i].tensors++;
}

void tern_export__note(tern_export_report *report, const tern_export_plan *plan)
{
    report->own |= own(plan);
    report->n_weighted += plan->importance != NULL;
    report->n_unweighted += plan->unweighted;
    if (plan->asked != plan->encoding) note_fallback(report, plan);
}

/* Others' "bitnet" has sub-norms and the embedding as its head, their "llama" no sub-norms; norms before linear layers
 * are known to bitnet.cpp alone. */
uint32_t tern_export__own_architecture(const tern_config *c)
{
    const bool bitnet = strcmp(c->architecture, "bitnet") == 0, llama = strcmp(c->architecture, "llama") == 0;
    const bool other = (bitnet && !(c->sub_norms && c->tied_head)) || (llama && c->sub_norms);
    return bit(TERN_OWN_ARCHITECTURE, other || c->linear_norms);
}
