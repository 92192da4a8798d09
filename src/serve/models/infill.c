/* Fill in the middle: the prompt of a text with a gap. */
#include <string.h>

#include "base/alloc.h"
#include "serve/server.h"

/* Tokens of a prompt that leave room for as many as are to be generated, at least half of the context. */
static size_t most_tokens(const tern_answer *a, const tern_host *host)
{
    const uint32_t n_ctx = tern_batch_n_ctx(host->batch), wanted = a->request.max_tokens;
    if (a->request.no_tokens) return n_ctx - 1;
    if (!wanted) return n_ctx - n_ctx / 4;
    return n_ctx - (wanted < n_ctx / 2 ? wanted : n_ctx / 2);
}

static void set_files(tern_fim_file *files, const json_t *list)
{
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *file = json_array_get(list, i), *text = json_object_get(file, "text");
        files[i] = (tern_fim_file){.name = json_string_value(json_object_get(file, "filename")),
                                   .text = json_string_value(text),
                                   .n_text = json_string_length(text)};
    }
}

tern_status tern_infill_tokens(tern_answer *a, tern_host *host, size_t i, tern_tokens *ids, tern_error *err)
{
    const tern_api_gap *gap = &a->request.gap;
    const size_t n_files = json_array_size(gap->files);
    tern_fim_file *files = tern_calloc(n_files + 1, sizeof *files);
    if (!files) return tern_fail_alloc(err, n_files * sizeof *files);
    set_files(files, gap->files);
    const bool suffix_first = a->host->model.suffix_first || a->host->server->options.suffix_first;
    const tern_fim fim = {.size = sizeof fim,
                          .prefix = a->request.prompts[i].text,
                          .n_prefix = a->request.prompts[i].n,
                          .suffix = json_string_value(gap->suffix),
                          .n_suffix = json_string_length(gap->suffix),
                          .start = json_string_value(gap->start),
                          .n_start = json_string_length(gap->start),
                          .repository = gap->named ? "myproject" : NULL, /* what llama.cpp's server puts there */
                          .name = gap->named ? "filename" : NULL,
                          .files = files,
                          .n_files = n_files,
                          .suffix_first = suffix_first,
                          .max_tokens = gap->named ? most_tokens(a, host) : 0};
    const tern_status status = tern_engine_fim_prompt(host->engine, &fim, ids, &a->shortened, err);
    tern_free(files);
    return status == TERN_OK ? status : tern_error_prefix(err, "%s", gap->named ? "infill" : "suffix");
}
