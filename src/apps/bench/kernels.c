/* tern bench --kernels: every kernel of ternary weights alone, cold, over shapes, under what the machine can do at
 * most. */
#include "apps/bench/kernels.h"

#include <string.h>

#include "base/alloc.h"
#include "base/file.h"

static tern_status write_plot(const tern_bench_job *j, tern_error *err)
{
    tern_buf svg = {0};
    tern_file_writer w = {0};
    tern_status status;
    TERN_GOTO(tern_bench_kernels_draw(j, &svg, err));
    TERN_GOTO(tern_file_writer_open(&w, j->options->plot, err));
    tern_file_writer_add(&w, svg.data, svg.size);
    TERN_GOTO(tern_file_writer_commit(&w, err));
fail:
    tern_file_writer_abort(&w);
    tern_buf_deinit(&svg);
    return status;
}

/* Before minutes of measuring: whether the plot can be written. */
static tern_status check_plot(const tern_options *o, tern_error *err)
{
    tern_file_writer w = {0};
    if (!o->plot) return TERN_OK;
    TERN_TRY(tern_app_check_output(o, NULL, o->plot, false, err));
    TERN_TRY(tern_file_writer_open(&w, o->plot, err));
    tern_file_writer_abort(&w);
    return TERN_OK;
}

static tern_status check(tern_bench_job *j, tern_error *err)
{
    const tern_options *o = j->options;
    if (o->model || o->kernel || (o->backend && strcmp(o->backend, "cpu") != 0))
        return tern_fail(err, TERN_INVALID_ARGUMENT,
                         "--kernels measures every kernel of the CPU: no --model, --kernel or --backend expected");
    TERN_TRY(tern_bench_shapes_read(j, err));
    return check_plot(o, err);
}

static tern_status show(const tern_bench_job *j, tern_error *err)
{
    if (j->options->json) TERN_TRY(tern_bench_kernels_print_json(j, err));
    else tern_bench_kernels_print(j);
    return j->options->plot ? write_plot(j, err) : TERN_OK;
}

tern_status tern_bench_kernels(const tern_options *o, tern_error *err)
{
    tern_bench_job j = {.options = o, .progress = {.label = "Measuring"}};
    TERN_TRY(check(&j, err));
    tern_status status = tern_bench_kernels_measure(&j, err);
    tern_progress_end(&j.progress);
    if (status == TERN_OK) status = show(&j, err);
    tern_app_backends_close(&j.backends);
    tern_free(j.points);
    return status;
}
