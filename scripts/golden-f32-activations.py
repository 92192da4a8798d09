#!/usr/bin/env python3
"""Writes tests/data/activations/bitnet_f32.safetensors: the logits of a BitNet model whose ternary layers are multiplied
with f32 activations (W1.58A32).

    scripts/golden-f32-activations.py FOLDER OUT     FOLDER: a tiny BitNetForCausalLM with golden.safetensors beside it

Plain Python in double precision, written from the formulas of docs/architecture.md and sharing nothing with Tern. Before
it writes anything it computes the same model with int8 activations and compares that with the folder's golden logits,
which are PyTorch's. Positions behind the first at which a rounding falls the other way are not compared."""
import array
import json
import math
import struct
import sys
from operator import itemgetter


def read(path):
    with open(path, "rb") as f:
        data = f.read()
    (n,) = struct.unpack("<Q", data[:8])
    out = {}
    for name, t in json.loads(data[8:8 + n]).items():
        if name == "__metadata__":
            continue
        raw = data[8 + n + t["data_offsets"][0]:8 + n + t["data_offsets"][1]]
        if t["dtype"] == "BF16":
            halves = array.array("H", raw)
            values = array.array("f", struct.pack(f"<{len(halves)}I", *(h << 16 for h in halves)))
        else:
            values = array.array({"F32": "f", "I32": "i"}[t["dtype"]], raw)
        out[name] = (t["shape"], list(values))
    return out


def rows(tensor):
    (n, cols), values = tensor
    return [values[r * cols:(r + 1) * cols] for r in range(n)]


class Ternary:
    """Codes round(w / scale) cut to -1 .. 1, scale = mean |w|; kept as the columns that are added and subtracted."""

    def __init__(self, tensor):
        values = tensor[1]
        self.scale = max(sum(map(abs, values)) / len(values), 1e-5)
        self.rows = []
        for row in rows(tensor):
            codes = [max(-1, min(1, round(w / self.scale))) for w in row]
            self.rows.append(tuple(self.picker([c for c, v in enumerate(codes) if v == sign]) for sign in (1, -1)))

    @staticmethod
    def picker(columns):
        if len(columns) < 2:
            return lambda x: [x[c] for c in columns]
        return itemgetter(*columns)

    def multiply(self, x, int8):
        factor = self.scale
        if int8:
            inverse = 127 / max(max(map(abs, x)), 1e-5)
            x = [max(-128, min(127, round(v * inverse))) for v in x]
            factor /= inverse
        return [(math.fsum(plus(x)) - math.fsum(minus(x))) * factor for plus, minus in self.rows]


def norm(x, weight, eps):
    factor = 1 / math.sqrt(sum(v * v for v in x) / len(x) + eps)
    return [v * factor * w for v, w in zip(x, weight)]


def rotate(x, position, head_dim, theta):
    out, half = list(x), head_dim // 2
    for first in range(0, len(x), head_dim):
        for i in range(half):
            angle = position * theta ** (-2 * i / head_dim)
            a, b = x[first + i], x[first + half + i]
            out[first + i] = a * math.cos(angle) - b * math.sin(angle)
            out[first + half + i] = b * math.cos(angle) + a * math.sin(angle)
    return out


def attend(q, keys, values, config, head_dim):
    group, out = config["num_attention_heads"] // config["num_key_value_heads"], []
    for h in range(config["num_attention_heads"]):
        at = h // group * head_dim
        mine = q[h * head_dim:(h + 1) * head_dim]
        scores = [sum(a * b for a, b in zip(mine, k[at:at + head_dim])) / math.sqrt(head_dim) for k in keys]
        most = max(scores)
        shares = [math.exp(s - most) for s in scores]
        total = sum(shares)
        for c in range(head_dim):
            out.append(sum(s * v[at + c] for s, v in zip(shares, values)) / total)
    return out


class Model:
    def __init__(self, folder):
        with open(f"{folder}/config.json", encoding="utf-8") as f:
            self.config = json.load(f)
        tensors = read(f"{folder}/model.safetensors")
        self.embedding = rows(tensors["model.embed_tokens.weight"])
        self.norm = tensors["model.norm.weight"][1]
        self.layers = []
        for i in range(self.config["num_hidden_layers"]):
            prefix = f"model.layers.{i}."
            self.layers.append({name[len(prefix):-len(".weight")]: Ternary(t) if len(t[0]) == 2 else t[1]
                                for name, t in tensors.items() if name.startswith(prefix)})

    def logits(self, ids, int8):
        c = self.config
        eps, theta = c["rms_norm_eps"], c["rope_theta"]
        head_dim = c["hidden_size"] // c["num_attention_heads"]
        caches = [([], []) for _ in self.layers]
        for position, token in enumerate(ids):
            x = self.embedding[token]
            for w, (keys, values) in zip(self.layers, caches):
                n = norm(x, w["input_layernorm"], eps)
                q = rotate(w["self_attn.q_proj"].multiply(n, int8), position, head_dim, theta)
                keys.append(rotate(w["self_attn.k_proj"].multiply(n, int8), position, head_dim, theta))
                values.append(w["self_attn.v_proj"].multiply(n, int8))
                a = norm(attend(q, keys, values, c, head_dim), w["self_attn.attn_sub_norm"], eps)
                x = [u + v for u, v in zip(x, w["self_attn.o_proj"].multiply(a, int8))]
                n = norm(x, w["post_attention_layernorm"], eps)
                gate, up = w["mlp.gate_proj"].multiply(n, int8), w["mlp.up_proj"].multiply(n, int8)
                h = norm([max(g, 0) ** 2 * u for g, u in zip(gate, up)], w["mlp.ffn_sub_norm"], eps)
                x = [u + v for u, v in zip(x, w["mlp.down_proj"].multiply(h, int8))]
            n = norm(x, self.norm, eps)
            yield [sum(a * b for a, b in zip(n, row)) for row in self.embedding]


def distance(got, want):
    """rms(got - want) / std(want)"""
    mean = sum(want) / len(want)
    return math.sqrt(sum((a - b) ** 2 for a, b in zip(got, want)) / sum((b - mean) ** 2 for b in want))


def write(path, tensors):
    header, data = {}, b""
    for name, (dtype, shape, values) in tensors.items():
        raw = array.array({"F32": "f", "I32": "i"}[dtype], values).tobytes()
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + data)


def main():
    folder, out = sys.argv[1:]
    golden, model, tensors = read(f"{folder}/golden.safetensors"), Model(folder), {}
    for i in (0, 1):
        ids, want = golden[f"{i}.input_ids"][1], golden[f"{i}.logits"][1]
        rows = list(model.logits(ids, int8=True))
        width = len(rows[0])
        apart = [distance(row, want[t * width:(t + 1) * width]) for t, row in enumerate(rows)]
        n = next((t for t, x in enumerate(apart) if x > 1e-5), len(ids))
        print(f"input {i}: int8 activations, against PyTorch: {max(apart[:n], default=0):.3g} in {n} of {len(ids)} rows")
        if n < min(5, len(ids)):
            sys.exit("this is not the model that PyTorch computed")
        check = [v for row in rows for v in row]
        logits = [v for row in model.logits(ids, int8=False) for v in row]
        print(f"input {i}: f32 activations, against int8: {distance(logits, check):.3g}")
        tensors[f"{i}.input_ids"] = ("I32", [len(ids)], ids)
        tensors[f"{i}.logits"] = ("F32", [len(ids), len(logits) // len(ids)], logits)
    write(out, tensors)


main()
