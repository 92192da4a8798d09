#!/usr/bin/env python3
"""Writes qwen3_5_mtp/golden_mtp.safetensors: what a block that drafts tokens computes.

    mtp.py OUT

Plain Python in double precision, no package and no network. transformers leaves such blocks out, so this is written
from what vLLM (qwen3_next_mtp.py, qwen3_5_mtp.py) and llama.cpp (qwen35.cpp, the graph of its MTP decoder) say of them:

    x = fc [norm(embedding of token i + 1), norm(hidden state of token i, after the model's last norm)]
    one layer of attention and feed-forward, as the model's own; then a norm, and the model's output table

The result behind that norm is the hidden state of the next guess. Hidden states of the model's tokens are those of
transformers, in qwen3_5/golden.safetensors: the model is the same.
"""
import json
import math
import os
import struct
import sys
from array import array

import weights

FAMILY, CHAIN = "qwen3_5_mtp", 3


def floats(name):
    dtype, shape, data = TENSORS[name]
    assert dtype == "BF16", name
    values = weights.bf16_floats(array("H", data))
    if len(shape) == 1:
        return list(values)
    return [list(values[i * shape[1]:(i + 1) * shape[1]]) for i in range(shape[0])]


def dot(a, b):
    return math.fsum(x * y for x, y in zip(a, b))


def linear(matrix, x):
    return [dot(row, x) for row in matrix]


def norm(x, weight):
    """Norms are stored less 1."""
    scale = 1 / math.sqrt(dot(x, x) / len(x) + C["rms_norm_eps"])
    return [v * scale * (1 + w) for v, w in zip(x, weight)]


def rotated(head, position):
    """The first dimensions of a head, in split halves."""
    n = int(C["head_dim"] * C["partial_rotary_factor"])
    half, out = n // 2, list(head)
    for i in range(half):
        angle = position * C["rope_parameters"]["rope_theta"] ** (-2 * i / n)
        a, b = head[i], head[i + half]
        out[i] = a * math.cos(angle) - b * math.sin(angle)
        out[i + half] = b * math.cos(angle) + a * math.sin(angle)
    return out


def sigmoid(v):
    return 1 / (1 + math.exp(-v))


def heads_of(values, dim):
    return [values[i:i + dim] for i in range(0, len(values), dim)]


class Block:
    """The block over a sequence of pairs, one after the other."""

    def __init__(self):
        self.keys, self.values = [], []  # [position][head][dim]
        self.table = floats("model.embed_tokens.weight")
        at = "mtp.layers.0."
        self.w = {name: floats(f"mtp.{name}.weight") for name in ("fc", "norm", "pre_fc_norm_embedding",
                                                                 "pre_fc_norm_hidden")}
        for name in ("input_layernorm", "post_attention_layernorm", "self_attn.q_proj", "self_attn.k_proj",
                     "self_attn.v_proj", "self_attn.o_proj", "self_attn.q_norm", "self_attn.k_norm", "mlp.gate_proj",
                     "mlp.up_proj", "mlp.down_proj"):
            self.w[name] = floats(f"{at}{name}.weight")

    def attention(self, x):
        w, dim = self.w, C["head_dim"]
        position, share = len(self.keys), C["num_attention_heads"] // C["num_key_value_heads"]
        q = heads_of(linear(w["self_attn.q_proj"], x), 2 * dim)  # of each head its own rows, then those of its gate
        k = heads_of(linear(w["self_attn.k_proj"], x), dim)
        self.keys.append([rotated(norm(h, w["self_attn.k_norm"]), position) for h in k])
        self.values.append(heads_of(linear(w["self_attn.v_proj"], x), dim))
        out = []
        for h, both in enumerate(q):
            query, kv = rotated(norm(both[:dim], w["self_attn.q_norm"]), position), h // share
            scores = [dot(query, key[kv]) / math.sqrt(dim) for key in self.keys]
            most = max(scores)
            powers = [math.exp(s - most) for s in scores]
            sums = [math.fsum(p * v[kv][i] for p, v in zip(powers, self.values)) / math.fsum(powers)
                    for i in range(dim)]
            out += [s * sigmoid(g) for s, g in zip(sums, both[dim:])]
        return linear(w["self_attn.o_proj"], out)

    def step(self, hidden, token):
        """Logits and the hidden state of the guess."""
        w = self.w
        pair = norm(self.table[token], w["pre_fc_norm_embedding"]) + norm(hidden, w["pre_fc_norm_hidden"])
        x = linear(w["fc"], pair)
        x = [a + b for a, b in zip(x, self.attention(norm(x, w["input_layernorm"])))]
        y = norm(x, w["post_attention_layernorm"])
        gate, up = linear(w["mlp.gate_proj"], y), linear(w["mlp.up_proj"], y)
        made = linear(w["mlp.down_proj"], [g * sigmoid(g) * u for g, u in zip(gate, up)])
        state = norm([a + b for a, b in zip(x, made)], w["norm"])
        return linear(self.table, state), state


def read(path):
    with open(path, "rb") as file:
        (n,) = struct.unpack("<Q", file.read(8))
        header, data = json.loads(file.read(n)), file.read()
    kinds = {"F32": "f", "I32": "i"}
    return {name: (t["shape"], array(kinds[t["dtype"]], data[slice(*t["data_offsets"])]))
            for name, t in header.items() if name != "__metadata__"}


def put(tensors, name, kind, shape, values):
    tensors.all[name] = ("F32" if kind == "f" else "I32", shape, weights.little(array(kind, values)))


def largest(values):
    return max(range(len(values)), key=values.__getitem__)


def main(out):
    golden = read(os.path.join(weights.HERE, "qwen3_5", "golden.safetensors"))
    (layers, n, width), hidden = golden["0.hidden"]
    rows = heads_of(list(hidden[(layers - 1) * n * width:]), width)
    vocab = C["vocab_size"]
    following = largest(golden["0.logits"][1][(n - 1) * vocab:])
    ids = list(golden["0.input_ids"][1])[1:] + [following]
    block, logits = Block(), []
    for row, token in zip(rows, ids):
        made, state = block.step(row, token)
        logits += made
    guesses = [largest(made)]
    for _ in range(CHAIN):
        made, state = block.step(state, guesses[-1])
        guesses.append(largest(made))
        logits += made
    g = weights.Tensors("")
    put(g, "next", "i", [1], [following])
    put(g, "logits", "f", [n + CHAIN, vocab], logits)
    put(g, "guesses", "i", [CHAIN + 1], guesses)
    path = os.path.join(out, FAMILY, "golden_mtp.safetensors")
    os.makedirs(os.path.dirname(path), exist_ok=True)
    g.write(path)
    print(path, "next", following, "guesses", guesses)


C = weights.config_of(FAMILY)
TENSORS = weights.family(FAMILY).all
if __name__ == "__main__":
    main(sys.argv[1])
