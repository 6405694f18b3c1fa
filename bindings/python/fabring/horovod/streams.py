"""Tensors of a GPU: on which streams what belongs to a call runs. It begins behind what the caller's stream had been given
before the call, holds up nothing that is given to it later, and is over, for every stream, when the caller has waited.

Calls are begun by a thread of their own (negotiation), so the caller leaves an event behind; copies run on two streams for
each GPU, one on the way in and one on the way out, as what goes in may wait for work of the caller's for long.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager

import torch

_lock = threading.Lock()
_streams: dict[tuple[torch.device, str], torch.cuda.Stream] = {}


def _stream(device: torch.device, way: str) -> torch.cuda.Stream:
    with _lock:
        if (device, way) not in _streams:
            # Of high priority: PyTorch hands its streams out in turn, and the fewest programs ask for these.
            _streams[device, way] = torch.cuda.Stream(device, priority=-1)
        return _streams[device, way]


def devices(tensors: Iterable[torch.Tensor]) -> list[torch.device]:
    """The GPUs they lie on."""
    return list(dict.fromkeys(tensor.device for tensor in tensors if tensor.is_cuda))


def left_behind(tensors: Iterable[torch.Tensor]) -> list[torch.cuda.Event]:
    """An event of the calling thread's current stream on each GPU that they lie on."""
    return [torch.cuda.current_stream(device).record_event() for device in devices(tensors)]


def go_on_behind(others: Iterable[torch.cuda.Stream]) -> None:
    """The calling thread's current streams, behind what these were given: a backward pass may run on several."""
    for other in others:
        current = torch.cuda.current_stream(other.device)
        if current != other:
            current.wait_stream(other)


@contextmanager
def on_the_way_in(on: list[torch.device], behind: Iterable[torch.cuda.Event]) -> Iterator[None]:
    """What is done within, Fabring's operations too, begins behind these events."""
    with _current(on, "in") as streams:
        for event in behind:
            for stream in streams:
                stream.wait_event(event)
        yield


@contextmanager
def on_the_way_out(on: list[torch.device]) -> Iterator[None]:
    """What is done within is over afterwards."""
    with _current(on, "out") as streams:
        yield
        for event in [stream.record_event() for stream in streams]:
            event.synchronize()


@contextmanager
def _current(on: list[torch.device], way: str) -> Iterator[list[torch.cuda.Stream]]:
    streams = [_stream(device, way) for device in on]
    with ExitStack() as stack:
        for stream in reversed(streams):  # the first one's GPU is the current one
            stack.enter_context(torch.cuda.stream(stream))
        yield streams


def hand_over(tensors: Iterable[torch.Tensor]) -> None:
    """These were made on streams of ours and are used on the current ones from now on: their memory is not given to others
    while those use it."""
    for tensor in tensors:
        if tensor.is_cuda:
            tensor.record_stream(torch.cuda.current_stream(tensor.device))
