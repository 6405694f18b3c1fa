"""Arrays of a GPU: behind which stream an operation on them begins. Torch's current streams count at the moment of the call."""

from __future__ import annotations

import sys
from collections.abc import Iterable

from fabring.arrays import View, is_torch


def stream_of(views: Iterable[View | None]) -> int:
    """The number of the stream; 0, the default one, for what is not torch's. Of arrays on two GPUs it is
    the first one's."""
    devices = list(dict.fromkeys(view.array.device for view in views if view and view.on_gpu and is_torch(view.array)))
    if not devices:
        return 0
    return sys.modules["torch"].cuda.current_stream(devices[0]).cuda_stream
