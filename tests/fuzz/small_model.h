/* A model of one layer with a window, for fuzzers of what keys and values are saved in. */
#ifndef TERN_TESTS_FUZZ_SMALL_MODEL_H
#define TERN_TESTS_FUZZ_SMALL_MODEL_H

#include <stdio.h>

#include "format/gguf.h"
#include "fuzz/fuzz.h"
#include "quant/encoding.h"

enum { VOCAB = 8, DIM = 16, FF = 16, CTX = 160, WINDOW = 4 };

static tern_error setup; /* of what does not depend on the input */
#define NEED(call)                                                                                                     \
    do {                                                                                                               \
        if ((call) == TERN_OK) break;                                                                                  \
        fprintf(stderr, "%s\n", setup.message);                                                                        \
        abort();                                                                                                       \
    } while (0)

static const struct {
    const char *name;
    uint32_t rows, cols;
} tensors[] = {
    {"token_embd.weight", VOCAB, DIM},      {"output_norm.weight", 0, DIM},     {"blk.0.attn_norm.weight", 0, DIM},
    {"blk.0.attn_q.weight", DIM, DIM},      {"blk.0.attn_k.weight", DIM, DIM},  {"blk.0.attn_v.weight", DIM, DIM},
    {"blk.0.attn_output.weight", DIM, DIM}, {"blk.0.ffn_norm.weight", 0, DIM},  {"blk.0.ffn_gate.weight", FF, DIM},
    {"blk.0.ffn_up.weight", FF, DIM},       {"blk.0.ffn_down.weight", DIM, FF},
};
enum { N_TENSORS = sizeof tensors / sizeof *tensors };

static void add_keys(tern_gguf_writer *w)
{
    static const struct {
        const char *key;
        uint32_t value;
    } keys[] = {{"llama.vocab_size", VOCAB},
                {"llama.context_length", CTX},
                {"llama.embedding_length", DIM},
                {"llama.block_count", 1},
                {"llama.feed_forward_length", FF},
                {"llama.attention.head_count", 2},
                {"llama.attention.sliding_window", WINDOW}};
    NEED(tern_gguf_add_string(w, "general.architecture", "llama", 5, &setup));
    NEED(tern_gguf_add_f32(w, "llama.attention.layer_norm_rms_epsilon", 1e-5f, &setup));
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        NEED(tern_gguf_add_u32(w, keys[i].key, keys[i].value, &setup));
}

static tern_buf write_model(void)
{
    tern_buf out = {0};
    tern_gguf_writer *w;
    float values[FF * DIM];
    NEED(tern_gguf_writer_open_memory(&w, &out, &setup));
    add_keys(w);
    for (size_t i = 0; i < N_TENSORS; i++)
        NEED(tern_gguf_add_tensor(w, tensors[i].name, TERN_ENC_F32,
                                  (const uint64_t[]){tensors[i].cols, tensors[i].rows}, tensors[i].rows ? 2 : 1,
                                  &setup));
    NEED(tern_gguf_writer_begin_data(w, &setup));
    for (size_t i = 0; i < N_TENSORS; i++) {
        const size_t n = (tensors[i].rows ? tensors[i].rows : 1) * (size_t)tensors[i].cols;
        for (size_t k = 0; k < n; k++) values[k] = tensors[i].rows ? (float)((k * 7 + i) % 11) * 0.1f - 0.5f : 1;
        NEED(tern_gguf_writer_data(w, values, n * sizeof *values, &setup));
    }
    NEED(tern_gguf_writer_commit(w, &setup));
    return out;
}

#endif
