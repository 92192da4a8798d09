"""What a call that failed raises: TernError, or the class of its status."""
from __future__ import annotations

from ctypes import byref
from typing import Any, Callable, Dict, Type

from . import _native


class TernError(Exception):
    """A call of libtern failed; the message names the thing, the value found and the value expected."""


class InvalidArgument(TernError, ValueError):
    """INVALID_ARGUMENT"""


class OutOfMemory(TernError, MemoryError):
    """OUT_OF_MEMORY"""


class InputOutputError(TernError, OSError):
    """IO"""


class NotFound(TernError, FileNotFoundError, LookupError):
    """NOT_FOUND"""


class Malformed(TernError, ValueError):
    """MALFORMED"""


class Unsupported(TernError, NotImplementedError):
    """UNSUPPORTED"""


class LimitExceeded(TernError):
    """LIMIT"""


class ContextFull(TernError):
    """CONTEXT_FULL"""


class Cancelled(TernError):
    """CANCELLED"""


class NotFinite(TernError, ArithmeticError):
    """NOT_FINITE"""


class Busy(TernError):
    """BUSY"""


_CLASSES: Dict[int, Type[TernError]] = {
    1: InvalidArgument, 2: OutOfMemory, 3: InputOutputError, 4: NotFound, 5: Malformed, 6: Unsupported,
    7: LimitExceeded, 8: ContextFull, 9: Cancelled, 12: NotFinite, 13: Busy,
}


def check(function: Callable[..., int], *arguments: Any) -> None:
    """Calls a function that returns a status and takes a tern_error last."""
    error = _native.Error()
    status = function(*arguments, byref(error))
    if status:
        raise _CLASSES.get(status, TernError)(error.message.decode("utf-8", "replace"))
