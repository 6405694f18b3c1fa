"""Which calls of this rank lie in the same memory, so that they cannot be one operation. Other ranks do not see it, and one that
has joined makes zeros of its own: they are told, and all refuse alike."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch

from fabring.horovod.requests import Request


def sharing(requests: Sequence[Request]) -> set[tuple[str, str]]:
    """Pairs of names, also of a name with itself: the one writes what the other reads or writes."""
    spans = sorted((begin, end, number, writes) for number, request in enumerate(requests)
                   for begin, end, writes in _known_spans(request))
    pairs = set()
    # Those seen, which may reach further. Of those that are only read there may be many in one place.
    read: list[tuple[int, int]] = []
    written: list[tuple[int, int]] = []
    for begin, end, number, writes in spans:
        written = [one for one in written if one[0] > begin]
        pairs.update((one[1], number) for one in written)
        if writes:
            read = [one for one in read if one[0] > begin]
            pairs.update((one[1], number) for one in read)
        (written if writes else read).append((end, number))
    return {(requests[one].name, requests[other].name) for one, other in pairs}


def _known_spans(request: Request) -> list[tuple[int, int, bool]]:
    if request.spans is None:
        request.spans = list(_spans(request))
    return request.spans


def _spans(request: Request) -> Iterator[tuple[int, int, bool]]:
    """Where the tensors of an allreduce lie that are used as they are, and whether they are written. Others are copied, as those
    of a GPU are."""
    if request.terms.kind != "allreduce" or request.terms.device == "cuda":
        return
    for source, target in zip(request.inputs, request.outputs or ()):
        if target.is_contiguous() and target.numel():
            yield *_extent(target), True
        if source.is_contiguous() and source.numel() and source.data_ptr() != target.data_ptr():
            yield *_extent(source), False


def _extent(tensor: torch.Tensor) -> tuple[int, int]:
    return tensor.data_ptr(), tensor.data_ptr() + tensor.numel() * tensor.element_size()
