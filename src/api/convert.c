/* Converting a model into one GGUF file. */
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/output.h"
#include "base/progress.h"
#include "base/sized.h"
#include "model/imatrix.h"
#include "model/model.h"
#include "quant/encoding.h"
#include "quant/foreign.h"
#include "quant/mix.h"
#include "tern.h"

enum { MAX_CONFIG_BYTES = 1 << 20 };

static tern_status check_paths(const char *in_path, const char *out_path, const tern_convert_options *o,
                               tern_error *err)
{
    TERN_NEED(in_path, err);
    TERN_NEED(out_path, err);
    const char *const inputs[] = {o->kernel_config, o->imatrix};
    const tern_output output = {
        .path = out_path, .model = in_path, .inputs = inputs, .n_inputs = 2, .overwrite = o->overwrite};
    return tern_output_check(&output, err);
}

/* All zero without a file. */
static tern_status read_tiles(const char *path, tern_tl_tiles *tiles, tern_error *err)
{
    tern_buf text = {0};
    *tiles = (tern_tl_tiles){0};
    if (!path) return TERN_OK;
    tern_status status = tern_file_read(&text, path, MAX_CONFIG_BYTES, err);
    if (status == TERN_OK && tern_tl_tiles_parse(tiles, (const char *)text.data, text.size, err) != TERN_OK)
        status = tern_error_prefix(err, "%s", path);
    tern_buf_deinit(&text);
    return status;
}

/* NULL without a file. */
static tern_status open_imatrix(const char *path, tern_imatrix **m, tern_error *err)
{
    *m = NULL;
    return path ? tern_imatrix_open(m, path, err) : TERN_OK;
}

static void hint_at_force(tern_error *err)
{
    const size_t n = err ? strlen(err->message) : 0;
    if (err) snprintf(err->message + n, sizeof err->message - n, " (--force does it all the same)");
}

static void describe(const tern_model *model, const tern_export_report *report, tern_convert_result *result)
{
    _Static_assert(sizeof result->own / sizeof *result->own == TERN_OWN_KINDS, "room for all of them");
    _Static_assert(sizeof result->fallbacks == TERN_EXPORT_FALLBACKS * TERN_EXPORT_CLAUSE_BYTES, "room for all");
    result->parameters = tern_model_parameters(model);
    result->n_weighted = report->n_weighted;
    result->n_unweighted = report->n_unweighted;
    for (uint32_t i = 0; i < TERN_OWN_KINDS; i++)
        if (report->own >> i & 1) result->own[result->n_own++] = tern_export_own_text((tern_export_own)i);
    for (uint32_t i = 0; i < report->n_fallbacks; i++)
        tern_export_fallback_text(&report->fallbacks[i], result->fallbacks[result->n_fallbacks++]);
}

tern_status tern_convert(const char *in_path, const char *out_path, const tern_convert_options *options,
                         tern_convert_result *result, tern_error *err)
{
    tern_convert_options o;
    tern_convert_result found = {0};
    if (result) TERN_TRY(TERN_SIZED_WRITE(result, &found, err));
    TERN_TRY(TERN_SIZED_READ(&o, options, err));
    TERN_TRY(check_paths(in_path, out_path, &o, err));
    tern_progress_part half = {.whole = o.progress, .context = o.progress_context, .share = 0.5f};
    tern_export_options how = {.force = o.force,
                               .rsr = o.rsr || o.rsr_rows,
                               .rsr_rows = o.rsr_rows,
                               .progress = o.progress ? tern_progress_part_report : NULL,
                               .progress_context = &half};
    tern_export_report report = {0};
    how.report = &report;
    tern_tl_tiles tiles;
    TERN_TRY(read_tiles(o.kernel_config, &tiles, err));
    tern_model_options opening = {.i2s_order = o.i2s_order,
                                  .foreign = true,
                                  .mtp = true,
                                  .tiles = &tiles,
                                  .progress = how.progress,
                                  .progress_context = &half};
    tern_model *model = NULL;
    TERN_TRY(tern_type_parse("type", o.type, &how.linear, &how.mix, err));
    TERN_TRY(tern_encoding_parse("head", o.head, &how.head, err));
    tern_imatrix *imatrix;
    TERN_TRY(open_imatrix(o.imatrix, &imatrix, err));
    how.imatrix = imatrix;
    tern_status status = tern_model_open(&model, in_path, &opening, err);
    half.before = 0.5f;
    if (status == TERN_OK) status = tern_model_write_gguf(model, out_path, &how, err);
    tern_imatrix_close(imatrix);
    if (status == TERN_UNSUPPORTED && how.linear && how.linear->ternary && !o.force) hint_at_force(err);
    if (status == TERN_OK) describe(model, &report, &found);
    tern_model_close(model);
    return result && status == TERN_OK ? TERN_SIZED_WRITE(result, &found, err) : status;
}
