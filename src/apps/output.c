/* The outputs and inputs of a command. */
#include <stdlib.h>

#include "apps/lora.h"
#include "base/alloc.h"
#include "base/output.h"

typedef struct inputs {
    const char **paths;
    size_t n;
    char *loras[TERN_APP_MAX_LORAS]; /* without their scales */
    uint32_t n_loras;
} inputs;

static tern_status list(inputs *in, const tern_options *o, tern_error *err)
{
    const size_t most = o->args.n + o->loras.n + 2;
    float unused;
    in->paths = tern_calloc(most, sizeof *in->paths);
    if (!in->paths) return tern_fail_alloc(err, most * sizeof *in->paths);
    for (size_t i = 0; i < o->args.n; i++) in->paths[in->n++] = o->args.items[i];
    in->paths[in->n++] = o->file;
    in->paths[in->n++] = o->template;
    for (size_t i = 0; i < o->loras.n && i < TERN_APP_MAX_LORAS; i++) {
        TERN_TRY(tern_app_parse_lora(o->loras.items[i], &in->loras[i], &unused, err));
        in->paths[in->n++] = in->loras[i];
        in->n_loras++;
    }
    return TERN_OK;
}

tern_status tern_app_check_output(const tern_options *o, const char *model, const char *path, bool folder,
                                  tern_error *err)
{
    inputs in = {0};
    tern_status status;
    TERN_GOTO(list(&in, o, err));
    const tern_output output = {.path = path,
                                .folder = folder,
                                .model = model,
                                .inputs = in.paths,
                                .n_inputs = in.n,
                                .overwrite = o->overwrite};
    TERN_GOTO(tern_output_check(&output, err));
fail:
    for (uint32_t i = 0; i < in.n_loras; i++) free(in.loras[i]);
    tern_free(in.paths);
    return status;
}
