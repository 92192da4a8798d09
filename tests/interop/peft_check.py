#!/usr/bin/env python3
"""An adapter of Tern in PEFT, and back: loads a Hugging Face folder and an adapter that `tern finetune --lora R -o FOLDER`
made for it, compares PEFT's logits with those of `tern logits`, lets PEFT save the adapter, and compares once more. Needs
torch, transformers and peft, so it is run by hand:

    tests/interop/peft_check.py MODEL ADAPTER [--tern build/release/tern] [--ids 1,2,3]

Fails where the keys of adapter_config.json are not those of this PEFT's LoraConfig, where PEFT says that keys or
tensors are missing or left over, or where the logits differ by more than --tolerance of the adapter's own effect."""
import argparse
import dataclasses
import json
import os
import subprocess
import sys
import tempfile
import warnings

import numpy
import peft
import torch
import transformers


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", help="Hugging Face folder")
    parser.add_argument("adapter", help="PEFT folder written by Tern")
    parser.add_argument("--tern", default="tern")
    parser.add_argument("--ids", default=",".join(str(i) for i in range(3, 35)), help="token ids: 1,2,3")
    parser.add_argument("--tolerance", type=float, default=0.02, help="largest mean difference, of the adapter's effect")
    return parser.parse_args()


def config_keys(folder):
    """What PEFT would write and the file lacks, and the other way round."""
    with open(os.path.join(folder, "adapter_config.json"), encoding="utf-8") as file:
        found = set(json.load(file))
    wanted = {field.name for field in dataclasses.fields(peft.LoraConfig)} - {"runtime_config"}
    return sorted(wanted - found), sorted(found - wanted)


def tern_logits(tern, model, ids, adapter=None):
    command = [tern, "logits", "-m", model, "--ids", ids] + (["--lora", adapter] if adapter else [])
    numbers = numpy.frombuffer(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout, "<f4")
    return numbers.reshape(len(ids.split(",")), -1).astype(numpy.float64)


def torch_logits(model, ids):
    with torch.no_grad():
        out = model(torch.tensor([[int(i) for i in ids.split(",")]])).logits[0]
    return out.double().numpy()


def load(args, adapter):
    base = transformers.AutoModelForCausalLM.from_pretrained(args.model, dtype=torch.float32)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        model = peft.PeftModel.from_pretrained(base, adapter)
    left = [str(w.message) for w in said if "adapter" in str(w.message).lower() or "keyword" in str(w.message)]
    return model.eval(), left


def compare(name, ours, theirs, effect, tolerance):
    """Means over all logits; True: near enough."""
    difference = numpy.abs(ours - theirs).mean()
    same = (ours.argmax(1) == theirs.argmax(1)).mean()
    print(f"{name}: mean difference {difference:.3g}, the adapter's effect {effect:.3g}, same top-1 {100 * same:.1f} %")
    return difference <= tolerance * effect


def main():
    args = arguments()
    missing, unknown = config_keys(args.adapter)
    print(f"peft {peft.__version__}, transformers {transformers.__version__}, torch {torch.__version__}")
    print(f"adapter_config.json: keys missing {missing or 'none'}, keys that this PEFT lacks {unknown or 'none'}")
    model, said = load(args, args.adapter)
    for text in said:
        print(f"PEFT says: {text}")
    ours = tern_logits(args.tern, args.model, args.ids, args.adapter)
    theirs = torch_logits(model, args.ids)
    effect = numpy.abs(ours - tern_logits(args.tern, args.model, args.ids)).mean()
    good = compare("read by PEFT", ours, theirs, effect, args.tolerance) and effect > 0
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        back = tern_logits(args.tern, args.model, args.ids, folder)
    good = compare("written by PEFT", back, ours, effect, args.tolerance) and good
    return 0 if good and not missing and not (said and not unknown) else 1


if __name__ == "__main__":
    sys.exit(main())
