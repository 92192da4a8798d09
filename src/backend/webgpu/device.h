/* Inside the WebGPU backend. */
#ifndef TERN_BACKEND_WEBGPU_DEVICE_H
#define TERN_BACKEND_WEBGPU_DEVICE_H

#include "backend/counters.h"
#include "backend/gpu/choices.h"
#include "backend/gpu/layout.h"
#include "backend/gpu/program.h"
#include "backend/webgpu/host.h"
#include "backend/webgpu/webgpu.h"

enum { TERN_WEBGPU_BOUNCE_BYTES = 8 << 20 };

/* Bytes of the device, in parts of part_bytes each (the last may have fewer): weights that are larger than one
 * GPUBuffer have whole slices of their layout in each, all else is one part. */
struct tern_buffer {
    uint64_t bytes, padded; /* as asked for, and whole 256 bytes */
    uint64_t part_bytes;
    tern_gpu_layout layout; /* of a weight; rows 0: it is none */
    uint32_t n_parts;
    uint32_t parts[];
};

/* A read that was started, and how much of it is there. */
typedef struct tern_webgpu_read {
    const tern_buffer *buffer; /* NULL: none */
    uint64_t offset, bytes, done;
    void *data;
} tern_webgpu_read;

typedef struct tern_webgpu {
    tern_backend base;
    tern_webgpu_host_device host;
    tern_gpu_caps caps;
    tern_gpu_choices choices; /* that caps have */
    tern_webgpu_read reading;
    tern_buffer *nothing[TERN_GPU_MAX_BINDINGS];
    bool pipelines[TERN_GPU_PIPELINE_COUNT];
    uint8_t *bounce; /* where rows are packed */
    tern_backend_counters counters;
} tern_webgpu;

static inline tern_webgpu *tern_webgpu__self(tern_backend *b)
{
    return (tern_webgpu *)b;
}

/* The device's complaints since the last call; a lost device always does. */
tern_status tern_webgpu__check(tern_error *err);

/* buffer.c */
/* The place at an offset: a part, and where in it. No range that is bound or written crosses a part. */
tern_webgpu_host_range tern_webgpu__range(const tern_buffer *buffer, uint64_t offset, uint64_t bytes);
tern_status tern_webgpu__buffer_make(tern_webgpu *gpu, uint64_t bytes, uint64_t part_bytes, const char *name,
                                     tern_buffer **out, tern_error *err);
void tern_webgpu__buffer_free(tern_webgpu *gpu, tern_buffer *buffer);
tern_status tern_webgpu__buffer_write(tern_webgpu *gpu, tern_buffer *buffer, uint64_t offset, const void *data,
                                      uint64_t bytes, tern_error *err);
void tern_webgpu__read_cancel(tern_webgpu *gpu);
tern_status tern_webgpu__buffer_read(tern_webgpu *gpu, const tern_buffer *buffer, uint64_t offset, void *data,
                                     uint64_t bytes, tern_error *err);

/* weight.c */
tern_status tern_webgpu__make_room(tern_webgpu *gpu, const tern_weight *w, tern_buffer **out, tern_error *err);
tern_status tern_webgpu__weight_write(tern_webgpu *gpu, tern_buffer *buffer, const tern_weight *part, uint32_t first,
                                      tern_error *err);

/* prepare.c */
struct tern_prepared {
    const tern_graph *graph;
    tern_gpu_program program;
    tern_buffer *scratch;
    uint32_t handle;
    uint32_t n_layer_dispatches;
    uint64_t weight_bytes;
};

tern_status tern_webgpu__prepare(tern_webgpu *gpu, const tern_graph *graph, const tern_binding *bindings,
                                 tern_prepared **out, tern_error *err);
void tern_webgpu__prepared_free(tern_webgpu *gpu, tern_prepared *prepared);
tern_status tern_webgpu__run(tern_webgpu *gpu, tern_prepared *prepared, uint32_t n_steps, tern_error *err);

#endif
