#!/usr/bin/env python3
"""Writes seeds for the fuzzers of models: a GGUF file of one layer for each family, such files with one key that is
wrong, without their last tensor or with half of it, and one for each encoding that no other seed has.

Keys and names of tensors are llama.cpp's (src/llama-arch.cpp), those that begin with "tern." ours
(docs/reference/formats/models.md); names of files are the SHA-1 of their bytes, as libFuzzer has them. Usage:
make_families.py [CORPUS], the folder with model.tar and loader.tar, which it adds to; the same bytes each time.
"""
import hashlib
import math
import pathlib
import random
import struct
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent.parent / "scripts"))
import fuzz_seeds  # noqa: E402

EMBD, HEAD, HEADS, KV_HEADS, FF, VOCAB = 8, 4, 2, 1, 8, 8
F32, F16 = 0, 1  # types of tensors
U32, F32_KEY, BOOL, STRING, ARRAY = 4, 6, 7, 8, 9  # types of values


def tensors(post_norms=False, qk_norm=False, bias=False, joined=False, in_norms=False, sub_norms=False, head=False,
            factors=False, experts=0):
    """{name: dimensions, rows first}; one dimension: a vector."""
    rows = {"attn_q": HEADS * HEAD, "attn_k": KV_HEADS * HEAD, "attn_v": KV_HEADS * HEAD, "attn_output": EMBD,
            "ffn_gate": FF, "ffn_up": FF, "ffn_down": EMBD}
    matrices = dict(rows)
    if joined:
        matrices = {"attn_qkv": (HEADS + 2 * KV_HEADS) * HEAD, "attn_output": EMBD, "ffn_up": 2 * FF, "ffn_down": EMBD}
    layer = {f"{name}.weight": (n, EMBD) for name, n in matrices.items()}
    if experts:
        stacked = ("ffn_gate", "ffn_up", "ffn_down")
        layer = {name: dims for name, dims in layer.items() if not name.startswith(stacked)}
        layer |= {f"{name}_exps.weight": (experts, FF, EMBD) for name in stacked}
        layer["ffn_gate_inp.weight"] = (experts, EMBD)
    layer |= {"attn_norm.weight": (EMBD,), "ffn_norm.weight": (EMBD,)}
    if post_norms:
        layer |= {"post_attention_norm.weight": (EMBD,), "post_ffw_norm.weight": (EMBD,)}
    if sub_norms:
        layer |= {"attn_sub_norm.weight": (EMBD,), "ffn_sub_norm.weight": (FF,)}
    if qk_norm:
        layer |= {"attn_q_norm.weight": (HEAD,), "attn_k_norm.weight": (HEAD,)}
    if bias:
        layer |= {f"{name}.bias": (rows[name],) for name in ("attn_q", "attn_k", "attn_v")}
    if in_norms:
        layer |= {f"{name}_norm_in.weight": (EMBD,) for name in rows}
    out = {"token_embd.weight": (VOCAB, EMBD), "output_norm.weight": (EMBD,)}
    if head:
        out["output.weight"] = (VOCAB, EMBD)
    if factors:
        out |= {f"rope_factors_{which}.weight": (HEAD // 2,) for which in ("long", "short")}
    return out | {f"blk.0.{name}": dims for name, dims in layer.items()}


def recurrent(joint_rates=False, experts=0):
    """A layer that keeps a state: two heads of 8 values, one of 4 keys."""
    layer = {"attn_qkv.weight": (24, EMBD), "attn_gate.weight": (16, EMBD), "ssm_conv1d.weight": (24, 4),
             "ssm_a": (2,), "ssm_dt.bias": (2,), "ssm_norm.weight": (8,), "ssm_out.weight": (EMBD, 16),
             "attn_norm.weight": (EMBD,), "post_attention_norm.weight": (EMBD,)}
    layer |= {"ssm_ba.weight": (4, EMBD)} if joint_rates else {"ssm_alpha.weight": (2, EMBD),
                                                               "ssm_beta.weight": (2, EMBD)}
    for name in ("ffn_gate", "ffn_up", "ffn_down"):
        layer |= {f"{name}_shexp.weight": (FF, EMBD), f"{name}_exps.weight": (experts, FF, EMBD)} if experts else \
            {f"{name}.weight": (FF, EMBD)}
    if experts:
        layer |= {"ffn_gate_inp_shexp.weight": (EMBD,), "ffn_gate_inp.weight": (experts, EMBD)}
    out = {"token_embd.weight": (VOCAB, EMBD), "output_norm.weight": (EMBD,)}
    return out | {f"blk.0.{name}": dims for name, dims in layer.items()}


SCALED = {"embedding_scale": 12.0, "residual_scale": 0.22, "logit_scale": 8.0, "attention.scale": 0.015625}
YARN = {"rope.scaling.type": "yarn", "rope.scaling.factor": 4.0, "rope.scaling.original_context_length": 16,
        "rope.scaling.yarn_beta_fast": 32.0, "rope.scaling.yarn_beta_slow": 1.0, "rope.scaling.attn_factor": 1.0,
        "rope.scaling.yarn_ext_factor": 1.0, "rope.scaling.yarn_attn_factor": 1.0,
        "rope.scaling.yarn_log_multiplier": 0.0, "tern.rope.yarn_truncate": False}
EXPERTS = {"expert_count": 2, "expert_used_count": 1, "expert_feed_forward_length": FF, "expert_gating_func": 1,
           "expert_weights_norm": True, "expert_weights_scale": 1.0, "expert_shared_count": 0, "expert_group_count": 1,
           "leading_dense_block_count": 0, "interleave_moe_layer_step": 1}
STATE = {"ssm.conv_kernel": 4, "ssm.state_size": 4, "ssm.group_count": 1, "ssm.time_step_rank": 2, "ssm.inner_size": 16,
         "full_attention_interval": 4}
FAMILIES = {
    "qwen35": (STATE | {"rope.dimension_sections": [1, 1, 0, 0], "nextn_predict_layers": 0}, recurrent()),
    "qwen35moe": (STATE | EXPERTS | {"expert_shared_feed_forward_length": FF, "attention.recurrent_layers": [True]},
                  recurrent(experts=2)),
    "qwen3next": (STATE | EXPERTS | {"expert_shared_feed_forward_length": FF}, recurrent(joint_rates=True, experts=2)),
    "gemma2": ({"attention.sliding_window": 4, "attn_logit_softcapping": 50.0, "final_logit_softcapping": 30.0},
               tensors(post_norms=True)),
    "gemma3": ({"attention.sliding_window": 4, "attention.sliding_window_pattern": 2, "rope.freq_base_swa": 1e4,
                "rope.scaling.type": "linear", "rope.scaling.factor": 8.0, "attention.scale": 0.25},
               tensors(post_norms=True, qk_norm=True)),
    "qwen2": ({"pooling_type": 3}, tensors(bias=True, head=True)),
    "qwen3": ({"tern.activations": "int8"}, tensors(qk_norm=True, in_norms=True)),
    "phi3": ({"attention.sliding_window": 0, "rope.scaling.attn_factor": 1.19,
              "rope.scaling.original_context_length": 16}, tensors(joined=True, factors=True)),
    "granite": (SCALED, tensors()),
    "smollm3": ({}, tensors()),
    "llama": (YARN, tensors(head=True)),
    "qwen3moe": (EXPERTS, tensors(qk_norm=True, experts=2)),
    "bitnet-25": ({}, tensors(sub_norms=True)),
    "maple": (EXPERTS | {"attention.sliding_window": 4, "attention.sliding_window_pattern": [True],
                         "swiglu_clamp_exp": [7.0], "rope.dimension_count": 4},
              tensors(qk_norm=True, experts=2, head=True)),
}
# keys that a file may have only with a value that changes nothing, and that value
NEUTRAL = {"attention.causal": True, "attention.clamp_kqv": 0.0, "attention.max_alibi_bias": 0.0,
           "attention.shared_kv_layers": 0, "attention.temperature_length": 0, "attention.temperature_scale": 0.0,
           "attention.output_scale": 1.0, "altup.num_inputs": 0, "dense_2_feat_out": 0, "dense_3_feat_out": 0,
           "embedding_length_per_layer_input": 0, "expert_shared_feed_forward_length": 0, "moe_every_n_layers": 1,
           "nextn_predict_layers": 0, "rope.dimension_sections": [0, 0, 0, 0], "rope.scale_linear": 1.0,
           "router_logit_softcapping": 0.0, "swiglu_clamp_shexp": [0.0], "use_parallel_residual": False}
# type: numbers and bytes of a block, of encodings that no other seed has
ENCODINGS = {6: (32, 22), 12: (256, 144), 13: (256, 176), 14: (256, 210), 30: (1, 2), 35: (256, 66)}
LONG = 256  # columns that all of them divide
BAD_FLOATS = [float("nan"), float("inf"), -1.0, 0.0, 3e38]
BAD_COUNTS = [0, 0xFFFFFFFF, 7]


def text(value):
    return struct.pack("<Q", len(value)) + value.encode()


def value_bytes(value):
    if isinstance(value, bool):
        return struct.pack("<IB", BOOL, value)
    if isinstance(value, str):
        return struct.pack("<I", STRING) + text(value)
    if isinstance(value, int):
        return struct.pack("<II", U32, value)
    if isinstance(value, list):
        kind, code = {bool: (BOOL, "B"), float: (F32_KEY, "f")}.get(type(value[0]), (U32, "I"))
        return struct.pack(f"<IIQ{len(value)}{code}", ARRAY, kind, len(value), *value)
    return struct.pack("<If", F32_KEY, value)


def full(family, key):
    return key if key.startswith(("tern.", "general.")) else f"{family}.{key}"


def weights(dims, rng):
    """f32 numbers near 1 of a vector, f16 numbers near 0 of matrices."""
    if len(dims) == 1:
        return struct.pack(f"<{dims[0]}f", *(1 + 0.1 * rng.random() for _ in range(dims[0])))
    n = math.prod(dims)
    return struct.pack(f"<{n}e", *(rng.random() - 0.5 for _ in range(n)))


def gguf(family, keys, shapes, encoded=None):
    """encoded: (name of a tensor, type) of one that is in random blocks."""
    rng = random.Random(1)
    base = {"vocab_size": VOCAB, "context_length": 64, "embedding_length": EMBD, "block_count": 1,
            "feed_forward_length": FF, "attention.head_count": HEADS, "attention.head_count_kv": KV_HEADS,
            "attention.key_length": HEAD, "attention.layer_norm_rms_epsilon": 1e-6, "rope.freq_base": 1e4}
    pairs = {"general.architecture": family} | {full(family, k): v for k, v in (base | keys).items()}
    head, data = b"", b""
    for name, dims in shapes.items():
        kind = encoded[1] if encoded and name == encoded[0] else F16 if len(dims) > 1 else F32
        head += text(name) + struct.pack(f"<I{len(dims)}QIQ", len(dims), *reversed(dims), kind, len(data))
        n, size = ENCODINGS.get(kind, (1, 0))
        data += rng.randbytes(math.prod(dims) // n * size) if size else weights(dims, rng)
        data += bytes(-len(data) % 32)
    out = struct.pack("<4sIQQ", b"GGUF", 3, len(shapes), len(pairs))
    out += b"".join(text(k) + value_bytes(v) for k, v in pairs.items()) + head
    return out + bytes(-len(out) % 32) + data


def wrong(value, i):
    """A value that is not what is expected: of another kind, or the i-th of the bad ones."""
    if isinstance(value, (bool, str)):
        return i
    bad = BAD_FLOATS if isinstance(value, float) else BAD_COUNTS
    return (bad + ["a word", [1, 2, 3]])[i % (len(bad) + 2)]


def seeds():
    """Good files, then one with each key of a family wrong, in turns of the ways to be wrong."""
    n = 0
    for family, (keys, shapes) in FAMILIES.items():
        yield gguf(family, keys, shapes), True
        for key, value in keys.items():
            yield gguf(family, keys | {key: wrong(value, n)}, shapes), False
            n += 1
        last = list(shapes)[-1]
        yield gguf(family, keys, {name: shapes[name] for name in list(shapes)[:-1]}), False
        yield gguf(family, keys, shapes | {last: (*shapes[last][:-1], shapes[last][-1] // 2)}), False


def other_than(value):
    """A value of the same kind that is none of those that change nothing."""
    if isinstance(value, list):
        return [other_than(v) for v in value]
    return not value if isinstance(value, bool) else type(value)(3)


def neutral_seeds():
    """Keys that change nothing, then each with a value that does."""
    yield gguf("llama", NEUTRAL, tensors(head=True))
    for key, value in NEUTRAL.items():
        yield gguf("llama", {key: other_than(value)}, tensors(head=True))


def encoded_seeds():
    """Matrices of long rows in each encoding, and in rows that its blocks do not fit."""
    down = "blk.0.ffn_down.weight"
    wide = {f"blk.0.{name}.weight": (LONG, EMBD) for name in ("ffn_gate", "ffn_up")}
    shapes = tensors() | wide | {down: (EMBD, LONG)}
    for kind in ENCODINGS:
        yield gguf("llama", {"feed_forward_length": LONG}, shapes, (down, kind))
    yield gguf("llama", {}, tensors(), (down, 12))


def main():
    corpus = sys.argv[1] if len(sys.argv) > 1 else fuzz_seeds.CORPUS
    models = [*seeds(), *((data, False) for data in [*encoded_seeds(), *neutral_seeds()])]
    for name, files in (("model", [data for data, _ in models]),
                        ("loader", [b"\x29" + data for data, good in models if good])):
        n = fuzz_seeds.add(corpus, name, {hashlib.sha1(data).hexdigest(): data for data in files})
        print(f"{name}: {n} added, {len(files) - n} known")


if __name__ == "__main__":
    main()
