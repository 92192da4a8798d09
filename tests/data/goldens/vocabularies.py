"""Makes small vocabularies of each kind, and the ids that their own libraries give to texts.

A part of golden.py. Byte-level BPE is trained with tokenizers on the pages of docs, SentencePiece models with
sentencepiece; ids are those of tokenizers, sentencepiece and tiktoken.
"""
import base64
import glob
import io
import json
import os
import struct

import sentencepiece
import tiktoken
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
import tokenizers

import weights

GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
QWEN2 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|"
         r"\s+(?!\S)|\s+")
TEXTS = (
    "", " ", "  ", "   ", "\n", "\n\n", "\n\n\n", "\t", "\t\n", " \n", "\n ", "\n \n", "\r\n", " \r\n  x", "a", " a", "  a",
    "Hello, world!", " Hello, world!", "Hello  world ", "HELLO World hello", "don't DON'T we'LL 'tis I'm it's you've",
    "'s 'S 'll 'LL 'x", "It was the 3rd of May, 1850; 12345678901234567890 tokens.", "1 12 123 1234 12345 3.14159 1,000",
    "snake_case camelCase SCREAMING_CASE kebab-case", "x = a[i]->y && !(b << 2);  // no", "{\"key\": [1, 2.5e-3, null]}",
    "def f(x):\n    if x:\n        return x ** 2\n\treturn None\n", "https://example.org/a/b?c=d&e=%20#f", "user@example.org",
    "na\u00efve caf\u00e9 \u2014 \u201cquoted\u201d \u2026 end", "e\u0301 against \u00e9, \u212b against \u00c5", "stra\u00dfe \u0130stanbul \u0131",
    "\u041f\u0440\u0438\u0432\u0435\u0442, \u043c\u0438\u0440! \u0415\u0449\u0451 \u0440\u0430\u0437.", "\u0393\u03b5\u03b9\u03ac \u03c3\u03bf\u03c5 \u039a\u03cc\u03c3\u03bc\u03b5",
    "\u4f60\u597d\uff0c\u4e16\u754c\uff01\u4eca\u5929\u5929\u6c14\u5f88\u597d\u3002", "\u65e5\u672c\u8a9e\u306e\u6587\u7ae0\u3068\u30ab\u30bf\u30ab\u30ca", "\uc548\ub155\ud558\uc138\uc694 \uc138\uacc4",
    "\u0645\u0631\u062d\u0628\u0627 \u0628\u0643", "\u05e9\u05dc\u05d5\u05dd", "\u0928\u092e\u0938\u094d\u0924\u0947 \u0967\u0968\u0969",
    "\U0001f642\U0001f680 \U0001f469\u200d\U0001f467 \U0001f1e9\U0001f1ea", "\u00bd \u00b2 \u2167 \ufb01 \u33a1", "\u00a0nbsp\u2003em\u3000wide",
    "\x00\x01\x7f controls", "\ufeffmark", "zero\u200bwidth", "a" * 60, "ab" * 30, " " * 40 + "x", "=" * 33, "!?" * 9 + "\n\n",
    "\\n \\t \\\\", "tabs\tand\t\ttabs", "trailing spaces   \nnext   ", "(a)(b) [c] <d> \u00abe\u00bb", "50 % of 1/2, +3 -4 *5", "~`^|@#$",
)
ALPHABETS = ((0x21, 0x7e), (0x61, 0x7a), (0xa1, 0x17f), (0x391, 0x3a1), (0x410, 0x44f), (0x905, 0x939), (0x4e00, 0x4fff),
             (0xac00, 0xad00), (0x2010, 0x2027), (0x1f300, 0x1f5ff), (0x30, 0x39), (0x20, 0x20), (0x9, 0xd))


def made_texts(n):
    """Strings of random characters of several scripts."""
    out = []
    for i in range(n):
        picks, text = weights.words(f"texts/{i}", 80), ""
        for k in range(1 + picks[0] % 36):
            low, high = ALPHABETS[picks[2 * k + 1] % len(ALPHABETS)]
            text += chr(low + picks[2 * k + 2] % (high - low + 1))
        out.append(text)
    return out


def corpus():
    """Lines to train on: the pages of this repository, and a few of the texts."""
    lines = []
    for path in sorted(glob.glob(os.path.join(weights.ROOT, "docs", "**", "*.md"), recursive=True)):
        with open(path, encoding="utf-8") as file:
            lines += [line.rstrip("\n") for line in file if line.strip()]
    return lines + [text for text in TEXTS if any(ord(c) > 127 for c in text)] * 8


def put(out, name, data):
    with open(os.path.join(out, name), "wb") as file:
        file.write(data)
    print(f"  {name}: {len(data)} bytes", flush=True)


def golden(out, name, texts, encode):
    rows = ",\n ".join(json.dumps(dict(text=text, ids=encode(text))) for text in texts)
    put(out, name, f"[{rows}]\n".encode())


def golden_lines(out, name, texts, encode):
    """Texts between separators, and a line of ids each."""
    put(out, name + ".inp", "".join(text + "\n__ggml_vocab_test__\n" for text in texts).encode())
    put(out, name + ".out", "".join(" " + " ".join(map(str, encode(text))) + "\n" for text in texts).encode())


def gguf(values):
    """A GGUF file of metadata alone: name -> (type, value), arrays as (9, type, values)."""
    forms = {4: "<I", 5: "<i", 6: "<f", 7: "<?", 8: None}

    def text(s):
        return struct.pack("<Q", len(s.encode())) + s.encode()

    def scalar(kind, value):
        return text(value) if kind == 8 else struct.pack(forms[kind], value)

    data = b"GGUF" + struct.pack("<IQQ", 3, 0, len(values))
    for name, (kind, *rest) in values.items():
        data += text(name) + struct.pack("<I", kind)
        if kind == 9:
            data += struct.pack("<IQ", rest[0], len(rest[1])) + b"".join(scalar(rest[0], v) for v in rest[1])
        else:
            data += scalar(kind, rest[0])
    return data


def byte_level(pattern, size, normalizer=None):
    """Byte-level BPE with a pattern that cuts before it (None: that of GPT-2, inside ByteLevel)."""
    t = Tokenizer(models.BPE())
    level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=pattern is None)
    t.pre_tokenizer = level if pattern is None else pre_tokenizers.Sequence(
        [pre_tokenizers.Split(Regex(pattern), "isolated"), level])
    t.decoder = decoders.ByteLevel()
    if normalizer:
        t.normalizer = normalizer
    t.train_from_iterator(corpus(), trainers.BpeTrainer(
        vocab_size=size, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False))
    return t


def ids_of(t):
    return lambda text: t.encode(text, add_special_tokens=False).ids


def bytes_of_characters():
    """GPT-2's characters for bytes."""
    plain = [*range(0x21, 0x7f), *range(0xa1, 0xad), *range(0xae, 0x100)]
    rest = [b for b in range(256) if b not in plain]
    return {chr(b): b for b in plain} | {chr(256 + i): b for i, b in enumerate(rest)}


def llama3(out, texts, lines):
    """Ranks, as tiktoken reads them."""
    t, table = byte_level(weights.LLAMA3, 1500), bytes_of_characters()
    ranks = {bytes(table[c] for c in token): i for token, i in t.get_vocab().items()}
    assert sorted(ranks.values()) == list(range(len(ranks)))
    put(out, "llama3.tiktoken", b"".join(
        base64.b64encode(token) + b" %d\n" % rank for token, rank in sorted(ranks.items(), key=lambda x: x[1])))
    encoding = tiktoken.Encoding("made", pat_str=weights.LLAMA3, mergeable_ranks=ranks, special_tokens={})
    golden(out, "llama3_golden.json", texts, encoding.encode_ordinary)
    golden_lines(out, "ggml-vocab-llama-bpe.gguf", lines, encoding.encode_ordinary)


def gpt2(out, lines):
    t = byte_level(None, 900)
    t.add_special_tokens(["<|endoftext|>"])
    model = json.loads(t.to_str())["model"]
    tokens = [t.id_to_token(i) for i in range(t.get_vocab_size())]
    merges = [m if isinstance(m, str) else " ".join(m) for m in model["merges"]]
    put(out, "ggml-vocab-gpt-2.gguf", gguf({
        "general.architecture": (8, "gpt2"), "general.name": (8, "made"), "tokenizer.ggml.model": (8, "gpt2"),
        "tokenizer.ggml.pre": (8, "gpt-2"), "tokenizer.ggml.tokens": (9, 8, tokens),
        "tokenizer.ggml.token_type": (9, 5, [1] * (len(tokens) - 1) + [3]), "tokenizer.ggml.merges": (9, 8, merges),
        "tokenizer.ggml.bos_token_id": (4, len(tokens) - 1), "tokenizer.ggml.eos_token_id": (4, len(tokens) - 1)}))
    golden_lines(out, "ggml-vocab-gpt-2.gguf", lines + ["<|endoftext|>a<|endoftext|> b"], ids_of(t))


def trained_pieces(size, **options):
    """A SentencePiece BPE model with a token for each byte."""
    file = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(corpus()), model_writer=file, model_type="bpe", vocab_size=size, byte_fallback=True,
        normalization_rule_name="identity", remove_extra_whitespaces=False, split_digits=True, num_threads=1,
        max_sentence_length=1 << 16, character_coverage=0.999, minloglevel=2, **options)
    pieces = sentencepiece.SentencePieceProcessor(model_proto=file.getvalue())
    return file.getvalue(), pieces


def spm1024(out, texts):
    data, pieces = trained_pieces(800, add_dummy_prefix=False, pad_id=0, eos_id=1, bos_id=2, unk_id=3,
                                  user_defined_symbols=["<start_of_turn>", "<end_of_turn>"])
    put(out, "spm1024.model", data)
    golden(out, "spm1024_golden.json", texts, pieces.encode)


def llama_spm(out, lines):
    _, pieces = trained_pieces(700, add_dummy_prefix=True)
    n = pieces.get_piece_size()
    kinds = [2 if pieces.is_unknown(i) else 3 if pieces.is_control(i) else 6 if pieces.is_byte(i) else 1 for i in range(n)]
    put(out, "ggml-vocab-llama-spm.gguf", gguf({
        "general.architecture": (8, "llama"), "general.name": (8, "made"), "tokenizer.ggml.model": (8, "llama"),
        "tokenizer.ggml.pre": (8, "default"), "tokenizer.ggml.tokens": (9, 8, [pieces.id_to_piece(i) for i in range(n)]),
        "tokenizer.ggml.scores": (9, 6, [pieces.get_score(i) for i in range(n)]),
        "tokenizer.ggml.token_type": (9, 5, kinds), "tokenizer.ggml.bos_token_id": (4, pieces.bos_id()),
        "tokenizer.ggml.eos_token_id": (4, pieces.eos_id()), "tokenizer.ggml.unknown_token_id": (4, pieces.unk_id())}))
    golden_lines(out, "ggml-vocab-llama-spm.gguf", lines, pieces.encode)


def folder_of(out, name, t, texts):
    """A tokenizer.json, and its golden ids."""
    os.makedirs(os.path.join(out, name), exist_ok=True)
    put(out, f"{name}/tokenizer.json", t.to_str().encode())
    golden(out, f"{name}_golden.json", texts, ids_of(t))


def qwen2(out, texts):
    t = byte_level(QWEN2, 700, normalizers.NFC())
    t.add_special_tokens(["<|endoftext|>", "<|im_start|>", "<|im_end|>"])
    t.add_tokens([AddedToken("<tool_call>", special=False, normalized=False)])
    folder_of(out, "qwen2", t, texts + ["<|im_start|>user\nHi<|im_end|>\n", "a<tool_call>b"])


def gemma(out, texts):
    """Spaces become a piece of their own, what has no piece becomes bytes."""
    special = ["<pad>", "<eos>", "<bos>", "<unk>"]
    t = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    t.normalizer = normalizers.Replace(" ", "\u2581")
    t.pre_tokenizer = pre_tokenizers.Split(" ", "merged_with_previous")
    t.decoder = decoders.Sequence([decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse()])
    t.train_from_iterator(corpus(), trainers.BpeTrainer(
        vocab_size=800, special_tokens=special + [f"<0x{b:02X}>" for b in range(256)], limit_alphabet=200,
        show_progress=False))
    whole = json.loads(t.to_str())
    whole["added_tokens"] = [a for a in whole["added_tokens"] if a["content"] in special]  # bytes are plain tokens
    t = Tokenizer.from_str(json.dumps(whole))
    folder_of(out, "gemma", t, texts)


def make(out):
    out = os.path.join(out, "tokenizers")
    os.makedirs(out, exist_ok=True)
    print(f"  tokenizers {tokenizers.__version__}, sentencepiece {sentencepiece.__version__}, "
          f"tiktoken {getattr(tiktoken, '__version__', '?')}")
    plain = list(TEXTS) + made_texts(60)
    special = plain + ["<|begin_of_text|>not <|eot_id|> x", "<|start_header_id|>user<|end_header_id|>\n\nHi"]
    lines, failed = list(TEXTS) + made_texts(20), []
    stories = Tokenizer.from_str(json.dumps(weights.stories_tokenizer(weights.stories()[0])))
    parts = {"llama3": lambda: llama3(out, special, lines), "gpt2": lambda: gpt2(out, lines),
             "spm1024": lambda: spm1024(out, plain), "llama_spm": lambda: llama_spm(out, lines),
             "qwen2": lambda: qwen2(out, plain), "gemma": lambda: gemma(out, plain),
             "demo": lambda: golden(out, "demo_golden.json", special, ids_of(stories))}
    for name, part in parts.items():
        try:
            part()
        except Exception as e:
            failed.append(f"{name}: {e!r:.600}")
    if failed:
        raise RuntimeError("; ".join(failed))
