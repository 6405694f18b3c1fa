"""Settings in Horovod's names. Rank 0's count, since all ranks must cut their tensors alike."""

from __future__ import annotations

import os

import numpy

from fabring.communicator import Communicator
from fabring.errors import InvalidArgumentError

fusion_bytes = 64 << 20  # how much small tensors may fill one buffer
stall_s = 60.0  # a name that only some ranks have called is reported after this
stall_shutdown_s = 0.0  # and ends everything after this; 0: never


def agree(world: Communicator) -> None:
    """Reads HOROVOD_FUSION_THRESHOLD (bytes), HOROVOD_STALL_CHECK_TIME_SECONDS and HOROVOD_STALL_SHUTDOWN_TIME_SECONDS and takes
    rank 0's."""
    global fusion_bytes, stall_s, stall_shutdown_s
    told = numpy.array([_number("HOROVOD_FUSION_THRESHOLD", 64 << 20), _number("HOROVOD_STALL_CHECK_TIME_SECONDS", 60),
                        _number("HOROVOD_STALL_SHUTDOWN_TIME_SECONDS", 0)])
    world.broadcast(told)
    fusion_bytes, stall_s, stall_shutdown_s = int(told[0]), float(told[1]), float(told[2])


def _number(name: str, default: float) -> float:
    text = os.environ.get(name, "")
    try:
        value = float(text) if text else float(default)
    except ValueError:
        value = -1.0
    if not 0 <= value < 1e15:
        raise InvalidArgumentError(f"{name}={text} in the environment is no number of 0 or more")
    return value
