/* A progress bar on standard error, shown only on a terminal and only for what takes longer than a second. */
#ifndef TERN_APPS_PROGRESS_H
#define TERN_APPS_PROGRESS_H

#include <stdbool.h>

/* Zero-initialised except for the label. */
typedef struct tern_progress {
    const char *label;
    double started, drawn; /* seconds */
    float first;           /* what was done when it started */
    bool visible;
} tern_progress;

/* Fits the progress callbacks of the library: `context` is a tern_progress. False after Ctrl-C. */
bool tern_progress_update(void *context, float done);
/* Takes the bar off the screen. */
void tern_progress_end(tern_progress *progress);

#endif
