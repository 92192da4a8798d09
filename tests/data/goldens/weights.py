#!/usr/bin/env python3
"""Makes the models of the golden files: weights from a seed, the same bytes on every machine.

    weights.py OUT

OUT/fixtures/FAMILY gets config.json and the golden files beside this script, and model.safetensors; OUT/models gets
the bundled model models/stories.gguf as a folder of bf16 master weights. Random bytes are SHAKE-128 of the tensor's
name; the only arithmetic on them is +, -, * and / in double precision, then one rounding to bfloat16. sums.json has
the SHA-256 of each file: another result is an error. Outputs come from PyTorch and transformers (golden.py).
"""
import hashlib
import json
import math
import os
import shutil
import struct
import sys
from array import array

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(HERE)))
FAMILIES = ("bitnet", "bitnet-packed", "llama", "gemma2", "gemma3", "mixtral", "gpt-oss", "qwen3_5", "qwen3_5_moe",
            "qwen3_5_mtp", "qwen3_next", "bitnet-train")
STORIES = "tiny-stories-bitnet"
ITEM = {"BF16": 2, "F32": 4, "I32": 4, "U8": 1}


def config_of(family):
    with open(os.path.join(HERE, family, "config.json")) as file:
        return json.load(file)


def little(values):
    """The bytes of an array, least significant first."""
    if sys.byteorder == "big":
        values = array(values.typecode, values)
        values.byteswap()
    return values.tobytes()


def stream(name, n):
    return hashlib.shake_128(name.encode()).digest(n)


def words(name, n):
    values = array("H", stream(name, 2 * n))
    if sys.byteorder == "big":
        values.byteswap()
    return values


def bell(u):
    """A number of 16 bits as one with about a normal distribution, at most 4.4 away from 0."""
    t = (2 * u - 65535) / 65536
    return t * (1.16 + 0.096 / (1.03 - t * t))


BELL = [bell(u) for u in range(65536)]


def bf16_bits(values):
    """Numbers rounded to bfloat16, ties to even: an array of their bits."""
    bits = array("I", array("f", values).tobytes())
    return array("H", [(b + 0x7fff + (b >> 16 & 1)) >> 16 for b in bits])


def bf16_floats(bits):
    return array("f", array("I", [b << 16 for b in bits]).tobytes())


class Tensors:
    """The tensors of a model: name -> (dtype, shape, bytes)."""
    tables = {}

    def __init__(self, seed):
        self.seed, self.all = seed, {}

    def bf16(self, name, shape, spread=None, middle=0.0):
        """Numbers around `middle`; `spread` is their standard deviation, by default 1.3 / sqrt(columns)."""
        spread = 1.3 / math.sqrt(shape[-1]) if spread is None else spread
        if (spread, middle) not in self.tables:
            self.tables[spread, middle] = bf16_bits([middle + spread * x for x in BELL])
        table = self.tables[spread, middle]
        bits = array("H", map(table.__getitem__, words(f"{self.seed}/{name}", math.prod(shape))))
        self.all[name] = ("BF16", shape, little(bits))

    def norm(self, name, n, middle=1.0):
        self.bf16(name, [n], 0.1, middle)

    def f32(self, name, shape, spread):
        table = array("f", [spread * x for x in BELL])
        values = array("f", map(table.__getitem__, words(f"{self.seed}/{name}", math.prod(shape))))
        self.all[name] = ("F32", shape, little(values))

    def near_identity(self, name, n, spread):
        """[n, 2 n]: the first half of the input, and a little of everything."""
        values = [spread * BELL[u] for u in words(f"{self.seed}/{name}", 2 * n * n)]
        for i in range(n):
            values[i * 2 * n + i] += 1.0
        self.all[name] = ("BF16", [n, 2 * n], little(bf16_bits(values)))

    def mxfp4(self, name, rows, cols):
        """Blocks of 32 FP4 numbers with an exponent each, of experts [experts, rows, cols]."""
        count, blocks = rows[0] * rows[1], cols // 32
        self.all[name + "_blocks"] = ("U8", [*rows, blocks, 16], stream(f"{self.seed}/{name}", count * blocks * 16))
        scales = stream(f"{self.seed}/{name}_scales", count * blocks).translate(bytes(120 + i % 3 for i in range(256)))
        self.all[name + "_scales"] = ("U8", [*rows, blocks], scales)

    def write(self, path):
        header, at = {"__metadata__": {"format": "pt"}}, 0
        order = sorted(self.all, key=lambda name: (-ITEM[self.all[name][0]], name))
        for name in order:
            dtype, shape, data = self.all[name]
            header[name] = dict(dtype=dtype, shape=shape, data_offsets=[at, at + len(data)])
            at += len(data)
        text = json.dumps(header).encode()
        text += b" " * (-len(text) % 8)
        with open(path, "wb") as file:
            file.write(struct.pack("<Q", len(text)) + text + b"".join(self.all[name][2] for name in order))


def attention(t, at, c, bias):
    n, dim = c["hidden_size"], c.get("head_dim") or c["hidden_size"] // c["num_attention_heads"]
    q, kv = c["num_attention_heads"] * dim, c["num_key_value_heads"] * dim
    for name, rows, cols in (("q", q, n), ("k", kv, n), ("v", kv, n), ("o", n, q)):
        t.bf16(f"{at}self_attn.{name}_proj.weight", [rows, cols])
        if bias:
            t.bf16(f"{at}self_attn.{name}_proj.bias", [rows], 0.1)
    return dim


def dense_ffn(t, at, n, ff):
    t.bf16(at + "mlp.gate_proj.weight", [ff, n])
    t.bf16(at + "mlp.up_proj.weight", [ff, n])
    t.bf16(at + "mlp.down_proj.weight", [n, ff])


def mixtral_ffn(t, at, c):
    n, ff = c["hidden_size"], c["intermediate_size"]
    t.bf16(at + "block_sparse_moe.gate.weight", [c["num_local_experts"], n])
    for e in range(c["num_local_experts"]):
        for name, shape in (("w1", [ff, n]), ("w2", [n, ff]), ("w3", [ff, n])):
            t.bf16(f"{at}block_sparse_moe.experts.{e}.{name}.weight", shape)


def gpt_oss_ffn(t, at, c):
    n, ff, count = c["hidden_size"], c["intermediate_size"], c["num_local_experts"]
    t.bf16(at + "mlp.router.weight", [count, n])
    t.bf16(at + "mlp.router.bias", [count], 0.1)
    t.mxfp4(at + "mlp.experts.gate_up_proj", [count, 2 * ff], n)
    t.bf16(at + "mlp.experts.gate_up_proj_bias", [count, 2 * ff], 0.1)
    t.mxfp4(at + "mlp.experts.down_proj", [count, n], ff)
    t.bf16(at + "mlp.experts.down_proj_bias", [count, n], 0.1)
    t.bf16(at + "self_attn.sinks", [c["num_attention_heads"]], 1.0)


def delta_rule(t, at, c):
    """A layer that recurs. Qwen3-Next has two matrices where the others have four."""
    n, at = c["hidden_size"], at + "linear_attn."
    heads, keys = c["linear_num_value_heads"], c["linear_num_key_heads"] * c["linear_key_head_dim"]
    values = heads * c["linear_value_head_dim"]
    if c["model_type"] == "qwen3_next":
        t.bf16(at + "in_proj_qkvz.weight", [2 * keys + 2 * values, n])
        t.bf16(at + "in_proj_ba.weight", [2 * heads, n])
    else:
        for name, rows in (("qkv", 2 * keys + values), ("z", values), ("b", heads), ("a", heads)):
            t.bf16(f"{at}in_proj_{name}.weight", [rows, n])
    t.bf16(at + "conv1d.weight", [2 * keys + values, 1, c["linear_conv_kernel_dim"]], 0.5)
    t.bf16(at + "A_log", [heads], 0.5, 0.5)
    t.bf16(at + "dt_bias", [heads], 0.5, -1.0)
    t.norm(at + "norm.weight", c["linear_value_head_dim"])
    t.bf16(at + "out_proj.weight", [n, values])


def gated_attention(t, at, c):
    n, dim, at = c["hidden_size"], c["head_dim"], at + "self_attn."
    q, kv = c["num_attention_heads"] * dim, c["num_key_value_heads"] * dim
    for name, rows, cols in (("q", 2 * q, n), ("k", kv, n), ("v", kv, n), ("o", n, q)):
        t.bf16(f"{at}{name}_proj.weight", [rows, cols])
    t.norm(at + "q_norm.weight", dim, 0.0)
    t.norm(at + "k_norm.weight", dim, 0.0)


def shared_ffn(t, at, c):
    """Experts, and one of all tokens."""
    n, ff, shared = c["hidden_size"], c["moe_intermediate_size"], c["shared_expert_intermediate_size"]
    t.bf16(at + "mlp.gate.weight", [c["num_experts"], n])
    for e in range(c["num_experts"]):
        for name, shape in (("gate", [ff, n]), ("up", [ff, n]), ("down", [n, ff])):
            t.bf16(f"{at}mlp.experts.{e}.{name}_proj.weight", shape)
    for name, shape in (("gate", [shared, n]), ("up", [shared, n]), ("down", [n, shared])):
        t.bf16(f"{at}mlp.shared_expert.{name}_proj.weight", shape)
    t.bf16(at + "mlp.shared_expert_gate.weight", [1, n])


def hybrid(seed, c):
    """Models most of whose layers recur; norms are stored less 1."""
    t, n = Tensors(seed), c["hidden_size"]
    t.bf16("model.embed_tokens.weight", [c["vocab_size"], n], 1.0)
    for i, kind in enumerate(c["layer_types"]):
        at = f"model.layers.{i}."
        t.norm(at + "input_layernorm.weight", n, 0.0)
        (delta_rule if kind == "linear_attention" else gated_attention)(t, at, c)
        t.norm(at + "post_attention_layernorm.weight", n, 0.0)
        if c.get("num_experts"):
            shared_ffn(t, at, c)
        else:
            dense_ffn(t, at, n, c["intermediate_size"])
    t.norm("model.norm.weight", n, 0.0)
    if c.get("mtp_num_hidden_layers"):
        drafting(t, c)
    return t


def drafting(t, c):
    """A block that drafts tokens: what follows a token is mostly the token again, which texts of random weights do."""
    n, at = c["hidden_size"], "mtp.layers.0."
    t.near_identity("mtp.fc.weight", n, 0.02)
    for name in ("pre_fc_norm_embedding", "pre_fc_norm_hidden", "norm"):
        t.norm(f"mtp.{name}.weight", n, 0.0)
    t.norm(at + "input_layernorm.weight", n, 0.0)
    gated_attention(t, at, c)
    t.norm(at + "post_attention_layernorm.weight", n, 0.0)
    dense_ffn(t, at, n, c["intermediate_size"])


def transformer(seed, c):
    """The tensors of one of the families, as its hub folders name them."""
    t, kind, n = Tensors(seed), c["model_type"], c["hidden_size"]
    gemma, bitnet = kind.startswith("gemma"), kind == "bitnet"
    one = 0.0 if gemma else 1.0  # Gemma stores its norms less 1
    t.bf16("model.embed_tokens.weight", [c["vocab_size"], n], 2 / math.sqrt(n) if bitnet else 0.06 if gemma else 1.0)
    for i in range(c["num_hidden_layers"]):
        at = f"model.layers.{i}."
        t.norm(at + "input_layernorm.weight", n, one)
        dim = attention(t, at, c, kind == "gpt_oss")
        if kind == "gemma3_text":
            t.norm(at + "self_attn.q_norm.weight", dim, one)
            t.norm(at + "self_attn.k_norm.weight", dim, one)
        t.norm(at + "post_attention_layernorm.weight", n, one)
        if gemma:
            t.norm(at + "pre_feedforward_layernorm.weight", n, one)
            t.norm(at + "post_feedforward_layernorm.weight", n, one)
        if bitnet:
            t.norm(at + "self_attn.attn_sub_norm.weight", n)
            t.norm(at + "mlp.ffn_sub_norm.weight", c["intermediate_size"])
        if kind in ("mixtral", "gpt_oss"):
            (mixtral_ffn if kind == "mixtral" else gpt_oss_ffn)(t, at, c)
        else:
            dense_ffn(t, at, n, c["intermediate_size"])
    t.norm("model.norm.weight", n, one)
    if not c.get("tie_word_embeddings", True):
        t.bf16("lm_head.weight", [c["vocab_size"], n])
    return t


def packed(t):
    """The same model as the 2B4T checkpoint stores it: a byte has four codes, of four quarters of the rows."""
    out = Tensors(t.seed)
    for name, (dtype, shape, data) in t.all.items():
        if not name.endswith("_proj.weight"):
            out.all[name] = (dtype, shape, data)
            continue
        bits = array("H", data)
        mean = math.fsum(map(abs, bf16_floats(bits))) / len(bits)
        codes = {}
        for b in set(bits):
            ratio = bf16_floats([b])[0] / mean
            assert abs(abs(ratio) - 0.5) > 1e-5, f"{name}: a weight lies on the edge of its rounding"
            codes[b] = max(-1, min(1, round(ratio))) + 1
        digits = bytes(map(codes.__getitem__, bits))
        quarter = len(digits) // 4
        parts = [digits[k * quarter:(k + 1) * quarter] for k in range(4)]
        joined = bytes(a | b << 2 | c << 4 | d << 6 for a, b, c, d in zip(*parts))
        out.all[name] = ("U8", [shape[0] // 4, shape[1]], joined)
        out.all[name + "_scale"] = ("BF16", [1], little(bf16_bits([mean])))
    return out


def adapter(seed, c, rank=8):
    """Low-rank matrices for all seven projections, as PEFT names them."""
    t = Tensors(seed)
    for name, (_, shape, _) in transformer(seed, c).all.items():
        if name.endswith("_proj.weight"):
            base = "base_model.model." + name.removesuffix(".weight")
            t.f32(base + ".lora_A.weight", [rank, shape[1]], 1 / math.sqrt(shape[1]))
            t.f32(base + ".lora_B.weight", [shape[0], rank], 0.05)
    return t


class Gguf:
    """Metadata and tensors of a GGUF file (docs/reference/formats/models.md)."""
    SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}

    def __init__(self, path):
        with open(path, "rb") as file:
            self.data = file.read()
        self.at = 8
        n_tensors, n_values = self.scalar("Q"), self.scalar("Q")
        self.values = {self.text(): self.value(self.scalar("I")) for _ in range(n_values)}
        self.tensors = {}
        for _ in range(n_tensors):
            name = self.text()
            dims = [self.scalar("Q") for _ in range(self.scalar("I"))]
            self.tensors[name] = dims[::-1], self.scalar("I"), self.scalar("Q")
        align = self.values.get("general.alignment", 32)
        self.start = (self.at + align - 1) // align * align

    def scalar(self, form):
        (value,) = struct.unpack_from("<" + form, self.data, self.at)
        self.at += struct.calcsize("<" + form)
        return value

    def text(self):
        n = self.scalar("Q")
        self.at += n
        return self.data[self.at - n:self.at].decode()

    def value(self, kind):
        if kind == 8:
            return self.text()
        if kind == 9:
            kind = self.scalar("I")
            return [self.value(kind) for _ in range(self.scalar("Q"))]
        return self.scalar(self.SCALARS[kind])

    def bytes_of(self, name, n):
        return self.data[self.start + self.tensors[name][2]:][:n]


def i2_s_codes(data):
    """Codes -1, 0, 1 plus 1, in order: 32 bytes hold 128, each byte numbers 0, 32, 64 and 96 behind its own."""
    digits = [data.translate(bytes(b >> shift & 3 for b in range(256))) for shift in (6, 4, 2, 0)]
    return b"".join(d[at:at + 32] for at in range(0, len(data), 32) for d in digits)


GGUF_NAMES = {"attn_norm": "input_layernorm", "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj",
              "attn_v": "self_attn.v_proj", "attn_output": "self_attn.o_proj",
              "attn_sub_norm": "self_attn.attn_sub_norm", "ffn_norm": "post_attention_layernorm",
              "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj",
              "ffn_sub_norm": "mlp.ffn_sub_norm"}


def hub_name(name):
    if name.startswith("blk."):
        _, layer, part, _ = name.split(".")
        return f"model.layers.{layer}.{GGUF_NAMES[part]}.weight"
    return {"token_embd.weight": "model.embed_tokens.weight", "output_norm.weight": "model.norm.weight"}[name]


def masters(name, codes, scale):
    """bf16 numbers that round to these codes, with a mean magnitude of about `scale`: what training could have left."""
    zeros = codes.count(1)
    filled = 1 - zeros / len(codes)
    unit = scale / (filled * 1.3 + (1 - filled) * 0.15)  # codes +-1 become 0.8 to 1.8 of it, zeros up to 0.3
    assert 0.3 * unit < 0.49 * scale and 0.8 * unit > 0.51 * scale, name
    rows = [[-unit * (0.8 + r / 256) for r in range(256)], [unit * 0.3 * (2 * r - 255) / 255 for r in range(256)],
            [unit * (0.8 + r / 256) for r in range(256)]]
    table = bf16_bits([x for row in rows for x in row])
    noise = stream("stories/" + name, len(codes))
    return array("H", [table[code << 8 | r] for code, r in zip(codes, noise)])


def stories():
    """The bundled model: its codes as master weights, its embeddings and norms as they are."""
    g, t = Gguf(os.path.join(ROOT, "models", "stories.gguf")), Tensors("stories")
    for name, (shape, kind, _) in g.tensors.items():
        n, own = math.prod(shape), hub_name(name)
        if kind == 30:
            t.all[own] = ("BF16", shape, g.bytes_of(name, 2 * n))
        elif kind == 0:
            t.all[own] = ("BF16", shape, little(bf16_bits(struct.unpack(f"<{n}f", g.bytes_of(name, 4 * n)))))
        else:
            (scale,) = struct.unpack_from("<f", g.bytes_of(name, n // 4 + 4), n // 4)
            t.all[own] = ("BF16", shape, little(masters(own, i2_s_codes(g.bytes_of(name, n // 4)), scale)))
    return g, t


LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|"
          r"\s*[\r\n]+|\s+(?!\S)|\s+")


def stories_tokenizer(g):
    """tokenizer.json, of the metadata."""
    tokens, kinds = g.values["tokenizer.ggml.tokens"], g.values["tokenizer.ggml.token_type"]
    special = [i for i, kind in enumerate(kinds) if kind == 3]
    split = dict(type="Split", pattern=dict(Regex=LLAMA3), behavior="Isolated", invert=False)
    level = dict(type="ByteLevel", add_prefix_space=False, trim_offsets=True, use_regex=False)
    model = dict(type="BPE", dropout=None, unk_token=None, continuing_subword_prefix=None, end_of_word_suffix=None,
                 fuse_unk=False, byte_fallback=False, ignore_merges=True,
                 vocab={token: i for i, token in enumerate(tokens) if i not in special},
                 merges=[merge.split(" ") for merge in g.values["tokenizer.ggml.merges"]])
    added = [dict(id=i, content=tokens[i], single_word=False, lstrip=False, rstrip=False, normalized=False,
                  special=True) for i in special]
    return dict(version="1.0", truncation=None, padding=None, added_tokens=added, normalizer=None,
                pre_tokenizer=dict(type="Sequence", pretokenizers=[split, level]), post_processor=None,
                decoder=dict(type="ByteLevel", add_prefix_space=True, trim_offsets=True, use_regex=True), model=model)


def stories_config(g):
    v, at = g.values, g.values["general.architecture"] + "."
    return dict(architectures=["BitNetForCausalLM"], model_type="bitnet", vocab_size=v[at + "vocab_size"],
                hidden_size=v[at + "embedding_length"], intermediate_size=v[at + "feed_forward_length"],
                num_hidden_layers=v[at + "block_count"], num_attention_heads=v[at + "attention.head_count"],
                num_key_value_heads=v[at + "attention.head_count_kv"], hidden_act="relu2",
                max_position_embeddings=v[at + "context_length"], rms_norm_eps=1e-5, tie_word_embeddings=True,
                rope_theta=v[at + "rope.freq_base"], attention_bias=False, torch_dtype="bfloat16",
                bos_token_id=v["tokenizer.ggml.bos_token_id"], eos_token_id=v["tokenizer.ggml.eos_token_id"],
                quantization_config=dict(quant_method="bitnet", linear_class="autobitlinear",
                                         quantization_mode="online"))


def write_json(folder, name, value):
    with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
        json.dump(value, file, ensure_ascii=False)
        file.write("\n")


def write_stories(folder):
    g, t = stories()
    t.write(os.path.join(folder, "model.safetensors"))
    write_json(folder, "config.json", stories_config(g))
    write_json(folder, "tokenizer.json", stories_tokenizer(g))
    tokens = g.values["tokenizer.ggml.tokens"]
    write_json(folder, "tokenizer_config.json",
               dict(bos_token=tokens[g.values["tokenizer.ggml.bos_token_id"]],
                    eos_token=tokens[g.values["tokenizer.ggml.eos_token_id"]]))


def seed_of(name):
    """The seed of a family's weights: its name, or what golden.py has chosen."""
    path = os.path.join(HERE, name, "seed")
    if not os.path.exists(path):
        return name
    with open(path) as file:
        return file.read().strip()


def family(name, seed=None):
    """The tensors of a family by its name."""
    c = config_of(name)
    if name == "bitnet-packed":
        return packed(family("bitnet"))
    return (hybrid if "linear_num_key_heads" in c else transformer)(seed or seed_of(name), c)


def copy_folder(source, target):
    """What is stored, below the folder that is made."""
    if os.path.isdir(source):
        shutil.copytree(source, target, dirs_exist_ok=True, copy_function=shutil.copyfile)
    os.makedirs(target, exist_ok=True)


def make(out):
    """Everything; the paths of what was made, relative to `out`."""
    made = []
    for name in FAMILIES:
        folder = os.path.join(out, "fixtures", name)
        copy_folder(os.path.join(HERE, name), folder)
        family(name).write(os.path.join(folder, "model.safetensors"))
        made.append(f"fixtures/{name}/model.safetensors")
    lora = "fixtures/bitnet-train/lora/adapter_model.safetensors"
    os.makedirs(os.path.join(out, os.path.dirname(lora)), exist_ok=True)
    adapter(seed_of("bitnet-train"), config_of("bitnet-train")).write(os.path.join(out, lora))
    copy_folder(os.path.join(HERE, "tokenizers"), os.path.join(out, "fixtures", "tokenizers"))
    folder = os.path.join(out, "models", STORIES)
    copy_folder(os.path.join(HERE, STORIES), folder)
    write_stories(folder)
    return made + [lora, f"models/{STORIES}/model.safetensors", f"models/{STORIES}/tokenizer.json"]


def sums(out, made):
    found = {}
    for path in made:
        with open(os.path.join(out, path), "rb") as file:
            found[path] = hashlib.sha256(file.read()).hexdigest()
    return found


def main():
    out = sys.argv[1]
    found, path = sums(out, make(out)), os.path.join(HERE, "sums.json")
    if sys.argv[2:] == ["--sums"]:
        with open(path, "w") as file:
            json.dump(found, file, indent=1)
            file.write("\n")
    with open(path) as file:
        for name, wanted in json.load(file).items():
            if found[name] != wanted:
                sys.exit(f"{name}: SHA-256 {found[name]}, {wanted} expected")


if __name__ == "__main__":
    main()
