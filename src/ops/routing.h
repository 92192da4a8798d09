/* How the router of a layer with experts chooses for each token. */
#ifndef TERN_OPS_ROUTING_H
#define TERN_OPS_ROUTING_H

/* The weights of a token's chosen experts. */
typedef enum tern_route_rule {
    TERN_ROUTE_SOFTMAX_ALL_NORMED, /* softmax over all experts, over the sum of the chosen ones (Mixtral, Qwen3-MoE) */
    TERN_ROUTE_SOFTMAX_ALL,        /* softmax over all experts, as it is (Qwen3-MoE without norm_topk_prob) */
    TERN_ROUTE_SOFTMAX_TOP         /* softmax over the chosen logits (GPT-OSS) */
} tern_route_rule;

enum {
    TERN_MAX_ROUTES = 16,   /* experts of a token */
    TERN_MAX_EXPERTS = 1024 /* of a layer */
};

#endif
