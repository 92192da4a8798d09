/* What tern serve reads of requests: members by their tables, messages, stop strings, prompts; and its routes. */
#include <math.h>

#include "base/alloc.h"
#include "format/json.h"
#include "serve/http/route.h"
#include "support/test.h"

static json_t *parse(const char *text)
{
    json_t *root = NULL;
    tern_error err = {0};
    if (tern_json_parse(&root, text, strlen(text), "test", &err) != TERN_OK) fail_msg("%s: %s", text, err.message);
    return root;
}

static const tern_route *route_of(const char *path)
{
    const char *rest;
    bool other;
    const tern_route *route = tern_route_find("POST", path, &rest, &other);
    assert_non_null(route);
    return route;
}

typedef struct refusal {
    const char *path, *body, *message; /* part of the error */
} refusal;

static const refusal refusals[] = {
    {"/v1/chat/completions", "[]", "the body: an empty list found, an object expected"},
    {"/v1/chat/completions", "{\"messages\": []}", "messages: an empty list found, a list of at least one message"},
    {"/v1/chat/completions", "{}", "messages: none found"},
    {"/v1/chat/completions", "{\"messages\": 5}", "messages: 5 found, a list of at least one message expected"},
    {"/v1/chat/completions", "{\"messages\": [1]}", "messages[0]: 1 found, an object expected"},
    {"/v1/chat/completions", "{\"messages\": [{\"content\": \"a\"}]}", "a role expected"},
    {"/v1/chat/completions", "{\"messages\": [{\"role\": \"user\"}]}", "messages[0].content"},
    {"/v1/chat/completions", "{\"messages\": [{\"role\": \"user\", \"content\": [{\"type\": \"x\"}]}]}", "\"x\" found"},
    {"/v1/chat/completions", "{\"top_p\": 1.5}", "top_p: 1.5 found, a number from 0 to 1 expected"},
    {"/v1/chat/completions", "{\"top_p\": \"1\"}", "top_p: \"1\" found"},
    {"/v1/chat/completions", "{\"n\": 1.5}", "n: 1.5 found, a whole number"},
    {"/v1/chat/completions", "{\"n\": 129}", "n: 129 found"},
    {"/v1/chat/completions", "{\"model\": \"a\\u0000b\"}", "model: a NUL character found"},
    {"/v1/chat/completions", "{\"logit_bias\": {\"x\": 1}}", "logit_bias: \"x\" found, a token id expected"},
    {"/v1/chat/completions", "{\"stop\": [\"a\", \"\"]}", "stop: \"\" found, a text that is not empty expected"},
    {"/v1/chat/completions", "{\"stream_options\": {\"x\": 1}}", "stream_options: x: an unknown field"},
    {"/completion", "{\"prompt\": \"a\", \"grammar\": \"root ::= [a-z]\", \"json_schema\": {}}",
     "a grammar and a schema found"},
    {"/v1/chat/completions", "{\"response_format\": {\"type\": \"json_object\"}, \"grammar\": \"root ::= [a-z]\"}",
     "a grammar and a schema found"},
    {"/v1/chat/completions", "{\"colour\": 1}", "colour: an unknown field"},
    {"/v1/chat/completions", "{\"audio\": {\"a\": 1}}", "audio: not supported"},
    {"/v1/chat/completions", "{\"tools\": [{\"type\": \"x\"}]}", "tools[0]: the type \"x\" found"},
    {"/v1/chat/completions", "{\"tools\": [{\"function\": {\"name\": \"\"}}]}", "tools[0]: the name: \"\" found"},
    {"/v1/chat/completions", "{\"tool_choice\": \"any\"}", "tool_choice: \"any\" found, auto, none"},
    {"/v1/chat/completions", "{\"messages\": [{\"role\": \"assistant\", \"tool_calls\": [1]}]}",
     "messages[0].tool_calls: none found"},
    {"/v1/messages", "{\"tools\": [{\"type\": \"bash_1\"}]}", "tools[0]: the type \"bash_1\" found"},
    {"/v1/messages", "{\"tool_choice\": {\"type\": \"tool\"}}", "tool_choice: the type \"tool\" found"},
    {"/v1/messages", "{\"messages\": [{\"role\": \"user\", \"content\": [{\"type\": \"tool_result\"}]}]}",
     "a tool_use_id expected"},
    {"/v1/load_lora_adapter", "{\"lora_path\": \"a\"}", "lora_name: a name of 1 to 63 bytes"},
    {"/v1/load_lora_adapter", "{\"lora_name\": \"a\"}", "lora_path: none found"},
    {"/v1/unload_lora_adapter", "{\"lora_name\": \"a\\nb\"}", "lora_name: a name of 1 to 63 bytes"},
    {"/completion", "{\"prompt\": \"a\", \"lora\": {}}", "lora: a value of the kind object found, a list"},
    {"/completion", "{\"lora\": [{\"id\": 1, \"scale\": 1}, {\"id\": 1, \"scale\": 1}]}",
     "lora, item 1: id: 1 found twice"},
    {"/completion", "{\"lora\": [{\"id\": 1}]}", "lora, item 0: an object with id and scale expected"},
    {"/completion", "{\"lora\": [{\"id\": 1, \"scale\": 1e9}]}",
     "lora, item 0: scale: 1000000000 found, a number from -100 to 100"},
    {"/v1/completions", "{\"prompt\": {}}", "a text or a list of token ids expected"},
    {"/v1/completions", "{\"logprobs\": 21}", "logprobs: 21 found, a whole number from 0 to 20 expected"},
    {"/v1/responses", "{\"input\": [{\"type\": \"image\"}]}", "\"image\" found, message, function_call"},
    {"/v1/responses", "{\"previous_response_id\": 1}", "previous_response_id: 1 found, a string"},
    {"/v1/responses", "{\"conversation\": \"a\"}", "conversation: not supported, previous_response_id goes on"},
    {"/v1/responses", "{\"include\": [\"x\"]}", "include: \"x\" found, message.output_text.logprobs expected"},
    {"/v1/responses", "{\"reasoning\": {\"effort\": 1}}", "reasoning_effort: 1 found, none, minimal"},
    {"/v1/messages", "{\"thinking\": {\"type\": \"x\"}}", "thinking: type: \"x\" found, enabled, adaptive"},
    {"/v1/messages", "{\"context_management\": {\"edits\": [1]}}", "context_management: not supported"},
    {"/api/chat", "{\"think\": 1}", "think: 1 found, true, false or an effort"},
    {"/v1/chat/completions", "{\"verbosity\": \"x\"}", "verbosity: \"x\" found, low, medium or high"},
    {"/v1/chat/completions", "{\"functions\": [{\"name\": 1}]}", "tools[0]: the name: 1 found"},
    {"/v1/embeddings", "{\"encoding_format\": \"hex\"}", "encoding_format: \"hex\" found"},
    {"/api/chat", "{\"options\": {\"num_predict\": 1e9}}", "num_predict: 1000000000 found, a whole number of at most"},
    {"/v1/chat/completions", "{\"max_tokens\": 0}",
     "max_tokens: 0 found, a whole number from 1 to 16777216, or -1 expected"},
    {"/v1/completions", "{\"max_tokens\": -2}", "max_tokens: -2 found, a whole number from 0 to 16777216, or -1"},
    {"/completion", "{\"n_predict\": 0.5}", "n_predict: 0.5 found, a whole number"},
    {"/api/generate", "{\"prompt\": [\"a\"]}", "prompt: a value of the kind array found"},
    {"/api/generate", "{\"keep_alive\": \"5 minutes\"}", "keep_alive: \"5 minutes\" found, seconds or a duration"},
    {"/api/generate", "{\"keep_alive\": \"-\"}", "keep_alive: \"-\" found"},
    {"/api/generate", "{\"prompt\": \"a\", \"context\": 5}", "context: 5 found, the list of ids"},
    {"/api/generate", "{\"prompt\": \"a\", \"raw\": true, \"context\": [5]}", "context: not together with raw"},
    {"/api/chat", "{\"messages\": [{\"role\": \"user\", \"content\": \"a\", \"images\": [\"x\"]}]}",
     "messages[0].images: images are not supported"},
    {"/models/load", "{}", "model: none found, a name expected"},
    {"/slots/0", "{\"filename\": 5}", "filename: 5 found, a string expected"},
    {"/v1/messages", "{\"messages\": [{\"role\": \"user\", \"content\": \"a\"}]}", "max_tokens: none found"},
    {"/completion", "{\"prompt\": [\"a\", \"b\"]}", "prompt: 2 texts found, one expected"},
    {"/tokenize", "{\"content\": [1]}", "content: a value of the kind array found, a text expected"},
    {"/detokenize", "{\"tokens\": \"a\"}", "tokens: \"a\" found"},
};

static void test_refusals(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++) {
        const refusal *r = &refusals[i];
        json_t *body = parse(r->body);
        tern_api_request request;
        tern_error err = {0};
        tern_api_request_init(&request);
        tern_status status = route_of(r->path)->read(&request, body, &err);
        if (status != TERN_INVALID_ARGUMENT || !strstr(err.message, r->message))
            fail_msg("%s %s: \"%s\" found, \"%s\" expected", r->path, r->body, err.message, r->message);
        tern_api_request_deinit(&request);
        tern_json_free(body);
    }
}

static void read(const char *path, const char *text, tern_api_request *request, json_t **body)
{
    tern_error err = {0};
    *body = parse(text);
    tern_api_request_init(request);
    if (route_of(path)->read(request, *body, &err) != TERN_OK || tern_api_request_finish(request, &err) != TERN_OK)
        fail_msg("%s: %s", text, err.message);
}

/* Ollama's requests without a prompt, and how long the model is to stay. */
static void test_loads(void **state)
{
    static const struct {
        const char *path, *body;
        double seconds; /* 0: unloads */
    } cases[] = {{"/api/generate", "{\"keep_alive\": \"1h30m\"}", 5400},
                 {"/api/generate", "{\"prompt\": \"\", \"keep_alive\": \"-1s\"}", -1},
                 {"/api/generate", "{\"prompt\": null, \"keep_alive\": \"250ms\"}", 0.25},
                 {"/api/chat", "{\"keep_alive\": 30}", 30},
                 {"/api/chat", "{\"messages\": [], \"keep_alive\": 0}", 0},
                 {"/api/generate", "{\"keep_alive\": \"0\"}", 0}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tern_api_request request;
        json_t *body;
        read(cases[i].path, cases[i].body, &request, &body);
        assert_true(request.keeps && fabs(request.keep_seconds - cases[i].seconds) < 1e-9);
        assert_int_equal(request.unloads, cases[i].seconds == 0);
        assert_int_equal(request.loads, !request.unloads);
        tern_api_request_deinit(&request);
        tern_json_free(body);
    }
}

/* The settings of a model count where a request says nothing. */
static void test_settings(void **state)
{
    json_t *settings = parse("{\"temperature\": 0.25, \"stop\": [\"a\", \"b\"], \"num_predict\": 5}");
    json_t *body = parse("{\"prompt\": \"x\", \"raw\": true, \"options\": {\"stop\": \"c\", \"top_p\": 0.5}}");
    tern_api_request request;
    tern_error err = {0};
    (void)state;
    tern_api_request_init(&request);
    request.settings = settings;
    assert_int_equal(tern_api_request_apply(&request, settings, &err), TERN_OK);
    assert_int_equal(request.n_stops, 2);
    assert_int_equal(route_of("/api/generate")->read(&request, body, &err), TERN_OK);
    assert_true(request.sampler.temperature == 0.25f && request.sampler.top_p == 0.5f);
    assert_int_equal(request.max_tokens, 5);
    assert_int_equal(request.n_stops, 1);
    assert_string_equal(request.stops[0], "c");
    tern_api_request_deinit(&request);
    tern_json_free(body);
    tern_json_free(settings);
}

static void test_chat(void **state)
{
    tern_api_request request;
    json_t *body;
    (void)state;
    read("/v1/chat/completions",
         "{\"messages\": [{\"role\": \"developer\", \"content\": \"a\"}, {\"role\": \"user\", \"content\": [{\"type\": "
         "\"text\", \"text\": \"b\"}, {\"type\": \"text\", \"text\": \"c\"}]}], \"temperature\": 0.5, \"seed\": 7, "
         "\"stop\": \"x\", \"logit_bias\": {\"5\": -100, \"6\": 1.5}, \"tools\": [], \"user\": \"me\", \"n\": null}",
         &request, &body);
    assert_int_equal(request.n_messages, 2);
    assert_string_equal(request.messages[0].role, "system");
    assert_int_equal(request.messages[1].n_content, 2);
    assert_memory_equal(request.messages[1].content, "bc", 2);
    assert_true(request.sampler.temperature == 0.5f && request.sampler.top_p == 1 && request.sampler.top_k == 0);
    assert_int_equal(request.sampler.seed, 7);
    assert_int_equal(request.n, 1);
    assert_string_equal(request.stops[0], "x");
    assert_int_equal(request.sampler.n_biases, 2);
    assert_true(isinf(request.sampler.biases[0].bias) && request.sampler.biases[1].bias == 1.5f);
    tern_api_request_deinit(&request);
    tern_json_free(body);
}

static void test_systems(void **state)
{
    tern_api_request request;
    json_t *body;
    (void)state;
    read("/v1/messages",
         "{\"max_tokens\": 5, \"system\": \"s\", \"messages\": [{\"role\": \"user\", \"content\": \"a\"}]}", &request,
         &body);
    assert_string_equal(request.messages[0].role, "system");
    assert_string_equal(request.messages[1].role, "user");
    tern_api_request_deinit(&request);
    tern_json_free(body);
    read("/v1/responses", "{\"instructions\": \"s\", \"input\": \"a\"}", &request, &body);
    assert_int_equal(request.n_messages, 2);
    assert_memory_equal(request.messages[0].content, "s", 1);
    tern_api_request_deinit(&request);
    tern_json_free(body);
}

/* The same conversation in the words of three APIs is the same for a template. */
static void test_tools(void **state)
{
    static const char *const paths[] = {"/v1/chat/completions", "/v1/messages", "/api/chat"};
    static const char *const bodies[] = {
        "{\"tools\": [{\"type\": \"function\", \"function\": {\"name\": \"f\", \"parameters\": {\"type\": "
        "\"object\"}}}], "
        "\"tool_choice\": {\"type\": \"function\", \"function\": {\"name\": \"f\"}}, \"parallel_tool_calls\": false, "
        "\"messages\": [{\"role\": \"assistant\", \"content\": null, \"tool_calls\": [{\"id\": \"1\", \"function\": "
        "{\"name\": \"f\", \"arguments\": \"{\\\"a\\\": 1}\"}}]}, {\"role\": \"tool\", \"tool_call_id\": \"1\", "
        "\"content\": \"r\"}]}",
        "{\"max_tokens\": 5, \"tools\": [{\"name\": \"f\", \"input_schema\": {\"type\": \"object\"}}], "
        "\"tool_choice\": "
        "{\"type\": \"tool\", \"name\": \"f\", \"disable_parallel_tool_use\": true}, \"messages\": [{\"role\": "
        "\"assistant\", \"content\": [{\"type\": \"tool_use\", \"id\": \"1\", \"name\": \"f\", \"input\": {\"a\": "
        "1}}]}, "
        "{\"role\": \"user\", \"content\": [{\"type\": \"tool_result\", \"tool_use_id\": \"1\", \"content\": "
        "\"r\"}]}]}",
        "{\"tools\": [{\"type\": \"function\", \"function\": {\"name\": \"f\", \"parameters\": {\"type\": "
        "\"object\"}}}], "
        "\"tool_choice\": {\"type\": \"function\", \"function\": {\"name\": \"f\"}}, \"parallel_tool_calls\": false, "
        "\"messages\": [{\"role\": \"assistant\", \"content\": \"\", \"tool_calls\": [{\"id\": \"1\", \"function\": "
        "{\"name\": \"f\", \"arguments\": {\"a\": 1}}}]}, {\"role\": \"tool\", \"tool_call_id\": \"1\", \"content\": "
        "\"r\"}]}"};
    static const char expected[] =
        "{\"messages\":[{\"role\":\"assistant\",\"content\":\"\",\"tool_calls\":[{\"type\":\"function\",\"function\":{"
        "\"name\":\"f\",\"arguments\":{\"a\":1.0}},\"id\":\"1\"}]},{\"role\":\"tool\",\"content\":\"r\","
        "\"tool_call_id\":\"1\",\"name\":\"f\"}],\"add_generation_prompt\":true,\"tools\":[{\"type\":\"function\","
        "\"function\":{\"name\":\"f\",\"parameters\":{\"type\":\"object\"}}}]}";
    (void)state;
    for (size_t i = 0; i < 3; i++) {
        tern_api_request request;
        json_t *body;
        read(paths[i], bodies[i], &request, &body);
        char *text = tern_api_request_template_variables(&request, false);
        assert_string_equal(text, expected);
        assert_true(tern_api_request_wants_calls(&request) && request.serial && request.calls == TERN_CALLS_REQUIRED);
        assert_string_equal(json_string_value(request.tool_choice), "f");
        tern_free(text);
        tern_api_request_deinit(&request);
        tern_json_free(body);
    }
}

static void test_prompts(void **state)
{
    tern_api_request request;
    json_t *body;
    (void)state;
    read("/v1/completions", "{\"prompt\": [[1, 2], \"b\"], \"best_of\": 3}", &request, &body);
    assert_int_equal(request.n_prompts, 2);
    assert_int_equal(json_array_size(request.prompts[0].ids), 2);
    assert_string_equal(request.prompts[1].text, "b");
    assert_int_equal(request.best_of, 3);
    assert_int_equal(request.max_tokens, 16);
    tern_api_request_deinit(&request);
    tern_json_free(body);
}

static void test_routes(void **state)
{
    const char *rest;
    bool other;
    (void)state;
    const tern_route *r = tern_route_find("GET", "/v1/models/a/b", &rest, &other);
    assert_non_null(r);
    assert_string_equal(rest, "a/b");
    assert_null(tern_route_find("GET", "/v1/models/", &rest, &other));
    assert_null(tern_route_find("GET", "/v1/completions", &rest, &other));
    assert_true(other);
    r = tern_route_find("GET", "/v1/responses/resp_a/input_items", &rest, &other);
    assert_non_null(r);
    assert_string_equal(r->path, "/v1/responses/*/input_items");
    assert_string_equal(rest, "resp_a/input_items");
    assert_null(tern_route_find("GET", "/v1/responses//input_items", &rest, &other));
    assert_null(tern_route_find("POST", "/v1/responses/a/cancel", &rest, &other));
    assert_false(other);
    assert_string_equal(tern_route_find("DELETE", "/v1/responses/a", &rest, &other)->path, "/v1/responses/*");
    assert_string_equal(tern_route_methods("/v1/responses/a"), "GET, HEAD, DELETE, OPTIONS");
    assert_string_equal(tern_route_methods("/v1/responses/a/input_items"), "GET, HEAD, OPTIONS");
    assert_string_equal(tern_route_methods("/lora-adapters"), "GET, HEAD, POST, OPTIONS");
    assert_string_equal(tern_route_methods("/api/delete"), "DELETE, OPTIONS");
    assert_null(tern_route_find("POST", "/v1/completions/", &rest, &other));
    assert_false(other);
    assert_non_null(tern_route_find("HEAD", "/health", &rest, &other));
    assert_ptr_equal(tern_route_protocol("/api/x"), &tern_protocol_ollama);
    assert_ptr_equal(tern_route_protocol("/v1/messages"), &tern_protocol_anthropic);
    assert_ptr_equal(tern_route_protocol("/"), &tern_protocol_native);
}

static const struct CMUnitTest cases[] = {
    cmocka_unit_test(test_refusals), cmocka_unit_test(test_chat),     cmocka_unit_test(test_systems),
    cmocka_unit_test(test_prompts),  cmocka_unit_test(test_routes),   cmocka_unit_test(test_tools),
    cmocka_unit_test(test_loads),    cmocka_unit_test(test_settings),
};
TEST_GROUP(requests, "", cases);
