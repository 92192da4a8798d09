/* The formula of each op, and its inputs by name: `op->in[TERN_ATTENTION_Q]`. t runs over the op's rows. Inputs marked
 * "written" are written as well as `out` (tern_op_writes); += goes on from what is there. The definitions are
 * ops/ref/ref.h, and for training ops/ref/backward.h and ops/ref/update.h. */
#ifndef TERN_OPS_OPERANDS_H
#define TERN_OPS_OPERANDS_H

/* out[t] = row ids[t] of the table */
enum { TERN_EMBED_TABLE, TERN_EMBED_IDS, TERN_EMBED_INPUTS };

/* RMS_NORM: out[t] = norm(x[t]) * weight (+ residual[t]). A weight of fewer columns than x norms each run of so many
 * columns by itself (a norm of each head); out may be x. NORM_QUANT, made by fusion, of whole rows: out[t] =
 * int8(norm(x[t]) * weight) */
enum { TERN_NORM_X, TERN_NORM_WEIGHT, TERN_NORM_INPUTS };

/* out[t] = int8(x[t]) */
enum { TERN_QUANTIZE_X, TERN_QUANTIZE_INPUTS };

/* out[t] = x[t] * scale; with a soft cap, that of it */
enum { TERN_SCALE_X, TERN_SCALE_INPUTS };

/* out[t] = concat_p(W_p x[t]), p < n_parts <= TERN_LINEAR_MAX_PARTS; a part with a bias: W_p x[t] + bias_p. Gated (2
 * parts): out[t] = act(W_0 x) * (W_1 x). With a residual: out[t] += residual[t]. With a norm_weight, for backends that
 * ask for it (tern_fusion), in graphs of one token: out = W int8(norm(x) * norm_weight), x f32; with norm_f32, which is
 * for dense W_p: out = W (norm(x) * norm_weight). With int8_blocks: W_p times int8 by blocks of x (ops/ref/blocks.h).
 * With halves: W_p and x in 16 bits (ops/ref/halves/halves.h).
 * Ternary W_p with x f32: the f32 sum of codes times x, then times the row's scale.
 *
 * With a route (out: rows ROUTED): W_p is [n_experts * R][cols], biases are [n_experts][R]. Routed row r, of token
 * r / n_routes, has expert e = route[r][0]: out[r] = W_p[e * R .. e * R + R - 1] x + bias_p[e]. Its x is row
 * r / n_routes of rows TOKENS, or row r of rows ROUTED. Where e >= n_experts there is no expert, and out[r] stays as it
 * is. No residual, no norm_weight, not screened. */
enum { TERN_LINEAR_X, TERN_LINEAR_W }; /* W_p is input TERN_LINEAR_W + p */

/* ROPE: x[t] is rotated in place by positions[t]. ROPE_BACKWARD: the gradient x[t] is rotated back in place. */
enum { TERN_ROPE_X /* written */, TERN_ROPE_POSITIONS, TERN_ROPE_TABLE, TERN_ROPE_INPUTS };

/* cache[page of positions[t]] = k[t], v[t]. PAGES, here and below: that parameter, or RING_PAGES */
enum {
    TERN_KV_WRITE_K,
    TERN_KV_WRITE_V,
    TERN_KV_WRITE_K_CACHE, /* written */
    TERN_KV_WRITE_V_CACHE, /* written */
    TERN_KV_WRITE_POSITIONS,
    TERN_KV_WRITE_SEQUENCES,
    TERN_KV_WRITE_PAGES,
    TERN_KV_WRITE_INPUTS
};

/* out[t] = softmax(cap(scale q[t] K)) V, causal, over the window where there is one; a sink of the head joins the
 * softmax's sum. Pages that no token of the step sees are not read. */
enum {
    TERN_ATTENTION_Q,
    TERN_ATTENTION_K_CACHE,
    TERN_ATTENTION_V_CACHE,
    TERN_ATTENTION_POSITIONS,
    TERN_ATTENTION_SEQUENCES,
    TERN_ATTENTION_PAGES,
    TERN_ATTENTION_INPUTS
};

/* ROPE_KV, made by fusion: q and k of qkv[t] are rotated in place, then k and v written to the caches. With head_norms,
 * where `supports` says so, each head of q and k is normed first, as by RMS_NORM in place.
 * ROPE_ATTENTION, for backends that ask for it, in graphs of one token: ROPE_KV, then ATTENTION of its q; qkv is left
 * as it was. */
enum {
    TERN_ROPE_KV_QKV, /* ROPE_KV: written */
    TERN_ROPE_KV_POSITIONS,
    TERN_ROPE_KV_TABLE,
    TERN_ROPE_KV_K_CACHE, /* written */
    TERN_ROPE_KV_V_CACHE, /* written */
    TERN_ROPE_KV_SEQUENCES,
    TERN_ROPE_KV_PAGES,
    TERN_ROPE_KV_INPUTS
};

/* out[t] = each block of op->block columns of signs * x[t] by the normed Sylvester matrix, or with `inverse` signs
 * times the blocks of x[t] by it (ops/ref/rotated/hadamard.h). With heads (n_heads above 0) columns are those of
 * n_heads heads of head_dim. Head h of x goes to place h % n_kv_heads * (n_heads / n_kv_heads) +
 * h / n_kv_heads first, and with `inverse` comes back from there last. */
enum { TERN_HADAMARD_X, TERN_HADAMARD_SIGNS /* [1][cols] */, TERN_HADAMARD_INPUTS };

/* Each run of 2 * head_dim columns of x[t] is a head's: the first half goes to out[t], the second to gate[t]. */
enum { TERN_SPLIT_X, TERN_SPLIT_GATE /* written */, TERN_SPLIT_INPUTS };

/* Recurrent ops read and write the states of sequences (TERN_VALUE_RECURRENT, TERN_PARAM_STATES). The rows of one
 * sequence follow each other in a step; the state of a sequence at position 0 is zeros.
 *
 * CONV: out[t][c] = silu(sum over k of weight[c][k] * x[t - K + 1 + k][c]), k < K = the weight's columns; rows before
 * the step's are those of the state, [K - 1][cols], oldest first. */
enum {
    TERN_CONV_X,
    TERN_CONV_WEIGHT,
    TERN_CONV_POSITIONS,
    TERN_CONV_SEQUENCES,
    TERN_CONV_STATES,
    TERN_CONV_STATE, /* written */
    TERN_CONV_INPUTS
};

/* The gated delta rule (arXiv:2412.06464), for n_heads heads of values; head_dim: of keys; qkv[t] has n_kv_heads heads
 * of q, as many of k, then the values. For head h, with its head of q and k (op->tiled_heads):
 *   S = S * exp(decay[h] * softplus(a[t][h] + dt[h])); d = (v - S^T k) * sigmoid(b[t][h]); S += k d^T; out = S^T q
 * with S [head_dim][dim of values] from the state [n_heads][head_dim][dim of values]. */
enum {
    TERN_GATED_DELTA_QKV,
    TERN_GATED_DELTA_A,
    TERN_GATED_DELTA_B,
    TERN_GATED_DELTA_DECAY, /* [1][n_heads], as the next */
    TERN_GATED_DELTA_DT,
    TERN_GATED_DELTA_POSITIONS,
    TERN_GATED_DELTA_SEQUENCES,
    TERN_GATED_DELTA_STATES,
    TERN_GATED_DELTA_STATE, /* written */
    TERN_GATED_DELTA_INPUTS
};

/* out[t] = act(gate[t]) * up[t]; a gate of one column is that of all columns */
enum { TERN_GATE_GATE, TERN_GATE_UP, TERN_GATE_INPUTS };

/* out[t] = a[t] + b[t] */
enum { TERN_ADD_A, TERN_ADD_B, TERN_ADD_INPUTS };

/* out[t * n_routes + j] = (expert, the f32 bits of its weight), u32, rows ROUTED: the n_routes experts of token t with
 * the highest logits, highest first (tern_ref_route); weights by route_rule. */
enum { TERN_ROUTE_LOGITS, TERN_ROUTE_INPUTS };

/* out[t] = sum over j, in order, of weight_j * y[t * n_routes + j], weights of routes (+ residual[t]) */
enum { TERN_COMBINE_Y, TERN_COMBINE_ROUTES, TERN_COMBINE_INPUTS };

/* out[i] = x[outputs[i]] */
enum { TERN_GATHER_X, TERN_GATHER_OUTPUTS, TERN_GATHER_INPUTS };

/* out[t] = concat_r(x[t] of rank r), r < n_ranks: on every rank, the columns that each of them has made */
enum { TERN_ALL_GATHER_X, TERN_ALL_GATHER_INPUTS };

/* The rows of x that a step has go to the stage `peer`, whose RECEIVE makes them its out. */
enum { TERN_SEND_X, TERN_SEND_INPUTS };
enum { TERN_RECEIVE_INPUTS };

/* Chooses a token from logits[0], or TERN_SAMPLE_NOT_FINITE, and gets the next step ready (tern_sample_params); out:
 * the tokens. With each_row: out[r] of logits[r] (tern_sample_row), and no next step. */
enum {
    TERN_SAMPLE_LOGITS,
    TERN_SAMPLE_COUNTS, /* written, as the next three are */
    TERN_SAMPLE_IDS,
    TERN_SAMPLE_POSITIONS,
    TERN_SAMPLE_SAMPLER,
    TERN_SAMPLE_INPUTS
};

/* out[t][c] = x[t][c] / (1 - p), or 0: tern_ref_dropout, index t * cols + c; its own backward. */
enum { TERN_DROPOUT_X, TERN_DROPOUT_TRAINING, TERN_DROPOUT_INPUTS };

/* out[t] = x[t] + blend * (int8(x[t]) / s - x[t]) */
enum { TERN_FAKE_QUANTIZE_X, TERN_FAKE_QUANTIZE_TRAINING, TERN_FAKE_QUANTIZE_INPUTS };

/* Training: every step has max_tokens rows, one packed batch (SEQ_STARTS). `residual` is added to out where it is
 * there.
 *
 * out[t] = attention of t to rows starts[t] .. t; statistics [2 * n_heads]: the softmax's maximum of each head, then
 * its sum of each. */
enum {
    TERN_VARLEN_ATTENTION_Q,
    TERN_VARLEN_ATTENTION_K,
    TERN_VARLEN_ATTENTION_V,
    TERN_VARLEN_ATTENTION_STARTS,
    TERN_VARLEN_ATTENTION_STATISTICS, /* written by the forward */
    TERN_VARLEN_ATTENTION_INPUTS,
    /* of VARLEN_ATTENTION_BACKWARD besides, whose out is the gradient of q */
    TERN_VARLEN_ATTENTION_OUT = TERN_VARLEN_ATTENTION_INPUTS,
    TERN_VARLEN_ATTENTION_DOUT,
    TERN_VARLEN_ATTENTION_DK, /* written */
    TERN_VARLEN_ATTENTION_DV, /* written */
    TERN_VARLEN_ATTENTION_BACKWARD_INPUTS,
    /* and, where the sinks are trained, their gradient: += */
    TERN_VARLEN_ATTENTION_DSINKS = TERN_VARLEN_ATTENTION_BACKWARD_INPUTS /* written */
};

/* CONV over the rows of the step itself: each document begins with zeros. VARLEN_CONV_BACKWARD: out = dx; dweight +=,
 * or missing (4 inputs: the weight is frozen). */
enum {
    TERN_VARLEN_CONV_X,
    TERN_VARLEN_CONV_WEIGHT,
    TERN_VARLEN_CONV_STARTS,
    TERN_VARLEN_CONV_INPUTS,
    /* of VARLEN_CONV_BACKWARD besides */
    TERN_VARLEN_CONV_DOUT = TERN_VARLEN_CONV_INPUTS,
    TERN_VARLEN_CONV_DWEIGHT, /* written */
    TERN_VARLEN_CONV_BACKWARD_INPUTS
};

/* GATED_DELTA in the same way, of q, k and v by themselves. states: the state before each TERN_DELTA_CHUNK-th row of
 * the step. Its numbers lie in the rows of that chunk in turn; row c * TERN_DELTA_CHUNK + i has numbers i * cols to
 * (i + 1) * cols - 1. The state of a chunk that is not whole in the step is not kept. The backward: out = dq; dk, dv,
 * da and db are written; ddecay (with op->log_decay of A_log) and ddt +=, or TERN_NO_VALUE: it is frozen, or missing
 * (14 inputs: both are). */
enum {
    TERN_VARLEN_GATED_DELTA_Q,
    TERN_VARLEN_GATED_DELTA_K,
    TERN_VARLEN_GATED_DELTA_V,
    TERN_VARLEN_GATED_DELTA_A,
    TERN_VARLEN_GATED_DELTA_B,
    TERN_VARLEN_GATED_DELTA_DECAY,
    TERN_VARLEN_GATED_DELTA_DT,
    TERN_VARLEN_GATED_DELTA_STARTS,
    TERN_VARLEN_GATED_DELTA_STATES, /* written by the forward */
    TERN_VARLEN_GATED_DELTA_INPUTS,
    /* of VARLEN_GATED_DELTA_BACKWARD besides */
    TERN_VARLEN_GATED_DELTA_DOUT = TERN_VARLEN_GATED_DELTA_INPUTS,
    TERN_VARLEN_GATED_DELTA_DK, /* written, as all that follow */
    TERN_VARLEN_GATED_DELTA_DV,
    TERN_VARLEN_GATED_DELTA_DA,
    TERN_VARLEN_GATED_DELTA_DB,
    TERN_VARLEN_GATED_DELTA_DDECAY,
    TERN_VARLEN_GATED_DELTA_DDT,
    TERN_VARLEN_GATED_DELTA_BACKWARD_INPUTS
};

/* out = the gradient of SPLIT's x, from those of its two results. */
enum { TERN_SPLIT_BACKWARD_DOUT, TERN_SPLIT_BACKWARD_DGATE, TERN_SPLIT_BACKWARD_INPUTS };

/* out[t] = loss of row t; the logits become their gradients, times loss_weight. A label that is not a row of the
 * vocabulary is not in the loss; the host checks labels (and ids) before. */
enum {
    TERN_CROSS_ENTROPY_LOGITS, /* written */
    TERN_CROSS_ENTROPY_LABELS,
    TERN_CROSS_ENTROPY_TRAINING,
    TERN_CROSS_ENTROPY_INPUTS
};

/* out[t] = W^T dy[t] (+ residual[t]). With a route, dy has rows ROUTED, of which each has the part of its expert; out
 * of rows ROUTED: out[r] = W_e^T dy[r] (+ residual[r]); of rows TOKENS: out[t] = (residual[t] or 0) + W_e^T dy[r] +
 * ..., r = t * n_routes + j, in order of j. */
enum { TERN_LINEAR_DX_DY, TERN_LINEAR_DX_W, TERN_LINEAR_DX_INPUTS };

/* dW += sum_t dy[t] x[t]^T, x f32 or int8. With a route, dy has rows ROUTED, and what each adds goes to the rows of its
 * expert; x is of rows ROUTED, or of rows TOKENS: that of the row's token. */
enum { TERN_LINEAR_DW_DY, TERN_LINEAR_DW_X, TERN_LINEAR_DW_DW /* written */, TERN_LINEAR_DW_INPUTS };

/* dbias += sum_t dy[t]; with a route dbias is [n_experts][R], and dy[r] is added to the row of its expert */
enum { TERN_BIAS_BACKWARD_DY, TERN_BIAS_BACKWARD_DBIAS /* written */, TERN_BIAS_BACKWARD_INPUTS };

/* Groups of columns as RMS_NORM. out[t] = dx (+ residual[t]); dweight += its sum over t. dweight may be missing (3
 * inputs: the weight is frozen), or out (TERN_NO_VALUE: nothing below is trained). */
enum {
    TERN_NORM_BACKWARD_X,
    TERN_NORM_BACKWARD_WEIGHT,
    TERN_NORM_BACKWARD_DY,
    TERN_NORM_BACKWARD_DWEIGHT, /* written */
    TERN_NORM_BACKWARD_INPUTS
};

/* The backward of SCALE with a soft cap: out[t] = dy[t] * (1 - (y / softcap)^2) * scale, y made of x[t] again. */
enum { TERN_SOFTCAP_BACKWARD_X, TERN_SOFTCAP_BACKWARD_DY, TERN_SOFTCAP_BACKWARD_INPUTS };

/* out = dgate; dup is written. A gate of one column: dgate = act'(gate) * (dy . up), dup = act(gate) * dy */
enum {
    TERN_GATE_BACKWARD_GATE,
    TERN_GATE_BACKWARD_UP,
    TERN_GATE_BACKWARD_DY,
    TERN_GATE_BACKWARD_DUP, /* written */
    TERN_GATE_BACKWARD_INPUTS
};

/* out[t] = the gradient of the logits of ROUTE (+ residual[t]), from that of the weights of its routes: dweights[r],
 * rows ROUTED of one column. Which experts are chosen has no gradient. */
enum {
    TERN_ROUTE_BACKWARD_LOGITS,
    TERN_ROUTE_BACKWARD_ROUTES,
    TERN_ROUTE_BACKWARD_DWEIGHTS,
    TERN_ROUTE_BACKWARD_INPUTS
};

/* Rows ROUTED, r of token t: out[r] = weight of the route * dout[t], or out is TERN_NO_VALUE (nothing below is
 * trained); dweights[r] = dout[t] . y[r], or missing (3 inputs: nothing of the router is trained). */
enum {
    TERN_COMBINE_BACKWARD_Y,
    TERN_COMBINE_BACKWARD_ROUTES,
    TERN_COMBINE_BACKWARD_DOUT,
    TERN_COMBINE_BACKWARD_DWEIGHTS, /* written */
    TERN_COMBINE_BACKWARD_INPUTS
};

/* dW[ids[t]] += dy[t] */
enum {
    TERN_EMBED_BACKWARD_DY,
    TERN_EMBED_BACKWARD_IDS,
    TERN_EMBED_BACKWARD_DW /* written */,
    TERN_EMBED_BACKWARD_INPUTS
};

/* For each weight, once a step. SUM_SQUARES: out = sum of g^2 (one f32); with `clears` the gradient becomes 0. */
enum { TERN_SUM_SQUARES_GRADIENT, TERN_SUM_SQUARES_INPUTS };

/* The optimiser's step; the gradient becomes 0. m and v are there as the optimiser needs them; TRAINING is the last.
 * All but it are written. */
enum { TERN_UPDATE_WEIGHT /* or its master */, TERN_UPDATE_GRADIENT, TERN_UPDATE_M, TERN_UPDATE_V };

/* out = ternary codes and scale of the master; into dense F32 weights: master + blend * (scale * code - master) */
enum { TERN_REQUANTIZE_MASTER /* written when clamp > 0 */, TERN_REQUANTIZE_TRAINING, TERN_REQUANTIZE_INPUTS };

#endif
