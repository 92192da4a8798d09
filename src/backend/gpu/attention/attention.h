/* The choice of attention kernels: a pure function of the device and the shape. */
#ifndef TERN_BACKEND_GPU_ATTENTION_H
#define TERN_BACKEND_GPU_ATTENTION_H

#include "backend/gpu/gpu.h"

typedef struct tern_gpu_attention_shape {
    uint32_t head_dim, n_heads, n_kv_heads;
    uint32_t max_tokens;    /* the largest step */
    uint32_t max_positions; /* of a sequence */
    bool kv_f32;
} tern_gpu_attention_shape;

typedef struct tern_gpu_attention_choice {
    tern_gpu_pipeline pipeline; /* TERN_GPU_PIPELINE_COUNT: none fits */
    bool tiled;                 /* attention_tiled; otherwise attention_decode */
    uint32_t heads;             /* query heads of a workgroup; tiled: of a tile */
    uint32_t head_blocks;       /* workgroups for the query heads of a KV head */
    /* attention_decode */
    uint32_t splits;   /* workgroups for the positions, a power of two */
    uint32_t min_span; /* positions that one of them takes before a second one gets any */
    bool merge; /* the last workgroup to arrive merges; otherwise, with more than one split, attention_combine does */
    /* attention_tiled */
    uint32_t tokens; /* of a tile */
} tern_gpu_attention_choice;

tern_gpu_attention_choice tern_gpu_select_attention(const tern_gpu_attention_shape *shape, const tern_gpu_caps *caps);

/* Shared by lower.c and lower_rope.c. */
tern_status tern_gpu__lower_rope(tern_gpu_program *p, const tern_op *op, tern_error *err); /* ROPE, KV_WRITE, ROPE_KV */
/* Errors: UNSUPPORTED, when a cache is larger than a binding of the device. */
tern_status tern_gpu__check_cache(const tern_gpu_program *p, const tern_op *op, uint32_t cache, tern_error *err);
/* The error of a head dimension that no kernel takes. */
tern_status tern_gpu__no_head(const tern_op *op, tern_error *err);

#endif
