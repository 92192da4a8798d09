#!/usr/bin/env python3
"""Writes tiny models of random weights with golden logits, for families that have no other oracle here.

A plain forward pass in double precision, from the published configuration of each family, its modeling file in
transformers and the papers (Qwen 2: arXiv:2407.10671, biases of q, k and v; LLaMA with attention_bias has one of o,
too; Qwen 3: arXiv:2505.09388, a norm of each head of q and k; Mistral: arXiv:2310.06825, a window; Gemma 3:
arXiv:2503.19786; Phi-3 with LongRoPE: arXiv:2404.14219 and arXiv:2402.13753; Granite, SmolLM3 and Maple: their model
cards; BitNet embeddings: a norm before each linear layer, ternary weights and 8-bit inputs, as microsoft/BitNet's
conversion and transformers' BitLinear with use_rms_norm have them; experts and YaRN: arXiv:2401.04088,
arXiv:2309.00071). It shares no code with Tern. Usage: make.py [FOLDER
[FAMILY ...]]; the same numbers each time.
"""
import json
import math
import os
import random
import struct
import sys

SHAPE = dict(vocab_size=512, hidden_size=64, num_hidden_layers=3, num_attention_heads=4, num_key_value_heads=2,
             intermediate_size=80, max_position_embeddings=128, rms_norm_eps=1e-6)
SMALLER = SHAPE | dict(vocab_size=256)
FAMILIES = {
    "qwen2": SHAPE | dict(architectures=["Qwen2ForCausalLM"], model_type="qwen2", hidden_act="silu",
                          rope_theta=1000000.0, tie_word_embeddings=False, use_sliding_window=False,
                          sliding_window=32768, head_dim=None),
    "qwen3": SHAPE | dict(architectures=["Qwen3ForCausalLM"], model_type="qwen3", hidden_act="silu",
                          rope_theta=1000000.0, tie_word_embeddings=True, attention_bias=False, head_dim=24),
    "mistral": SMALLER | dict(architectures=["MistralForCausalLM"], model_type="mistral", hidden_act="silu",
                              rope_theta=10000.0, tie_word_embeddings=False, sliding_window=7, head_dim=None),
    "phi3": SMALLER | dict(architectures=["Phi3ForCausalLM"], model_type="phi3", hidden_act="silu", rope_theta=10000.0,
                           tie_word_embeddings=False, sliding_window=17, partial_rotary_factor=0.75, head_dim=None,
                           original_max_position_embeddings=64,
                           rope_scaling=dict(type="longrope", short_factor=[1.0, 1.0625, 1.125, 1.25, 1.375, 1.5],
                                             long_factor=[1.25, 1.5, 2.0, 3.0, 6.0, 9.5])),
    "granite": SMALLER | dict(architectures=["GraniteForCausalLM"], model_type="granite", hidden_act="silu",
                              rope_theta=10000.0, tie_word_embeddings=True, attention_bias=False, mlp_bias=False,
                              embedding_multiplier=12.0, attention_multiplier=0.0625, residual_multiplier=0.22,
                              logits_scaling=8.0, head_dim=None),
    "smollm3": SMALLER | dict(architectures=["SmolLM3ForCausalLM"], model_type="smollm3", hidden_act="silu",
                              rope_theta=5000000.0, num_hidden_layers=5, tie_word_embeddings=True,
                              attention_bias=False, mlp_bias=False, no_rope_layer_interval=4,
                              no_rope_layers=[1, 1, 1, 0, 1], sliding_window=None, use_sliding_window=False,
                              head_dim=None),
    # what the larger Gemma 3 models leave out of their text_config has the default of its class (GEMMA3)
    "gemma3-parts": dict(architectures=["Gemma3ForConditionalGeneration"], model_type="gemma3",
                         text_config=dict(model_type="gemma3_text", vocab_size=256, hidden_size=64,
                                          num_hidden_layers=7, intermediate_size=80, num_attention_heads=4,
                                          num_key_value_heads=2, head_dim=24, query_pre_attn_scalar=40,
                                          max_position_embeddings=128, sliding_window=6,
                                          rope_scaling=dict(rope_type="linear", factor=8.0)),
                         vision_config=dict(model_type="siglip_vision_model", hidden_size=32)),
    "qwen3moe": SMALLER | dict(architectures=["Qwen3MoeForCausalLM"], model_type="qwen3_moe", hidden_act="silu",
                               rope_theta=10000.0, tie_word_embeddings=True, attention_bias=False, head_dim=24,
                               num_hidden_layers=2, num_experts=6, num_experts_per_tok=3, moe_intermediate_size=32,
                               norm_topk_prob=False, decoder_sparse_step=1, mlp_only_layers=[],
                               rope_scaling=dict(rope_type="yarn", factor=4.0,
                                                 original_max_position_embeddings=32)),
    "qwen3-bitnet": SMALLER | dict(architectures=["Qwen3Model"], model_type="qwen3", hidden_act="silu",
                                   rope_theta=1000000.0, tie_word_embeddings=True, attention_bias=False, head_dim=24,
                                   num_hidden_layers=2),
    "gemma3-bitnet": SMALLER | dict(architectures=["Gemma3TextModel"], model_type="gemma3_text",
                                    hidden_activation="gelu_pytorch_tanh", rope_theta=1000000.0,
                                    rope_local_base_freq=10000.0, tie_word_embeddings=True, head_dim=24,
                                    query_pre_attn_scalar=24, sliding_window=6, sliding_window_pattern=3,
                                    quantization_config=dict(quant_method="bitnet", linear_class="autobitlinear",
                                                             quantization_mode="online", use_rms_norm=True,
                                                             rms_norm_eps=1e-6)),
    "llama-heads": SMALLER | dict(architectures=["LlamaForCausalLM"], model_type="llama", hidden_act="silu",
                                  rope_theta=10000.0, tie_word_embeddings=True, attention_bias=False, mlp_bias=False,
                                  num_hidden_layers=2, hidden_size=80, head_dim=None),
    "maple": SMALLER | dict(architectures=["MapleForCausalLM"], model_type="maple", hidden_act="silu",
                            rope_theta=10000.0, partial_rotary_factor=0.5, tie_word_embeddings=False, use_qk_norm=True,
                            head_dim=24, num_hidden_layers=5, sliding_window=6, nope_on_global_attention=True,
                            layer_types=["sliding_attention"] * 3 + ["full_attention", "sliding_attention"],
                            num_experts=8, num_experts_per_tok=3, moe_intermediate_size=16, norm_topk_prob=True,
                            num_shared_experts=0),
    "llama-biases": SMALLER | dict(architectures=["LlamaForCausalLM"], model_type="llama", hidden_act="silu",
                                   rope_theta=10000.0, tie_word_embeddings=False, attention_bias=True, mlp_bias=False,
                                   num_hidden_layers=2, head_dim=None),
}
GEMMA3 = dict(rms_norm_eps=1e-6, rope_theta=1000000.0, rope_local_base_freq=10000.0, tie_word_embeddings=True,
              hidden_activation="gelu_pytorch_tanh", sliding_window_pattern=6)
MAPLE_LIMIT = 7  # of the halves of its gate, a number of its modeling file


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
        self.random, self.weights, self.tensors = random.Random(seed), {}, []
        self.gemma = config["model_type"].startswith("gemma3")
        parts = "text_config" in config
        self.prefix = "language_model." if parts else ""
        self.bare = config["architectures"][0].endswith("Model")  # no head, and names without "model."
        self.in_norm = None  # the name of norms before linear layers, which are ternary then
        if self.bare:
            self.in_norm = ".rms_norm" if "quantization_config" in config else ".norm"
        self.config = c = GEMMA3 | config["text_config"] if parts else config
        self.heads, self.kv_heads, n, ff = (c["num_attention_heads"], c["num_key_value_heads"], c["hidden_size"],
                                            c["intermediate_size"])
        self.dim = c["head_dim"] or n // self.heads
        self.rotated = int(self.dim * c.get("partial_rotary_factor", 1))
        q, kv = self.heads * self.dim, self.kv_heads * self.dim
        one = 0 if self.gemma else 1  # Gemma stores its norms less 1
        joined, self.maple = c["model_type"] == "phi3", c["model_type"] == "maple"
        self.embedding = "model.word_embeddings" if self.maple else "model.embed_tokens"
        self.add(self.embedding + ".weight", [c["vocab_size"], n])
        for i in range(c["num_hidden_layers"]):
            at = f"model.layers.{i}."
            self.add(at + "input_layernorm.weight", [n], one)
            if joined:
                self.add(at + "self_attn.qkv_proj.weight", [q + 2 * kv, n])
                self.cut(at + "self_attn.%s_proj.weight", at + "self_attn.qkv_proj.weight",
                         (("q", q), ("k", kv), ("v", kv)))
            for name, rows in () if joined else (("q", q), ("k", kv), ("v", kv)):
                self.add(f"{at}self_attn.{name}_proj.weight", [rows, n])
                if c["model_type"] == "qwen2" or c.get("attention_bias"):
                    self.add(f"{at}self_attn.{name}_proj.bias", [rows])
            if c["model_type"].startswith("qwen3") or self.gemma or self.maple:
                self.add(at + "self_attn.q_norm.weight", [self.dim], one)
                self.add(at + "self_attn.k_norm.weight", [self.dim], one)
            self.add(at + "self_attn.o_proj.weight", [n, q])
            if c.get("attention_bias"):
                self.add(at + "self_attn.o_proj.bias", [n])
            self.add(at + "post_attention_layernorm.weight", [n], one)
            if self.gemma:
                self.add(at + "pre_feedforward_layernorm.weight", [n], one)
                self.add(at + "post_feedforward_layernorm.weight", [n], one)
            if joined:
                self.add(at + "mlp.gate_up_proj.weight", [2 * ff, n])
                self.cut(at + "mlp.%s_proj.weight", at + "mlp.gate_up_proj.weight", (("gate", ff), ("up", ff)))
            elif "num_experts" in c:
                self.add_experts(at, n)
            else:
                self.add(at + "mlp.gate_proj.weight", [ff, n])
                self.add(at + "mlp.up_proj.weight", [ff, n])
            if "num_experts" not in c:
                self.add(at + "mlp.down_proj.weight", [n, ff])
        self.add("model.norm.weight", [n], one)
        if not c["tie_word_embeddings"]:
            self.add("lm_head.weight", [c["vocab_size"], n])
        if parts:  # not read
            self.prefix = ""
            self.add("vision_tower.vision_model.encoder.layers.0.mlp.fc1.bias", [8])
            self.add("multi_modal_projector.mm_input_projection_weight", [8, 8])

    def add_experts(self, at, n):
        ff = self.config["moe_intermediate_size"]
        self.add(at + "mlp.gate.weight", [self.config["num_experts"], n])
        for e in range(self.config["num_experts"]):
            self.add(f"{at}mlp.experts.{e}.gate_proj.weight", [ff, n])
            self.add(f"{at}mlp.experts.{e}.up_proj.weight", [ff, n])
            self.add(f"{at}mlp.experts.{e}.down_proj.weight", [n, ff])

    def ternary_row(self, name, n):
        """Maple's: a scale times -1, 0 (of either sign) or 1; gates and ups are large enough to meet the limit."""
        scale = self.random.uniform(0.2, 0.9) if name.endswith(("gate_proj.weight", "up_proj.weight")) else 0.1
        return [scale * self.random.choice((-1, -0.0, 0, 1, 1, -1)) for _ in range(n)]

    def add(self, name, shape, middle=0):
        """Rows of numbers around `middle`, as bfloat16 holds them."""
        rows, bits, ternary = [], [], self.maple and name.endswith("_proj.weight")
        for _ in range(shape[0] if len(shape) > 1 else 1):
            row = [bf16(v) for v in self.ternary_row(name, shape[-1])] if ternary else [
                bf16(middle + self.random.gauss(0, 0.1)) for _ in range(shape[-1])]
            rows.append([value for value, _ in row])
            bits += [b for _, b in row]
        self.weights[name] = rows if len(shape) > 1 else rows[0]
        own = name.removeprefix("model.") if self.bare else self.prefix + name
        self.tensors.append((own, "BF16", shape, struct.pack(f"<{len(bits)}H", *bits)))

        if self.in_norm and name.endswith("_proj.weight"):
            self.add(name.removesuffix(".weight") + self.in_norm + ".weight", [shape[-1]], 1)
            mean = math.fsum(abs(w) for row in rows for w in row) / (shape[0] * shape[1])
            self.weights[name] = [[mean * max(-1, min(1, round(w / mean))) for w in row] for row in rows]

    def cut(self, names, joined, parts):
        """Rows of a stored matrix that are matrices of their own."""
        first = 0
        for part, rows in parts:
            self.weights[names % part] = self.weights[joined][first:first + rows]
            first += rows

    def linear(self, name, x):
        if self.in_norm and name.endswith("_proj"):
            x = self.norm(name + self.in_norm, x, 0)
            step = max(abs(v) for v in x) / 127
            x = [step * round(v / step) for v in x]
        y = [math.fsum(a * b for a, b in zip(row, x)) for row in self.weights[name + ".weight"]]
        bias = self.weights.get(name + ".bias")
        return [a + b for a, b in zip(y, bias)] if bias else y

    def norm(self, name, x, offset=None):
        offset = self.gemma if offset is None else offset
        r = 1 / math.sqrt(math.fsum(v * v for v in x) / len(x) + self.config["rms_norm_eps"])
        return [v * r * (w + offset) for v, w in zip(x, self.weights[name + ".weight"])]

    def window(self, layer):
        """How many positions a token of a layer sees, its own included; None: all before it."""
        c = self.config
        if self.gemma and (layer + 1) % c["sliding_window_pattern"] == 0:
            return None
        if self.maple and c["layer_types"][layer] == "full_attention":
            return None
        return c["sliding_window"] if c.get("use_sliding_window", True) and c.get("sliding_window") else None

    def angles(self, layer, position, long):
        """Of the pairs of a head, and what their cosines and sines are multiplied with."""
        c, pairs = self.config, self.rotated // 2
        base, factors, size = c["rope_theta"], [1] * pairs, 1
        scaling = c.get("rope_scaling") or {}
        if c.get("no_rope_layers") and not c["no_rope_layers"][layer]:
            return [0] * pairs, 1
        if self.maple and not self.window(layer):
            return [0] * pairs, 1
        if self.gemma and self.window(layer):
            base, scaling = c["rope_local_base_freq"], {}
        if scaling.get("rope_type") == "yarn":
            size = 0.1 * math.log(scaling["factor"]) + 1
            factors = [1 / (1 - r + r / scaling["factor"]) for r in self.ramp(scaling, base, pairs)]
        elif "factor" in scaling:
            factors = [scaling["factor"]] * pairs
        if "long_factor" in scaling:
            original = c["original_max_position_embeddings"]
            factors = scaling["long_factor" if long else "short_factor"]
            size = math.sqrt(1 + math.log(c["max_position_embeddings"] / original) / math.log(original))
        return [position * base**(-2 * i / self.rotated) / factors[i] for i in range(pairs)], size

    def ramp(self, scaling, base, pairs):
        """YaRN: 0 of pairs that turn 32 times and more in the original context, 1 of those that turn once or less."""
        def pair(turns):
            waves = scaling["original_max_position_embeddings"] / (turns * 2 * math.pi)
            return self.rotated * math.log(waves) / (2 * math.log(base))
        low, high = max(math.floor(pair(32)), 0), min(math.ceil(pair(1)), self.rotated - 1)
        return [min(max((i - low) / (high - low), 0), 1) for i in range(pairs)]

    def heads_of(self, layer, which, x, position, long):
        """Rows of one head each, normed where the family does, then turned by their position (split halves)."""
        at, half, out = f"model.layers.{layer}.", self.rotated // 2, []
        y = self.linear(f"{at}self_attn.{which}_proj", x)
        angles, size = self.angles(layer, position, long)
        for h in range(0, len(y), self.dim):
            head = y[h:h + self.dim]
            if f"{at}self_attn.{which}_norm.weight" in self.weights:
                head = self.norm(f"{at}self_attn.{which}_norm", head)
            out.append([(head[i] * math.cos(a) - head[i + half] * math.sin(a)) * size for i, a in enumerate(angles)] +
                       [(head[i + half] * math.cos(a) + head[i] * math.sin(a)) * size for i, a in enumerate(angles)] +
                       head[2 * half:])
        return out

    def attention(self, layer, rows, long):
        c, at = self.config, f"model.layers.{layer}."
        q = [self.heads_of(layer, "q", x, t, long) for t, x in enumerate(rows)]
        k = [self.heads_of(layer, "k", x, t, long) for t, x in enumerate(rows)]
        v = [self.linear(at + "self_attn.v_proj", x) for x in rows]
        scale = c.get("attention_multiplier") or 1 / math.sqrt(c.get("query_pre_attn_scalar") or self.dim)
        window, out = self.window(layer), []
        for t in range(len(rows)):
            y, seen = [], range(max(0, t + 1 - window) if window else 0, t + 1)
            for h in range(self.heads):
                g = h * self.kv_heads // self.heads
                s = [sum(a * b for a, b in zip(q[t][h], k[j][g])) * scale for j in seen]
                p = [math.exp(x - max(s)) for x in s]
                y += [math.fsum(p[i] * v[j][g * self.dim + d] for i, j in enumerate(seen)) / math.fsum(p)
                      for d in range(self.dim)]
            out.append(self.linear(at + "self_attn.o_proj", y))
        return out

    def activation(self, x):
        if self.gemma:
            return 0.5 * x * (1 + math.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))
        return x / (1 + math.exp(-x))

    def ffn(self, at, x):
        gate, up = self.linear(at + "gate_proj", x), self.linear(at + "up_proj", x)
        if self.maple:
            gate, up = [min(g, MAPLE_LIMIT) for g in gate], [max(-MAPLE_LIMIT, min(MAPLE_LIMIT, u)) for u in up]
        return self.linear(at + "down_proj", [self.activation(g) * u for g, u in zip(gate, up)])

    def experts(self, at, x):
        """The sum of those with the highest scores, each times its share of the softmax over all."""
        scores = self.linear(at + "gate", x)
        shares = [math.exp(s - max(scores)) for s in scores]
        chosen = sorted(range(len(scores)), key=lambda e: (-scores[e], e))[:self.config["num_experts_per_tok"]]
        whole = math.fsum(shares[e] for e in chosen) if self.config["norm_topk_prob"] else math.fsum(shares)
        made = [[shares[e] / whole * y for y in self.ffn(f"{at}experts.{e}.", x)] for e in chosen]
        return [math.fsum(parts) for parts in zip(*made)]

    def layer(self, i, rows, long):
        at, factor = f"model.layers.{i}.", self.config.get("residual_multiplier", 1)
        made = self.attention(i, [self.norm(at + "input_layernorm", x) for x in rows], long)
        if self.gemma:
            made = [self.norm(at + "post_attention_layernorm", y) for y in made]
        rows = [[a + factor * b for a, b in zip(x, y)] for x, y in zip(rows, made)]
        before = "pre_feedforward_layernorm" if self.gemma else "post_attention_layernorm"
        ffn = self.experts if "num_experts" in self.config else self.ffn
        made = [ffn(at + "mlp.", self.norm(at + before, x)) for x in rows]
        if self.gemma:
            made = [self.norm(at + "post_feedforward_layernorm", y) for y in made]
        return [[a + factor * b for a, b in zip(x, y)] for x, y in zip(rows, made)]

    def forward(self, ids, long=False):
        """The logits of all tokens, and the hidden states: the embedding's, each layer's, the last one normed."""
        c = self.config
        scale = math.sqrt(c["hidden_size"]) if self.gemma else c.get("embedding_multiplier", 1)
        rows = [[scale * x for x in self.weights[self.embedding + ".weight"][i]] for i in ids]
        hidden = [rows]
        for i in range(c["num_hidden_layers"]):
            rows = self.layer(i, rows, long)
            hidden.append(rows)
        hidden[-1] = [self.norm("model.norm", x) for x in rows]
        head = self.embedding if c["tie_word_embeddings"] else "lm_head"
        return [[y / c.get("logits_scaling", 1) for y in self.linear(head, x)] for x in hidden[-1]], hidden


def floats(rows):
    return b"".join(struct.pack(f"<{len(row)}f", *row) for row in rows)


def golden(model, long=False):
    """As the other goldens: three inputs, the hidden states of the first, 8 tokens and 24 greedy ones after them."""
    vocab, tensors = model.config["vocab_size"], []
    for i, n in enumerate((5, 12, 20)):
        ids = [model.random.randrange(vocab) for _ in range(n)]
        logits, hidden = model.forward(ids, long)
        tensors.append((f"{i}.input_ids", "I32", [n], struct.pack(f"<{n}i", *ids)))
        tensors.append((f"{i}.logits", "F32", [n, vocab], floats(logits)))
        if i == 0:
            shape = [len(hidden), n, model.config["hidden_size"]]
            tensors.append(("0.hidden", "F32", shape, b"".join(floats(rows) for rows in hidden)))
    ids, margins = [model.random.randrange(vocab) for _ in range(8)], []
    for _ in range(24):
        last = model.forward(ids, long)[0][-1]
        best = sorted(last)[-2:]
        margins.append(best[1] - best[0])
        ids.append(last.index(best[1]))
    tensors.append(("greedy.ids", "I32", [len(ids)], struct.pack(f"<{len(ids)}i", *ids)))
    tensors.append(("greedy.margins", "F32", [len(margins)], struct.pack(f"<{len(margins)}f", *margins)))
    return tensors


def main():
    folder = sys.argv[1] if len(sys.argv) > 1 else os.path.dirname(os.path.abspath(__file__))
    for seed, (name, config) in enumerate(FAMILIES.items()):
        if sys.argv[2:] and name not in sys.argv[2:]:
            continue
        model = Model(config, seed + 1)
        os.makedirs(os.path.join(folder, name), exist_ok=True)
        with open(os.path.join(folder, name, "config.json"), "w") as file:
            json.dump({key: value for key, value in config.items() if value is not None}, file, indent=1)
            file.write("\n")
        save(os.path.join(folder, name, "model.safetensors"), model.tensors)
        long = "long_factor" in (config.get("rope_scaling") or {})  # of contexts beyond the original one
        save(os.path.join(folder, name, "golden.safetensors"), golden(model, long))
        if long:
            save(os.path.join(folder, name, "golden_short.safetensors"), golden(Model(config, seed + 1)))


main()
