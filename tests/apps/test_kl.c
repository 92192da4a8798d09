/* Log-probabilities that are saved and compared with: the file's bytes as llama.cpp lays them out, and the figures
 * against those that are made from raw logits. */
#include <math.h>
#include <string.h>

#include "apps/eval/kl_stats.h"
#include "base/file.h"
#include "support/command.h"
#include "support/converted.h"
#include "support/places.h"
#include "support/test.h"

enum { VOCAB = 5, ROW = 8 + 2 * 6 };
static const float logits[VOCAB] = {1, -30, 0.25f, 2, -3};

static double log_softmax(const float *x, size_t n, size_t i)
{
    double sum = 0;
    for (size_t k = 0; k < n; k++) sum += exp((double)x[k]);
    return (double)x[i] - log(sum);
}

static void rows_keep_log_probabilities(void **state)
{
    (void)state;
    uint8_t row[ROW];
    memset(row, 0xAA, sizeof row);
    const double log_sum = tern_kl_encode(logits, VOCAB, row);
    assert_true(fabs((double)logits[0] - log_sum - log_softmax(logits, VOCAB, 0)) < 1e-12);
    assert_true(tern_load_f32(row) == 16.0f / 65535.0f); /* -30 is cut off 16 below the highest */
    assert_int_equal(tern_load_u16(row + 8 + 2 * 1), 0);
    assert_int_equal(tern_load_u16(row + 8 + 2 * 3), 65535);
    assert_int_equal(tern_load_u16(row + 8 + 2 * 5), 0); /* the vocabulary is rounded up to even */
    for (uint32_t i = 0; i < VOCAB; i++)
        if (i != 1) assert_true(fabs((double)tern_kl_decode(row, i) - log_softmax(logits, VOCAB, i)) < 16 / 65535.0);
}

/* One window of four ids, written byte by byte: positions 2 has the only row. */
static size_t make_file(uint8_t *out, uint32_t window, uint32_t n_windows, int32_t last_id)
{
    const int32_t ids[] = {4, 3, 2, last_id};
    memcpy(out, "_logits_", 8);
    tern_store_u32(out + 8, window);
    tern_store_u32(out + 12, VOCAB);
    tern_store_u32(out + 16, n_windows);
    for (int i = 0; i < 4; i++) tern_store_u32(out + 20 + 4 * i, (uint32_t)ids[i]);
    tern_kl_encode(logits, VOCAB, out + 36);
    return 36 + ROW;
}

static void refused(const uint8_t *bytes, size_t n, const char *words)
{
    tern_error err = {0};
    tern_kl_base base;
    assert_int_equal(tern_kl_base_read(&base, bytes, n, &err), TERN_MALFORMED);
    if (!strstr(err.message, words)) fail_msg("\"%s\": \"%s\" expected", err.message, words);
}

static void files_are_read(void **state)
{
    (void)state;
    uint8_t bytes[64];
    int32_t ids[4];
    tern_error err = {0};
    tern_kl_base base;
    const size_t n = make_file(bytes, 4, 1, 1);
    assert_ok(tern_kl_base_read(&base, bytes, n, &err), err);
    assert_true(base.window == 4 && base.n_vocab == VOCAB && base.n_windows == 1);
    tern_kl_base_ids(&base, 0, ids);
    assert_true(ids[0] == 4 && ids[3] == 1);
    assert_ptr_equal(tern_kl_base_row(&base, 0, 0), bytes + 36);
    refused(bytes, n - 1, "too short for 1 windows of 4 tokens");
    refused(bytes, 19, "a head of 20 expected");
    refused((const uint8_t *)"GGUF....", 8, "\"_logits_\" expected");
    refused(bytes, make_file(bytes, 3, 1, 1), "windows of 3 tokens");
    refused(bytes, make_file(bytes, 4, 0, 1), "0 windows");
    refused(bytes, make_file(bytes, 4, 1u << 30, 1), "too short");
    refused(bytes, make_file(bytes, 4, 1, VOCAB), "token 3: id 5 found, 0 to 4 expected");
    make_file(bytes, 4, 1, 1);
    tern_store_f32(bytes + 36, 1);
    refused(bytes, n, "row 0: steps of 1");
    tern_store_f32(bytes + 36, NAN);
    refused(bytes, n, "row 0: ");
}

/* ---- the command, against raw logits */

static tern_buf read_file(const char *path)
{
    tern_buf file = {0};
    tern_error err = {0};
    assert_ok(tern_file_read(&file, path, 1 << 28, &err), err);
    return file;
}

static double at(const json_t *o, const char *key, const char *inner)
{
    const json_t *v = json_object_get(json_object_get(o, key), inner);
    if (!json_is_number(v)) fail_msg("no number %s.%s", key, inner);
    return json_number_value(v);
}

enum { WINDOW = 64, FIRST = 32, ROWS = 31 };

/* Of one window's rows. */
typedef struct figures {
    double kld, nll, base_nll, largest, same_top;
} figures;

static size_t highest(const float *x, size_t n)
{
    size_t best = 0;
    for (size_t i = 1; i < n; i++)
        if (x[i] > x[best]) best = i;
    return best;
}

static figures by_hand(const float *p, const float *q, size_t n_vocab, const int32_t *ids)
{
    figures f = {.largest = -1};
    for (size_t row = FIRST; row < FIRST + ROWS; row++) {
        const float *base = p + row * n_vocab, *model = q + row * n_vocab;
        double kld = 0;
        for (size_t i = 0; i < n_vocab; i++) {
            const double lp = log_softmax(base, n_vocab, i);
            if (lp > -16) kld += exp(lp) * (lp - log_softmax(model, n_vocab, i));
        }
        f.kld += kld / ROWS;
        f.largest = fmax(f.largest, kld);
        f.nll -= log_softmax(model, n_vocab, (size_t)ids[row + 1]) / ROWS;
        f.base_nll -= log_softmax(base, n_vocab, (size_t)ids[row + 1]) / ROWS;
        f.same_top += (double)(highest(base, n_vocab) == highest(model, n_vocab)) / ROWS;
    }
    return f;
}

/* The ids in the file, the first of them as the model reads it. */
static size_t ids_of(const tern_buf *file, int32_t ids[WINDOW], char text[WINDOW * 8])
{
    size_t n = 0;
    for (int i = 0; i < WINDOW; i++) {
        ids[i] = (int32_t)tern_load_u32(file->data + 20 + 4 * i);
        n += (size_t)sprintf(text + n, i ? ",%d" : "%d", ids[i]);
    }
    return tern_load_u32(file->data + 12);
}

static void figures_are_those_of_the_logits(void **state)
{
    (void)state;
    static const char logbook[] = TERN_SOURCE_DIR "/examples/finetune/logbook.txt";
    const char *model = test_small_model();
    char *saved = strdup(test_scratch("base.kld")), *adapter = strdup(test_scratch("kl-adapter.gguf"));
    char *text = strdup(test_scratch("kl.txt")), list[WINDOW * 8];
    int32_t ids[WINDOW];
    tern_buf book = read_file(logbook);
    book.data[180] = 0; /* a window and less than another */
    test_write_text(text, book.data);
    tern_buf_deinit(&book);
    test_output o = TERN("finetune", "-m", model, "--data", logbook, "--seq", "32", "--batch", "1", "-t", "1",
                         "--val-split", "0", "--steps", "3", "--lora", "2", "-o", adapter, "-f", "--lr", "0.05");
    if (o.code != 0) fail_msg("%s", o.err);
    test_output_free(&o);
    o = TERN("perplexity", "-m", model, text, "--window", "64", "--save-all-logits", saved, "-f");
    if (o.code != 0) fail_msg("%s", o.err);
    test_output_free(&o);
    tern_buf file = read_file(saved);
    const size_t n_vocab = ids_of(&file, ids, list);
    assert_int_equal(file.size, 20 + 4 * WINDOW + ROWS * (8 + 2 * ((n_vocab + 1) / 2 * 2)));
    tern_buf_deinit(&file);
    test_output p = TERN("logits", "-m", model, "--ids", list),
                q = TERN("logits", "-m", model, "--ids", list, "--lora", adapter);
    assert_int_equal(p.n_out, WINDOW * n_vocab * 4);
    const figures want = by_hand((const float *)(const void *)p.out, (const float *)(const void *)q.out, n_vocab, ids);
    json_t *got =
        test_tern_json(TERN_WORDS("perplexity", "-m", model, "--kl-base", saved, "--json", "--lora", adapter));
    assert_true(want.kld > 0.05);
    assert_true(fabs(at(got, "kld", "mean") - want.kld) < 2e-3 * want.kld);
    assert_true(fabs(at(got, "kld", "max") - want.largest) < 2e-3 * want.largest);
    assert_true(fabs(log(at(got, "ppl", "mean")) - want.nll) < 1e-4);
    assert_true(fabs(at(got, "same_top1", "mean") - want.same_top) < 1e-9);
    assert_true(fabs(log(at(got, "base_ppl", "mean")) - want.base_nll) < 0.05); /* 16 below the highest at most */
    json_decref(got);
    test_output_free(&p);
    test_output_free(&q);
    o = TERN("perplexity", "-m", model, "--kl-base", saved);
    assert_non_null(strstr(o.out, "====== KL divergence statistics ======\nMean    KLD:"));
    assert_non_null(strstr(o.out, "Same top p: 100.000 "));
    test_output_free(&o);
    free(saved);
    free(adapter);
    free(text);
}

static void what_does_not_go_together_is_said(void **state)
{
    (void)state;
    const char *file = test_scratch("no.kld");
    test_write_text(file, "_logits_");
    test_output o = TERN("perplexity", "-m", test_small_model(), "--kl-base", file, "--window", "8");
    assert_int_equal(o.code, 2);
    assert_non_null(strstr(o.err, "no TEXT, --window"));
    test_output_free(&o);
    o = TERN("perplexity", "-m", test_small_model(), "--kl-base", file);
    assert_int_equal(o.code, 1);
    assert_non_null(strstr(o.err, "no.kld: 8 bytes: a head of 20 expected"));
    test_output_free(&o);
    o = TERN("perplexity", "-m", test_small_model());
    assert_int_equal(o.code, 2);
    assert_non_null(strstr(o.err, "no text: a file expected"));
    test_output_free(&o);
    o = TERN("perplexity", "-m", test_small_model(), file, "--save-all-logits", file, "-f");
    assert_int_not_equal(o.code, 0); /* never over what is read */
    test_output_free(&o);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(rows_keep_log_probabilities),
    cmocka_unit_test(files_are_read),
    cmocka_unit_test(figures_are_those_of_the_logits),
    cmocka_unit_test(what_does_not_go_together_is_said),
};

TEST_GROUP(kl, "", tests);
