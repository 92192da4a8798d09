/* Other pipelines than the table would take: by name (--kernel) or by what was measured (tern tune). */
#ifndef TERN_BACKEND_GPU_CHOICES_H
#define TERN_BACKEND_GPU_CHOICES_H

#include "backend/gpu/pipelines.h"
#include "backend/kernel_choice.h"
#include "base/error.h"

/* The key of a product's choice: rows of the weights of one dispatch, columns, and the most tokens, as a class. */
typedef struct tern_gpu_key {
    uint32_t rows, cols, tokens;
} tern_gpu_key;

/* 1, 8, 64 or 512 (any more): the smallest that is not less. */
uint32_t tern_gpu_token_class(uint32_t tokens);

typedef struct tern_gpu_choice {
    tern_gpu_key key;
    tern_gpu_pipeline pipeline;
} tern_gpu_choice;

/* Zero-initialised: the table alone. A name is stronger than a measurement, both are stronger than the table; neither
 * counts where the pipeline does not compute the same, or does not fit the device or the shape. */
typedef struct tern_gpu_choices {
    bool named[TERN_GPU_PIPELINE_COUNT];
    tern_gpu_choice *measured; /* [n], the owner's */
    size_t n;
} tern_gpu_choices;

/* Whether pipelines compute the same for any operands and differ in geometry alone: the same kernel, signature and
 * overrides, except for lanes, tiles and the like; and tiles of dense or ternary weights in the place of cooperative
 * matrices. */
bool tern_gpu_interchangeable(tern_gpu_pipeline from, tern_gpu_pipeline to);
/* The pipeline that is chosen in the place of `usual` for a product of that key, or `usual`. `serves`, which may be
 * NULL, says whether a pipeline can have the shape. */
tern_gpu_pipeline tern_gpu_chosen(const tern_gpu_caps *caps, const tern_gpu_key *key, tern_gpu_pipeline usual,
                                  bool (*serves)(tern_gpu_pipeline pipeline, const tern_gpu_caps *caps,
                                                 const void *shape),
                                  const void *shape);

/* "q4_k_vec1_8x4_s8": the table's name in small letters, into out. */
void tern_gpu_kernel_name(tern_gpu_pipeline pipeline, char out[static TERN_KERNEL_NAME_BYTES]);
/* The pipeline of a name, in small letters or as the table and profiles have it, that can be chosen;
 * TERN_GPU_PIPELINE_COUNT: none. */
tern_gpu_pipeline tern_gpu_kernel_by_name(const char *name);
/* Names with commas between. Errors: INVALID_ARGUMENT (a name that is none, with the nearest ones; one of another
 * device than `caps`, which may be NULL, with those that fit in its place). */
tern_status tern_gpu_choices_parse(tern_gpu_choices *choices, const char *names, const tern_gpu_caps *caps,
                                   tern_error *err);
/* The measurements on this device, of choices of any; replaces what is there. Those whose kernel there is not are left
 * out. Errors: OUT_OF_MEMORY. */
tern_status tern_gpu_choices_take(tern_gpu_choices *out, const tern_kernel_choice *choices, size_t n,
                                  const char *device, tern_error *err);
void tern_gpu_choices_deinit(tern_gpu_choices *choices);

#endif
