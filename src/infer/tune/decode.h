/* Whether choices of kernels make a whole model decode faster than the defaults, measured with both in turns. */
#ifndef TERN_INFER_TUNE_DECODE_H
#define TERN_INFER_TUNE_DECODE_H

#include "infer/engine/engine.h"

enum { TERN_TUNE_MAX_ROUNDS = 16 };

/* The speed of both: tokens per second, from the median of all tokens. */
typedef struct tern_tune_round {
    size_t n_choices; /* the first ones of the choices */
    double standard, tuned;
} tern_tune_round;

/* Zero-initialised fields have a meaning, except for the path. */
typedef struct tern_tune_decode_options {
    const char *path;             /* of the model */
    tern_backend_options backend; /* "cpu", its threads; no kernel and no choices */
    double seconds;               /* that each of the two decodes at least */
    /* Seconds, rising; NULL: the time. n_choices: of the engine that decodes now; 0: the defaults. */
    double (*clock)(void *context, size_t n_choices);
    bool (*progress)(void *context, float done); /* false cancels; may be NULL */
    void *context;
} tern_tune_decode_options;

typedef struct tern_tune_decode_result {
    tern_tune_round rounds[TERN_TUNE_MAX_ROUNDS];
    size_t n_rounds; /* the last one is that of the choices that are kept; none when there were no choices */
    size_t n_keep;   /* of the choices */
} tern_tune_decode_result;

/* Choices may decode slower than the defaults by so much, which is noise. */
#define TERN_TUNE_NOISE 0.02

/* Decodes with the defaults and with the choices [n], those that gain most first. While the choices are slower than the
 * defaults by more than TERN_TUNE_NOISE, the half of them that gains least is left out, and both decode again. In the
 * end they are not slower, or none is left. The result depends on the measured times alone. Memory: two
 * engines. Errors: those of tern_engine_open_path and tern_session_append, CANCELLED. */
tern_status tern_tune_decode(const tern_tune_decode_options *options, const tern_kernel_choice *choices, size_t n,
                             tern_tune_decode_result *out, tern_error *err);

#endif
