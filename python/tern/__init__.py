"""Tern: ternary (1.58-bit) and low-bit language models, from Python. A thin layer over libtern; docs/guides/python.md.

    import tern
    with tern.Engine("models/chat.gguf") as engine:
        for piece in engine.chat([{"role": "user", "content": "Tell me a story about a fox."}]):
            print(piece, end="", flush=True)
"""
from .engine import Adapter, Engine, Grammar, Sampler, Session, version
from .errors import (Busy, Cancelled, ContextFull, InputOutputError, InvalidArgument, LimitExceeded, Malformed, NotFinite,
                     NotFound, OutOfMemory, TernError, Unsupported)
from .train import finetune

__version__ = version()

__all__ = ["Adapter", "Busy", "Cancelled", "ContextFull", "Engine", "Grammar", "InputOutputError", "InvalidArgument",
           "LimitExceeded", "Malformed", "NotFinite", "NotFound", "OutOfMemory", "Sampler", "Session", "TernError",
           "Unsupported", "__version__", "finetune", "version"]
