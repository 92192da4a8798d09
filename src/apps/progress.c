/* Drawing the progress bar. */
#include "apps/progress.h"

#include <stdio.h>
#include <unistd.h>

#include "apps/app.h"

static const double first_after = 1.0, redraw_every = 0.1;

static void draw(const char *label, float done, double left)
{
    enum { WIDTH = 30 };
    char bar[WIDTH + 1];
    for (int i = 0; i < WIDTH; i++) bar[i] = (float)i < done * WIDTH ? '#' : '.';
    bar[WIDTH] = 0;
    fprintf(stderr, "\r%s [%s] %3.0f %%", label, bar, (double)done * 100);
    if (left >= 1) fprintf(stderr, ", %.0f s left ", left);
    fputs("\033[K", stderr);
    fflush(stderr);
}

/* Seconds, as it went so far; 0: too early to say. */
static double left_of(const tern_progress *p, double seconds, float done)
{
    const float gained = done - p->first;
    return gained > 0.01f ? seconds * (double)(1 - done) / (double)gained : 0;
}

bool tern_progress_update(void *context, float done)
{
    tern_progress *p = context;
    double now = tern_app_seconds();
    if (p->started == 0) {
        p->started = now;
        p->first = done;
    }
    if (now - p->started > first_after && now - p->drawn > redraw_every && isatty(STDERR_FILENO)) {
        draw(p->label, done, left_of(p, now - p->started, done));
        p->drawn = now;
        p->visible = true;
    }
    return !tern_app_interrupted();
}

void tern_progress_end(tern_progress *progress)
{
    if (progress->visible) fputs("\r\033[K", stderr);
    progress->visible = false;
}
