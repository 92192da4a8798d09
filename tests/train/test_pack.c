/* Packing: every label once, pieces whole, the sides apart; and the order of rows. */
#include <math.h>

#include "base/rng.h"
#include "train/data/order.h"
#include "train/data/pack.h"
#include "train/support.h"

enum { MAX_SEQ = 512, PER_DOCUMENT = 1000 };

/* One row and its storage. */
typedef struct row_space {
    int32_t ids[MAX_SEQ], labels[MAX_SEQ];
    uint32_t starts[MAX_SEQ];
    tern_train_row row;
} row_space;

static const tern_train_row *read_row(const tern_train_pack *pack, uint32_t r, row_space *space)
{
    tern_error err = {0};
    memset(space, 0xAA, sizeof *space);
    space->row = (tern_train_row){.ids = space->ids, .labels = space->labels, .starts = space->starts};
    assert_ok(tern_train_pack_row(pack, r, &space->row, &err), err);
    return &space->row;
}

/* By put_documents, an id says its document and its place: ids of a piece follow each other, a label is the next one,
 * and ids that are multiples of `unlabelled` are no label. Counts in seen[id] how often an id stands as a label. */
static void check_row(const tern_train_row *row, uint32_t seq, int32_t unlabelled, uint8_t *seen)
{
    uint32_t n_labels = 0;
    for (uint32_t i = 0; i < row->n_used; i++) {
        const uint32_t start = row->starts[i];
        assert_true(start <= i && row->starts[start] == start);
        if (start < i) assert_int_equal(row->starts[i - 1], start);
        if (start < i) assert_int_equal(row->ids[i], row->ids[i - 1] + 1);
        const int32_t next = row->ids[i] + 1;
        assert_int_equal(row->labels[i], unlabelled && next % unlabelled == 0 ? TERN_TRAIN_NO_LABEL : next);
        if (row->labels[i] == TERN_TRAIN_NO_LABEL) continue;
        n_labels++;
        assert_int_equal(seen[next], 0);
        seen[next] = 1;
    }
    assert_int_equal(row->n_labels, n_labels);
    assert_true(row->n_used >= 1 && row->n_used <= seq);
    for (uint32_t i = row->n_used; i < seq; i++) {
        assert_int_equal(row->ids[i], 0);
        assert_int_equal(row->labels[i], TERN_TRAIN_NO_LABEL);
        assert_int_equal(row->starts[i], i);
    }
}

/* Reads all rows; the number of labels seen. */
static uint64_t check_rows(const tern_train_pack *pack, int32_t unlabelled, uint8_t *seen)
{
    const tern_train_pack_info *info = tern_train_pack_about(pack);
    row_space space;
    uint64_t n_labels = 0, n_positions = 0;
    for (uint32_t r = 0; r < info->n_rows; r++) {
        const tern_train_row *row = read_row(pack, r, &space);
        check_row(row, info->seq, unlabelled, seen);
        n_labels += row->n_labels;
        n_positions += row->n_used;
    }
    assert_int_equal(n_labels, info->n_labels);
    assert_int_equal(n_positions, info->n_positions);
    return n_labels;
}

static tern_train_pack *open_pack(const tern_train_data *data, const tern_train_pack_params *params)
{
    tern_train_pack *pack;
    tern_error err = {0};
    assert_ok(tern_train_pack_open(&pack, data, params, &err), err);
    return pack;
}

/* `n` documents of 2 to `longest` tokens. */
static tern_train_data *random_documents(uint64_t seed, size_t n, uint32_t longest, int32_t unlabelled)
{
    size_t lengths[400];
    tern_rng rng = {seed};
    assert_true(n <= 400);
    for (size_t i = 0; i < n; i++) lengths[i] = 2 + tern_rng_below(&rng, longest - 1);
    return put_documents("random.tern", lengths, n, unlabelled, false);
}

static void every_label_stands_once(void **state)
{
    (void)state;
    static const uint32_t seqs[] = {1, 2, 7, 64, 257, 512};
    for (uint64_t seed = 0; seed < 6; seed++) {
        const int32_t unlabelled = seed % 2 ? 3 : 0;
        tern_train_data *data = random_documents(seed, 300, seed < 3 ? 60 : 700, unlabelled);
        for (size_t i = 0; i < 6; i++) {
            uint8_t *seen = calloc(400 * PER_DOCUMENT, 1);
            tern_train_pack *pack = open_pack(data, &(tern_train_pack_params){.seq = seqs[i]});
            assert_int_equal(check_rows(pack, unlabelled, seen), tern_train_data_about(data)->n_loss);
            if (!unlabelled) assert_int_equal(tern_train_pack_about(pack)->n_unlabelled, 0);
            tern_train_pack_close(pack);
            free(seen);
        }
        tern_train_data_close(data);
    }
}

/* A document is cut only where it is longer than a row, and little room stays empty. */
static void documents_that_fit_stay_whole(void **state)
{
    (void)state;
    tern_train_data *data = random_documents(9, 400, 100, 0);
    tern_train_pack *pack = open_pack(data, &(tern_train_pack_params){.seq = 128});
    const tern_train_pack_info *info = tern_train_pack_about(pack);
    row_space space;
    assert_int_equal(info->n_pieces, 400);
    for (uint32_t r = 0; r < info->n_rows; r++) {
        const tern_train_row *row = read_row(pack, r, &space);
        for (uint32_t i = 0; i < row->n_used; i++) {
            const size_t d = (size_t)row->ids[i] / PER_DOCUMENT;
            if (row->starts[i] == i) assert_int_equal(row->ids[i] % PER_DOCUMENT, 0);
            if (i + 1 == row->n_used || row->starts[i + 1] == i + 1)
                assert_int_equal((uint64_t)row->ids[i] % PER_DOCUMENT, tern_train_data_document(data, d) - 2);
        }
    }
    if (!((double)info->n_positions >= 0.9 * info->n_rows * info->seq))
        fail_msg("%llu positions in %u rows of %u", (unsigned long long)info->n_positions, info->n_rows, info->seq);
    tern_train_pack_close(pack);
    tern_train_data_close(data);
}

/* The layout of one case in full. */
static void rows_are_as_described(void **state)
{
    (void)state;
    static const size_t lengths[] = {4, 8, 2, 3};
    static const int32_t ids[] = {0, 1, 2, 1005, 1006, 1000, 1001, 1002, 1003, 1004, 2000, 3000, 3001, 0, 0},
                         labels[] = {1, 2, 3, 1006, 1007, 1001, 1002, 1003, 1004, 1005, 2001, 3001, 3002, -1, -1};
    static const uint32_t starts[] = {0, 0, 0, 3, 3, 0, 0, 0, 0, 0, 0, 1, 1, 3, 4};
    tern_train_data *data = put_documents("small.tern", lengths, 4, 0, false);
    tern_train_pack *pack = open_pack(data, &(tern_train_pack_params){.seq = 5});
    row_space space;
    assert_int_equal(tern_train_pack_about(pack)->n_rows, 3);
    for (uint32_t r = 0; r < 3; r++) {
        read_row(pack, r, &space);
        assert_memory_equal(space.ids, ids + 5 * r, 5 * sizeof *ids);
        assert_memory_equal(space.labels, labels + 5 * r, 5 * sizeof *labels);
        assert_memory_equal(space.starts, starts + 5 * r, 5 * sizeof *starts);
    }
    tern_train_pack_close(pack);
    tern_train_data_close(data);
}

/* Ready-made ids: line after line is row after row, inputs without the last, labels without the first. */
static void sequences_are_rows(void **state)
{
    (void)state;
    static const size_t lengths[] = {9, 3, 9, 5};
    tern_train_data *data = put_documents("sequences.tern", lengths, 4, 0, true);
    tern_train_pack *pack = open_pack(data, &(tern_train_pack_params){.seq = 8});
    row_space space;
    assert_int_equal(tern_train_pack_about(pack)->n_rows, 4);
    for (uint32_t r = 0; r < 4; r++) {
        const tern_train_row *row = read_row(pack, r, &space);
        assert_int_equal(row->n_used, lengths[r] - 1);
        assert_int_equal(row->ids[0], 1000 * r);
        assert_int_equal(row->labels[row->n_used - 1], 1000 * r + lengths[r] - 1);
    }
    tern_train_pack_close(pack);
    tern_train_data_close(data);
}

static void pieces_without_labels_are_left_out(void **state)
{
    (void)state;
    const tern_train_data_info info = {.n_vocab = 100};
    static const int32_t ids[9] = {1, 2, 3, 4, 5, 6, 7, 8, 9};
    static const uint8_t late[9] = {0, 0, 0, 0, 0, 0, 0, 0, 1}, never[9] = {1, 0};
    tern_train_data_writer w;
    tern_train_data *data;
    tern_error err = {0};
    assert_ok(tern_train_data_writer_open(&w, test_scratch("late.tern"), &info, &err), err);
    assert_ok(tern_train_data_writer_add(&w, ids, never, 9, &err), err);
    assert_ok(tern_train_data_writer_add(&w, ids, late, 9, &err), err);
    assert_ok(tern_train_data_writer_commit(&w, &err), err);
    tern_train_data_writer_abort(&w);
    assert_ok(tern_train_data_open(&data, test_scratch("late.tern"), &err), err);
    tern_train_pack *pack = open_pack(data, &(tern_train_pack_params){.seq = 4});
    row_space space;
    assert_int_equal(tern_train_pack_about(pack)->n_unlabelled, 3);
    assert_int_equal(tern_train_pack_about(pack)->n_rows, 1);
    const tern_train_row *row = read_row(pack, 0, &space);
    assert_int_equal(row->ids[0], 5);
    assert_int_equal(row->labels[3], 9);
    assert_int_equal(row->n_labels, 1);
    tern_train_pack_close(pack);
    tern_train_data_close(data);
}

static void the_sides_are_apart(void **state)
{
    (void)state;
    tern_train_data *data = random_documents(4, 400, 300, 0);
    tern_train_pack_params params = {.seq = 64, .held_out = 0.1, .seed = 5};
    uint8_t *seen = calloc(400 * PER_DOCUMENT, 1), *other = calloc(400 * PER_DOCUMENT, 1);
    tern_train_pack *train = open_pack(data, &params);
    params.validation = true;
    tern_train_pack *held = open_pack(data, &params);
    const uint64_t n = tern_train_pack_about(train)->n_pieces, k = tern_train_pack_about(held)->n_pieces;
    assert_true(k * 10 >= n + k - 10 && k * 10 <= n + k + 10);
    /* both into one `seen`: no label on both sides, and none missing */
    assert_int_equal(check_rows(train, 0, seen) + check_rows(held, 0, seen), tern_train_data_about(data)->n_loss);
    check_rows(held, 0, other);
    tern_train_pack_close(held);
    params.seed = 6;
    held = open_pack(data, &params);
    uint8_t *third = calloc(400 * PER_DOCUMENT, 1);
    check_rows(held, 0, third);
    assert_true(memcmp(other, third, 400 * PER_DOCUMENT) != 0);
    tern_train_pack_close(held);
    tern_train_pack_close(train);
    tern_train_data_close(data);
    free(third);
    free(other);
    free(seen);
}

/* 40 documents, each of them 5 times: a text is on one side only. */
static void the_same_text_is_on_one_side(void **state)
{
    (void)state;
    const tern_train_data_info info = {.n_vocab = 1000};
    tern_train_data_writer w;
    tern_train_data *data;
    tern_error err = {0};
    assert_ok(tern_train_data_writer_open(&w, test_scratch("copies.tern"), &info, &err), err);
    for (int32_t d = 0; d < 200; d++)
        assert_ok(tern_train_data_writer_add(&w, (const int32_t[]){d % 40, 500, d % 40}, NULL, 3, &err), err);
    assert_ok(tern_train_data_writer_commit(&w, &err), err);
    tern_train_data_writer_abort(&w);
    assert_ok(tern_train_data_open(&data, test_scratch("copies.tern"), &err), err);
    bool on_side[2][40] = {{false}};
    for (int side = 0; side < 2; side++) {
        tern_train_pack *pack =
            open_pack(data, &(tern_train_pack_params){.seq = 2, .held_out = 0.25, .validation = side});
        row_space space;
        for (uint32_t r = 0; r < tern_train_pack_about(pack)->n_rows; r++)
            on_side[side][read_row(pack, r, &space)->ids[0]] = true;
        tern_train_pack_close(pack);
    }
    for (int i = 0; i < 40; i++) assert_true(on_side[0][i] != on_side[1][i]);
    tern_train_data_close(data);
}

static void wrong_params_are_refused(void **state)
{
    (void)state;
    static const size_t one[] = {5};
    static const struct {
        tern_train_pack_params params;
        const char *message;
    } cases[] = {
        {{.seq = 0}, "rows of 0 positions: 1 to 2^30 expected"},
        {{.seq = 8, .held_out = 1}, "a share of 1 held out"},
        {{.seq = 8, .held_out = -0.1}, "a share of -0.1 held out"},
        {{.seq = 8, .held_out = (double)NAN}, "a share of nan held out"},
        {{.seq = 8, .validation = true}, "nothing is held out"},
        {{.seq = 8, .held_out = 0.5}, "1 pieces of at most 8 tokens: at least 2 expected"},
    };
    tern_train_data *data = put_documents("one.tern", one, 1, 0, false);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tern_train_pack *pack;
        tern_error err = {0};
        assert_int_equal(tern_train_pack_open(&pack, data, &cases[i].params, &err), TERN_INVALID_ARGUMENT);
        assert_null(pack);
        if (!strstr(err.message, cases[i].message)) fail_msg("case %zu: %s", i, err.message);
    }
    /* a small share of few pieces is one piece at least, a large one not all */
    for (int validation = 0; validation < 2; validation++)
        for (int large = 0; large < 2; large++) {
            tern_train_pack *pack = open_pack(
                data, &(tern_train_pack_params){.seq = 1, .held_out = large ? 0.99 : 0.01, .validation = validation});
            assert_int_equal(tern_train_pack_about(pack)->n_pieces, large == validation ? 3 : 1);
            tern_train_pack_close(pack);
        }
    tern_train_data_close(data);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(every_label_stands_once),
    cmocka_unit_test(documents_that_fit_stay_whole),
    cmocka_unit_test(rows_are_as_described),
    cmocka_unit_test(sequences_are_rows),
    cmocka_unit_test(pieces_without_labels_are_left_out),
    cmocka_unit_test(the_sides_are_apart),
    cmocka_unit_test(the_same_text_is_on_one_side),
    cmocka_unit_test(wrong_params_are_refused),
};

TEST_GROUP(pack, "", tests);
