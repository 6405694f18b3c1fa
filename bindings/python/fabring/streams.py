"""Arrays of GPUs: behind which stream an operation on them begins. Torch's current streams count at the moment of the call. Of
other arrays the default stream of their GPU does: what makes them is before it, as they see to that when they give their memory
away."""

from __future__ import annotations

import sys
from collections.abc import Iterable

from fabring.arrays import View, is_torch


def stream_of(views: Iterable[View | None]) -> int:
    """The number of the stream; 0, the default one of each GPU of theirs, where nothing of torch's is on another. Of several
    streams all count: one is made to wait for them, as to let the caller's wait for each other would hold up what they are
    given later."""
    on_gpus = [view for view in views if view and view.on_gpu]
    if not on_gpus:
        return 0
    gpus = list(dict.fromkeys(view.array.device if is_torch(view.array) else view.device for view in on_gpus))
    if all(isinstance(gpu, int) for gpu in gpus):  # torch's have a torch.device
        return 0
    cuda = sys.modules["torch"].cuda
    streams = [cuda.default_stream(gpu) if isinstance(gpu, int) else cuda.current_stream(gpu) for gpu in gpus]
    if len(streams) == 1 or not any(stream.cuda_stream for stream in streams):
        return streams[0].cuda_stream
    ours = cuda.Stream(streams[0].device)
    for stream in streams:
        ours.wait_stream(stream)
    return ours.cuda_stream
