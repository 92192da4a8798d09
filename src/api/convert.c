/* Converting a model into one GGUF file. */
#include "model/model.h"
#include "tern.h"

/* Opening and writing as the two halves of one progress. */
typedef struct halves {
    const tern_convert_options *options;
    float before;
} halves;

static bool report(void *context, float done)
{
    const halves *h = context;
    return h->options->progress(h->options->progress_context, h->before + 0.5f * done);
}

tern_status tern_convert(const char *in_path, const char *out_path, const tern_convert_options *options,
                         tern_error *err)
{
    TERN_NEED(in_path, err);
    TERN_NEED(out_path, err);
    const tern_convert_options o = options ? *options : (tern_convert_options){0};
    halves progress = {.options = &o};
    tern_export_options how = {.force = o.force,
                               .rsr = o.rsr || o.rsr_rows,
                               .rsr_rows = o.rsr_rows,
                               .progress = o.progress ? report : NULL,
                               .progress_context = &progress};
    tern_model_options opening = {.progress = how.progress, .progress_context = &progress};
    tern_model *model;
    TERN_TRY(tern_encoding_parse("type", o.type, &how.linear, err));
    TERN_TRY(tern_encoding_parse("head", o.head, &how.head, err));
    TERN_TRY(tern_model_open(&model, in_path, &opening, err));
    progress.before = 0.5f;
    tern_status status = tern_model_write_gguf(model, out_path, &how, err);
    tern_model_close(model);
    return status;
}
