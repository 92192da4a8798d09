/* Exports: fine-tuning a LoRA adapter on pasted text, step by step (experimental). */
#include <math.h>

#include "base/alloc.h"
#include "train/tuning.h"
#include "web/web.h"

typedef struct web_tuning {
    tern_tuning *tuning;
    tern_buf adapter; /* the GGUF file, once it was asked for */
} web_tuning;

TERN_WEB tern_status tern_web_tuning_open(web_tuning **out, tern_engine *engine, const char *text, size_t n,
                                          const char *options);
TERN_WEB double tern_web_tuning_n_steps(const web_tuning *t);
TERN_WEB tern_status tern_web_tuning_step(web_tuning *t);
TERN_WEB tern_status tern_web_tuning_adapter(web_tuning *t);
TERN_WEB const char *tern_web_tuning_bytes(const web_tuning *t);
TERN_WEB size_t tern_web_tuning_n_bytes(const web_tuning *t);
TERN_WEB void tern_web_tuning_close(web_tuning *t);

static tern_status open_tuning(web_tuning *t, tern_engine *engine, const char *text, size_t n, const char *options,
                               tern_error *err)
{
    tern_tuning_params p = {0};
    const tern_web_option known[] = {
        {"rank", TERN_WEB_U32, &p.rank},   {"alpha", TERN_WEB_F32, &p.alpha}, {"learningRate", TERN_WEB_F64, &p.lr},
        {"steps", TERN_WEB_U32, &p.steps}, {"batch", TERN_WEB_U32, &p.batch}, {"sequence", TERN_WEB_U32, &p.seq},
        {"seed", TERN_WEB_U64, &p.seed},
    };
    json_t *root;
    TERN_TRY(tern_web__read_options(options, known, sizeof known / sizeof *known, &root, err));
    json_decref(root);
    return tern_tuning_open(&t->tuning, engine, text, n, &p, err);
}

/* On n bytes of UTF-8, which may go afterwards. Options: FinetuneOptions of web/lib/index.d.ts, except for callbacks
 * and the signal. */
tern_status tern_web_tuning_open(web_tuning **out, tern_engine *engine, const char *text, size_t n, const char *options)
{
    tern_error *err = tern_web__error();
    *out = NULL;
    web_tuning *t = tern_calloc(1, sizeof *t);
    if (!t) return tern_fail_alloc(err, sizeof *t);
    tern_status status = open_tuning(t, engine, text, n, options, err);
    if (status == TERN_OK) *out = t;
    else tern_web_tuning_close(t);
    return status;
}

double tern_web_tuning_n_steps(const web_tuning *t)
{
    return (double)tern_tuning_n_steps(t->tuning);
}

/* {step, steps, loss, norm, validationLoss, tokensPerSecond}; or PENDING: again when the device is done. */
tern_status tern_web_tuning_step(web_tuning *t)
{
    tern_error *err = tern_web__error();
    tern_tuning_result r;
    TERN_TRY(tern_tuning_step(t->tuning, &r, err));
    json_t *validation = isnan(r.validation) ? json_null() : json_real(r.validation);
    const double rate = r.seconds > 0 ? (double)r.n_positions / r.seconds : 0;
    return tern_web__answer(json_pack("{s:I, s:I, s:f, s:f, s:o, s:f}", "step", (json_int_t)r.step, "steps",
                                      (json_int_t)r.n_steps, "loss", r.loss, "norm", r.norm, "validationLoss",
                                      validation, "tokensPerSecond", rate),
                            err);
}

/* The adapter as it is now; or PENDING. Its bytes stay until the next call or the close. */
tern_status tern_web_tuning_adapter(web_tuning *t)
{
    t->adapter.size = 0;
    return tern_tuning_adapter(t->tuning, &t->adapter, tern_web__error());
}

const char *tern_web_tuning_bytes(const web_tuning *t)
{
    return t->adapter.data;
}

size_t tern_web_tuning_n_bytes(const web_tuning *t)
{
    return t->adapter.size;
}

/* NULL is fine. */
void tern_web_tuning_close(web_tuning *t)
{
    if (!t) return;
    tern_tuning_close(t->tuning);
    tern_buf_deinit(&t->adapter);
    tern_free(t);
}
