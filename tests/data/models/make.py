#!/usr/bin/env python3
"""Writes tiny models of random weights with golden logits, for families that have no other oracle here.

A plain forward pass in double precision, from the published configuration of each family and the papers (Qwen 2:
arXiv:2407.10671, biases of q, k and v; Qwen 3: arXiv:2505.09388, a norm of each head of q and k). It shares no code
with Tern. Usage: make.py [FOLDER]; the same numbers each time.
"""
import json
import math
import os
import random
import struct
import sys

SHAPE = dict(vocab_size=512, hidden_size=64, num_hidden_layers=3, num_attention_heads=4, num_key_value_heads=2,
             intermediate_size=80, max_position_embeddings=128, rms_norm_eps=1e-6)
FAMILIES = {
    "qwen2": dict(architectures=["Qwen2ForCausalLM"], model_type="qwen2", hidden_act="silu", rope_theta=1000000.0,
                  tie_word_embeddings=False, use_sliding_window=False, sliding_window=32768, head_dim=None),
    "qwen3": dict(architectures=["Qwen3ForCausalLM"], model_type="qwen3", hidden_act="silu", rope_theta=1000000.0,
                  tie_word_embeddings=True, attention_bias=False, head_dim=24),
}


def bf16(x):
    """x rounded to bfloat16, ties to even: the value and its bits."""
    bits = struct.unpack("<I", struct.pack("<f", x))[0]
    bits = (bits + 0x7fff + (bits >> 16 & 1)) >> 16
    return struct.unpack("<f", struct.pack("<I", bits << 16))[0], bits


def save(path, tensors):
    """A .safetensors file of (name, dtype, shape, bytes)."""
    header, at = {}, 0
    for name, dtype, shape, data in tensors:
        header[name] = dict(dtype=dtype, shape=shape, data_offsets=[at, at + len(data)])
        at += len(data)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + b"".join(t[3] for t in tensors))


class Model:
    def __init__(self, config, seed):
        self.config, self.random, self.weights, self.tensors = config, random.Random(seed), {}, []
        c = self.config
        self.heads, self.kv_heads, n, ff = (c["num_attention_heads"], c["num_key_value_heads"], c["hidden_size"],
                                            c["intermediate_size"])
        self.dim = c["head_dim"] or n // self.heads
        q, kv = self.heads * self.dim, self.kv_heads * self.dim
        self.add("model.embed_tokens.weight", [c["vocab_size"], n])
        for i in range(c["num_hidden_layers"]):
            at = f"model.layers.{i}."
            self.add(at + "input_layernorm.weight", [n], 1)
            for name, rows in (("q", q), ("k", kv), ("v", kv)):
                self.add(f"{at}self_attn.{name}_proj.weight", [rows, n])
                if c["model_type"] == "qwen2":
                    self.add(f"{at}self_attn.{name}_proj.bias", [rows])
            if c["model_type"] == "qwen3":
                self.add(at + "self_attn.q_norm.weight", [self.dim], 1)
                self.add(at + "self_attn.k_norm.weight", [self.dim], 1)
            self.add(at + "self_attn.o_proj.weight", [n, q])
            self.add(at + "post_attention_layernorm.weight", [n], 1)
            self.add(at + "mlp.gate_proj.weight", [ff, n])
            self.add(at + "mlp.up_proj.weight", [ff, n])
            self.add(at + "mlp.down_proj.weight", [n, ff])
        self.add("model.norm.weight", [n], 1)
        if not c["tie_word_embeddings"]:
            self.add("lm_head.weight", [c["vocab_size"], n])

    def add(self, name, shape, middle=0):
        """Rows of numbers around `middle`, as bfloat16 holds them."""
        rows, bits = [], []
        for _ in range(shape[0] if len(shape) > 1 else 1):
            row = [bf16(middle + self.random.gauss(0, 0.1)) for _ in range(shape[-1])]
            rows.append([value for value, _ in row])
            bits += [b for _, b in row]
        self.weights[name] = rows if len(shape) > 1 else rows[0]
        self.tensors.append((name, "BF16", shape, struct.pack(f"<{len(bits)}H", *bits)))

    def linear(self, name, x):
        y = [math.fsum(a * b for a, b in zip(row, x)) for row in self.weights[name + ".weight"]]
        bias = self.weights.get(name + ".bias")
        return [a + b for a, b in zip(y, bias)] if bias else y

    def norm(self, name, x):
        r = 1 / math.sqrt(math.fsum(v * v for v in x) / len(x) + self.config["rms_norm_eps"])
        return [v * r * w for v, w in zip(x, self.weights[name + ".weight"])]

    def heads_of(self, at, which, x, position):
        """Rows of one head each, normed where the family does, then turned by their position (split halves)."""
        y, half, out = self.linear(f"{at}self_attn.{which}_proj", x), self.dim // 2, []
        for h in range(0, len(y), self.dim):
            head = y[h:h + self.dim]
            if f"{at}self_attn.{which}_norm.weight" in self.weights:
                head = self.norm(f"{at}self_attn.{which}_norm", head)
            angles = [position * self.config["rope_theta"]**(-2 * i / self.dim) for i in range(half)]
            out.append([head[i] * math.cos(a) - head[i + half] * math.sin(a) for i, a in enumerate(angles)] +
                       [head[i + half] * math.cos(a) + head[i] * math.sin(a) for i, a in enumerate(angles)])
        return out

    def attention(self, at, rows):
        q = [self.heads_of(at, "q", x, t) for t, x in enumerate(rows)]
        k = [self.heads_of(at, "k", x, t) for t, x in enumerate(rows)]
        v = [self.linear(at + "self_attn.v_proj", x) for x in rows]
        out = []
        for t in range(len(rows)):
            y = []
            for h in range(self.heads):
                g = h * self.kv_heads // self.heads
                s = [sum(a * b for a, b in zip(q[t][h], k[j][g])) / math.sqrt(self.dim) for j in range(t + 1)]
                p = [math.exp(x - max(s)) for x in s]
                y += [math.fsum(p[j] * v[j][g * self.dim + d] for j in range(t + 1)) / math.fsum(p)
                      for d in range(self.dim)]
            out.append(self.linear(at + "self_attn.o_proj", y))
        return out

    def ffn(self, at, x):
        gate, up = self.linear(at + "mlp.gate_proj", x), self.linear(at + "mlp.up_proj", x)
        return self.linear(at + "mlp.down_proj", [g / (1 + math.exp(-g)) * u for g, u in zip(gate, up)])

    def forward(self, ids):
        """The logits of all tokens, and the hidden states: the embedding's, each layer's, the last one normed."""
        rows = [list(self.weights["model.embed_tokens.weight"][i]) for i in ids]
        hidden = [rows]
        for i in range(self.config["num_hidden_layers"]):
            at = f"model.layers.{i}."
            made = self.attention(at, [self.norm(at + "input_layernorm", x) for x in rows])
            rows = [[a + b for a, b in zip(x, y)] for x, y in zip(rows, made)]
            made = [self.ffn(at, self.norm(at + "post_attention_layernorm", x)) for x in rows]
            rows = [[a + b for a, b in zip(x, y)] for x, y in zip(rows, made)]
            hidden.append(rows)
        hidden[-1] = [self.norm("model.norm", x) for x in rows]
        head = "model.embed_tokens" if self.config["tie_word_embeddings"] else "lm_head"
        return [self.linear(head, x) for x in hidden[-1]], hidden


def floats(rows):
    return b"".join(struct.pack(f"<{len(row)}f", *row) for row in rows)


def golden(model):
    """As the other goldens: three inputs, the hidden states of the first, 8 tokens and 24 greedy ones after them."""
    vocab, tensors = model.config["vocab_size"], []
    for i, n in enumerate((5, 12, 20)):
        ids = [model.random.randrange(vocab) for _ in range(n)]
        logits, hidden = model.forward(ids)
        tensors.append((f"{i}.input_ids", "I32", [n], struct.pack(f"<{n}i", *ids)))
        tensors.append((f"{i}.logits", "F32", [n, vocab], floats(logits)))
        if i == 0:
            shape = [len(hidden), n, model.config["hidden_size"]]
            tensors.append(("0.hidden", "F32", shape, b"".join(floats(rows) for rows in hidden)))
    ids, margins = [model.random.randrange(vocab) for _ in range(8)], []
    for _ in range(24):
        last = model.forward(ids)[0][-1]
        best = sorted(last)[-2:]
        margins.append(best[1] - best[0])
        ids.append(last.index(best[1]))
    tensors.append(("greedy.ids", "I32", [len(ids)], struct.pack(f"<{len(ids)}i", *ids)))
    tensors.append(("greedy.margins", "F32", [len(margins)], struct.pack(f"<{len(margins)}f", *margins)))
    return tensors


def main():
    folder = sys.argv[1] if len(sys.argv) > 1 else os.path.dirname(os.path.abspath(__file__))
    for seed, (name, family) in enumerate(FAMILIES.items()):
        config = SHAPE | family
        model = Model(config, seed + 1)
        os.makedirs(os.path.join(folder, name), exist_ok=True)
        with open(os.path.join(folder, name, "config.json"), "w") as file:
            json.dump({key: value for key, value in config.items() if value is not None}, file, indent=1)
            file.write("\n")
        save(os.path.join(folder, name, "model.safetensors"), model.tensors)
        save(os.path.join(folder, name, "golden.safetensors"), golden(model))


main()
