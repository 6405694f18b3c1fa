"""Calls under way, as the numbers Horovod's users know: poll and synchronize take them."""

from __future__ import annotations

import itertools
import os
import threading
from collections.abc import Callable, Sequence
from typing import Any

import torch

from fabring.errors import InvalidArgumentError
from fabring.horovod.process_set import ProcessSet
from fabring.horovod.requests import Request, Terms, check_tensor, device_of, type_name

_lock = threading.Lock()
_numbers = itertools.count()
_under_way: dict[int, tuple[Request, Callable[[Request], Any]]] = {}
os.register_at_fork(after_in_child=_under_way.clear)  # they are the parent's


def _result(request: Request) -> Any:
    return request.wait()


def submit(kind: str, name: str | None, process_set: ProcessSet, inputs: Sequence[torch.Tensor],
           outputs: Sequence[torch.Tensor] | None, *, single: bool = True, result: Callable[[Request], Any] = _result,
           **terms: Any) -> int:
    """Begins a call; its handle."""
    negotiation = process_set.negotiation()
    full = f"{kind}.{name}" if name is not None else ""
    for tensor in inputs:
        check_tensor(tensor, full or kind)
    made = Terms(kind, tuple(type_name(t) for t in inputs), tuple(tuple(t.shape) for t in inputs),
                 device_of(inputs, full or kind), **terms)
    request = Request(full, made, list(inputs), None if outputs is None else list(outputs), single)
    negotiation.submit(request)
    with _lock:
        handle = next(_numbers)
        _under_way[handle] = (request, result)
    return handle


def poll(handle: int) -> bool:
    """Whether it is over: synchronize() would return at once."""
    with _lock:
        found = _under_way.get(handle)
    return found is None or found[0].done()


def synchronize(handle: int) -> Any:
    """Waits for it; its result. A handle is waited for once. Raises what the call failed with."""
    with _lock:
        found = _under_way.pop(handle, None)
    if found is None:
        raise InvalidArgumentError(f"{handle} is no handle of a call under way; each is synchronized once")
    request, result = found
    return result(request)
