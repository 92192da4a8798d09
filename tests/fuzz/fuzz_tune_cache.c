/* Any bytes as a file of measured kernels: what is accepted is in range, without doubles, and the same once written and
 * read again. */
#include <string.h>

#include "base/alloc.h"
#include "fuzz/fuzz.h"
#include "infer/tune/cache.h"
#include "quant/encoding.h"

static void check_choices(const tern_tune_cache *c)
{
    FUZZ_CHECK(c->cpu && c->build && c->n <= TERN_TUNE_MAX_CHOICES);
    for (size_t i = 0; i < c->n; i++) {
        const tern_kernel_choice *k = &c->choices[i];
        FUZZ_CHECK(k->encoding && k->rows && k->cols && memchr(k->device, 0, sizeof k->device));
        if (k->device[0]) FUZZ_CHECK(k->tokens && k->tokens <= 512 && !k->n_threads && !k->task_rows);
        else FUZZ_CHECK(k->encoding->ternary && k->n_threads && k->n_threads <= 1024 && !k->tokens);
        FUZZ_CHECK(k->task_rows <= TERN_KERNEL_MAX_TASK_ROWS && memchr(k->kernel, 0, sizeof k->kernel) && k->kernel[0]);
        FUZZ_CHECK(c->costs[i].microseconds >= 0 && c->costs[i].default_microseconds >= 0);
        for (size_t j = 0; j < i && i < 64; j++)
            FUZZ_CHECK(c->choices[j].encoding != k->encoding || c->choices[j].rows != k->rows ||
                       c->choices[j].cols != k->cols || c->choices[j].n_threads != k->n_threads ||
                       c->choices[j].tokens != k->tokens || strcmp(c->choices[j].device, k->device) != 0);
    }
}

static void check_round_trip(const tern_tune_cache *c)
{
    tern_buf once = {0}, twice = {0};
    tern_tune_cache back;
    FUZZ_CHECK(tern_tune_cache_print(c, &once, NULL) == TERN_OK);
    FUZZ_CHECK(tern_tune_cache_parse(&back, once.data, once.size, NULL) == TERN_OK);
    FUZZ_CHECK(tern_tune_cache_print(&back, &twice, NULL) == TERN_OK);
    FUZZ_CHECK(once.size == twice.size && memcmp(once.data, twice.data, once.size) == 0);
    FUZZ_CHECK(tern_tune_cache_check(&back, c->cpu, c->build, NULL) == TERN_OK);
    tern_tune_cache_deinit(&back);
    tern_buf_deinit(&once);
    tern_buf_deinit(&twice);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const int64_t live = tern_alloc_live();
    tern_tune_cache c;
    tern_error err = {0};
    const tern_status status = tern_tune_cache_parse(&c, data, size, &err);
    FUZZ_CHECK(status == TERN_OK || (err.code == status && err.message[0] && !c.cpu && c.n == 0));
    if (status == TERN_OK) {
        check_choices(&c);
        check_round_trip(&c);
    }
    tern_tune_cache_deinit(&c);
    FUZZ_CHECK(tern_alloc_live() == live);
    return 0;
}
