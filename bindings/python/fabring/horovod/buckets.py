"""Gradients on their way: parameters in buckets that every rank cuts alike, from the last parameter to the first, since
that is about the order in which a backward pass has them. A bucket is sent when all its gradients are there; which one is
first may differ between ranks, since the negotiation goes by their names."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

import torch

from fabring.horovod import agreed, streams
from fabring.horovod.collectives import grouped_allreduce_async_, sparse_allreduce_async
from fabring.horovod.compression import Compressor
from fabring.horovod.handles import synchronize
from fabring.horovod.process_set import ProcessSet

BUCKET_BYTES = 8 << 20


def cut(parameters: Sequence[torch.Tensor]) -> list[list[torch.Tensor]]:
    """Buckets of at most BUCKET_BYTES, or the threshold of fusion, of one type each; a larger parameter is alone."""
    most = min(BUCKET_BYTES, agreed.fusion_bytes)
    buckets: list[list[torch.Tensor]] = []
    filled = 0
    for parameter in reversed(parameters):
        size = parameter.numel() * parameter.element_size()
        if not buckets or filled + size > most or buckets[-1][0].dtype != parameter.dtype:
            buckets.append([])
            filled = 0
        buckets[-1].append(parameter)
        filled += size
    return buckets


def by_device(parameters: Sequence[torch.Tensor]) -> list[list[torch.Tensor]]:
    """Those of each device, since a call's tensors are all on one."""
    parts: dict[torch.device, list[torch.Tensor]] = {}
    for parameter in parameters:
        parts.setdefault(parameter.device, []).append(parameter)
    return list(parts.values())


class Bucket:
    """Some parameters whose gradients travel together. Sparse ones are gathered, each by itself, or travel as dense ones and are
    made sparse again: an optimizer for sparse gradients takes no others."""

    def __init__(self, name: str, parameters: list[torch.Tensor], compression: type[Compressor], process_set: ProcessSet,
                 terms: dict[str, Any], sparse_as_dense: bool) -> None:
        self.name, self.parameters = name, parameters
        self._compression, self._process_set, self._terms = compression, process_set, terms
        self._sparse_as_dense = sparse_as_dense
        self._lock = threading.Lock()  # a backward pass has a thread for each device
        self._ready: set[int] = set()
        self._streams: set[torch.cuda.Stream] = set()
        self._handle: int | None = None
        self._sent: list[tuple[torch.Tensor, torch.Tensor, Any]] = []  # parameter, what was sent, the compression's context
        self._gathered: list[tuple[torch.Tensor, Callable[[], torch.Tensor]]] = []
        self._sparse: dict[int, int] = {}  # parameters whose last gradient was sparse: how many of its dimensions are

    @property
    def under_way(self) -> bool:
        return self._handle is not None

    def add(self, parameter: torch.Tensor) -> None:
        """This gradient is there. The last one sends the bucket."""
        with self._lock:
            self._ready.add(id(parameter))
            if parameter.is_cuda:
                self._streams.add(torch.cuda.current_stream(parameter.device))
            all_there = len(self._ready) == len(self.parameters)
        if all_there:
            self.send()

    def send(self) -> None:
        """A gradient that did not come here is zero: it may have come elsewhere."""
        streams.go_on_behind(self._streams)
        dense = []
        for i, parameter in enumerate(self.parameters):
            if parameter.grad is None:
                parameter.grad = _nothing(parameter, self._sparse.get(id(parameter), 0))
            self._sparse.pop(id(parameter), None)
            if parameter.grad.is_sparse:
                self._sparse[id(parameter)] = parameter.grad.sparse_dim()
                if not self._sparse_as_dense:
                    self._gathered.append((parameter, sparse_allreduce_async(parameter.grad, f"{self.name} sparse {i}",
                                                                             self._terms["op"], self._process_set)))
                    dense.append(self._in_its_place(parameter))
                    continue
                parameter.grad = parameter.grad.to_dense()
            self._sent.append((parameter, *self._compression.compress(parameter.grad)))
            dense.append(self._sent[-1][1])
        self._handle = grouped_allreduce_async_(dense, name=self.name, process_set=self._process_set, **self._terms)

    def _in_its_place(self, parameter: torch.Tensor) -> torch.Tensor:
        """One element among the dense ones for each that is gathered, of a shape that its gradient never has: ranks where it is
        dense hear of it, instead of waiting for a gather."""
        return self._compression.compress(parameter.new_zeros([1] * (parameter.dim() + 1)))[0]

    def finish(self) -> None:
        handle, sent, gathered = self._handle, self._sent, self._gathered
        self._handle, self._sent, self._gathered, self._ready, self._streams = None, [], [], set(), set()
        assert handle is not None
        synchronize(handle)
        for parameter, tensor, context in sent:
            reduced = self._compression.decompress(tensor, context)
            if reduced is not parameter.grad:
                parameter.grad.copy_(reduced.view_as(parameter.grad))
            if dimensions := self._sparse.get(id(parameter)):
                parameter.grad = parameter.grad.to_sparse(dimensions)
        for parameter, result in gathered:
            parameter.grad = result()

    def forget(self) -> None:
        """After a load_state_dict: what was counted does not count."""
        if self._handle is None:
            self._ready, self._streams = set(), set()


def _nothing(parameter: torch.Tensor, sparse_dimensions: int) -> torch.Tensor:
    """A gradient of zeros."""
    if sparse_dimensions == 0:
        return torch.zeros_like(parameter)
    indices = torch.empty((sparse_dimensions, 0), dtype=torch.int64, device=parameter.device)
    values = torch.empty((0, *parameter.shape[sparse_dimensions:]), dtype=parameter.dtype, device=parameter.device)
    return torch.sparse_coo_tensor(indices, values, parameter.shape, check_invariants=False)
