"""Carries out what was agreed: a batch of requests becomes one operation of Fabring, small allreduces a grouped one
(tensor fusion). Every rank of the process set makes the same batches in the same order."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

import torch

from fabring.communicator import Communicator
from fabring.errors import InvalidArgumentError, UnsupportedError
from fabring.horovod import agreed, streams
from fabring.horovod.requests import Average, Request, Sum, Terms

ALONE_BYTES = 1 << 20  # from here on a tensor is reduced where it lies: the copies would cost more than a message


class Batch:
    """Requests that were begun together. `finish` waits and puts the results where they belong; any thread, once. `gpus`: those
    that the tensors lie on."""

    def __init__(self, gpus: list[torch.device]) -> None:
        self._gpus = gpus
        self._works: list = []
        self._after: list[Callable[[], None]] = []
        self._lock = threading.Lock()
        self._finished = False

    def add(self, work: object, after: Callable[[], None] | None = None) -> None:
        self._works.append(work)
        if after is not None:
            self._after.append(after)

    def done(self) -> bool:
        return self._finished or all(work.done() for work in self._works)

    def wait(self) -> None:
        for work in self._works:
            work.wait()

    def finish(self) -> None:
        with self._lock:
            if self._finished:
                return
            self.wait()
            if self._after:
                with streams.on_the_way_out(self._gpus):
                    for after in self._after:
                        after()
            self._works, self._after, self._finished = [], [], True


def fused(terms: Sequence[Terms]) -> list[list[int]]:
    """Which of these, by their numbers, become one operation. Depends on nothing but the terms."""
    batches: list[list[int]] = []
    open_batches: dict[tuple, tuple[list[int], int]] = {}
    for number, one in enumerate(terms):
        size = size_of(one)
        if one.kind != "allreduce" or len(set(one.types)) > 1 or size >= ALONE_BYTES and len(one.shapes) == 1:
            batches.append([number])
            continue
        key = (one.types[:1], one.device, one.op, one.prescale, one.postscale)
        batch, filled = open_batches.get(key, ([], 0))
        if not batch or filled + size > agreed.fusion_bytes:
            batch, filled = [], 0
            batches.append(batch)
        batch.append(number)
        open_batches[key] = (batch, filled + size)
    return batches


def begin(comm: Communicator, requests: list[Request], everyone: list[list[Terms]]) -> Batch:
    """Begins one batch. everyone[i]: the terms of requests[i] on every rank of the process set."""
    gpus = streams.devices(t for request in requests for t in request.inputs)
    batch = Batch(gpus)
    with streams.on_the_way_in(gpus, [event for request in requests for event in request.behind()]):
        try:
            _begin(comm, batch, requests, everyone)
        except (InvalidArgumentError, UnsupportedError):  # the first of several operations may be under way, on every rank
            batch.wait()
            raise
    for request in requests:
        request.batch = batch
    return batch


def _begin(comm: Communicator, batch: Batch, requests: list[Request], everyone: list[list[Terms]]) -> None:
    kind = requests[0].terms.kind
    if kind == "allreduce":
        tensors = [t for request in requests for t in request.inputs]
        outputs = [t for request in requests for t in request.outputs or []]
        terms = requests[0].terms
        for type in dict.fromkeys(t.dtype for t in tensors):  # of a group that mixes types
            chosen = [i for i, t in enumerate(tensors) if t.dtype == type]
            reduce = _allreduce_on_gpus if terms.device == "cuda" else _allreduce
            reduce(comm, batch, [tensors[i] for i in chosen], [outputs[i] for i in chosen], terms)
    else:
        for request, terms in zip(requests, everyone):
            _BEGIN[kind](comm, batch, request, terms)


def size_of(terms: Terms) -> int:
    """Bytes of this rank's tensors."""
    return sum(torch.Size(shape).numel() * getattr(torch, type).itemsize for type, shape in zip(terms.types, terms.shapes))


def _allreduce(comm: Communicator, batch: Batch, inputs: list[torch.Tensor], outputs: list[torch.Tensor], terms: Terms) -> None:
    sources = [t.detach() if t.is_contiguous() else t.detach().contiguous() for t in inputs]
    targets = [t.detach() if t.is_contiguous() else torch.empty_like(t, memory_format=torch.contiguous_format)
               for t in outputs]
    op, factor, last = _reduction(terms, comm.size)

    def after() -> None:
        for target, output in zip(targets, outputs):
            if last != 1:
                target.mul_(last)
            if target.data_ptr() != output.data_ptr():
                output.detach().copy_(target)

    if len(sources) == 1:
        work = comm.start.allreduce(sources[0], targets[0], op=op, factor=factor)
    else:
        work = comm.start.grouped_allreduce(sources, targets, op=op, factor=factor)
    elsewhere = any(target.data_ptr() != output.data_ptr() for target, output in zip(targets, outputs))
    batch.add(work, after if elsewhere or last != 1 else None)


def _allreduce_on_gpus(comm: Communicator, batch: Batch, inputs: list[torch.Tensor], outputs: list[torch.Tensor],
                       terms: Terms) -> None:
    """Tensors of a GPU cannot be one grouped operation: what is smaller than ALONE_BYTES is copied together."""
    small = []
    for i, (tensor, output) in enumerate(zip(inputs, outputs)):
        if len(inputs) == 1 or tensor.numel() * tensor.element_size() >= ALONE_BYTES:
            _allreduce(comm, batch, [tensor], [output], terms)
        else:
            small.append(i)
    if not small:
        return
    sources, targets = [inputs[i].detach() for i in small], [outputs[i].detach() for i in small]
    together = torch.empty(sum(t.numel() for t in sources), dtype=sources[0].dtype, device=sources[0].device)
    parts = [part.view(t.shape) for part, t in zip(together.split([t.numel() for t in sources]), sources)]
    torch._foreach_copy_(parts, sources)
    op, factor, last = _reduction(terms, comm.size)

    def after() -> None:
        if last != 1:
            together.mul_(last)
        torch._foreach_copy_(targets, parts)

    batch.add(comm.start.allreduce(together, together, op=op, factor=factor), after)


def _reduction(terms: Terms, ranks: int) -> tuple[str, float | None, float]:
    """(op, factor of the summands, factor afterwards)."""
    pre, post = terms.prescale, terms.postscale
    if terms.op == Average and (pre, post) != (1.0, 1.0):
        return Sum, pre, post / ranks
    return terms.op, pre if pre != 1 else None, post


def _allgather(comm: Communicator, batch: Batch, request: Request, everyone: list[Terms]) -> None:
    request.outputs = []
    for i, tensor in enumerate(request.inputs):
        rows = [terms.shapes[i][0] for terms in everyone]
        output = tensor.new_empty((sum(rows), *tensor.shape[1:]))
        request.outputs.append(output)
        batch.add(comm.start.all_gather(tensor.detach().contiguous(), output, counts=rows))


def _broadcast(comm: Communicator, batch: Batch, request: Request, everyone: list[Terms]) -> None:
    assert request.outputs is not None
    root = request.terms.root
    for source, output in zip(request.inputs, request.outputs):
        target = output.detach()
        here = target if target.is_contiguous() else torch.empty_like(target, memory_format=torch.contiguous_format)
        if comm.rank == root and here.data_ptr() != source.data_ptr():
            here.copy_(source.detach())
        # Outputs that we make are contiguous, so on the root `target` is what was sent, and is only read.
        after = None if here is target or comm.rank == root else lambda to=target, of=here: to.copy_(of)
        batch.add(comm.start.broadcast(here, root=root), after)


def _alltoall(comm: Communicator, batch: Batch, request: Request, everyone: list[Terms]) -> None:
    tensor = request.inputs[0].detach().contiguous()
    received = [terms.splits[comm.rank] for terms in everyone]
    output = tensor.new_empty((sum(received), *tensor.shape[1:]))
    request.outputs, request.received_splits = [output], received
    batch.add(comm.start.alltoall(tensor, output, counts=request.terms.splits, out_counts=received))


def _reducescatter(comm: Communicator, batch: Batch, request: Request, everyone: list[Terms]) -> None:
    request.outputs = []
    op, factor, last = _reduction(request.terms, comm.size)
    for tensor in request.inputs:
        rows = share_of_rows(tensor.shape[0], comm.size)
        output = tensor.new_empty((rows[comm.rank], *tensor.shape[1:]))
        request.outputs.append(output)
        scaled = (lambda of=output: of.mul_(last)) if last != 1 else None
        batch.add(comm.start.reduce_scatter(tensor.detach().contiguous(), output, op=op, factor=factor, counts=rows), scaled)


def share_of_rows(rows: int, ranks: int) -> list[int]:
    """Rows of each rank after a reducescatter: as even as can be, the first ranks have one more."""
    return [rows // ranks + (rank < rows % ranks) for rank in range(ranks)]


def _barrier(comm: Communicator, batch: Batch, request: Request, everyone: list[Terms]) -> None:
    request.outputs = []
    batch.add(comm.start.barrier())


_BEGIN = {"allgather": _allgather, "broadcast": _broadcast, "alltoall": _alltoall, "reducescatter": _reducescatter,
          "barrier": _barrier}
