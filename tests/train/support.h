/* Training data made in a test. */
#ifndef TERN_TESTS_TRAIN_SUPPORT_H
#define TERN_TESTS_TRAIN_SUPPORT_H

#include "base/file.h"
#include "support/test.h"
#include "train/data/file.h"

/* A file in the build folder with these bytes. */
static inline const char *put_file(const char *name, const void *bytes, size_t n)
{
    const char *path = test_scratch(name);
    test_write_file(path, bytes, n);
    return path;
}

/* Documents with these numbers of tokens: document d has the ids 1000 d, 1000 d + 1, ..., in a vocabulary of 2^20;
 * tokens whose id is a multiple of `unlabelled` (0: none) do not count. */
static inline tern_train_data *put_documents(const char *name, const size_t *lengths, size_t n, int32_t unlabelled,
                                             bool sequences)
{
    const tern_train_data_info info = {.n_vocab = 1 << 20, .sequences = sequences};
    const char *path = test_scratch(name);
    tern_train_data_writer w;
    tern_train_data *data;
    tern_error err = {0};
    assert_ok(tern_train_data_writer_open(&w, path, &info, &err), err);
    for (size_t d = 0; d < n; d++) {
        int32_t ids[1000];
        uint8_t in_loss[1000];
        assert_true(lengths[d] <= 1000);
        for (size_t i = 0; i < lengths[d]; i++) {
            ids[i] = (int32_t)(1000 * d + i);
            in_loss[i] = !unlabelled || ids[i] % unlabelled != 0;
        }
        assert_ok(tern_train_data_writer_add(&w, ids, in_loss, lengths[d], &err), err);
    }
    assert_ok(tern_train_data_writer_commit(&w, &err), err);
    tern_train_data_writer_abort(&w);
    assert_ok(tern_train_data_open(&data, path, &err), err);
    return data;
}

#endif
