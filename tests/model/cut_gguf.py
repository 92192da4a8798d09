"""Cuts a GGUF file into parts as llama.cpp's gguf-split does, from the format's description alone.

Usage: cut_gguf.py IN.gguf OUT_STEM PARTS [--no-tensors-first]   (writes OUT_STEM-00001-of-0000N.gguf and so on)
"""
import struct
import sys

ALIGNMENT = 32
SIZES = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
U16, I32 = 2, 5


class Reader:
    def __init__(self, data):
        self.data, self.at = data, 0

    def take(self, n):
        self.at += n
        return self.data[self.at - n:self.at]

    def number(self, form):
        return struct.unpack("<" + form, self.take(struct.calcsize("<" + form)))[0]

    def text(self):
        return self.take(self.number("Q"))

    def skip(self, kind):
        if kind == 8:
            self.text()
        elif kind == 9:
            kind, n = self.number("I"), self.number("Q")
            for _ in range(n):
                self.skip(kind)
        else:
            self.take(struct.calcsize("<" + SIZES[kind]))


def read(data):
    """The bytes of each pair by key, and (name, bytes of dims and type, bytes of data) of each tensor."""
    r = Reader(data)
    assert r.take(4) == b"GGUF" and r.number("I") == 3
    n_tensors, n_keys = r.number("Q"), r.number("Q")
    pairs, tensors = {}, []
    for _ in range(n_keys):
        start, key = r.at, r.text()
        r.skip(r.number("I"))
        pairs[key] = data[start:r.at]
    for _ in range(n_tensors):
        name, start = r.text(), r.at
        r.take(8 * r.number("I") + 4)
        tensors.append([name, data[start:r.at], r.number("Q")])
    base = -(-r.at // ALIGNMENT) * ALIGNMENT
    ends = sorted(t[2] for t in tensors) + [len(data) - base]
    for t in tensors:  # with its padding
        end = min(e for e in ends if e > t[2])
        t[2] = data[base + t[2]:base + end]
    return pairs, tensors


def pair(key, kind, value):
    return struct.pack("<Q", len(key)) + key + struct.pack("<I" + SIZES[kind], kind, value)


def pad(b):
    return b + b"\0" * (-len(b) % ALIGNMENT)


def write(pairs, tensors):
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(pairs)) + b"".join(pairs)
    offset = 0
    for name, shape, data in tensors:
        head += struct.pack("<Q", len(name)) + name + shape + struct.pack("<Q", offset)
        offset += len(pad(data))
    return pad(head) + b"".join(pad(data) for _, _, data in tensors)


def place(no, count, n_tensors):
    return [pair(b"split.no", U16, no), pair(b"split.count", U16, count), pair(b"split.tensors.count", I32, n_tensors)]


def cut(data, parts, no_tensors_first=False):
    """The bytes of each part; `no_tensors_first`: the first holds metadata alone."""
    pairs, tensors = read(data)
    with_tensors = parts - no_tensors_first
    each = -(-len(tensors) // with_tensors)
    lists = [tensors[i * each:(i + 1) * each] for i in range(with_tensors)]
    lists = [[]] * no_tensors_first + lists
    return [write((list(pairs.values()) if i == 0 else []) + place(i, parts, len(tensors)), some)
            for i, some in enumerate(lists)]


def names(stem, parts):
    return ["%s-%05d-of-%05d.gguf" % (stem, i + 1, parts) for i in range(parts)]


def main():
    words = [w for w in sys.argv[1:] if not w.startswith("--")]
    with open(words[0], "rb") as file:
        made = cut(file.read(), int(words[2]), "--no-tensors-first" in sys.argv)
    for name, data in zip(names(words[1], len(made)), made):
        with open(name, "wb") as file:
            file.write(data)
        print(name)


if __name__ == "__main__":
    main()
