#!/usr/bin/env python3
"""Writes qwen3_5/golden_f64.safetensors: gradients of a model whose layers recur, in double precision.

    gradients.py OUT             the file
    gradients.py --judge FOLDER  how far golden_grad.safetensors of FOLDER is from f64, and how far rounding moves f64

Needs numpy and no network. Written from the published equations, token by token (arXiv:2412.06464; transformers
modeling_qwen3_5), with a reverse mode of its own. `--judge` answers which side is right where f32 results differ: it
adds to each linear layer's output a noise of 2^-24 of its row's root mean square, one rounding to f32, and prints what
that alone does to the gradients.
"""
import json
import os
import struct
import sys

import numpy as np

import weights

DOCUMENTS = (76, 24)  # tokens: one document is longer than a chunk of states (64)
SMALL = ("norm", "A_log", "dt_bias", "conv1d", "in_proj_a", "in_proj_b")  # whose gradients the file holds
NOISE = 0.0           # relative to the rows of linear layers


def read(path):
    """The tensors of a SafeTensors file; floats in f64."""
    with open(path, "rb") as file:
        data = file.read()
    (n,) = struct.unpack_from("<Q", data)
    out = {}
    for name, t in json.loads(data[8:8 + n]).items():
        if name != "__metadata__":
            first, end = t["data_offsets"]
            raw = data[8 + n + first:8 + n + end]
            if t["dtype"] == "BF16":
                values = (np.frombuffer(raw, "<u2").astype(np.uint32) << 16).view(np.float32).astype(np.float64)
            else:
                values = np.frombuffer(raw, "<i4") if t["dtype"] == "I32" else np.frombuffer(raw, "<f4").astype(float)
            out[name] = values.reshape(t["shape"])
    return out


def reduced(g, shape):
    """The gradient of what was broadcast from this shape."""
    while g.ndim > len(shape):
        g = g.sum(0)
    wide = tuple(i for i, n in enumerate(shape) if n == 1 and g.shape[i] != 1)
    return g.sum(wide, keepdims=True) if wide else g


class Value:
    """A number with what it was made of; `back` gives the gradients of `parts` from its own."""
    made = 0

    def __init__(self, v, parts=(), back=None):
        Value.made += 1
        self.v, self.parts, self.back, self.order, self.g = np.asarray(v, np.float64), parts, back, Value.made, None

    def __add__(self, other):
        other = as_value(other)
        return Value(self.v + other.v, (self, other), lambda g: (reduced(g, self.v.shape), reduced(g, other.v.shape)))

    def __mul__(self, other):
        other = as_value(other)
        return Value(self.v * other.v, (self, other),
                     lambda g: (reduced(g * other.v, self.v.shape), reduced(g * self.v, other.v.shape)))

    def __sub__(self, other):
        return self + as_value(other) * -1.0

    def __getitem__(self, at):
        def back(g):
            whole = np.zeros_like(self.v)
            np.add.at(whole, at, g)
            return (whole,)
        return Value(self.v[at], (self,), back)

    def shaped(self, *shape):
        return Value(self.v.reshape(shape), (self,), lambda g: (g.reshape(self.v.shape),))

    def sum(self):
        """Over the last axis, which stays with length 1."""
        return Value(self.v.sum(-1, keepdims=True), (self,), lambda g: (np.broadcast_to(g, self.v.shape),))

    def backward(self):
        found, todo = {}, [self]
        while todo:
            value = todo.pop()
            if value.order not in found:
                found[value.order] = value
                todo += value.parts
        self.g = np.ones_like(self.v)
        for order in sorted(found, reverse=True):
            value = found[order]
            if value.parts:
                for part, g in zip(value.parts, value.back(value.g)):
                    part.g = g if part.g is None else part.g + g


def as_value(x):
    return x if isinstance(x, Value) else Value(x)


def elementwise(f, slope):
    def apply(x):
        y = f(x.v)
        return Value(y, (x,), lambda g: (g * slope(x.v, y),))
    return apply


def logistic(x):
    return 1 / (1 + np.exp(-x))


exp = elementwise(np.exp, lambda x, y: y)
log = elementwise(np.log, lambda x, y: 1 / x)
root = elementwise(lambda x: x ** -0.5, lambda x, y: -0.5 * y / x)  # 1 / sqrt(x)
sigmoid = elementwise(logistic, lambda x, y: y * (1 - y))
silu = elementwise(lambda x: x * logistic(x), lambda x, y: logistic(x) * (1 + x * (1 - logistic(x))))
softplus = elementwise(lambda x: np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x))), lambda x, y: logistic(x))


def product(form, a, b):
    x, rest = form.split(",")
    y, out = rest.split("->")
    return Value(np.einsum(form, a.v, b.v), (a, b), lambda g: (np.einsum(f"{out},{y}->{x}", g, b.v),
                                                              np.einsum(f"{x},{out}->{y}", a.v, g)))


def joined(values, axis):
    ends = np.cumsum([x.v.shape[axis] for x in values])[:-1]
    return Value(np.concatenate([x.v for x in values], axis), tuple(values), lambda g: np.split(g, ends, axis))


def stacked(values):
    return Value(np.stack([x.v for x in values]), tuple(values), tuple)


def repeated(x, n):
    """Each head n times, one after the other: [tokens][heads][dim]."""
    return Value(np.repeat(x.v, n, 1), (x,), lambda g: (g.reshape(*x.v.shape[:2], n, -1).sum(2),))


RANDOM = np.random.default_rng(1)


def linear(x, w):
    y = product("ti,oi->to", x, w)
    if not NOISE:
        return y
    size = NOISE * np.sqrt((y.v ** 2).mean(-1, keepdims=True))
    return Value(y.v + size * RANDOM.standard_normal(y.v.shape), (y,), lambda g: (g,))


def norm(x, weight, eps, one=1.0):
    """Norms are stored less 1, those behind a recurrence whole (`one` 0)."""
    return x * root((x * x).sum() * (1 / x.v.shape[-1]) + eps) * (weight + one)


def rotated(x, c):
    n = int(c["head_dim"] * c["rope_parameters"]["partial_rotary_factor"])
    angle = np.arange(x.v.shape[0])[:, None] * c["rope_parameters"]["rope_theta"] ** (-np.arange(0, n, 2) / n)
    a, b, cos, sin = x[..., :n // 2], x[..., n // 2:n], np.cos(angle)[:, None], np.sin(angle)[:, None]
    return joined([a * cos - b * sin, b * cos + a * sin, x[..., n:]], -1)


def delta_rule(w, c, x):
    """The gated delta rule between two projections, one token after the other."""
    tokens, n_keys, heads = x.v.shape[0], c["linear_num_key_heads"], c["linear_num_value_heads"]
    keys, values = c["linear_key_head_dim"], c["linear_value_head_dim"]
    mixed, taps = linear(x, w("in_proj_qkv.weight")), w("conv1d.weight")
    n_taps = taps.v.shape[-1]
    padded = joined([Value(np.zeros((n_taps - 1, mixed.v.shape[1]))), mixed], 0)
    terms = [padded[k:k + tokens] * taps[:, 0, k] for k in range(n_taps)]
    mixed = silu(sum(terms[1:], terms[0]))

    def unit(first):
        h = mixed[:, first:first + n_keys * keys].shaped(tokens, n_keys, keys)
        return repeated(h * root((h * h).sum() + 1e-6), heads // n_keys)

    q, k = unit(0) * keys ** -0.5, unit(n_keys * keys)
    v = mixed[:, 2 * n_keys * keys:].shaped(tokens, heads, values)
    beta = sigmoid(linear(x, w("in_proj_b.weight"))).shaped(tokens, heads, 1)
    decay = exp(exp(w("A_log")) * softplus(linear(x, w("in_proj_a.weight")) + w("dt_bias")) * -1.0)
    state, out = Value(np.zeros((heads, keys, values))), []
    for t in range(tokens):
        state = state * decay[t].shaped(heads, 1, 1)
        change = (v[t] - product("hk,hkv->hv", k[t], state)) * beta[t]
        state = state + product("hk,hv->hkv", k[t], change)
        out.append(product("hk,hkv->hv", q[t], state))
    z = linear(x, w("in_proj_z.weight")).shaped(tokens, heads, values)
    y = norm(stacked(out), w("norm.weight"), c["rms_norm_eps"], 0.0) * silu(z)
    return linear(y.shaped(tokens, heads * values), w("out_proj.weight"))


def softmax(x):
    """Rows of scores, those of later tokens left out."""
    seen = np.tril(np.ones(x.v.shape[-2:]))
    e = exp((x - np.where(seen, x.v, -np.inf).max(-1, keepdims=True)) * seen) * seen
    return e * exp(log(e.sum()) * -1.0)


def attention(w, c, x):
    tokens, heads, dim = x.v.shape[0], c["num_attention_heads"], c["head_dim"]
    kv, eps = c["num_key_value_heads"], c["rms_norm_eps"]
    both = linear(x, w("q_proj.weight")).shaped(tokens, heads, 2 * dim)
    q = rotated(norm(both[..., :dim], w("q_norm.weight"), eps), c)
    k = linear(x, w("k_proj.weight")).shaped(tokens, kv, dim)
    k = repeated(rotated(norm(k, w("k_norm.weight"), eps), c), heads // kv)
    v = repeated(linear(x, w("v_proj.weight")).shaped(tokens, kv, dim), heads // kv)
    p = softmax(product("shd,thd->hst", q, k) * dim ** -0.5)
    y = product("hst,thd->shd", p, v) * sigmoid(both[..., dim:])
    return linear(y.shaped(tokens, heads * dim), w("o_proj.weight"))


def document_loss(params, c, ids, labels):
    """The sum of -log p over one document."""
    table, eps = params["model.embed_tokens.weight"], c["rms_norm_eps"]
    x = table[ids]
    for i, kind in enumerate(c["layer_types"]):
        def w(name, at=f"model.layers.{i}."):
            return params[at + name]
        h = norm(x, w("input_layernorm.weight"), eps)
        recurs = kind == "linear_attention"
        inside = (lambda name, w=w: w("linear_attn." + name)) if recurs else (lambda name, w=w: w("self_attn." + name))
        x = x + (delta_rule if recurs else attention)(inside, c, h)
        h = norm(x, w("post_attention_layernorm.weight"), eps)
        x = x + linear(silu(linear(h, w("mlp.gate_proj.weight"))) * linear(h, w("mlp.up_proj.weight")),
                       w("mlp.down_proj.weight"))
    logits = linear(norm(x, params["model.norm.weight"], eps), params.get("lm_head.weight", table))
    most = logits.v.max(-1, keepdims=True)
    all_p = log(exp(logits - most).sum()) + most
    chosen = logits[np.arange(len(ids)), labels].shaped(len(ids), 1)
    return (all_p - chosen).shaped(1, len(ids)).sum()


def gradients(tensors, c, documents):
    """The mean loss and the gradient of every parameter; `documents` are pairs of ids and labels."""
    params = {name: Value(values) for name, values in tensors.items()}
    n = sum(len(ids) for ids, _ in documents)
    losses = [document_loss(params, c, ids, labels) for ids, labels in documents]
    loss = sum(losses[1:], losses[0]) * (1 / n)
    loss.backward()
    return float(loss.v.reshape(-1)[0]), {name: p.g for name, p in params.items()}


def model_of(folder):
    with open(os.path.join(folder, "config.json")) as file:
        return json.load(file), read(os.path.join(folder, "model.safetensors"))


def distance(a, b):
    return float(np.linalg.norm(a - b) / np.linalg.norm(b))


def show(what, found, exact):
    worst = sorted(((distance(g, exact[name]), name) for name, g in found.items()), reverse=True)
    print(what + ": " + ", ".join(f"{d:.1e} {name}" for d, name in worst[:3]), flush=True)


def judge(folder):
    global NOISE
    c, tensors = model_of(folder)
    golden = read(os.path.join(folder, "golden_grad.safetensors"))
    documents = list(zip(golden["input_ids"], golden["labels"]))
    loss, exact = gradients(tensors, c, documents)
    print(f"loss {loss:.9f}, of the file {golden['loss'][0]:.9f}")
    show("the file from f64", {k[5:]: v for k, v in golden.items() if k.startswith("grad.")}, exact)
    NOISE = 2.0 ** -24
    for _ in range(6):
        show("f64 with one rounding to f32 behind linear layers", gradients(tensors, c, documents)[1], exact)


def write(out):
    c = weights.config_of("qwen3_5")
    path = os.path.join(out, "model.safetensors")
    weights.family("qwen3_5").write(path)
    tensors = read(path)
    os.remove(path)
    n = sum(DOCUMENTS)
    ids = np.array([3 + u % (c["vocab_size"] - 3) for u in weights.words("ids/qwen3_5/long", n + 1)], np.int64)
    ends = np.cumsum((0,) + DOCUMENTS)
    documents = [(ids[a:b], ids[a + 1:b + 1]) for a, b in zip(ends, ends[1:])]
    loss, found = gradients(tensors, c, documents)
    t = weights.Tensors("")
    for name, values in (("input_ids", ids[:-1]), ("labels", ids[1:])):
        t.all[name] = ("I32", [n], values.astype("<i4").tobytes())
    t.all["starts"] = ("I32", [n], np.repeat(ends[:-1], DOCUMENTS).astype("<i4").tobytes())
    t.all["loss"] = ("F32", [1], np.array([loss], "<f4").tobytes())
    for name, g in found.items():
        if any(word in name for word in SMALL):
            t.all["grad." + name] = ("F32", list(g.shape), g.astype("<f4").tobytes())
    t.write(os.path.join(out, "golden_f64.safetensors"))


if __name__ == "__main__":
    if sys.argv[1] == "--judge":
        judge(sys.argv[2])
    else:
        write(sys.argv[1])
