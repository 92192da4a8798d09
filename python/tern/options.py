"""Keyword arguments to structs of options: members of groups, and words of enums."""
from __future__ import annotations

import os
from ctypes import Structure, byref, c_uint32
from typing import Any, Dict, List, Tuple

from . import _native as n
from .errors import check

_GROUPS = ("cpu", "gpu", "memory")
_OWN = ("size", "reserved")


def words(kind: str) -> List[str]:
    """The words of an enum, in the order of its values."""
    found: List[str] = []
    while True:
        word = n.lib.tern_choice_word(n.CHOICES[kind], len(found))
        if word is None:
            return found
        found.append(word.decode())


def choice(kind: str, word: str) -> int:
    """The value of a word of an enum: choice("kv_type", "f16")."""
    value = c_uint32()
    check(n.lib.tern_choice_parse, n.CHOICES[kind], word.encode(), byref(value))
    return value.value


def names(options: Structure) -> Dict[str, Tuple[Any, str]]:
    """The struct and the member of each option; those of a group begin with its name: cpu_n_threads."""
    found: Dict[str, Tuple[Any, str]] = {}
    for name, _ in options._fields_:
        group = getattr(options, name) if name in _GROUPS else None
        members = [(f"{name}_{m}", (group, m)) for m, _ in group._fields_] if group else [(name, (options, name))]
        found.update(pair for pair in members if pair[1][1] not in _OWN)
    return found


def assign(options: Structure, known: Dict[str, Tuple[Any, str]], name: str, value: Any) -> None:
    """Sets one of the options `known`, as names() gives them."""
    struct, member = known[name]
    if isinstance(value, str) and member in n.CHOICES:
        value = choice(member, value)
    setattr(struct, member, os.fsencode(value) if isinstance(value, (str, os.PathLike)) else value)


def plain(struct: Structure, *without: str) -> Dict[str, Any]:
    """The members of a result, texts as str."""
    found = {name: getattr(struct, name) for name, _ in struct._fields_ if name not in ("size", *without)}
    return {k: v.decode("utf-8", "replace") if isinstance(v, bytes) else v for k, v in found.items()}
