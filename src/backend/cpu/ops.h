/* How the CPU runs each kind of op: one row of a table (ops.c), whose functions lie in the folder of their family. */
#ifndef TERN_BACKEND_CPU_OPS_H
#define TERN_BACKEND_CPU_OPS_H

#include "backend/cpu/prepared.h"
#include "base/pool.h"

/* Pointers may be NULL, where nothing is needed; run is NULL for ops that the CPU lacks.
 *
 *   run      runs the op on the operands of a prepared graph, on all threads
 *   supports limits of shape: UNSUPPORTED or INVALID_ARGUMENT with the value found and the value expected
 *   scratch  bytes of memory for each thread (tern_cpu__scratch)
 *   shared   bytes of memory for all threads together (tern_prepared.shared)
 *   bind     called once, when the operands are known: what the op keeps between runs */
typedef struct tern_cpu__op_row {
    void (*run)(tern_cpu_step *step, const tern_cpu_op *op);
    tern_status (*supports)(const tern_graph *graph, const tern_op *op, tern_error *err);
    size_t (*scratch)(const tern_graph *graph, const tern_op *op);
    size_t (*shared)(const tern_graph *graph, const tern_op *op);
    tern_status (*bind)(tern_cpu *cpu, tern_prepared *prepared, tern_cpu_op *op, tern_error *err);
} tern_cpu__op_row;

extern const tern_cpu__op_row tern_cpu__ops[TERN_OP_COUNT];

/* ---- linear */
void tern_cpu__linear(tern_cpu_step *step, const tern_cpu_op *op);
/* Prefetches what a thread reads first of the op `ahead` of a step (context: tern_cpu_step): a tern_ahead_fn. */
tern_ahead_range tern_cpu__linear_ahead(const void *context, uint32_t thread, uint32_t n_threads);
tern_status tern_cpu__linear_supports(const tern_graph *graph, const tern_op *op, tern_error *err);
size_t tern_cpu__linear_scratch(const tern_graph *graph, const tern_op *op);
size_t tern_cpu__linear_shared(const tern_graph *graph, const tern_op *op);
tern_status tern_cpu__linear_bind(tern_cpu *cpu, tern_prepared *prepared, tern_cpu_op *op, tern_error *err);

/* ---- ranks */
void tern_cpu__all_gather(tern_cpu_step *step, const tern_cpu_op *op);
void tern_cpu__send(tern_cpu_step *step, const tern_cpu_op *op);
void tern_cpu__receive(tern_cpu_step *step, const tern_cpu_op *op);
size_t tern_cpu__all_gather_shared(const tern_graph *graph, const tern_op *op);

/* ---- attention */
void tern_cpu__attention(tern_cpu_step *step, const tern_cpu_op *op);
tern_status tern_cpu__attention_supports(const tern_graph *graph, const tern_op *op, tern_error *err);
size_t tern_cpu__attention_scratch(const tern_graph *graph, const tern_op *op);
size_t tern_cpu__attention_shared(const tern_graph *graph, const tern_op *op);

void tern_cpu__varlen_attention(tern_cpu_step *step, const tern_cpu_op *op);
tern_status tern_cpu__varlen_attention_supports(const tern_graph *graph, const tern_op *op, tern_error *err);
size_t tern_cpu__varlen_attention_scratch(const tern_graph *graph, const tern_op *op);
size_t tern_cpu__varlen_attention_shared(const tern_graph *graph, const tern_op *op);

void tern_cpu__varlen_attention_backward(tern_cpu_step *step, const tern_cpu_op *op);
size_t tern_cpu__varlen_attention_backward_scratch(const tern_graph *graph, const tern_op *op);
size_t tern_cpu__varlen_attention_backward_shared(const tern_graph *graph, const tern_op *op);

/* ---- rows */
void tern_cpu__embed(tern_cpu_step *step, const tern_cpu_op *op);
void tern_cpu__rms_norm(tern_cpu_step *step, const tern_cpu_op *op);
void tern_cpu__quantize(tern_cpu_step *step, const tern_cpu_op *op);
void tern_cpu__norm_quant(tern_cpu_step *step, const tern_cpu_op *op);
void tern_cpu__gate(tern_cpu_step *step, const tern_cpu_op *op);
void tern_cpu__add(tern_cpu_step *step, const tern_cpu_op *op);
void tern_cpu__hadamard(tern_cpu_step *step, const tern_cpu_op *op);
tern_status tern_cpu__hadamard_supports(const tern_graph *graph, const tern_op *op, tern_error *err);
void tern_cpu__gather(tern_cpu_step *step, const tern_cpu_op *op);
void tern_cpu__rope(tern_cpu_step *step, const tern_cpu_op *op);
void tern_cpu__kv_write(tern_cpu_step *step, const tern_cpu_op *op);
void tern_cpu__rope_kv(tern_cpu_step *step, const tern_cpu_op *op);
tern_status tern_cpu__rope_kv_supports(const tern_graph *graph, const tern_op *op, tern_error *err);
void tern_cpu__route(tern_cpu_step *step, const tern_cpu_op *op);
tern_status tern_cpu__route_supports(const tern_graph *graph, const tern_op *op, tern_error *err);
void tern_cpu__combine(tern_cpu_step *step, const tern_cpu_op *op);
tern_status tern_cpu__combine_supports(const tern_graph *graph, const tern_op *op, tern_error *err);
void tern_cpu__route_backward(tern_cpu_step *step, const tern_cpu_op *op);
void tern_cpu__combine_backward(tern_cpu_step *step, const tern_cpu_op *op);
/* One row of f32 for each thread. */
size_t tern_cpu__row_scratch(const tern_graph *graph, const tern_op *op);

/* ---- recurrent */
void tern_cpu__split(tern_cpu_step *step, const tern_cpu_op *op);
void tern_cpu__conv(tern_cpu_step *step, const tern_cpu_op *op);
/* For CONV and its ops of training. */
tern_status tern_cpu__conv_supports(const tern_graph *graph, const tern_op *op, tern_error *err);
void tern_cpu__gated_delta(tern_cpu_step *step, const tern_cpu_op *op);
size_t tern_cpu__gated_delta_scratch(const tern_graph *graph, const tern_op *op);
/* For GATED_DELTA and its ops of training. */
tern_status tern_cpu__gated_delta_supports(const tern_graph *graph, const tern_op *op, tern_error *err);
void tern_cpu__split_backward(tern_cpu_step *step, const tern_cpu_op *op);
void tern_cpu__varlen_conv(tern_cpu_step *step, const tern_cpu_op *op);
void tern_cpu__varlen_conv_backward(tern_cpu_step *step, const tern_cpu_op *op);
void tern_cpu__varlen_gated_delta(tern_cpu_step *step, const tern_cpu_op *op);
size_t tern_cpu__varlen_gated_delta_scratch(const tern_graph *graph, const tern_op *op);
void tern_cpu__varlen_gated_delta_backward(tern_cpu_step *step, const tern_cpu_op *op);
size_t tern_cpu__varlen_gated_delta_backward_scratch(const tern_graph *graph, const tern_op *op);

/* ---- training */
void tern_cpu__scale(tern_cpu_step *step, const tern_cpu_op *op);
void tern_cpu__softcap_backward(tern_cpu_step *step, const tern_cpu_op *op);
void tern_cpu__dropout(tern_cpu_step *step, const tern_cpu_op *op);
void tern_cpu__fake_quantize(tern_cpu_step *step, const tern_cpu_op *op);
void tern_cpu__cross_entropy(tern_cpu_step *step, const tern_cpu_op *op);
void tern_cpu__rope_backward(tern_cpu_step *step, const tern_cpu_op *op);
void tern_cpu__gate_backward(tern_cpu_step *step, const tern_cpu_op *op);
tern_status tern_cpu__gate_backward_supports(const tern_graph *graph, const tern_op *op, tern_error *err);
void tern_cpu__embed_backward(tern_cpu_step *step, const tern_cpu_op *op);
void tern_cpu__bias_backward(tern_cpu_step *step, const tern_cpu_op *op);

void tern_cpu__rms_norm_backward(tern_cpu_step *step, const tern_cpu_op *op);
size_t tern_cpu__rms_norm_backward_shared(const tern_graph *graph, const tern_op *op);

void tern_cpu__linear_dx(tern_cpu_step *step, const tern_cpu_op *op);
void tern_cpu__linear_dw(tern_cpu_step *step, const tern_cpu_op *op);
size_t tern_cpu__gradient_scratch(const tern_graph *graph, const tern_op *op);
size_t tern_cpu__gradient_shared(const tern_graph *graph, const tern_op *op);
tern_status tern_cpu__gradient_supports(const tern_graph *graph, const tern_op *op, tern_error *err);

void tern_cpu__sum_squares(tern_cpu_step *step, const tern_cpu_op *op);
size_t tern_cpu__sum_squares_shared(const tern_graph *graph, const tern_op *op);
void tern_cpu__update(tern_cpu_step *step, const tern_cpu_op *op);
void tern_cpu__requantize(tern_cpu_step *step, const tern_cpu_op *op);
/* For all three. */
tern_status tern_cpu__update_supports(const tern_graph *graph, const tern_op *op, tern_error *err);

#endif
