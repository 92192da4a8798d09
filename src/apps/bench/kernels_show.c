/* tern bench --kernels: the table and the JSON. */
#include <string.h>

#include "apps/bench/kernels.h"
#include "backend/cpu/cpu.h"
#include "base/cpu.h"
#include "quant/encoding.h"

static double share(const tern_bench_job *j, const tern_bench_point *p)
{
    return tern_bench_rate(p) / tern_bench_most(&j->roofs[p->backend], tern_bench_intensity(p));
}

/* `size`: the shape, when the row above is not of the same one. */
static void print_point(const tern_bench_job *j, const tern_bench_point *p, const char *size)
{
    char bytes[16];
    printf("  %13s  %-12s %9s %7.2f %10.1f %8.1f %9.1f %4.0f %%\n", size, p->name, tern_app_bytes(p->bytes, bytes),
           16 * (double)p->bytes / p->operations, p->seconds * 1e6, (double)p->bytes / p->seconds * 1e-9,
           tern_bench_rate(p) * 1e-9, 100 * share(j, p));
}

static void print_backend(const tern_bench_job *j, uint32_t b)
{
    const uint32_t threads = tern_cpu_n_threads(j->backends.at[b]);
    const tern_bench_roof *r = &j->roofs[b];
    uint32_t last = TERN_BENCH_MAX_SHAPES;
    printf("\n%u thread%s: memory %.1f GB/s, dot products %.0f G operations/s\n", threads, threads == 1 ? "" : "s",
           r->read * 1e-9, r->operations * 1e-9);
    printf("  %13s  %-12s %9s %7s %10s %8s %9s %6s\n", "rows x cols", "kernel", "bytes", "bits/w", "us", "GB/s",
           "G op/s", "roof");
    for (size_t i = 0; i < j->n; i++) {
        const tern_bench_point *p = &j->points[i];
        const tern_bench_shape s = j->shapes[p->shape];
        char size[32] = "";
        if (p->backend != b) continue;
        if (p->shape != last) snprintf(size, sizeof size, "%u x %u", s.rows, s.cols);
        last = p->shape;
        print_point(j, p, size);
    }
}

static void print_left_out(const tern_bench_job *j)
{
    const tern_encoding *e;
    const char *before = "\n";
    for (uint32_t s = 0; s < j->n_shapes; s++)
        for (size_t i = 0; (e = tern_encoding_at(i)); i++) {
            tern_error why = {0};
            if (!e->ternary || !tern_bench_left_out(e, j->shapes[s], &why)) continue;
            printf("%snot measured: %u x %u: %s\n", before, j->shapes[s].rows, j->shapes[s].cols, why.message);
            before = "";
        }
}

void tern_bench_kernels_print(const tern_bench_job *j)
{
    char cpu[160];
    tern_cpu_name(cpu, sizeof cpu);
    printf("%s\none token; weights cold: copies of %llu MiB in turn\n", cpu,
           (unsigned long long)(tern_app_cold_bytes(j->options) >> 20));
    for (uint32_t b = 0; b < j->backends.n; b++) print_backend(j, b);
    print_left_out(j);
}

static json_t *points_json(const tern_bench_job *j, uint32_t b)
{
    json_t *list = json_array();
    for (size_t i = 0; i < j->n; i++) {
        const tern_bench_point *p = &j->points[i];
        const tern_bench_shape s = j->shapes[p->shape];
        if (p->backend != b) continue;
        json_array_append_new(list, json_pack("{s:s, s:i, s:i, s:I, s:f, s:f, s:f}", "kernel", p->name, "rows",
                                              (int)s.rows, "cols", (int)s.cols, "bytes", (json_int_t)p->bytes,
                                              "microseconds", p->seconds * 1e6, "operations_per_second",
                                              tern_bench_rate(p), "roofline_share", share(j, p)));
    }
    return list;
}

static json_t *left_out_json(const tern_bench_job *j)
{
    json_t *list = json_array();
    const tern_encoding *e;
    for (uint32_t s = 0; s < j->n_shapes; s++)
        for (size_t i = 0; (e = tern_encoding_at(i)); i++) {
            tern_error why = {0};
            if (e->ternary && tern_bench_left_out(e, j->shapes[s], &why))
                json_array_append_new(list, json_pack("{s:s, s:i, s:i, s:s}", "encoding", e->name, "rows",
                                                      (int)j->shapes[s].rows, "cols", (int)j->shapes[s].cols, "why",
                                                      why.message));
        }
    return list;
}

tern_status tern_bench_kernels_print_json(const tern_bench_job *j, tern_error *err)
{
    char cpu[160];
    json_t *list = json_array();
    tern_cpu_name(cpu, sizeof cpu);
    for (uint32_t b = 0; b < j->backends.n; b++)
        json_array_append_new(list,
                              json_pack("{s:i, s:f, s:f, s:o}", "threads", (int)tern_cpu_n_threads(j->backends.at[b]),
                                        "read_bandwidth", j->roofs[b].read, "operations_per_second_possible",
                                        j->roofs[b].operations, "kernels", points_json(j, b)));
    return tern_app_print_json(json_pack("{s:o, s:I, s:o, s:o}", "cpu", tern_app_json_text(cpu, strlen(cpu)),
                                         "cold_bytes", (json_int_t)tern_app_cold_bytes(j->options), "results", list,
                                         "left_out", left_out_json(j)),
                               err);
}
