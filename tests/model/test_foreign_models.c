/* Models whose layers are in layouts of other programs: refused with a way out, converted to the same weights. */
#include "base/file.h"
#include "base/half.h"
#include "format/gguf.h"
#include "model/support.h"
#include "support/micro_model.h"

enum { WIDTH = 64 };

static tern_error err;

/* As ik_llama.cpp lays out iq2_bn: an f32, then in each 16 bytes columns i, i + 16, i + 32, i + 48, the first in the
 * lowest bits. A row of zeros has the scale 0 and codes +1. */
static void pack(const int8_t *codes, float scale, bool zero, uint8_t *out)
{
    tern_store_f32(out, zero ? 0.0f : scale);
    memset(out + 4, 0, WIDTH / 4);
    for (int i = 0; i < WIDTH; i++) out[4 + i % 16] |= (uint8_t)((zero ? 2 : codes[i] + 1) << (i / 16 * 2));
}

static void write_layer(const tern_weight *w, bool scales_by_row, tern_gguf_writer *out)
{
    int8_t *codes = codes_of(w);
    uint8_t row[4 + WIDTH / 4];
    for (uint32_t r = 0; r < w->rows; r++) {
        pack(codes + (size_t)r * WIDTH, scales_by_row ? 0.5f * (float)(r + 1) : 0.5f, r == 3, row);
        assert_ok(tern_gguf_writer_data(out, row, sizeof row, &err), err);
    }
    free(codes);
}

/* The micro model with its layers as iq2_bn, row 3 of each being zeros; metadata are copied. */
static void write_foreign(const char *from, const char *to, bool scales_by_row)
{
    tern_file_map map;
    tern_gguf *g = NULL;
    tern_gguf_writer *out;
    tern_model *model = open_model(from);
    assert_ok(tern_file_map_open(&map, from, &err), err);
    assert_ok(tern_gguf_parse(&g, map.data, map.size, &err), err);
    assert_ok(tern_gguf_writer_open(&out, to, &err), err);
    for (size_t i = 0; i < tern_gguf_n_kv(g); i++) {
        const tern_gguf_kv *kv = tern_gguf_kv_at(g, i);
        char key[64];
        snprintf(key, sizeof key, "%.*s", (int)kv->key.size, (const char *)kv->key.data);
        if (kv->kind == TERN_GGUF_STRING)
            assert_ok(tern_gguf_add_string(out, key, (const char *)kv->value.data, kv->value.size, &err), err);
        else if (kv->kind == TERN_GGUF_F32)
            assert_ok(tern_gguf_add_f32(out, key, tern_load_f32(kv->value.data), &err), err);
        else assert_ok(tern_gguf_add_u32(out, key, tern_load_u32(kv->value.data), &err), err);
    }
    for (size_t i = 0; i < tern_gguf_n_tensors(g); i++) {
        const tern_gguf_tensor *t = tern_gguf_tensor_at(g, i);
        char name[64];
        snprintf(name, sizeof name, "%.*s", (int)t->name.size, (const char *)t->name.data);
        assert_ok(tern_gguf_add_tensor(out, name, t->type == TERN_ENC_I2_S ? 135 : t->type, t->dims, t->n_dims, &err),
                  err);
    }
    assert_ok(tern_gguf_writer_begin_data(out, &err), err);
    for (size_t i = 0; i < tern_gguf_n_tensors(g); i++) {
        const tern_gguf_tensor *t = tern_gguf_tensor_at(g, i);
        const tern_weight *w = NULL;
        for (int role = 0; role < TERN_ROLE_COUNT; role++)
            if (memcmp(tern_model_weight(model, (tern_role)role, 0)->name, t->name.data, t->name.size) == 0)
                w = tern_model_weight(model, (tern_role)role, 0);
        if (t->type == TERN_ENC_I2_S) write_layer(w, scales_by_row, out);
        else assert_ok(tern_gguf_writer_data(out, t->data, t->bytes, &err), err);
    }
    assert_ok(tern_gguf_writer_commit(out, &err), err);
    tern_gguf_close(g);
    tern_file_map_close(&map);
    tern_model_close(model);
}

static void assert_layer(const tern_weight *a, const tern_weight *b, bool scales_by_row)
{
    assert_int_equal(b->encoding->id, TERN_ENC_I2_S);
    int8_t *x = codes_of(a), *y = codes_of(b);
    memset(x + (size_t)3 * WIDTH, 0, WIDTH);
    assert_memory_equal(x, y, (size_t)a->rows * WIDTH);
    free(x);
    free(y);
    assert_int_equal(b->row_scales != NULL, scales_by_row);
    if (!scales_by_row) assert_float_equal(b->scale, 0.5f, 0);
    for (uint32_t r = 0; scales_by_row && r < b->rows; r++)
        if (r != 3) assert_float_equal(b->row_scales[r], 0.5f * (float)(r + 1), 0);
}

static void converts(void **state)
{
    (void)state;
    const char *from = test_scratch("foreign-from.gguf"), *foreign = test_scratch("foreign.gguf");
    const char *to = test_scratch("foreign-to.gguf");
    tern_buf bytes = micro_model(&(micro_change){.width = WIDTH, .seed = 5});
    assert_ok(tern_file_write(from, bytes.data, bytes.size, &err), err);
    tern_buf_deinit(&bytes);
    for (int by_row = 0; by_row < 2; by_row++) {
        tern_model *model = NULL, *first = open_model(from);
        write_foreign(from, foreign, by_row);
        assert_int_equal(tern_model_open(&model, foreign, NULL, &err), TERN_UNSUPPORTED);
        assert_non_null(strstr(err.message,
                               "blk.0.attn_q.weight: iq2_bn found, a layout of ik_llama.cpp that Tern converts but "
                               "does not run; tern convert IN -o OUT.gguf writes the same weights as i2_s"));
        assert_ok(tern_model_open(&model, foreign, &(tern_model_options){.foreign = true}, &err), err);
        assert_ok(tern_model_write_gguf(model, to, NULL, &err), err);
        tern_model_close(model);
        model = open_model(to);
        for (int role = 0; role < TERN_ROLE_COUNT; role++) {
            const tern_weight *a = tern_model_weight(first, (tern_role)role, 0),
                              *b = tern_model_weight(model, (tern_role)role, 0);
            assert_int_equal(!a->encoding, !b->encoding);
            if (a->encoding && tern_role_is_linear((tern_role)role)) assert_layer(a, b, by_row);
        }
        tern_model_close(model);
        tern_model_close(first);
    }
}

static void refuses(void **state)
{
    (void)state;
    const char *foreign = test_scratch("foreign.gguf");
    tern_model *model = NULL;
    tern_model_options how = {.foreign = true, .i2s_order = "arm"};
    assert_int_equal(tern_model_open(&model, foreign, &how, &err), TERN_INVALID_ARGUMENT);
    assert_non_null(
        strstr(err.message, "order of i2_s \"arm\": blk.0.attn_q.weight is iq2_bn, an i2_s tensor expected"));
    tern_buf bytes = {0};
    tern_file_map map;
    tern_gguf *g = NULL;
    assert_ok(tern_file_map_open(&map, foreign, &err), err);
    assert_ok(tern_gguf_parse(&g, map.data, map.size, &err), err);
    const size_t at = (size_t)(tern_gguf_find_tensor(g, "blk.0.ffn_up.weight")->data - map.data);
    tern_gguf_close(g);
    tern_file_map_close(&map);
    assert_ok(tern_file_read(&bytes, foreign, 1 << 20, &err), err);
    how.i2s_order = NULL;
    bytes.data[at + 4] = 3;
    assert_int_equal(tern_model_open_memory(&model, bytes.data, bytes.size, &how, &err), TERN_MALFORMED);
    assert_string_equal(err.message, "blk.0.ffn_up.weight: iq2_bn: found 3 at byte 4, which stands for no codes");
    bytes.data[at + 4] = 0;
    tern_store_f32((uint8_t *)bytes.data + at, -1.0f);
    assert_int_equal(tern_model_open_memory(&model, bytes.data, bytes.size, &how, &err), TERN_MALFORMED);
    assert_non_null(strstr(err.message, "blk.0.ffn_up.weight: .scale -1 found in row 0, a positive"));
    tern_buf_deinit(&bytes);
}

static const struct CMUnitTest tests[] = {cmocka_unit_test(converts), cmocka_unit_test(refuses)};

TEST_GROUP(foreign_models, "", tests);
