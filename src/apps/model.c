/* From flags to a model and its encodings. */
#include "apps/model.h"

#include "apps/progress.h"
#include "quant/encoding.h"

tern_status tern_app_open_model(tern_model **model, const tern_options *options, bool tokenizer, tern_error *err)
{
    return tern_app_open_model_of(model, options, tokenizer, &(tern_model_options){0}, err);
}

tern_status tern_app_open_model_of(tern_model **model, const tern_options *options, bool tokenizer,
                                   const tern_model_options *place, tern_error *err)
{
    tern_app_path path;
    TERN_TRY(tern_app_find_model(options, &path, err));
    tern_progress progress = {.label = "Opening"};
    tern_model_options how = {.rank = place->rank,
                              .n_ranks = place->n_ranks,
                              .stage = place->stage,
                              .n_stages = place->n_stages,
                              .no_tokenizer = !tokenizer,
                              .progress = tern_progress_update,
                              .progress_context = &progress};
    tern_status status = tern_model_open(model, path.text, &how, err);
    tern_progress_end(&progress);
    return status;
}

tern_status tern_app_encoding(const char *flag, const char *name, const tern_encoding **encoding, tern_error *err)
{
    char what[32];
    snprintf(what, sizeof what, "--%s", flag);
    return tern_encoding_parse(what, name, encoding, err);
}

tern_status tern_app_type(const char *name, const tern_encoding **encoding, const tern_mix **mix, tern_error *err)
{
    return tern_type_parse("--type", name, encoding, mix, err);
}

void tern_app_say_fallbacks(const char *path, const tern_export_report *report)
{
    char clause[TERN_EXPORT_CLAUSE_BYTES];
    for (uint32_t i = 0; i < report->n_fallbacks; i++) {
        tern_export_fallback_text(&report->fallbacks[i], clause);
        tern_app_say("%s: %s\n", path, clause);
    }
}
