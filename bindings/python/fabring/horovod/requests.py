"""What a rank asks for under a name: the part that is told to the other ranks (Terms) and the part that stays (Request)."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch

from fabring.errors import Error, InvalidArgumentError
from fabring.horovod import streams

# Reductions, by the names Horovod's users know. Values are ours.
Average = "avg"
Sum = "sum"
Min = "min"
Max = "max"
Product = "prod"

AUTOMATIC = ".noname."  # in names that we made: they come again after a join() at most


class Terms(NamedTuple):
    """What all ranks must agree on, and what they need to know of each other."""

    kind: str  # allreduce, allgather, broadcast, alltoall, reducescatter, barrier
    types: tuple[str, ...]  # of each tensor
    shapes: tuple[tuple[int, ...], ...]
    device: str = ""  # cpu, cuda; of all tensors
    op: str = Sum
    prescale: float = 1.0
    postscale: float = 1.0
    root: int = -1  # in the process set
    splits: tuple[int, ...] = ()

    def agreed(self) -> Terms:
        """Without what may differ between ranks: the first dimension of a gather, the splits and rows of an alltoall."""
        if self.kind in ("allgather", "alltoall"):
            return self._replace(shapes=tuple(("any", *shape[1:]) for shape in self.shapes), splits=())
        return self

    def __str__(self) -> str:
        told = [f"{type} {list(shape)}" for type, shape in zip(self.types, self.shapes)]
        words = [self.kind, ", ".join(told[:4]) + (f" and {len(told) - 4} more" if len(told) > 4 else "")]
        if self.device:
            words.append(f"on {self.device}")
        if self.kind in ("allreduce", "reducescatter"):
            words.append(f"op {self.op}")
            if (self.prescale, self.postscale) != (1.0, 1.0):
                words.append(f"scaled by {self.prescale} before and {self.postscale} after")
        if self.root >= 0:
            words.append(f"root {self.root}")
        return " ".join(word for word in words if word)


class Request:
    """One call of this rank; without a name until it is submitted, if the caller gave none. `started` is set when it was begun
    everywhere, or has failed."""

    def __init__(self, name: str, terms: Terms, inputs: list[torch.Tensor], outputs: list[torch.Tensor] | None,
                 single: bool = True) -> None:
        self.name = name
        self.terms = terms
        self.inputs = inputs
        self.outputs = outputs  # None: made when the other ranks' shapes are known
        self.single = single  # the caller gave one tensor, not a list
        self.asked_at = time.time()
        self._behind = streams.left_behind(inputs)
        self._ours = outputs is None  # the results are made by us
        self.started = threading.Event()
        self.batch: Any = None  # execution.Batch
        self.error: Error | None = None
        self.spans: list[tuple[int, int, bool]] | None = None  # sharing
        self.received_splits: list[int] | None = None  # alltoall

    def behind(self) -> list[torch.cuda.Event]:
        """What this call begins behind. Asked for once, and not kept: an event that is collected as garbage in a child that was
        forked, as data loaders do it, would end the child."""
        events, self._behind = self._behind, []
        return events

    def fail(self, error: Error) -> None:
        self._behind = []
        self.error = error
        self.started.set()

    def done(self) -> bool:
        """Over, well or not."""
        return self.started.is_set() and (self.error is not None or self.batch.done())

    def wait(self) -> Any:
        self.started.wait()
        if self.error is None:
            self.batch.finish()
            assert self.outputs is not None
            if self._ours:
                streams.hand_over(self.outputs)
            return self.outputs[0] if self.single and self.outputs else self.outputs
        raise self.error


def type_name(tensor: torch.Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")


def check_tensor(tensor: Any, what: str) -> None:
    if not isinstance(tensor, torch.Tensor):
        raise InvalidArgumentError(f"{what}: this is a {type(tensor).__name__}, not a torch tensor")
    if tensor.device.type not in ("cpu", "cuda") or tensor.layout != torch.strided:
        raise InvalidArgumentError(f"{what}: the tensor is {tensor.layout} on {tensor.device}; Fabring takes dense tensors in "
                                   "memory of the host or of a CUDA GPU")


def device_of(tensors: Sequence[torch.Tensor], what: str) -> str:
    """Where the tensors of a call are: cpu, cuda, or nothing where there are none."""
    kinds = list(dict.fromkeys(tensor.device.type for tensor in tensors))
    if len(kinds) > 1:
        raise InvalidArgumentError(f"{what}: some tensors are on {kinds[0]} and some on {kinds[1]}; the tensors of a call are all "
                                   "in memory of the host or all of a GPU: make two calls")
    return kinds[0] if kinds else ""
