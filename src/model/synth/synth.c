/* Models of random weights with real shapes, for benchmarks and tests. */
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/half.h"
#include "base/rng.h"
#include "format/gguf.h"
#include "model/synth/internal.h"
#include "model/write/export_internal.h"
#include "quant/encoding.h"
#include "quant/mix.h"

enum { TABLE_SIZE = 1 << 14, SLICE_ROWS = 1024 };

typedef struct maker {
    const tern_config *config;
    tern_export_options encodings;
    const tern_synth_options *options;
    bool ternary;
    tern_gguf_writer *writer;
    tern_rng rng;
    uint16_t *normal;     /* [TABLE_SIZE] f16 values of a normal distribution */
    uint64_t done, total; /* parameters */
    tern_export_exact exact;
    tern_export_report report;
} maker;

/* The n-th of the 81 bytes of i2_s: four codes, none of them 11. */
static uint8_t four_codes(uint32_t n)
{
    return (uint8_t)(n % 3 | n / 3 % 3 << 2 | n / 9 % 3 << 4 | n / 27 << 6);
}

static void fill_codes(tern_rng *rng, const uint8_t table[static 81], uint8_t *out, size_t n)
{
    for (size_t i = 0; i < n; i += 4) {
        uint64_t r = tern_rng_u64(rng);
        for (unsigned k = 0; k < 4; k++) out[i + k] = table[(uint32_t)(r >> 16 * k & 0xffff) * 81 >> 16];
    }
}

/* Numbers of standard deviation 0.02: a sum of twelve uniform numbers is close to normal. */
static void fill_normal_table(tern_rng *rng, uint16_t *table)
{
    for (size_t i = 0; i < TABLE_SIZE; i++) {
        float sum = -6.0f;
        for (int k = 0; k < 12; k++) sum += tern_rng_f32(rng);
        table[i] = tern_f32_to_f16(0.02f * sum);
    }
}

static void fill_normal(tern_rng *rng, const uint16_t *table, uint8_t *out, size_t n)
{
    for (size_t i = 0; i < n; i += 4) {
        uint64_t r = tern_rng_u64(rng);
        for (unsigned k = 0; k < 4 && i + k < n; k++)
            tern_store_u16(out + 2 * (i + k), table[r >> 16 * k & (TABLE_SIZE - 1)]);
    }
}

/* A weight of `encoding` in n bytes that are to be filled; freed by the caller. */
static tern_status start_weight(tern_weight *w, tern_encoding_id encoding, uint32_t rows, uint32_t cols,
                                uint8_t **bytes, tern_error *err)
{
    *w = (tern_weight){.encoding = tern_encoding_find(encoding), .rows = rows, .cols = cols, .scale = 1.0f};
    TERN_TRY(tern_encoding_bytes(w->encoding, rows, cols, &w->bytes, err));
    *bytes = tern_alloc(w->bytes);
    if (!*bytes) return tern_fail_alloc(err, w->bytes);
    w->data = *bytes;
    return TERN_OK;
}

static tern_status report(maker *m, uint64_t n, tern_error *err)
{
    const tern_synth_options *o = m->options;
    m->done += n;
    if (!o->progress || o->progress(o->progress_context, (float)((double)m->done / (double)m->total))) return TERN_OK;
    return tern_fail(err, TERN_CANCELLED, "writing the model was cancelled");
}

static tern_status write_weight(const maker *m, tern_role role, uint32_t layer, tern_weight *w, tern_error *err)
{
    tern_export_plan plan;
    tern_role__gguf_name(m->config, role, layer, w->name);
    TERN_TRY(tern_export__plan(m->config, &m->encodings, role, layer, w, &plan, err));
    return tern_export__write(&plan, m->writer, err);
}

/* Layers of a ternary model hold codes in every encoding, those of others normal numbers. */
static bool is_ternary(const maker *m, tern_role role)
{
    return m->ternary && tern_role_is_matrix(role);
}

/* A scale that keeps the size of activations; as a trained one, it is none that an f16 holds exactly. */
static float ternary_scale(uint32_t cols)
{
    return sqrtf(1.5f / (float)cols);
}

/* Rows of zeros: as many as the closed gates are more than the half that random rows close. */
static void close_gates(maker *m, uint32_t rows, uint32_t cols, uint8_t *bytes)
{
    const float share = m->options->closed_gates > 0 ? 2 * m->options->closed_gates - 1 : 0;
    for (uint32_t r = 0; share > 0 && r < rows; r++)
        if (tern_rng_f32(&m->rng) < share) memset(bytes + (size_t)r * cols / 4, four_codes(40), cols / 4);
}

static tern_status write_linear(maker *m, tern_role role, uint32_t layer, tern_error *err)
{
    uint32_t rows, cols;
    tern_weight w;
    uint8_t *bytes = NULL, table[81];
    for (uint32_t i = 0; i < 81; i++) table[i] = four_codes(i);
    tern_role__shape(role, layer, m->config, &rows, &cols);
    tern_status status = start_weight(&w, TERN_ENC_I2_S, rows, cols, &bytes, err);
    if (status == TERN_OK) {
        size_t n = w.bytes - w.encoding->tail_bytes;
        fill_codes(&m->rng, table, bytes, n);
        if (role == TERN_ROLE_FFN_GATE) close_gates(m, rows, cols, bytes);
        memset(bytes + n, 0, w.encoding->tail_bytes);
        w.scale = ternary_scale(cols);
        tern_store_f32(bytes + n, w.scale);
        status = write_weight(m, role, layer, &w, err);
    }
    tern_free(bytes);
    return status == TERN_OK ? report(m, (uint64_t)rows * cols, err) : status;
}

/* Rows of a table do not depend on each other: a slice is written as a table of its own. */
static tern_status write_table_slice(maker *m, tern_role role, uint32_t layer, uint32_t rows, uint32_t cols,
                                     tern_error *err)
{
    tern_weight w;
    uint8_t *bytes = NULL;
    tern_status status = start_weight(&w, TERN_ENC_F16, rows, cols, &bytes, err);
    if (status == TERN_OK) {
        fill_normal(&m->rng, m->normal, bytes, (size_t)rows * cols);
        status = write_weight(m, role, layer, &w, err);
    }
    tern_free(bytes);
    return status == TERN_OK ? report(m, (uint64_t)rows * cols, err) : status;
}

static tern_status write_table(maker *m, tern_role role, uint32_t layer, tern_error *err)
{
    uint32_t rows, cols;
    tern_role__shape(role, layer, m->config, &rows, &cols);
    for (uint32_t first = 0; first < rows; first += SLICE_ROWS) {
        uint32_t n = rows - first < SLICE_ROWS ? rows - first : SLICE_ROWS;
        TERN_TRY(write_table_slice(m, role, layer, n, cols, err));
    }
    return TERN_OK;
}

static tern_status write_norm(maker *m, tern_role role, uint32_t layer, tern_error *err)
{
    uint32_t rows, cols;
    uint8_t one[4];
    tern_store_f32(one, tern_role_is_norm(role) ? 1.0f : 0.0f);
    tern_role__shape(role, layer, m->config, &rows, &cols);
    const uint64_t n = (uint64_t)rows * cols;
    for (uint64_t i = 0; i < n; i++) TERN_TRY(tern_gguf_writer_data(m->writer, one, sizeof one, err));
    return report(m, n, err);
}

static tern_status write_role(maker *m, tern_role role, uint32_t layer, tern_error *err)
{
    switch (tern_role__kind(role)) {
    case TERN_KIND_E:
    case TERN_KIND_L: return is_ternary(m, role) ? write_linear(m, role, layer, err) : write_table(m, role, layer, err);
    case TERN_KIND_R:
    case TERN_KIND_T: return write_table(m, role, layer, err);
    default: return write_norm(m, role, layer, err);
    }
}

/* The tensor list; the plan of a weight that is not there yet tells whether its encoding fits. */
static tern_status add_tensors(maker *m, tern_error *err)
{
    tern_role_walk walk = {0};
    while (tern_role__next(&walk, m->config)) {
        tern_export_plan plan;
        const bool ternary = is_ternary(m, walk.role);
        tern_weight w = {.encoding = tern_encoding_find(ternary ? TERN_ENC_I2_S : TERN_ENC_F16)};
        tern_role__shape(walk.role, walk.layer, m->config, &w.rows, &w.cols);
        tern_role__gguf_name(m->config, walk.role, walk.layer, w.name);
        if (ternary) w.scale = ternary_scale(w.cols);
        TERN_TRY(tern_export__plan(m->config, &m->encodings, walk.role, walk.layer, &w, &plan, err));
        TERN_TRY(tern_export_exact_add(&m->exact, &plan, w.name, err));
        tern_export__note(&m->report, &plan);
        TERN_TRY(tern_export__tensor(m->writer, walk.role, walk.layer, m->config, plan.encoding, false, err));
        m->total += (uint64_t)w.rows * w.cols;
    }
    return TERN_OK;
}

/* As many tokens as the table has rows: other programs take the one for the other. */
static tern_status write_vocab(maker *m, tern_error *err)
{
    const uint32_t n = m->config->n_vocab;
    return tern_synth__vocab(n, n < 1024 ? 16 : 256, m->writer, err);
}

static tern_status write_all(maker *m, tern_error *err)
{
    TERN_TRY(tern_export__config(m->config, tern_export__file_type(&m->encodings, NULL), m->writer, err));
    const uint32_t block = tern_synth__rotation_block(m->options->preset);
    TERN_TRY(tern_synth__rotation(m->config, block, m->options->seed, m->writer, err));
    TERN_TRY(write_vocab(m, err));
    TERN_TRY(add_tensors(m, err));
    TERN_TRY(tern_export_exact_write(&m->exact, m->writer, err));
    TERN_TRY(tern_gguf_writer_begin_data(m->writer, err));
    fill_normal_table(&m->rng, m->normal);
    tern_role_walk walk = {0};
    while (tern_role__next(&walk, m->config)) TERN_TRY(write_role(m, walk.role, walk.layer, err));
    return TERN_OK;
}

static tern_status write_file(maker *m, const char *path, tern_error *err)
{
    TERN_TRY(tern_gguf_writer_open(&m->writer, path, err));
    tern_status status = write_all(m, err);
    if (status == TERN_OK) return tern_gguf_writer_commit(m->writer, err);
    tern_gguf_writer_abort(m->writer);
    return status;
}

/* Other numbers than the preset has. */
static tern_status set_numbers(tern_config *config, const tern_synth_options *options, tern_error *err)
{
    if ((options->experts || options->experts_used) && !config->n_experts)
        return tern_fail(err, TERN_INVALID_ARGUMENT,
                         "experts in %s: %u with %u used found, a preset with experts expected", options->preset,
                         options->experts, options->experts_used);
    if (options->layers) config->n_layers = options->layers;
    if (options->n_ctx) config->n_ctx_train = options->n_ctx;
    if (options->experts) config->n_experts = options->experts;
    if (options->experts_used) config->n_experts_used = options->experts_used;
    if (tern_config__check(config, err) == TERN_OK) return TERN_OK;
    err->code = TERN_INVALID_ARGUMENT;
    return err->code;
}

static tern_status check_gates(const tern_config *config, const tern_synth_options *options, tern_error *err)
{
    const float share = options->closed_gates;
    if (share == 0) return TERN_OK;
    if (!(share >= 0.5f && share <= 1.0f))
        return tern_fail(err, TERN_INVALID_ARGUMENT,
                         "closed gates %g: 0.5 to 1 expected, as random gates are closed half the time", (double)share);
    if (config->activation == TERN_ACT_RELU2) return TERN_OK;
    return tern_fail(err, TERN_UNSUPPORTED, "closed gates in %s: its activation is %s, which never closes one",
                     options->preset, tern_activation_name(config->activation));
}

tern_status tern_synth_write(const char *path, const tern_synth_options *options, tern_error *err)
{
    tern_error local = {0};
    tern_error *e = err ? err : &local;
    tern_config config;
    bool ternary = true;
    TERN_TRY(tern_synth__preset(options->preset, &config, &ternary, e));
    TERN_TRY(check_gates(&config, options, e));
    TERN_TRY(set_numbers(&config, options, e));
    maker m = {.config = &config, .options = options, .ternary = ternary, .rng = {options->seed}};
    const tern_encoding *usual = tern_encoding_find(ternary ? TERN_ENC_I2_S : TERN_ENC_Q8_0);
    m.encodings.linear = options->linear ? options->linear : usual;
    m.encodings.mix = options->mix;
    if (!options->linear && !options->mix && tern_family__find(config.architecture)->mxfp4)
        m.encodings.mix = tern_mix_by_name("mxfp4_moe");
    m.encodings.head = options->head || m.encodings.mix ? options->head : tern_encoding_find(TERN_ENC_F16);
    m.normal = tern_alloc(TABLE_SIZE * sizeof *m.normal);
    if (!m.normal) return tern_fail_alloc(e, TABLE_SIZE * sizeof *m.normal);
    tern_status status = write_file(&m, path, e);
    tern_export_exact_deinit(&m.exact);
    tern_free(m.normal);
    if (status == TERN_OK && options->report) *options->report = m.report;
    return status;
}
