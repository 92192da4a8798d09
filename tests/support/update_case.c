/* Steps of the optimiser by the definitions, and what they start from. */
#include "support/update_case.h"

#include "support/test.h"
#include "support/update_parts.h"

uint64_t update_elements(const update_case *c)
{
    return (uint64_t)c->rows * c->cols;
}

bool update_has_m(const update_case *c)
{
    return c->optimizer == TERN_OPTIMIZER_ADAMW || c->momentum;
}

bool update_has_v(const update_case *c)
{
    return c->optimizer == TERN_OPTIMIZER_ADAMW;
}

size_t update_row_bytes(const update_case *c)
{
    return ((size_t)c->cols + 127) / 128 * 32;
}

/* What is random at one place of the case: nothing else decides it. */
static tern_rng rng_of(const update_case *c, uint64_t what)
{
    tern_rng rng = {.state = c->seed * 1000003 + what};
    tern_rng_u64(&rng);
    return rng;
}

uint8_t *update_initial_master(const update_case *c)
{
    tern_rng rng = rng_of(c, 1);
    const uint64_t n = update_elements(c);
    uint8_t *bytes = calloc(n + 4, 4);
    float *x = malloc(n * sizeof *x);
    if (c->masters) memcpy(x, c->masters, n * sizeof *x);
    else test_floats(&rng, c->weights, x, n);
    if (c->w == TERN_DTYPE_F32) memcpy(bytes, x, n * sizeof *x);
    else
        for (uint64_t i = 0; i < n; i++) ((uint16_t *)(void *)bytes)[i] = (uint16_t)(tern_f32_bits(x[i]) >> 16);
    free(x);
    return bytes;
}

/* A tenth of them 0, and a whole row now and then. */
void update_gradient(const update_case *c, uint32_t step, float *g)
{
    tern_rng rng = rng_of(c, 100 + step);
    const uint64_t n = update_elements(c);
    if (c->every_gradient) {
        memcpy(g, c->every_gradient, n * sizeof *g);
        return;
    }
    test_floats(&rng, c->gradients, g, n);
    for (uint64_t i = 0; i < n; i++)
        if (tern_rng_below(&rng, 10) == 0) g[i] = 0;
    if (step % 3 == 1) memset(g, 0, c->cols * sizeof *g);
}

tern_train_params update_params(const update_case *c, uint32_t step)
{
    const tern_adamw options = {.lr = 3e-3, .beta1 = 0.9, .beta2 = 0.99, .eps = 1e-8, .decay = 0.1};
    const tern_adamw_factors f = tern_ref_adamw_factors(&options, step + 1);
    return (tern_train_params){.next_blend = c->blend,
                               .seed = (uint32_t)c->seed + step * 77,
                               .clip = c->clip,
                               .keep = f.keep,
                               .blend1 = f.blend1,
                               .beta2 = f.beta2,
                               .blend2 = f.blend2,
                               .root = f.root,
                               .eps = f.eps,
                               .pace = f.pace,
                               .lr = 0.05f,
                               .momentum = 0.9f,
                               .decay = 0.01f};
}

static void fill(uint8_t *out, uint8_t with, size_t n)
{
    memset(out, with, n);
}

static void open_results(const update_case *c, update_results *r)
{
    const uint64_t n = update_elements(c);
    *r = (update_results){.w = update_initial_master(c), .norms = calloc(c->n_steps + 1, sizeof(float))};
    r->g = calloc(n, sizeof(float));
    if (update_has_m(c)) r->m = calloc(tern_row_bytes(c->m, c->cols, c->rows), 1);
    if (update_has_v(c)) r->v = calloc(tern_row_bytes(c->v, c->cols, c->rows), 1);
    if (c->kind == UPDATE_BLENDED) r->out = calloc(n, sizeof(float));
    if (c->kind != UPDATE_TERNARY) return;
    r->out = malloc(c->rows * update_row_bytes(c));
    fill(r->out, 0x55, c->rows * update_row_bytes(c));
    r->scales = malloc(c->rows * sizeof(float));
    for (uint32_t i = 0; i < c->rows; i++) r->scales[i] = UPDATE_FIRST_SCALE;
}

static float *scales_of(tern_dtype dtype, uint8_t *state, uint64_t n)
{
    const bool bits8 = dtype == TERN_DTYPE_M8 || dtype == TERN_DTYPE_V8;
    return bits8 ? (float *)(void *)(state + (n + 255) / 256 * 256) : NULL;
}

static void expect_codes(const update_case *c, update_results *r)
{
    const uint64_t n = update_elements(c);
    const float most = c->clamp > 0 && r->scales ? tern_flush(c->clamp * r->scales[0]) : 0;
    const uint32_t exponent = tern_ref_requantize_exponent(c->w, r->w, n, most);
    const float scale = tern_absmean_scale(tern_ref_requantize_units(c->w, r->w, n, exponent), (uint32_t)n, exponent);
    const tern_ternary_rule rule = tern_ref_ternary_rule(scale, c->threshold);
    if (c->kind == UPDATE_BLENDED) tern_ref_requantize_blend(c->w, r->w, n, rule, c->blend, (float *)(void *)r->out);
    for (uint32_t i = 0; i < c->rows && c->kind == UPDATE_TERNARY; i++) {
        const size_t element = c->w == TERN_DTYPE_F32 ? 4 : 2;
        r->scales[i] = scale;
        tern_ref_requantize_codes(c->w, r->w + (size_t)i * c->cols * element, c->cols, rule,
                                  r->out + i * update_row_bytes(c));
    }
}

void update_case_expect(const update_case *c, update_results *r)
{
    const uint64_t n = update_elements(c);
    open_results(c, r);
    for (uint32_t step = 0; step < c->n_steps; step++) {
        const tern_train_params p = update_params(c, step);
        tern_update_args a = {.params = &p,
                              .optimizer = c->optimizer,
                              .decays = c->decays,
                              .seed = p.seed,
                              .n = (uint32_t)n,
                              .w_dtype = c->w,
                              .m_dtype = c->m,
                              .v_dtype = c->v,
                              .w = r->w,
                              .m = r->m,
                              .v = r->v,
                              .g = (float *)(void *)r->g};
        if (r->m) a.m_scales = scales_of(c->m, r->m, n);
        if (r->v) a.v_scales = scales_of(c->v, r->v, n);
        update_gradient(c, step, a.g);
        r->norms[step] = tern_ref_sum_squares(a.g, n);
        tern_ref_update(&a);
        if (c->kind != UPDATE_DENSE) expect_codes(c, r);
    }
}

static char message[256];

static bool differs(const char *what, const uint8_t *got, const uint8_t *want, uint64_t bytes, uint32_t unit)
{
    if (!want && !got) return false;
    for (uint64_t i = 0; i < bytes; i += unit)
        if (memcmp(got + i, want + i, unit)) {
            uint32_t a = 0, b = 0;
            memcpy(&a, got + i, unit);
            memcpy(&b, want + i, unit);
            snprintf(message, sizeof message, "%s, element %llu of %llu: %0*x, %0*x expected (as floats %a, %a)", what,
                     (unsigned long long)(i / unit), (unsigned long long)(bytes / unit), (int)unit * 2, a,
                     (int)unit * 2, b, (double)tern_f32_from_bits(unit == 2 ? a << 16 : a),
                     (double)tern_f32_from_bits(unit == 2 ? b << 16 : b));
            return true;
        }
    return false;
}

/* All bytes of a state. In 8 bits the elements, then the scales: what pads the last block is nobody's. */
static bool state_differs(const update_case *c, const char *what, tern_dtype dtype, const uint8_t *got,
                          const uint8_t *want)
{
    const uint64_t n = update_elements(c);
    if (!want) return false;
    if (dtype == TERN_DTYPE_F32 || dtype == TERN_DTYPE_BF16) {
        const uint32_t unit = dtype == TERN_DTYPE_F32 ? 4 : 2;
        return differs(what, got, want, n * unit, unit);
    }
    const uint64_t padded = (n + 255) / 256 * 256;
    return differs(what, got, want, n, 1) || differs("its scales", got + padded, want + padded, padded / 64, 4);
}

const char *update_case_difference(const update_case *c, const update_results *got, const update_results *want)
{
    const uint64_t n = update_elements(c);
    if (differs("norms", (const uint8_t *)got->norms, (const uint8_t *)want->norms, c->n_steps * 4, 4)) return message;
    if (state_differs(c, "m", c->m, got->m, want->m) || state_differs(c, "v", c->v, got->v, want->v)) return message;
    if (state_differs(c, "w", c->w, got->w, want->w)) return message;
    if (differs("gradient", got->g, want->g, n * 4, 4)) return message;
    if (c->kind == UPDATE_BLENDED && differs("blended", got->out, want->out, n * 4, 4)) return message;
    if (c->kind != UPDATE_TERNARY) return NULL;
    if (differs("scales", (const uint8_t *)got->scales, (const uint8_t *)want->scales, c->rows * 4, 4)) return message;
    return differs("codes", got->out, want->out, c->rows * update_row_bytes(c), 1) ? message : NULL;
}

void update_results_free(update_results *r)
{
    free(r->w);
    free(r->m);
    free(r->v);
    free(r->g);
    free(r->out);
    free(r->scales);
    free(r->norms);
    *r = (update_results){0};
}

update_case update_case_any(tern_rng *rng)
{
    static const tern_dtype ms[] = {TERN_DTYPE_F32, TERN_DTYPE_BF16, TERN_DTYPE_M8};
    static const tern_dtype vs[] = {TERN_DTYPE_F32, TERN_DTYPE_BF16, TERN_DTYPE_V8};
    static const test_fill fills[] = {TEST_ORDINARY, TEST_ORDINARY, TEST_TINY, TEST_HUGE, TEST_MIXED, TEST_NONFINITE};
    update_case c = {.kind = (update_kind)test_between(rng, 0, 2),
                     .rows = test_between(rng, 1, 40),
                     .n_steps = test_between(rng, 1, 6),
                     .w = test_between(rng, 0, 1) ? TERN_DTYPE_F32 : TERN_DTYPE_BF16,
                     .m = ms[test_between(rng, 0, 2)],
                     .v = vs[test_between(rng, 0, 2)],
                     .optimizer = test_between(rng, 0, 2) ? TERN_OPTIMIZER_ADAMW : TERN_OPTIMIZER_SGD,
                     .momentum = test_between(rng, 0, 1),
                     .decays = test_between(rng, 0, 1),
                     .clip = test_between(rng, 0, 1) ? 1 : 0.37f,
                     .blend = test_between(rng, 0, 3) ? tern_rng_f32(rng) : 1,
                     .weights = fills[test_between(rng, 0, 5)],
                     .gradients = fills[test_between(rng, 0, 5)],
                     .seed = tern_rng_u64(rng) >> 40};
    c.cols = test_between(rng, 0, 1) ? 128 * test_between(rng, 1, 5) : 8 * test_between(rng, 1, 70);
    if (c.kind == UPDATE_TERNARY && c.cols % 128) c.rows = 16 * test_between(rng, 1, 3); /* whole groups in all */
    if (test_between(rng, 0, 2) == 0) c.threshold = 0.7f * tern_rng_f32(rng);
    if (c.kind == UPDATE_TERNARY && test_between(rng, 0, 2) == 0) c.clamp = 1 + 2 * tern_rng_f32(rng);
    return c;
}

update_case update_case_hard(int i, float numbers[2][UPDATE_HARD_ELEMENTS])
{
    static const float ties[] = {0.5f, -0.5f, 1.5f, -1.5f};
    for (uint32_t k = 0; k < UPDATE_HARD_ELEMENTS; k++) {
        numbers[0][k] = i == 0   ? ties[k % 4]                     /* the scale is 1: codes on the bound */
                        : i == 1 ? (k ? 0x1.8p-32f : 1)            /* each is less than a unit, all together are not */
                                 : (k % 2 ? -0x1p-20f : 0x1p-20f); /* below the least scale */
        numbers[1][k] = i == 3 ? 0x1.2p-63f : 0;                   /* squares between 2^-126 and 2^-125 */
    }
    return (update_case){.kind = UPDATE_TERNARY,
                         .rows = 16,
                         .cols = 512,
                         .n_steps = 1,
                         .optimizer = TERN_OPTIMIZER_SGD,
                         .clip = 1,
                         .masters = numbers[0],
                         .every_gradient = numbers[1]};
}

void update_case_print(const update_case *c)
{
    static const char *const kinds[] = {"dense", "ternary", "blended"};
    print_message("%s %u x %u, %u steps, types %d %d %d, %s%s%s, threshold %g, clamp %g, blend %g, clip %g, "
                  "weights %s, gradients %s, seed %llu\n",
                  kinds[c->kind], c->rows, c->cols, c->n_steps, (int)c->w, (int)c->m, (int)c->v,
                  c->optimizer == TERN_OPTIMIZER_ADAMW ? "adamw" : "sgd", c->momentum ? " momentum" : "",
                  c->decays ? " decays" : "", (double)c->threshold, (double)c->clamp, (double)c->blend, (double)c->clip,
                  test_fill_names[c->weights], test_fill_names[c->gradients], (unsigned long long)c->seed);
}
