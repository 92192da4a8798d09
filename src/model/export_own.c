/* What of a written file Tern alone reads. Sources for what others read: the loaders of llama.cpp (src/llama-arch.cpp,
 * src/llama-model.cpp: a file with a tensor that was not asked for is refused), of bitnet.cpp's llama.cpp and of
 * ik_llama.cpp (src/llama-load-tensors.cpp). */
#include <string.h>

#include "model/export_internal.h"

static const char *const texts[TERN_OWN_KINDS] = {
    [TERN_OWN_ENCODING] =
        "its layers are t160, an encoding that Tern alone reads; other engines read i2_s (bitnet.cpp, "
        "ik_llama.cpp) and tq2_0 (bitnet.cpp, llama.cpp)",
    [TERN_OWN_SECTIONS] = "its RSR sections are tensors that Tern alone knows; other engines refuse the file, and read "
                          "one that is written without them",
    [TERN_OWN_SCALES] = "its scales by row are tensors that Tern alone knows beside layers of this type; other engines "
                        "refuse the file, and read scales by row in tq2_0",
    [TERN_OWN_ARCHITECTURE] = "its architecture has sub-norms or a head where other engines expect none, or none where "
                              "they expect them: Tern alone reads it, in any type",
};

const char *tern_export_own_text(tern_export_own own)
{
    return texts[own];
}

static uint32_t bit(tern_export_own own, bool is)
{
    return is ? 1u << own : 0;
}

uint32_t tern_export__own(const tern_export_plan *p)
{
    return bit(TERN_OWN_ENCODING, p->encoding->id == TERN_ENC_T160) | bit(TERN_OWN_SECTIONS, p->rsr_rows != 0) |
           bit(TERN_OWN_SCALES, p->n_scales != 0);
}

/* Others' "bitnet" has sub-norms and the embedding as its head, their "llama" no sub-norms. */
uint32_t tern_export__own_architecture(const tern_config *c)
{
    const bool bitnet = strcmp(c->architecture, "bitnet") == 0, llama = strcmp(c->architecture, "llama") == 0;
    return bit(TERN_OWN_ARCHITECTURE, (bitnet && !(c->sub_norms && c->tied_head)) || (llama && c->sub_norms));
}
