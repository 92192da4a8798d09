/* From a model to the kernels that run it on a GPU: its family and encodings, the ops of a step, the pipelines that
 * they take, and the files of kernels these are made of. No device is asked: one is made up. */
#include <stdio.h>
#include <string.h>

#include "apps/inspect/inspect.h"
#include "apps/model.h"
#include "backend/gpu/program.h"
#include "base/alloc.h"
#include "base/file.h"
#include "graph/graph.h"
#include "infer/session/session.h"
#include "ops/op.h"
#include "quant/encoding.h"
#include "quant/weight.h"

/* The limits of most GPUs. */
static const tern_gpu_caps caps = {.subgroup_min = 32,
                                   .subgroup_max = 32,
                                   .workgroup_bytes = 49152,
                                   .workgroup_invocations = 1024,
                                   .max_groups = 65535,
                                   .max_binding = UINT64_C(4) << 30,
                                   .binding_alignment = 256,
                                   .device_fences = true};

/* One kind of dispatch of a step: which op asked for it, and how often. */
typedef struct kind {
    tern_op_kind op;
    const char *encoding; /* of the first weight; "": none */
    tern_gpu_pipeline pipeline;
    uint32_t n;
} kind;

typedef struct kinds {
    kind *at;
    size_t n, cap;
} kinds;

static tern_status supports(tern_backend *b, const tern_graph *graph, const tern_op *op, tern_error *err)
{
    (void)b;
    return tern_gpu_supports(graph, op, &caps, err);
}

static const char *encoding_of(const tern_graph *g, const tern_op *op)
{
    for (uint32_t i = 0; i < op->n_in; i++) {
        const tern_value *v = &g->values[op->in[i].value];
        if (op->in[i].value != TERN_NO_VALUE && v->kind == TERN_VALUE_WEIGHT && v->weight->rows > 1)
            return v->weight->encoding->name;
    }
    return "";
}

static tern_status add(kinds *list, const kind *one, tern_error *err)
{
    for (size_t i = 0; i < list->n; i++)
        if (list->at[i].op == one->op && list->at[i].pipeline == one->pipeline &&
            !strcmp(list->at[i].encoding, one->encoding)) {
            list->at[i].n++;
            return TERN_OK;
        }
    TERN_TRY(tern_grow((void **)&list->at, &list->cap, list->n + 1, sizeof *list->at, err));
    list->at[list->n++] = *one;
    return TERN_OK;
}

static tern_status collect(kinds *list, const tern_gpu_program *p, tern_error *err)
{
    for (size_t i = 0; i < p->n; i++) {
        const tern_op *op = &p->graph->ops[p->dispatches[i].op];
        const kind one = {op->kind, encoding_of(p->graph, op), p->dispatches[i].pipeline, 1};
        TERN_TRY(add(list, &one, err));
    }
    return TERN_OK;
}

static void print(const kinds *list, size_t n_dispatches, uint32_t n_tokens)
{
    printf("\na step of %u token%s: %zu dispatches\n  %5s  %-14s %-10s %-36s %s\n", n_tokens, n_tokens == 1 ? "" : "s",
           n_dispatches, "count", "op", "encoding", "pipeline", "kernel, overrides");
    for (size_t i = 0; i < list->n; i++) {
        const kind *k = &list->at[i];
        const tern_gpu_pipeline_info *info = &tern_gpu_pipelines[k->pipeline];
        printf("  %5u  %-14s %-10s %-36s %s%s%s\n", k->n, tern_op_name(k->op), k->encoding, info->name, info->file,
               *info->overrides ? ": " : "", info->overrides);
    }
}

static tern_status print_step(const tern_model *model, const tern_options *o, uint32_t n_tokens, tern_error *err)
{
    tern_backend gpu = {.info = {.name = "gpu", .fusions = TERN_FUSION_LINEAR_NORM | TERN_FUSION_ROPE_ATTENTION},
                        .supports = supports};
    tern_graph graph = {0};
    tern_gpu_program program = {0};
    kinds list = {0};
    tern_status status;
    TERN_GOTO(tern_app_build_graph(&graph, model, o, n_tokens, &gpu, err));
    TERN_GOTO(tern_gpu_lower(&program, &graph, &caps, err));
    TERN_GOTO(collect(&list, &program, err));
    print(&list, program.n, n_tokens);
fail:
    tern_free(list.at);
    tern_gpu_program_deinit(&program);
    tern_graph_deinit(&graph);
    return status;
}

tern_status tern_app_print_kernels(const tern_model *model, const tern_options *o, tern_error *err)
{
    const tern_config *c = tern_model_config(model);
    printf("%s: %u layers of %u columns, %u heads of %u, %u of keys\n"
           "on a device with subgroups of %u, %u KiB of workgroup memory and %u invocations\n",
           c->architecture, c->n_layers, c->n_embd, c->n_heads, c->head_dim, c->n_kv_heads, caps.subgroup_min,
           caps.workgroup_bytes >> 10, caps.workgroup_invocations);
    TERN_TRY(print_step(model, o, 1, err));
    return print_step(model, o, o->batch > 1 ? o->batch : TERN_SESSION_DEFAULT_BATCH, err);
}
