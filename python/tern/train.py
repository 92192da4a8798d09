"""Fine-tuning: tern_finetune of include/tern/train.h."""
from __future__ import annotations

import os
from ctypes import byref, c_char_p
from typing import Any, Callable, Dict, List, Optional, Sequence, Union

from . import _native as n
from .errors import check
from .options import assign, names, plain

lib = n.lib

_KINDS = ("progress", "planned", "step", "evaluated", "sample", "saved", "note", "written", "estimated",
          "profiled")
_LISTS = {"data": "n_data", "lora_targets": "n_lora_targets", "freeze": "n_freeze",
          "add_tokens": "n_add_tokens"}
Event = Dict[str, Any]


def _event(pointer: Any) -> Event:
    event = pointer.contents
    found = plain(event, "plan", "expert_rows", "profile")
    found["kind"] = _KINDS[event.kind] if event.kind < len(_KINDS) else str(event.kind)
    if event.plan:
        found["plan"] = plain(event.plan.contents)
    if event.profile:
        found["profile"] = [plain(event.profile[i]) for i in range(event.n_profile)]
    return found


def _fill(options: n.FinetuneOptions, given: Dict[str, Any], kept: List[Any]) -> None:
    reserved = {"on_event", "go_on", "context", *_LISTS.values()}
    known = {k: v for k, v in names(options).items() if k not in reserved}
    for name, value in given.items():
        if name not in known:
            raise TypeError(f"finetune has no option {name!r}: one of {', '.join(sorted(known))} expected")
        if name in _LISTS:
            items = [value] if isinstance(value, (str, os.PathLike)) else list(value)
            strings = (c_char_p * len(items))(*[os.fsencode(i) for i in items])
            kept.append(strings)
            setattr(options, name, strings)
            setattr(options, _LISTS[name], len(items))
        else:
            assign(options, known, name, value)


def finetune(*, data: Union[str, Sequence[str]], output: str,
             on_event: Optional[Callable[[Event], Optional[bool]]] = None, **options: Any) -> Dict[str, Any]:
    """Trains a model (`model`) or one from nothing (`config`) on data and writes it to `output`: NAME.gguf or a folder;
    with lora_rank an adapter. Options are those of tern_finetune_options, the result is tern_finetune_result.

    on_event gets each event as a dict ("kind": "planned", "step", "evaluated", ...); when it returns False, or raises,
    a checkpoint is saved and the call raises Cancelled, or what it raised. resume=True goes on from there.
    """
    made = n.FinetuneOptions()
    check(lib.tern_finetune_defaults, byref(made))
    kept: List[Any] = []
    raised: List[BaseException] = []
    stop: List[bool] = []
    _fill(made, {"data": data, "output": output, **options}, kept)

    def event(_: Any, pointer: Any) -> None:
        try:
            if on_event and not raised and on_event(_event(pointer)) is False:
                stop.append(True)
        except BaseException as e:  # a callback of C's must not throw
            raised.append(e)

    made.on_event = n.ON_EVENT(event)
    made.go_on = n.GO_ON(lambda _: not raised and not stop)
    result = n.FinetuneResult()
    try:
        check(lib.tern_finetune, byref(made), byref(result))
    finally:
        if raised:
            raise raised[0]
    return plain(result)
