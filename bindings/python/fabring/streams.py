"""Arrays of a GPU: behind which stream an operation on them begins. Torch's current streams count at the moment of the call."""

from __future__ import annotations

import sys
from collections.abc import Iterable

from fabring.arrays import View, is_torch


def stream_of(views: Iterable[View | None]) -> int:
    """The number of the stream; 0, the default one, for what is not torch's. Of arrays on two GPUs both streams count: one is
    made to wait for both, as to let the caller's wait for each other would hold up what they are given later."""
    devices = list(dict.fromkeys(view.array.device for view in views if view and view.on_gpu and is_torch(view.array)))
    if not devices:
        return 0
    cuda = sys.modules["torch"].cuda
    if len(devices) == 1:
        return cuda.current_stream(devices[0]).cuda_stream
    ours = cuda.Stream(devices[0])
    for device in devices:
        ours.wait_stream(cuda.current_stream(device))
    return ours.cuda_stream
