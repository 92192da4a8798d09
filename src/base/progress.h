/* Progress of something that is one part of something longer. */
#ifndef TERN_BASE_PROGRESS_H
#define TERN_BASE_PROGRESS_H

#include <stdbool.h>

/* Calls `whole` with before + share * done. */
typedef struct tern_progress_part {
    bool (*whole)(void *context, float done); /* never NULL */
    void *context;
    float before, share;
} tern_progress_part;

/* A progress function of the part, whose context is a tern_progress_part. */
static inline bool tern_progress_part_report(void *context, float done)
{
    const tern_progress_part *p = context;
    return p->whole(p->context, p->before + p->share * done);
}

#endif
