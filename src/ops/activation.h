/* The activation functions of a feed-forward network's gate. */
#ifndef TERN_OPS_ACTIVATION_H
#define TERN_OPS_ACTIVATION_H

/* relu(x)^2; x * sigmoid(x); x * Phi(x) in its tanh form. */
typedef enum tern_activation { TERN_ACT_RELU2, TERN_ACT_SILU, TERN_ACT_GELU } tern_activation;

#endif
