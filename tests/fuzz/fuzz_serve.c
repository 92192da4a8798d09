/* Any bytes as the body of a request to each route of tern serve: the first byte says which. Nothing leaks, and what is
 * refused is said. */
#include <string.h>

#include "base/alloc.h"
#include "format/json.h"
#include "fuzz/fuzz.h"
#include "serve/http/route.h"

static const tern_route *pick(size_t which)
{
    const tern_route *const tables[] = {tern_routes_openai, tern_routes_ollama, tern_routes_anthropic,
                                        tern_routes_native};
    const tern_route *found[64];
    size_t n = 0;
    for (size_t i = 0; i < 4; i++)
        for (const tern_route *r = tables[i]; r->path; r++)
            if (r->read && n < 64) found[n++] = r;
    return found[which % n];
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    int64_t live = tern_alloc_live();
    json_t *body = NULL;
    tern_error err = {0};
    tern_api_request request;
    if (size == 0 || tern_json_parse(&body, data + 1, size - 1, "the body", &err) != TERN_OK) return 0;
    tern_api_request_init(&request);
    tern_status status = pick(data[0])->read(&request, body, &err);
    if (status == TERN_OK) status = tern_api_request_finish(&request, &err);
    FUZZ_CHECK(status == TERN_OK || (err.code == status && err.message[0]));
    FUZZ_CHECK(request.n_stops <= TERN_API_MAX_STOPS && request.n_prompts <= TERN_API_MAX_PROMPTS);
    if (status == TERN_OK && request.n_messages) {
        json_t *again = NULL;
        char *text = tern_api_request_template_variables(&request, data[0] & 64);
        FUZZ_CHECK(text);
        /* What was read from JSON of a depth is written a little deeper. */
        const tern_status parsed = tern_json_parse(&again, text, strlen(text), "the conversation", &err);
        FUZZ_CHECK(parsed == TERN_OK || parsed == TERN_LIMIT);
        tern_json_free(again);
        tern_free(text);
    }
    tern_api_request_deinit(&request);
    tern_json_free(body);
    FUZZ_CHECK(tern_alloc_live() == live);
    return 0;
}
