#!/usr/bin/env python3
"""Writes the golden files: what PyTorch and transformers compute from the models of weights.py.

    golden.py OUT [NAME ...]

Needs PyTorch and transformers (made with 2.11 and 5.17) and no network; NAME is one of the parts below, by default all.
OUT gets the folders of this one. float32 arithmetic on the bf16 weights, eager attention. README.md says what the files
hold.
"""
import json
import os
import subprocess
import sys
import tempfile
import traceback

import torch
import transformers
from safetensors.torch import save_file
from torch import nn

import weights

LENGTHS = (5, 33, 70)  # of the inputs; windows are 16, pages of caches 32
GREEDY = 8, 24         # tokens of the prompt, tokens behind it


class RoundActivations(torch.autograd.Function):
    """int8 for each row, straight through."""
    near = None  # counts elements that lie near the edge of their rounding, where it is a list

    @staticmethod
    def forward(ctx, x):
        scale = 127 / x.abs().max(dim=-1, keepdim=True).values.clamp(min=1e-5)
        y = x * scale
        if RoundActivations.near is not None:
            RoundActivations.near.append(int(((y - y.floor() - 0.5).abs() < 3e-5).sum()))
        return y.round().clamp(-128, 127) / scale

    @staticmethod
    def backward(ctx, gradient):
        return gradient


class RoundWeights(torch.autograd.Function):
    """-1, 0 and 1 times the mean magnitude, straight through."""

    @staticmethod
    def forward(ctx, w):
        scale = 1 / w.abs().mean().clamp(min=1e-5)
        return (w * scale).round().clamp(-1, 1) / scale

    @staticmethod
    def backward(ctx, gradient):
        return gradient


class BitLinear(nn.Module):
    """A linear layer of BitNet b1.58; with `scale`, of stored codes."""

    def __init__(self, weight, scale=None):
        super().__init__()
        self.weight, self.scale, self.lora, self.kept = nn.Parameter(weight), scale, None, None

    def rounded_weight(self):
        if self.training or self.kept is None:
            self.kept = RoundWeights.apply(self.weight)
        return self.kept

    def forward(self, x):
        rounded = RoundActivations.apply(x)
        if self.scale is not None:
            y = nn.functional.linear(rounded, self.weight) * self.scale
        else:
            y = nn.functional.linear(rounded, self.rounded_weight())
        if self.lora:
            a, b, factor = self.lora
            y = y + nn.functional.linear(nn.functional.linear(x, a), b) * factor
        return y


def torch_tensors(t):
    """Tensors of weights.py as PyTorch has them, floats as float32."""
    kinds = {"BF16": torch.bfloat16, "F32": torch.float32, "U8": torch.uint8}
    out = {}
    for name, (dtype, shape, data) in t.all.items():
        x = torch.frombuffer(bytearray(data), dtype=kinds[dtype]).reshape(shape)
        out[name] = x if dtype == "U8" else x.float()
    return out


FP4 = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, -0.0, -0.5, -1.0, -1.5, -2.0, -3.0, -4.0, -6.0]


def dequantised(blocks, scales):
    """MXFP4 as numbers: the low half of a byte is the first of its two."""
    table = torch.tensor(FP4)
    pairs = torch.stack([table[(blocks & 15).long()], table[(blocks >> 4).long()]], dim=-1)
    numbers = pairs.flatten(-2) * torch.exp2(scales.float() - 127)[..., None]
    return numbers.flatten(-2)


def class_names(state, wanted):
    """The tensors of a hub folder under the names and in the shapes of transformers' class."""
    out = {}
    for name, value in state.items():
        if name.endswith("_blocks"):
            name = name.removesuffix("_blocks")
            value = dequantised(value, state[name + "_scales"])
            first = name.replace("down_proj", "gate_up_proj")  # not square, so its shape tells the order
            if wanted[first].shape[1] != state[first + "_blocks"].shape[1]:  # [inputs][outputs]
                value = value.transpose(1, 2).contiguous()
        elif name.endswith("_scales"):
            continue
        elif ".mlp.experts." in name and name.endswith(("_proj.weight")):
            if not name.endswith(".0.gate_proj.weight"):
                continue
            at, n = name.removesuffix("0.gate_proj.weight"), 0
            while f"{at}{n}.gate_proj.weight" in state:
                n += 1
            out[at + "gate_up_proj"] = torch.stack(
                [torch.cat([state[f"{at}{e}.gate_proj.weight"], state[f"{at}{e}.up_proj.weight"]]) for e in range(n)])
            out[at + "down_proj"] = torch.stack([state[f"{at}{e}.down_proj.weight"] for e in range(n)])
            continue
        elif ".block_sparse_moe.experts." in name:
            if not name.endswith(".0.w1.weight"):
                continue
            at, n = name.removesuffix("0.w1.weight"), 0
            while f"{at}{n}.w1.weight" in state:
                n += 1
            ours = at.replace(".block_sparse_moe.", ".mlp.")
            out[ours + "gate_up_proj"] = torch.stack(
                [torch.cat([state[f"{at}{e}.w1.weight"], state[f"{at}{e}.w3.weight"]]) for e in range(n)])
            out[ours + "down_proj"] = torch.stack([state[f"{at}{e}.w2.weight"] for e in range(n)])
            continue
        out[name.replace(".block_sparse_moe.gate", ".mlp.gate")] = value
    return out


def bare_config(c):
    """What transformers' class of a configuration takes: no quantisation, and RoPE in one form."""
    drop = ("quantization_config", "architectures", "model_type", "transformers_version", "torch_dtype", "dtype",
            "rope_theta", "rope_scaling", "rope_local_base_freq", "sliding_window_pattern", "_sliding_window_pattern")
    rope = c.get("rope_parameters") or dict(rope_type="default", rope_theta=c["rope_theta"])
    return {k: v for k, v in c.items() if k not in drop} | dict(rope_parameters=rope)


def fill(model, state):
    """Copies every tensor; a name or a shape that differs is an error."""
    wanted = model.state_dict()
    state = class_names(state, wanted)
    if "lm_head.weight" in wanted and "lm_head.weight" not in state:
        state["lm_head.weight"] = state["model.embed_tokens.weight"]
    missing, extra = sorted(set(wanted) - set(state)), sorted(set(state) - set(wanted))
    shapes = [(k, tuple(state[k].shape), tuple(wanted[k].shape)) for k in set(wanted) & set(state)
              if state[k].shape != wanted[k].shape]
    if missing or extra or shapes:
        raise ValueError(f"missing {missing[:6]}, extra {extra[:6]}, shapes {shapes[:6]}")
    model.load_state_dict(state)


def unpacked(state):
    """Codes and scales of packed weights: name -> (codes, scale)."""
    out = {}
    for name, value in state.items():
        if value.dtype == torch.uint8:
            codes = torch.cat([(value >> shift & 3).float() - 1 for shift in (0, 2, 4, 6)])
            out[name] = codes, state[name + "_scale"]
    return out


def built(c, tensors):
    """transformers' model of a configuration with these weights, in float32; BitNet's layers are BitLinear."""
    config = transformers.AutoConfig.for_model(c["model_type"], **bare_config(c))
    model = transformers.AutoModelForCausalLM.from_config(config, attn_implementation="eager", dtype=torch.float32)
    state = torch_tensors(tensors)
    codes = unpacked(state) if c["model_type"] == "bitnet" else {}
    for name, (values, _) in codes.items():
        state[name] = values
        del state[name + "_scale"]
    try:
        fill(model, state)
    except (KeyError, ValueError) as e:
        print(f"  {e}: read by from_pretrained", flush=True)
        model = from_folder(c, tensors)[0]
    if c["model_type"] == "bitnet":
        for name, module in list(model.named_modules()):
            if isinstance(module, nn.Linear) and name != "lm_head":
                parent = model.get_submodule(name.rpartition(".")[0])
                scale = codes.get(name + ".weight", (None, None))[1]
                setattr(parent, name.rpartition(".")[2], BitLinear(module.weight.detach(), scale))
    return model.eval()


def logits_of(model, ids, hidden=False):
    o = model(torch.tensor([ids]), output_hidden_states=hidden, use_cache=False)
    rows = o.logits[0].float()
    return (rows, torch.stack([h[0].float() for h in o.hidden_states])) if hidden else rows


def some_ids(name, n, vocab):
    return [3 + u % (vocab - 3) for u in weights.words("ids/" + name, n)]


def greedy(model, ids, n, least=0):
    """n tokens behind `ids`, and how far each is above the next; fewer where that is below `least`."""
    ids, margins = list(ids), []
    while len(margins) < n and min(margins, default=1) >= least:
        top = logits_of(model, ids)[-1].topk(2)
        margins.append(float(top.values[0] - top.values[1]))
        ids.append(int(top.indices[0]))
    return ids, margins


def write(out, path, tensors):
    path = os.path.join(out, path)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    save_file({k: v.contiguous() for k, v in tensors.items()}, path)
    print(f"{path}: {os.path.getsize(path)} bytes", flush=True)


def integers(ids):
    return torch.tensor(ids, dtype=torch.int32)


def inputs_of(model, inputs):
    """Logits of each input, hidden states of the first."""
    g = {}
    for i, ids in enumerate(inputs):
        g[f"{i}.input_ids"] = integers(ids)
        if i == 0:
            g["0.logits"], g["0.hidden"] = logits_of(model, ids, hidden=True)
        else:
            g[f"{i}.logits"] = logits_of(model, ids)
    return g


def from_folder(c, tensors):
    """transformers' own reading of a hub folder, and what it says of it."""
    options = dict(dtype=torch.float32, attn_implementation="eager")
    if c["model_type"] == "gpt_oss":
        options["quantization_config"] = transformers.Mxfp4Config(dequantize=True)
    with tempfile.TemporaryDirectory() as folder:
        tensors.write(os.path.join(folder, "model.safetensors"))
        weights.write_json(folder, "config.json", c)
        model, info = transformers.AutoModelForCausalLM.from_pretrained(folder, output_loading_info=True, **options)
    return model.float().to("cpu").eval(), {k: sorted(v)[:3] for k, v in info.items() if v}


def hub_check(name, model, c):
    """Whether transformers, reading the folder itself, gives the same."""
    other, info = from_folder(c, weights.family(name))
    ids = some_ids(f"{name}/1", LENGTHS[1], c["vocab_size"])
    x, y = logits_of(model, ids), logits_of(other, ids)
    print(f"  from_pretrained: rms of the difference {float((x - y).pow(2).mean().sqrt() / x.std()):.2e} of the spread; "
          f"{info}", flush=True)


def family(out, name):
    c = weights.config_of(name)
    model = built(c, weights.family(name))
    lengths = LENGTHS[:2] if name == "bitnet-packed" else LENGTHS
    with torch.no_grad():
        g = inputs_of(model, [some_ids(f"{name}/{i}", n, c["vocab_size"]) for i, n in enumerate(lengths)])
        ids, margins = greedy(model, some_ids(f"{name}/greedy", GREEDY[0], c["vocab_size"]), GREEDY[1])
    g["greedy.ids"], g["greedy.margins"] = integers(ids), torch.tensor(margins)
    write(out, f"{name}/golden.safetensors", g)
    print(f"  {type(model).__name__}: spread of logits {g['1.logits'].std():.3f}, hidden "
          f"{[round(float(h.std()), 2) for h in g['0.hidden']]}, margins {[round(m, 3) for m in sorted(margins)]}")
    try:
        with torch.no_grad():
            hub_check(name, model, c)
    except Exception as e:
        print(f"  from_pretrained: {e!r:.300}", flush=True)


def batch_of(seed, vocab):
    """Two sequences of 32 and the token behind each position."""
    ids = torch.tensor(some_ids(seed, 66, vocab)).reshape(2, 33)
    return ids[:, :32], ids[:, 1:]


def mean_loss(model, ids, labels):
    logits = model(ids, use_cache=False).logits.float()
    return logits, nn.functional.cross_entropy(logits.reshape(-1, logits.shape[-1]), labels.reshape(-1))


def calm_seed(c, name, tries=60):
    """The seed of weights at which the fewest activations lie near the edge of their rounding."""
    found = []
    for i in range(tries):
        seed = f"{name}{i}" if i else name
        model = built(c, weights.family(name, seed))
        RoundActivations.near = []
        with torch.no_grad():
            mean_loss(model, *batch_of(seed + "/batch", c["vocab_size"]))
        found.append((sum(RoundActivations.near), seed))
        RoundActivations.near = None
    found.sort()
    print(f"  activations near an edge: {found[0][0]} to {found[-1][0]}", flush=True)
    return found[0][1]


def gradients(out, name):
    """Gradients of the mean loss, of the table and of the first two layers, one of each kind."""
    c = weights.config_of(name)
    model = built(c, weights.family(name)).train()
    ids, labels = batch_of(name + "/batch", c["vocab_size"])
    _, loss = mean_loss(model, ids, labels)
    loss.backward()
    g = {"input_ids": ids.to(torch.int32), "labels": labels.to(torch.int32), "loss": loss.detach().reshape(1)}
    for k, p in named(model):
        if ".layers." not in k or ".layers.0." in k or ".layers.1." in k:
            g["grad." + k] = p.grad.clone()
    write(out, f"{name}/golden_grad.safetensors", g)
    print(f"  loss {float(loss):.6f}, {len(g) - 3} gradients", flush=True)


FINAL = ("model.embed_tokens.weight", "model.layers.0.self_attn.q_proj.weight", "model.layers.1.mlp.down_proj.weight",
         "model.norm.weight")


def named(model):
    """Parameters by the names of the file."""
    return [(k, p) for k, p in model.named_parameters() if k != "lm_head.weight"]


def trained(out, name, seed):
    """Gradients of the mean loss, and a run of AdamW."""
    c = weights.config_of(name)
    model = built(c, weights.family(name, seed)).train()
    ids, labels = batch_of(seed + "/batch", c["vocab_size"])
    groups = [dict(params=[p for _, p in named(model) if p.ndim > 1], weight_decay=0.01),
              dict(params=[p for _, p in named(model) if p.ndim == 1], weight_decay=0.0)]
    optimiser = torch.optim.AdamW(groups, lr=1e-3, betas=(0.9, 0.999), eps=1e-8)
    g, losses = {"input_ids": ids.to(torch.int32), "labels": labels.to(torch.int32)}, []
    for step in range(30):
        optimiser.zero_grad()
        _, loss = mean_loss(model, ids, labels)
        loss.backward()
        losses.append(float(loss))
        if step == 0:
            for k, p in named(model):
                g["grad." + k] = p.grad.clone()
        norm = torch.nn.utils.clip_grad_norm_([p for _, p in named(model)], 1.0)
        if step == 0:
            g["grad_norm"] = norm.reshape(1).float()
        optimiser.step()
    g["adamw.losses"] = torch.tensor(losses)
    for k, p in named(model):
        if k in FINAL:
            g["adamw.final." + k] = p.detach().clone()
    write(out, f"{name}/golden_train.safetensors", g)
    print(f"  seed {seed}: {len([k for k in g if k.startswith('grad.')])} gradients, norm {float(g['grad_norm']):.4f}, "
          f"losses {losses[0]:.6f} to {losses[-1]:.6f}", flush=True)


def lora(out, name, seed, rank=8, alpha=16):
    """Logits, loss and gradients of low-rank matrices beside every projection."""
    c = weights.config_of(name)
    model = built(c, weights.family(name, seed)).train()
    halves = {k: nn.Parameter(v) for k, v in torch_tensors(weights.adapter(seed, c, rank)).items()}
    for p in model.parameters():
        p.requires_grad_(False)
    for k, module in model.named_modules():
        if isinstance(module, BitLinear):
            at = f"base_model.model.{k}."
            module.lora = halves[at + "lora_A.weight"], halves[at + "lora_B.weight"], alpha / rank
    ids, labels = batch_of(seed + "/batch", c["vocab_size"])
    logits, loss = mean_loss(model, ids, labels)
    loss.backward()
    g = {"input_ids": ids.to(torch.int32), "labels": labels.to(torch.int32), "logits": logits.detach(),
         "loss": loss.detach().reshape(1)}
    for k, p in halves.items():
        g["grad." + k.replace(".weight", ".default.weight")] = p.grad
    write(out, f"{name}/golden_lora.safetensors", g)
    print(f"  loss {float(loss):.6f}, gradients of A and B: "
          f"{[round(float(p.grad.norm()), 5) for p in list(halves.values())[:4]]}", flush=True)


def training(out):
    name = "bitnet-train"
    seed = calm_seed(weights.config_of(name), name)
    trained(out, name, seed)
    lora(out, name, seed)
    with open(os.path.join(out, name, "seed"), "w") as file:
        file.write(seed + "\n")


def corpus(seed):
    """Stories that the bundled model has not seen."""
    script = os.path.join(weights.ROOT, "scripts", "corpus-stories.py")
    lines = subprocess.run([sys.executable, script, "--stories", "200", "--seed", str(seed)], check=True,
                           capture_output=True, text=True).stdout.splitlines()
    return [json.loads(line)["text"] for line in lines]


def prompts():
    """Beginnings of stories, of 3 to 8 words."""
    return sorted({" ".join(text.split(" ")[:3 + i % 6]) for i, text in enumerate(corpus(990018))})


def held_out(enough):
    """About this many characters of stories."""
    text = ""
    for story in corpus(990017):
        if len(text) < enough:
            text += story + "\n"
    return text


def stories(out):
    from tokenizers import Tokenizer
    g, tensors = weights.stories()
    c, bos = weights.stories_config(g), g.values["tokenizer.ggml.bos_token_id"]
    model, t = built(c, tensors), Tokenizer.from_str(json.dumps(weights.stories_tokenizer(g)))
    folder, texts = os.path.join(out, weights.STORIES), []

    def encode(text):
        return t.encode(text, add_special_tokens=False).ids

    os.makedirs(folder, exist_ok=True)
    with torch.no_grad():
        for prompt in prompts():
            ids, margins = greedy(model, [bos] + encode(prompt), 64, least=0.005)
            if len(margins) == 64 and max(ids[1:]) < bos:
                texts.append((min(margins), prompt, ids))
        chosen = sorted(texts, reverse=True)[:5]
        print("  " + "\n  ".join(f"{m:.4f} {p!r}" for m, p, _ in chosen), flush=True)
        golden = {p: dict(ids=ids, min_margin=m, text=t.decode(ids, skip_special_tokens=True)) for m, p, ids in chosen}
        weights.write_json(folder, "golden_greedy.json", golden)
        write(folder, "golden_logits.safetensors", inputs_of(model, [[bos] + encode(p) for p in golden]))
        text = held_out(17500)
        with open(os.path.join(folder, "heldout.txt"), "w", encoding="utf-8") as file:
            file.write(text)
        ids, sums = encode(text), []
        print(f"  held out: {len(text)} characters, {len(ids)} tokens")
        for at in range(0, 4096, 512):
            window = ids[at:at + 512]
            p = logits_of(model, window).double().log_softmax(-1)
            sums += [-float(p[i, window[i + 1]]) for i in range(len(window) - 1)]
        nll = sum(sums) / len(sums)
        weights.write_json(folder, "golden_ppl.json", dict(
            text="heldout.txt, first 4096 tokens, 8 windows of 512, first token of each not scored", mean_nll=nll,
            ppl=float(torch.tensor(nll, dtype=torch.float64).exp())))
        print(f"  mean -log p {nll:.6f}, {len(sums)} tokens", flush=True)


def main():
    out, names = sys.argv[1], sys.argv[2:]
    torch.manual_seed(0)
    print(f"torch {torch.__version__}, transformers {transformers.__version__}, python {sys.version.split()[0]}")
    parts = {name: (lambda name=name: family(out, name)) for name in weights.FAMILIES if name != "bitnet-train"}
    parts |= {"qwen3_5-gradients": lambda: gradients(out, "qwen3_5")}
    parts |= {"training": lambda: training(out), "stories": lambda: stories(out)}
    try:
        import vocabularies
        parts["tokenizers"] = lambda: vocabularies.make(out)
    except Exception as e:
        print(f"no vocabularies: {e}")
    failed = []
    for name, part in parts.items():
        if names and name not in names:
            continue
        print(name, flush=True)
        try:
            part()
        except Exception:
            failed.append(name)
            print(traceback.format_exc()[-2500:], flush=True)
    print(f"failed: {failed}" if failed else "all made")


if __name__ == "__main__":
    main()
