"""Engines, sessions, adapters, grammars: the nouns of include/tern.h."""
from __future__ import annotations

import ctypes
import json
import os
import random
from ctypes import byref, c_bool, c_char_p, c_float, c_int, c_int32, c_void_p
from dataclasses import dataclass, field
from typing import Any, Dict, Iterable, Iterator, List, Mapping, Optional, Sequence, Tuple, Union

from . import _native as n
from .errors import check
from .options import assign, choice, names, plain, words

PathLike = Union[str, "os.PathLike[str]"]
Prompt = Union[str, Sequence[int]]
Message = Mapping[str, str]
lib = n.lib

_GRAMMARS = {"gbnf": 0, "json_schema": 1, "regex": 2, "json": 3}


def version() -> str:
    """The library's version."""
    return str(lib.tern_version().decode())


def _ids(ids: Sequence[int]) -> Any:
    return (c_int32 * len(ids))(*ids)


def _take_tokens(tokens: n.Tokens) -> List[int]:
    ids: List[int] = tokens.ids[: tokens.n] if tokens.n else []
    lib.tern_tokens_deinit(byref(tokens))
    return ids


def _bytes(name: str, text: Any) -> bytes:
    if not isinstance(text, str):
        raise TypeError(f"{name}: {type(text).__name__} found, str expected")
    return text.encode()


def _pairs(messages: Any) -> List[Tuple[bytes, bytes]]:
    """Roles and contents of a conversation."""
    if isinstance(messages, (str, Mapping)):
        raise TypeError(f'messages: {type(messages).__name__} found, a list of {{"role", "content"}} expected')
    pairs = []
    for i, message in enumerate(messages):
        if not isinstance(message, Mapping) or not {"role", "content"} <= set(message):
            raise TypeError(f'messages[{i}]: {message!r:.60} found, {{"role": ..., "content": ...}} expected')
        pairs.append((_bytes(f"messages[{i}].role", message["role"]),
                      _bytes(f"messages[{i}].content", message["content"])))
    if not pairs:
        raise ValueError("messages: none found, at least one expected")
    return pairs


class _Handle:
    """Something of libtern's that is closed once, at the end of a `with` block or when nobody has it any more."""

    _close: Any

    def __init__(self) -> None:
        self._handle = c_void_p()

    @property
    def _open(self) -> c_void_p:
        if not self._handle:
            raise ValueError(f"{type(self).__name__} is closed")
        return self._handle

    def close(self) -> None:
        """Frees it; closing twice is fine."""
        handle, self._handle = getattr(self, "_handle", None), c_void_p()
        if handle:
            type(self)._close(handle)

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        self.close()


@dataclass
class Sampler:
    """How the next token is chosen; the defaults are those of `tern run`. temperature 0: always the likeliest."""

    temperature: float = 0.8
    top_k: int = 40
    top_p: float = 0.95
    min_p: float = 0.05
    typical_p: float = 1.0
    repetition_penalty: float = 1.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    penalty_last_n: int = 64
    seed: Optional[int] = None  # None: another one each time
    logit_bias: Mapping[int, float] = field(default_factory=dict)
    # The members of tern_sampler_chain; 0: off, or the usual value.
    samplers: Sequence[str] = ()  # the steps that run, in this order: "penalties", "dry", "top_k", ...; (): all
    top_n_sigma: float = 0.0
    dynatemp_range: float = 0.0
    dynatemp_exponent: float = 0.0
    xtc_probability: float = 0.0
    xtc_threshold: float = 0.0
    dry_multiplier: float = 0.0
    dry_base: float = 0.0
    dry_allowed_length: int = 0
    dry_last_n: int = 0
    dry_breakers: Optional[Sequence[str]] = None  # None: newline, ":", a quotation mark and "*"
    mirostat_tau: float = 0.0
    mirostat_eta: float = 0.0

    def _chain(self) -> n.SamplerChain:
        numbers = ("top_n_sigma", "dynatemp_range", "dynatemp_exponent", "xtc_probability", "xtc_threshold",
                   "dry_multiplier", "dry_base", "dry_allowed_length", "dry_last_n", "mirostat_tau", "mirostat_eta")
        chain = n.SamplerChain(**{name: getattr(self, name) for name in numbers})
        if self.samplers:
            chain.order = (c_int * len(self.samplers))(*[choice("sampler_step", name) for name in self.samplers])
            chain.n_order = len(self.samplers)
        if self.dry_breakers is not None:
            breakers = self.dry_breakers
            chain.dry_breakers = (c_char_p * max(len(breakers), 1))(*[text.encode() for text in breakers])
            chain.n_dry_breakers = len(breakers)
        return chain

    def _params(self) -> Tuple[n.SamplerParams, Any]:
        biases = (n.LogitBias * len(self.logit_bias))(*[n.LogitBias(i, b) for i, b in self.logit_bias.items()])
        seed = random.getrandbits(63) if self.seed is None else self.seed
        chain = ctypes.pointer(self._chain())
        params = n.SamplerParams(self.temperature, self.top_k, self.top_p, self.min_p, self.typical_p,
                                 self.repetition_penalty, self.presence_penalty, self.frequency_penalty,
                                 self.penalty_last_n, seed, biases, len(biases), chain)
        return params, (biases, chain)


class Engine(_Handle):
    """An opened model, shared by threads: a GGUF file, a Hugging Face folder or a package.

    Options are those of tern_engine_options: backend ("cpu", "vulkan", "cuda", "auto"), head, activations ("auto", "f32", "int8", "f16"), ...;
    those of a group begin with its name: cpu_n_threads, gpu_device, memory_kv. A model that is not there or cannot be
    read raises the class of its status (errors.py).
    """

    _close = lib.tern_engine_close

    def __init__(self, path: PathLike, **options: Any) -> None:
        super().__init__()
        made = n.EngineOptions()
        known = {k: v for k, v in names(made).items() if k not in ("memory_session", "progress", "progress_context")}
        for name, value in options.items():
            if name not in known:
                raise TypeError(f"Engine has no option {name!r}: one of {', '.join(sorted(known))} expected")
            if value is not None:
                assign(made, known, name, value)
        check(lib.tern_engine_load, byref(self._handle), os.fsencode(path), byref(made))
        self._grammar_vocab = c_void_p()

    def close(self) -> None:
        """Sessions, adapters and grammars of it must be closed before."""
        vocab, self._grammar_vocab = getattr(self, "_grammar_vocab", None), c_void_p()
        if vocab:
            lib.tern_grammar_vocab_close(vocab)
        super().close()

    def describe(self) -> Dict[str, Any]:
        """What the model is and what runs it: the members of tern_engine_info."""
        info = n.EngineInfo()
        check(lib.tern_engine_describe, self._open, byref(info))
        return plain(info)

    def tokenize(self, text: str, *, bos: bool = True, special: bool = False) -> List[int]:
        """The ids of a text; `bos`: begin as the model's texts do; `special`: text that spells a token becomes it."""
        data, tokens = _bytes("text", text), n.Tokens()
        how = (1 if bos else 0) | (2 if special else 0)
        check(lib.tern_engine_tokenize, self._open, data, len(data), how, byref(tokens))
        return _take_tokens(tokens)

    def detokenize(self, ids: Sequence[int], *, special: bool = False) -> str:
        """The text of ids; bytes that are no UTF-8 become U+FFFD."""
        text = n.Buf()
        check(lib.tern_engine_detokenize, self._open, _ids(ids), len(ids), special, byref(text))
        found = ctypes.string_at(text.data, text.size) if text.size else b""
        lib.tern_buf_deinit(byref(text))
        return found.decode("utf-8", "replace")

    def is_end(self, token: int) -> bool:
        """Whether generation stops at this token."""
        return bool(lib.tern_engine_is_end(self._open, token))

    def chat_prompt(self, messages: Iterable[Message], *, template: Optional[str] = None,
                    add_generation_prompt: bool = True) -> List[int]:
        """The tokens of a conversation, {"role", "content"} each, by the model's template, a built-in one's name
        ("chatml", "llama3", ...) or Jinja text."""
        pairs = _pairs(messages)
        made = (n.ChatMessage * len(pairs))(*[n.ChatMessage(r, c, len(c)) for r, c in pairs])
        tokens, parsed = n.Tokens(), c_void_p()
        if template is not None:
            source = lib.tern_chat_template_builtin(template.encode()) or template.encode()
            check(lib.tern_chat_template_parse, byref(parsed), source, len(source))
        try:
            check(lib.tern_engine_chat_prompt, self._open, parsed, made, len(pairs), add_generation_prompt,
                  byref(tokens))
        finally:
            lib.tern_chat_template_close(parsed)
        return _take_tokens(tokens)

    def session(self, **params: Any) -> Session:
        """A sequence on this engine: see Session."""
        return Session(self, **params)

    def adapter(self, path: PathLike) -> Adapter:
        """A LoRA adapter on this engine: a PEFT folder or a GGUF file."""
        return Adapter(self, path)

    def grammar(self, source: Union[str, Mapping[str, Any]], kind: str = "gbnf") -> Grammar:
        """What a model may write: "gbnf", "json_schema" (text or a dict), "regex" or "json" (any object)."""
        return Grammar(self, source, kind)

    def generate(self, prompt: Prompt, **options: Any) -> Iterator[str]:
        """Text after a prompt, piece by piece, in a session of its own: the options of Session.generate."""
        with self.session() as session:
            yield from session.generate(prompt, **options)

    def chat(self, messages: Iterable[Message], *, template: Optional[str] = None, **options: Any) -> Iterator[str]:
        """The answer to a conversation, piece by piece: the options of Session.generate."""
        yield from self.generate(self.chat_prompt(messages, template=template), **options)

    def embed(self, text: str, *, pooling: Optional[str] = None, normalize: bool = True) -> List[float]:
        """The vector of a text; pooling "last", "mean" or "cls", when not given as the model's files say."""
        how = self.describe()["pooling"] if pooling is None else choice("pooling", pooling)
        data, tokens = _bytes("text", text), n.Tokens()
        check(lib.tern_engine_tokenize, self._open, data, len(data), 1 | 4, byref(tokens))
        ids = _take_tokens(tokens)
        out = (c_float * self.describe()["n_embd"])()
        with self.session(keep_hidden=True, n_ctx=max(len(ids), 1)) as session:
            check(lib.tern_session_embed, session._open, _ids(ids), len(ids), how, normalize, out)
        return list(out)


class Adapter(_Handle):
    """A LoRA adapter, for any session of its engine."""

    _close = lib.tern_lora_close

    def __init__(self, engine: Engine, path: PathLike) -> None:
        super().__init__()
        self.engine = engine  # which must outlive it
        check(lib.tern_lora_load, byref(self._handle), engine._open, os.fsencode(path))

    def describe(self) -> Dict[str, Any]:
        """rank, alpha, n_layers, parameters, bytes"""
        info = n.LoraInfo()
        check(lib.tern_lora_describe, self._open, byref(info))
        return {name: getattr(info, name) for name, _ in info._fields_}


class Grammar(_Handle):
    """A compiled grammar: `session.generate(..., grammar=it)` writes only what it allows."""

    _close = lib.tern_grammar_close

    def __init__(self, engine: Engine, source: Union[str, Mapping[str, Any]], kind: str = "gbnf") -> None:
        super().__init__()
        if kind not in _GRAMMARS:
            raise ValueError(f"grammar kind {kind!r}: one of {', '.join(_GRAMMARS)} expected")
        self.engine = engine
        data = (source if isinstance(source, str) else json.dumps(source)).encode()
        if not engine._grammar_vocab:
            check(lib.tern_grammar_vocab_open, byref(engine._grammar_vocab), lib.tern_engine_tokenizer(engine._open))
        check(lib.tern_grammar_open, byref(self._handle), engine._grammar_vocab, _GRAMMARS[kind], data, len(data))


class _GrammarState(_Handle):
    _close = lib.tern_grammar_state_close

    def __init__(self, grammar: Grammar) -> None:
        super().__init__()
        check(lib.tern_grammar_state_open, byref(self._handle), grammar._open)
        self.filter = lib.tern_grammar_state_filter(self._handle)


class Session(_Handle):
    """One sequence: its tokens with their keys and values. One thread at a time.

    n_ctx: positions (0: the model's, at most 2048); n_batch: tokens of a step of the prompt; kv: "auto", "f16",
    "f32", on the CPU also "q8_0" and "q4_0", or a pair of them, of the keys and of the values.
    """

    _close = lib.tern_session_close

    def __init__(self, engine: Engine, *, n_ctx: int = 0, n_batch: int = 0, kv: Union[str, Tuple[str, str]] = "auto",
                 max_outputs: int = 0, keep_hidden: bool = False) -> None:
        super().__init__()
        types = (kv, kv) if isinstance(kv, str) else kv
        if len(types) != 2 or not all(t in words("kv_type") for t in types):
            raise ValueError(f"kv {kv!r}: one of {', '.join(words('kv_type'))} expected, or two")
        self.engine = engine
        self.result: Dict[str, Any] = {}  # of the last generation
        self._adapters: List[Adapter] = []
        params = n.SessionParams(n_ctx=n_ctx, n_batch=n_batch, max_outputs=max_outputs, keep_hidden=keep_hidden,
                                 kv=n.KvTypes(*(choice("kv_type", t) for t in types)))
        check(lib.tern_session_open, byref(self._handle), engine._open, byref(params))

    @property
    def tokens(self) -> List[int]:
        """Those that were evaluated so far."""
        count = lib.tern_session_n_tokens(self._open)
        ids: List[int] = lib.tern_session_tokens(self._open)[:count] if count else []
        return ids

    @property
    def n_ctx(self) -> int:
        return int(lib.tern_session_n_ctx(self._open))

    @property
    def kv_bytes(self) -> int:
        return int(lib.tern_session_kv_bytes(self._open))

    def append(self, ids: Sequence[int]) -> None:
        """Evaluates tokens; `logits` are then those of the last one."""
        check(lib.tern_session_append, self._open, _ids(ids), len(ids))

    def logits(self) -> List[float]:
        """[n_vocab] of the last token."""
        found = ctypes.POINTER(c_float)()
        check(lib.tern_session_logits, self._open, 0, byref(found))
        return found[: self.engine.describe()["n_vocab"]]

    def truncate(self, n_tokens: int) -> None:
        """Forgets the tokens from this position on."""
        lib.tern_session_truncate(self._open, n_tokens)

    def save(self, path: PathLike) -> None:
        """Tokens, keys and values, as one file that appears whole or not at all."""
        check(lib.tern_session_save, self._open, os.fsencode(path))

    def restore(self, path: PathLike) -> None:
        """What save wrote, into a session of the same model, cache and adapters."""
        check(lib.tern_session_restore, self._open, os.fsencode(path))

    def set_adapters(self, *adapters: Union[Adapter, Tuple[Adapter, float]]) -> None:
        """These adapters and no others, each alone or with its scale, count from the next token on."""
        pairs = [a if isinstance(a, tuple) else (a, 1.0) for a in adapters]
        uses = (n.LoraUse * len(pairs))(*[n.LoraUse(a._open, scale) for a, scale in pairs])
        check(lib.tern_session_set_loras, self._open, uses, len(pairs))
        self._adapters = [a for a, _ in pairs]

    def perplexity(self, text: Prompt, *, window: int = 0) -> Dict[str, Any]:
        """How well the model predicts a text: the members of tern_perplexity_result."""
        ids = self.engine.tokenize(text) if isinstance(text, str) else list(text)
        result = n.PerplexityResult()
        check(lib.tern_perplexity, self._open, _ids(ids), len(ids), byref(n.PerplexityParams(window=window)),
              byref(result))
        return plain(result)

    def generate(self, prompt: Prompt = (), *, max_tokens: int = 0, sampler: Optional[Sampler] = None,
                 stop: Union[str, Sequence[str]] = (), grammar: Optional[Grammar] = None, ignore_eos: bool = False,
                 show_special: bool = False, context_shift: bool = False, n_keep: int = 0,
                 draft_tokens: int = 0) -> Iterator[str]:
        """Evaluates the prompt and yields text as it comes; leaving the loop stops. `result` says afterwards how much
        it was and why it ended ("stop_reason"). max_tokens 0: until the context is full."""
        if max_tokens < 0:
            raise ValueError(f"max_tokens: {max_tokens} found, 0 (no limit) or more expected")
        stop = (stop,) if isinstance(stop, str) else stop
        ids = self.engine.tokenize(prompt) if isinstance(prompt, str) else list(prompt)
        pieces: List[bytes] = []

        def on_piece(_: Any, piece: Any) -> bool:
            pieces.append(ctypes.string_at(piece.contents.text, piece.contents.n_text))
            return True

        params, borrowed = n.GenerateParams(), None
        params.sampler, borrowed = (sampler or Sampler())._params()
        stops = (c_char_p * len(stop))(*[s.encode() for s in stop])
        params.max_tokens, params.stops, params.n_stops = max_tokens, stops, len(stop)
        params.ignore_eos, params.show_special, params.context_shift = ignore_eos, show_special, context_shift
        params.n_keep, params.draft_tokens, params.on_piece = n_keep, draft_tokens, n.ON_PIECE(on_piece)
        state = _GrammarState(grammar) if grammar else None
        if state:
            params.filter = ctypes.pointer(state.filter)
        yield from self._steps(ids, params, pieces)
        del borrowed, state

    def _steps(self, ids: List[int], params: n.GenerateParams, pieces: List[bytes]) -> Iterator[str]:
        generation, done, result = c_void_p(), c_bool(), n.GenerateResult()
        check(lib.tern_generation_open, byref(generation), self._open, _ids(ids), len(ids), byref(params))
        try:
            while not done:
                check(lib.tern_generation_step, generation, byref(done))
                for piece in pieces:
                    if piece:
                        yield piece.decode("utf-8", "replace")
                pieces.clear()
        finally:
            check(lib.tern_generation_describe, generation, byref(result))
            lib.tern_generation_close(generation)
            self.result = plain(result, "reason")
            self.result["stop_reason"] = lib.tern_stop_reason_name(result.reason).decode()
