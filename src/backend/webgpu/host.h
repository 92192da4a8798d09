/* Functions that JavaScript provides for the WebGPU backend: host.js hands these calls on to web/lib/gpu.js. None
 * waits. Buffers, pipelines and programs are numbers above 0; sizes and offsets in bytes are multiples of 4, those that
 * can pass 4 GiB are doubles. Failures on the device are known later: tern_webgpu_host_failure. */
#ifndef TERN_BACKEND_WEBGPU_HOST_H
#define TERN_BACKEND_WEBGPU_HOST_H

#include <stdint.h>

#include "backend/gpu/pipelines.h"

/* Filled by gpu.js word by word: keep both in step. */
typedef struct tern_webgpu_host_device {
    uint32_t subgroup_min, subgroup_max; /* 0: none, or their sizes are not known */
    uint32_t workgroup_bytes, workgroup_invocations, max_groups;
    uint32_t max_binding, max_buffer; /* bytes, at most 4 GiB - 256 */
    char name[128];
} tern_webgpu_host_device;

/* One storage binding: bytes of a buffer. */
typedef struct tern_webgpu_host_range {
    uint32_t buffer, offset, bytes;
} tern_webgpu_host_range;

typedef struct tern_webgpu_host_dispatch {
    uint32_t pipeline;
    uint32_t groups[3];
    uint32_t n_bindings;
    tern_webgpu_host_range bindings[TERN_GPU_MAX_BINDINGS];
    uint32_t uniform[TERN_GPU_UNIFORM_WORDS];
} tern_webgpu_host_dispatch;

/* 0: JavaScript has given no device. */
uint32_t tern_webgpu_host_open(tern_webgpu_host_device *device);
/* The first thing that went wrong since this was last asked: its message, and a tern_status (0: nothing did). A lost
 * device is never forgotten. */
uint32_t tern_webgpu_host_failure(char *message, uint32_t cap);

uint32_t tern_webgpu_host_buffer_create(uint32_t bytes); /* zeroed */
void tern_webgpu_host_buffer_free(uint32_t buffer);
void tern_webgpu_host_buffer_write(uint32_t buffer, uint32_t offset, const void *data, uint32_t bytes);
/* Starts a read, one at a time; finish: 1 when its bytes are in `into`, from the skip-th on; 0: not yet. */
void tern_webgpu_host_read_start(uint32_t buffer, uint32_t offset, uint32_t bytes);
uint32_t tern_webgpu_host_read_finish(void *into, uint32_t skip, uint32_t bytes);
/* Forgets a read that was started. */
void tern_webgpu_host_read_stop(void);
/* 1: all that was submitted is done. */
uint32_t tern_webgpu_host_done(void);

/* Makes pipeline `which` of the table. */
void tern_webgpu_host_pipeline(uint32_t which, const char *name, const char *file, const char *signature,
                               const char *overrides, uint32_t needs);
uint32_t tern_webgpu_host_program_create(const tern_webgpu_host_dispatch *dispatches, uint32_t n);
void tern_webgpu_host_program_free(uint32_t program);
/* Several steps are one submit; the first is one of its own, so that the device works while the next are being encoded.
 * How many submits there were. */
uint32_t tern_webgpu_host_run(uint32_t program, uint32_t n_steps);

#endif
