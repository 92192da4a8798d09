/* Inside the Vulkan backend: an open device, its memory, uploads, pipelines, and prepared graphs. All functions want
 * the lock held. */
#ifndef TERN_BACKEND_VULKAN_DEVICE_H
#define TERN_BACKEND_VULKAN_DEVICE_H

#include "backend/counters.h"
#include "backend/gpu/choices.h"
#include "backend/gpu/program.h"
#include "backend/gpu/workers.h"
#include "backend/vulkan/order.h"
#include "backend/vulkan/physical.h"

/* Whom memory is for. */
typedef enum tern_vulkan_use {
    TERN_VULKAN_DEVICE,  /* the device; mapped as well where memory is unified */
    TERN_VULKAN_SHARED,  /* written by the host before each run, read by the device */
    TERN_VULKAN_UPLOAD,  /* written by the host once, copied by the device */
    TERN_VULKAN_READBACK /* written by the device, read by the host */
} tern_vulkan_use;

typedef struct tern_vulkan_block tern_vulkan_block;

/* A piece of a block. mapped is NULL where the host cannot see it. */
typedef struct tern_vulkan_piece {
    tern_vulkan_block *block;
    VkDeviceMemory memory;
    uint64_t offset, bytes;
    uint8_t *mapped;
    bool coherent, cached;
} tern_vulkan_piece;

struct tern_buffer {
    VkBuffer handle;
    tern_vulkan_piece memory;
    uint64_t bytes, padded; /* as asked for, and as allocated: whole 256 bytes */
    tern_buffer *mirror;    /* of a small output: a copy for the host, made at the end of a run */
    uint64_t mirror_offset; /* where the copied part starts */
    bool mirror_fresh;
    tern_gpu_layout layout; /* of a weight */
};

enum { TERN_VULKAN_UPLOAD_SLOTS = 3, TERN_VULKAN_UPLOAD_BYTES = 16 << 20 };

/* One of the staging buffers that uploads go through in turn: while the device copies from one, the next is filled. */
typedef struct tern_vulkan_slot {
    tern_buffer *staging;
    VkCommandBuffer commands;
    VkFence fence;
    uint64_t used;
    bool recording, submitted;
    tern_vulkan_hazards hazards;
} tern_vulkan_slot;

/* Storage bindings of a kernel: those that lowering fills, and the counters of a waiting one. */
enum { TERN_VULKAN_MAX_BINDINGS = TERN_GPU_MAX_BINDINGS + 1 };

/* The facts that a SPIR-V module states. */
typedef struct tern_vulkan_module {
    uint32_t local_size_x; /* of its workgroups */
    uint32_t writes;       /* bit i: storage binding i may be written */
    uint32_t coherent;     /* bit i: storage binding i is coherent */
} tern_vulkan_module;

tern_status tern_vulkan__module_of(tern_vulkan_module *module, const uint32_t *words, size_t n, tern_error *err);

typedef struct tern_vulkan {
    tern_backend base;
    tern_vulkan_instance instance;
    tern_vulkan_functions fn;
    tern_vulkan_physical physical;
    tern_gpu_caps caps;
    tern_gpu_choices choices; /* that caps have */
    bool unified, profile, validation;
    bool waits;           /* kernels that wait are used: the device has passed the trial */
    pthread_mutex_t lock; /* sessions take turns */
    VkDevice device;
    VkQueue queue;
    VkCommandPool command_pool;
    tern_gpu_workers workers;
    /* memory.c */
    tern_vulkan_block *blocks;
    uint32_t n_allocations;
    uint64_t held_bytes;
    /* upload.c */
    tern_vulkan_slot slots[TERN_VULKAN_UPLOAD_SLOTS];
    uint32_t slot;
    VkCommandBuffer download_commands;
    VkFence download_fence;
    tern_buffer *download_staging;
    /* pipeline.c */
    VkDescriptorSetLayout set_layouts[TERN_VULKAN_MAX_BINDINGS + 1]; /* by the number of storage bindings */
    VkPipelineLayout layouts[TERN_VULKAN_MAX_BINDINGS + 1];
    VkPipeline pipelines[TERN_GPU_PIPELINE_COUNT];
    tern_vulkan_module modules[TERN_GPU_PIPELINE_COUNT]; /* of the pipelines that are made */
    VkPipelineCache cache;
    char *cache_path;     /* NULL: none is kept */
    uint64_t cache_bytes; /* of the file as it was read */
    uint32_t n_unsaved;   /* pipelines made since */
    /* selftest.c */
    uint8_t proven[TERN_GPU_PIPELINE_COUNT];
    char *proof_path; /* NULL: not kept */
    /* run.c */
    VkFence run_fence;
    tern_prepared *running; /* submitted and not yet waited for */
    uint32_t running_steps;
    VkCommandBuffer *submission; /* one for each step and what follows them */
    tern_error lost;             /* once the device is lost: every call's answer */
    bool hangs;                  /* lost because it never finished: what it may still use is never destroyed */
    tern_backend_counters counters;
    /* profile.c */
    tern_profile_row *rows;
    size_t n_rows, cap_rows;
} tern_vulkan;

static inline tern_vulkan *tern_vulkan__self(tern_backend *b)
{
    return (tern_vulkan *)b;
}

/* device.c */
tern_status tern_vulkan__device_open(tern_vulkan *vk, const tern_vulkan_options *options, tern_error *err);
void tern_vulkan__device_close(tern_vulkan *vk);
/* TERN_OK, or the error that `what` gave; remembers a lost device. */
tern_status tern_vulkan__check(tern_vulkan *vk, VkResult result, const char *what, tern_error *err);
/* TERN_OK, or why the device cannot be used any more. */
tern_status tern_vulkan__alive(const tern_vulkan *vk, tern_error *err);
tern_status tern_vulkan__fence_create(tern_vulkan *vk, VkFence *fence, tern_error *err);
tern_status tern_vulkan__commands_create(tern_vulkan *vk, VkCommandBuffer *commands, tern_error *err);
tern_status tern_vulkan__begin(tern_vulkan *vk, VkCommandBuffer commands, VkCommandBufferUsageFlags usage,
                               tern_error *err);
tern_status tern_vulkan__submit(tern_vulkan *vk, const VkCommandBuffer *commands, uint32_t n, VkFence fence,
                                tern_error *err);
/* Waits at most `seconds`; a device that needs longer counts as lost. Resets the fence. */
tern_status tern_vulkan__fence_wait(tern_vulkan *vk, VkFence fence, uint64_t seconds, tern_error *err);
/* Waits, if need be, until the earlier run is done. */
tern_status tern_vulkan__idle(tern_vulkan *vk, tern_error *err);

/* memory_type.c, memory.c */
/* The type that suits the use best, of those whose bits are set; UINT32_MAX: none does. */
uint32_t tern_vulkan__memory_type(const VkPhysicalDeviceMemoryProperties *memory, bool unified, tern_vulkan_use use,
                                  uint32_t bits);
tern_status tern_vulkan__allocate(tern_vulkan *vk, tern_vulkan_use use, const VkMemoryRequirements *need,
                                  tern_vulkan_piece *out, tern_error *err);
void tern_vulkan__release(tern_vulkan *vk, tern_vulkan_piece *piece);
/* Bytes that are free for buffers of the device, as the driver says, or of its heap what is not held here. */
uint64_t tern_vulkan__memory_free(const tern_vulkan *vk);
/* The host's writes become visible to the device, and the other way round; for pieces that are mapped. */
tern_status tern_vulkan__flush(tern_vulkan *vk, const tern_vulkan_piece *piece, tern_error *err);
tern_status tern_vulkan__invalidate(tern_vulkan *vk, const tern_vulkan_piece *piece, tern_error *err);

/* buffer.c */
/* A buffer whose content is undefined. */
tern_status tern_vulkan__buffer_make(tern_vulkan *vk, uint64_t bytes, tern_vulkan_use use, tern_buffer **out,
                                     tern_error *err);
tern_status tern_vulkan__buffer_zero(tern_vulkan *vk, tern_buffer *buffer, tern_error *err);
void tern_vulkan__buffer_free(tern_vulkan *vk, tern_buffer *buffer);
tern_status tern_vulkan__buffer_write(tern_vulkan *vk, tern_buffer *buffer, uint64_t offset, const void *data,
                                      uint64_t bytes, tern_error *err);
tern_status tern_vulkan__buffer_read(tern_vulkan *vk, const tern_buffer *buffer, uint64_t offset, void *data,
                                     uint64_t bytes, tern_error *err);
/* Moves a buffer's content to memory that the host sees as well; no prepared graph may use it yet. */
tern_status tern_vulkan__buffer_share(tern_vulkan *vk, tern_buffer *buffer, tern_error *err);
/* Gives a small output its mirror. */
tern_status tern_vulkan__buffer_mirror(tern_vulkan *vk, tern_buffer *buffer, uint64_t offset, uint64_t bytes,
                                       tern_error *err);

/* weight.c */
tern_status tern_vulkan__weight_make(tern_vulkan *vk, const tern_weight *w, tern_buffer **out, tern_error *err);
/* backend.h: weight_write. */
tern_status tern_vulkan__weight_write(tern_vulkan *vk, tern_buffer *buffer, const tern_weight *part, uint32_t first,
                                      tern_error *err);

/* upload.c */
/* Room for `bytes` bytes (at most TERN_VULKAN_UPLOAD_BYTES) that the host may fill until the next call of this file;
 * they go to the buffer's offset. */
tern_status tern_vulkan__upload_reserve(tern_vulkan *vk, tern_buffer *buffer, uint64_t offset, uint64_t bytes,
                                        uint8_t **at, tern_error *err);
tern_status tern_vulkan__upload(tern_vulkan *vk, tern_buffer *buffer, uint64_t offset, const void *data, uint64_t bytes,
                                tern_error *err);
tern_status tern_vulkan__upload_zeros(tern_vulkan *vk, tern_buffer *buffer, tern_error *err);
/* Submits what was gathered; what is submitted later comes after it. */
tern_status tern_vulkan__upload_flush(tern_vulkan *vk, tern_error *err);
/* Flushes and waits. */
tern_status tern_vulkan__upload_wait(tern_vulkan *vk, tern_error *err);
tern_status tern_vulkan__download(tern_vulkan *vk, const tern_buffer *buffer, uint64_t offset, void *data,
                                  uint64_t bytes, tern_error *err);
void tern_vulkan__upload_close(tern_vulkan *vk);

/* pipeline.c, cache.c */
/* Makes the pipelines of a program that are not there yet. */
tern_status tern_vulkan__pipelines(tern_vulkan *vk, const tern_gpu_program *program, tern_error *err);
void tern_vulkan__pipelines_close(tern_vulkan *vk);
/* Opens the pipeline cache, with what an earlier start has left; a file that is damaged or another driver's is as none.
 */
tern_status tern_vulkan__cache_open(tern_vulkan *vk, const char *folder, tern_error *err);
/* Writes it when pipelines were added. A failure here is not an error. */
void tern_vulkan__cache_save(tern_vulkan *vk);

/* selftest.c */
/* Reads which kernels an earlier start has proven. */
void tern_vulkan__proofs_open(tern_vulkan *vk, const char *folder);
/* Whether the trial of waits was passed, then or now. */
bool tern_vulkan__waits_proven(const tern_vulkan *vk);
void tern_vulkan__prove_waits(tern_vulkan *vk);
/* The functions that graph/trial needs of this backend. */
extern const tern_backend_trial tern_vulkan__trial;
/* weight_read.c */
tern_status tern_vulkan__weight_read(tern_backend *b, const tern_buffer *buffer, const tern_weight *weight,
                                     tern_weight *out, tern_error *err);

/* environment.c */
/* Adds TERN_VULKAN_VALIDATION, TERN_VULKAN_STAGED and TERN_VULKAN_WAITS. */
void tern_vulkan__environment(tern_vulkan_options *options);
/* The user's folder for caches, in storage of tern_alloc; NULL: there is none. */
char *tern_vulkan__cache_folder(void);

/* order.c */
/* Puts kernels that wait in the place of those that have such twins, before pipelines are made. */
void tern_vulkan__take_waiting(const tern_vulkan *vk, tern_gpu_program *program);
/* Decides prepared->places, when the pipelines are made and all but the counters is bound; makes the counters and binds
 * them. */
tern_status tern_vulkan__put_in_order(tern_vulkan *vk, tern_prepared *prepared, tern_error *err);
/* After a run: whether nobody has waited in vain. Errors: INTERNAL. */
tern_status tern_vulkan__check_waits(tern_vulkan *vk, const tern_prepared *prepared, tern_error *err);

/* waits.c */
/* Decides vk->waits: as asked for, or by default, where the device passes the trial. Errors: UNSUPPORTED (asked for,
 * and it does not), and what running gives. */
tern_status tern_vulkan__waits_open(tern_vulkan *vk, tern_vulkan_waits asked, tern_error *err);
/* Runs a chain of dispatches that wait. Errors: UNSUPPORTED with what the device got wrong. */
tern_status tern_vulkan__try_waits(tern_vulkan *vk, tern_error *err);

/* prepare.c, record.c */
void tern_vulkan__barrier(tern_vulkan *vk, VkCommandBuffer commands, VkPipelineStageFlags from, VkAccessFlags written,
                          VkPipelineStageFlags to, VkAccessFlags used);
typedef struct tern_vulkan_bound {
    tern_buffer *buffer;
    uint64_t offset, bytes;
} tern_vulkan_bound;

struct tern_prepared {
    const tern_graph *graph;
    tern_gpu_program program;
    tern_vulkan_bound (*bound)[TERN_VULKAN_MAX_BINDINGS]; /* [program.n]: where each dispatch's bindings are */
    tern_vulkan_place *places;                            /* [program.n] */
    tern_buffer *scratch, *nothing;
    tern_buffer *waits, *waits_at_start; /* the slots, then the word that says that somebody waited in vain; what
                                          * the slots are at a step's start. NULL: no dispatch waits */
    VkDescriptorPool descriptor_pool;
    VkDescriptorSet *sets;       /* [program.n] */
    VkCommandBuffer step, after; /* one step; what makes its results readable */
    tern_buffer **mirrored;
    uint32_t n_mirrored;
    uint32_t n_barriers, n_layer_dispatches, n_layer_barriers; /* of a step */
    uint64_t weight_bytes;
    VkQueryPool queries; /* program.n + 1 timestamps, when profiling */
    uint64_t *ticks;
};

tern_status tern_vulkan__prepare(tern_vulkan *vk, const tern_graph *graph, const tern_binding *bindings,
                                 tern_prepared **out, tern_error *err);
/* As above, from dispatches; takes the program over, also when it fails. */
tern_status tern_vulkan__prepare_program(tern_vulkan *vk, tern_gpu_program *program, const tern_binding *bindings,
                                         tern_prepared **out, tern_error *err);
void tern_vulkan__prepared_free(tern_vulkan *vk, tern_prepared *prepared);
/* Records prepared->step and prepared->after. */
tern_status tern_vulkan__record(tern_vulkan *vk, tern_prepared *prepared, tern_error *err);

/* run.c */
tern_status tern_vulkan__run(tern_vulkan *vk, tern_prepared *prepared, uint32_t n_steps, tern_error *err);

/* measure.c */
/* As measure in backend.h; 0 when it fails. */
double tern_vulkan__measure(tern_vulkan *vk, tern_measure what, tern_buffer *const *buffers, size_t n, double seconds);

/* profile.c */
tern_status tern_vulkan__profile_open(tern_vulkan *vk, tern_prepared *prepared, tern_error *err);
/* Reads a finished step's timestamps into the counters. */
tern_status tern_vulkan__profile_take(tern_vulkan *vk, tern_prepared *prepared, tern_error *err);

#endif
