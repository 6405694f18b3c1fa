"""Engine: this process among the ranks of a job. Most programs need fabring.init() only, which keeps one."""

from __future__ import annotations

import atexit
import math
import operator
import os
import weakref
from collections.abc import Mapping
from typing import Any

import numpy

from fabring import _core, ending, meetings
from fabring.communicator import Communicator, Family
from fabring.errors import InvalidArgumentError

_open: weakref.WeakSet[Family] = weakref.WeakSet()


class Engine:
    """Meets the other ranks when it is made, leaves them when it is closed. A context manager: an exception that leaves the
    block, sys.exit() with another status than 0 too, ends what the other ranks wait in, in its words.

    `settings`: names of `fabring settings` and their values as in the environment, {"FABRING_TIMEOUT": "30s"}; they win
    over the environment. With FABRING_RANK and FABRING_WORLD_SIZE among them what a launcher says of this process is passed
    over, and the rest of FABRING_* is read. environment=False: nothing is read from there. Raises InvalidArgumentError,
    UnavailableError, TimeoutError (naming the ranks that did not come), MismatchError, PeerLostError, TransportError.
    Ctrl-C ends the wait; the same call again goes on with it."""

    def __init__(self, settings: Mapping[str, Any] | None = None, *, environment: bool = True) -> None:
        settings = dict(settings or {})
        if environment and {"FABRING_RANK", "FABRING_WORLD_SIZE"} <= settings.keys():  # no launcher need say who this is
            settings = {name: value for name, value in os.environ.items() if name.startswith("FABRING_")} | settings
            environment = False
        told = [(name, _text(value)) for name, value in settings.items()]
        ending.call_in_process(_close_all)
        self._core = meetings.meet(settings, environment, told)
        self.closed = False
        self._family = Family(self._core)
        self.world = Communicator(self._core.world(), self._family)
        _open.add(self._family)

    def __enter__(self) -> Engine:
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if reason := ending.of_block(error):
            self._family.abort(reason)
        self.close()

    def close(self) -> None:
        """Says goodbye and waits, bounded by FABRING_LEAVE_TIMEOUT, until the others have too. What is under way ends with
        AbortedError. Closing twice is fine."""
        _open.discard(self._family)
        self._core.close()
        self.closed = True

    def empty(self, shape: int | tuple[int, ...], dtype: Any = "float32") -> numpy.ndarray:
        """A NumPy array, of zeros, in memory that the ranks of this host read and write directly; ordinary memory where they
        share none. Any operation takes it, or a contiguous part of it, like any other array, and gets by with fewer copies.
        The memory is given back when the last view of it is gone. Raises OutOfMemoryError."""
        kind = numpy.dtype(dtype)
        dimensions = _dimensions(shape)
        size = math.prod(dimensions) * kind.itemsize
        if size >= 2**64:
            raise InvalidArgumentError(f"shape is {shape!r}, dtype {kind}: no memory has so many bytes")
        memory = _Mapped(self._core.allocate(size), size)
        return numpy.asarray(memory).view(kind).reshape(dimensions)

    def traffic(self) -> dict[str, int]:
        """Bytes and messages of this rank since the start: payload_bytes_sent, payload_bytes_received, wire_bytes_sent,
        wire_bytes_received, messages_sent."""
        return self._core.traffic()

    def report(self) -> list[str]:
        """What was chosen at the start and why: transport, interface, nodes, waiting."""
        return self._core.report().splitlines()

    def setting(self, name: str) -> str:
        """What the engine was made with: setting("FABRING_TIMEOUT"). As given, but FABRING_SOCKETS_PER_PEER is what is used (of
        several values the largest), and FABRING_SEGMENT_BYTES where little scratch makes it smaller than usual; empty: not set."""
        return self._core.setting(name)


class _Mapped:
    """Bytes of Engine.empty; every array over them keeps this."""

    def __init__(self, memory: _core.Memory, size: int) -> None:
        self._memory = memory
        self.__array_interface__ = {"version": 3, "shape": (size,), "typestr": "|u1", "data": (memory.address, False)}


def _dimensions(shape: Any) -> tuple[int, ...]:
    try:
        made = (operator.index(shape),) if hasattr(shape, "__index__") else tuple(operator.index(one) for one in shape)
    except TypeError:
        made = (-1,)
    if min(made, default=0) < 0:
        raise InvalidArgumentError(f"shape is {shape!r}; it needs whole numbers, 0 or more")
    if math.prod(made) >= 2**63:
        raise InvalidArgumentError(f"shape is {shape!r}: no memory has so many elements")
    return made


def _text(value: Any) -> str:
    return str(int(value)) if isinstance(value, bool) else str(value)


def tell_of_uncaught() -> None:
    """At exit: ranks that wait for one that failed hear why, at once."""
    reason = ending.uncaught()
    for family in list(_open) if reason else ():
        family.abort(reason)


@atexit.register
def _close_all() -> None:
    """While Python still works: afterwards nobody could say goodbye for us, and the others would see a death."""
    tell_of_uncaught()
    meetings.forget()
    for family in list(_open):
        _open.discard(family)
        family.engine.close()
