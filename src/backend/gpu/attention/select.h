/* The choice of attention kernels: a pure function of the device and the shape. */
#ifndef TERN_BACKEND_GPU_ATTENTION_SELECT_H
#define TERN_BACKEND_GPU_ATTENTION_SELECT_H

#include "backend/gpu/pipelines.h"

enum { TERN_GPU_MAX_CACHE_SLICES = 32 };

/* The kind of a cache: the kernels come in as many kinds. */
typedef enum tern_gpu_kv { TERN_GPU_KV_F16, TERN_GPU_KV_F32, TERN_GPU_KV_BLOCKS, TERN_GPU_KV_KINDS } tern_gpu_kv;

typedef struct tern_gpu_attention_shape {
    uint32_t head_dim, n_heads, n_kv_heads;
    uint32_t max_tokens;    /* the largest step */
    uint32_t max_positions; /* of a sequence that a token sees */
    tern_gpu_kv kv;
    uint32_t n_slices; /* bindings that each cache takes, 1 to TERN_GPU_MAX_CACHE_SLICES */
} tern_gpu_attention_shape;

typedef struct tern_gpu_attention_choice {
    tern_gpu_pipeline pipeline; /* TERN_GPU_PIPELINE_COUNT: none fits */
    bool tiled;                 /* attention_tiled or attention_coop; otherwise attention_decode */
    uint32_t heads;             /* query heads of a workgroup; tiled: of a tile */
    uint32_t head_blocks;       /* workgroups for the query heads of a KV head */
    /* attention_decode; attention_tiled: 1 and the least, for attention_combine */
    uint32_t splits;   /* workgroups for the positions, a power of two */
    uint32_t min_span; /* positions that one of them takes before a second one gets any */
    bool merge; /* the last workgroup to arrive merges; otherwise, with several splits or slices, attention_combine */
    /* attention_tiled */
    uint32_t tokens; /* of a tile */
} tern_gpu_attention_choice;

tern_gpu_attention_choice tern_gpu_select_attention(const tern_gpu_attention_shape *shape, const tern_gpu_caps *caps);

#endif
