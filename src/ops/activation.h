/* The activation functions of a feed-forward network's gate. */
#ifndef TERN_OPS_ACTIVATION_H
#define TERN_OPS_ACTIVATION_H

/* relu(x)^2; x * sigmoid(x); x * Phi(x) in its tanh form; GPT-OSS's x * sigmoid(1.702 x) of a clamped x, whose product
 * with the other half, clamped as well and plus one, has a limit (ops/ref/ref.h); Maple's x * sigmoid(x) of a clamped
 * x, times the other half, clamped as well. */
typedef enum tern_activation {
    TERN_ACT_RELU2,
    TERN_ACT_SILU,
    TERN_ACT_GELU,
    TERN_ACT_SWIGLU_OAI, /* from here on with a limit */
    TERN_ACT_SWIGLU_CLAMPED,
    TERN_ACT_SIGMOID /* of GATE alone: an output gate, not one of a feed-forward network */
} tern_activation;

#endif
