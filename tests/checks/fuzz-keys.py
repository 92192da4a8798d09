#!/usr/bin/env python3
"""Checks that fuzzers begin with each key and family that models are read by.

Usage: fuzz-keys.py SOURCE. Keys are the strings in calls which read one, or in a table of such ({"key", ...}), in
src/model/config/{gguf,hf}*.c and pooling.c, families the rows of src/model/family.c; each must be in some seed of
tests/fuzz/corpus, those of GGUF files in model.tar, those of config.json in hf_config.tar.
"""
import glob
import os
import re
import sys
import tarfile

READS = {
    "gguf": (re.compile(r'(?:maybe_[uf]32|need_u32|each_u32|same_u32)\((?:\w+, )+"([\w.]+)"'),
             re.compile(r'tern_gguf_get_\w+\(g, "([\w.]+)"'), re.compile(r'\{"([a-z_.]+)", [\d.]+f?\}'),
             re.compile(r'__key\(\w+, "([\w.]+)"\)')),
    "hf": (re.compile(r'tern_json_(?:get_\w+|has)\(\w+, "(\w+)"'), re.compile(r'read_f\w+\(\w+, "(\w+)"')),
}
SOURCES = {"gguf": ["gguf*.c", "pooling.c"], "hf": ["hf*.c"]}
CORPORA = {"gguf": "model", "hf": "hf_config"}


def seeds(root, name):
    with tarfile.open(f"{root}/tests/fuzz/corpus/{name}.tar") as tar:
        return b"\0".join(tar.extractfile(member).read() for member in tar)


def keys(root, kind):
    found = set()
    for pattern in SOURCES[kind]:
        for path in glob.glob(os.path.join(root, "src/model/config", pattern)):
            source = open(path, encoding="utf-8").read()
            found.update(key for read in READS[kind] for key in read.findall(source))
    return found


def main():
    root = sys.argv[1]
    missing = []
    for kind, corpus in CORPORA.items():
        text, names = seeds(root, corpus), keys(root, kind)
        if len(names) < 20:
            sys.exit(f"fuzz-keys: {len(names)} keys of {kind} found in src/model/config, at least 20 expected")
        missing += [f"{corpus}: key {key}" for key in sorted(names) if key.encode() not in text]
    table = open(os.path.join(root, "src/model/family.c"), encoding="utf-8").read()
    families = re.findall(r'^    \{"([\w.-]+)", TERN_ACT_\w+, \.', table, re.M)
    text = seeds(root, "model")
    missing += [f"model: family {f}" for f in families if f"{f}.block_count".encode() not in text]
    for line in missing:
        print(f"no seed in tests/fuzz/corpus/{line}")
    sys.exit(1 if missing or len(families) < 10 else 0)


if __name__ == "__main__":
    main()
