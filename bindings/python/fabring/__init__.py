"""Fabring: collective communication for distributed training, on libfabric, without MPI.

    import fabring
    world = fabring.init()                  # from the environment; under `python -m fabring.run -n 4 script.py`
    mean = world.allreduce(gradients, op="avg")
    work = world.start.allreduce(gradients, out=gradients)
    ...
    work.wait()

docs/python.md has the rest.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import numpy

from fabring import library  # noqa: F401  first: it says so where _core gets a wrong one
from fabring import _core, identity, meetings
from fabring.communicator import Communicator, Group, StartedGroup
from fabring.engine import Engine
from fabring.errors import (AbortedError, DeviceError, Error, InternalError, InvalidArgumentError, MismatchError,
                            OutOfMemoryError, PeerLostError, TimeoutError, TransportError, UnavailableError, UnsupportedError)
from fabring.requests import ANY_SOURCE, ANY_TAG, Received
from fabring.turns import Turns
from fabring.work import Prepared, Work

__version__: str = _core.version
__all__ = ["ANY_SOURCE", "ANY_TAG", "AbortedError", "Communicator", "DeviceError", "Engine", "Error", "Group",
           "InternalError", "InvalidArgumentError", "MismatchError", "OutOfMemoryError", "PeerLostError", "Prepared", "Received",
           "StartedGroup", "TimeoutError", "TransportError", "UnavailableError", "UnsupportedError", "Work", "empty", "engine", "init",
           "is_initialized", "shutdown", "world"]

_engine: Engine | None = None
_identity: dict[str, str] = {}  # with which it was made
_of_parents: list[Engine] = []  # in a child of fork(): never let go of, as they are not this process's to end
_parents_identity: dict[str, str] | None = None
_turns: Turns[Communicator] = Turns()


def _forget() -> None:
    """In a child of fork(), which is no rank until it calls init() itself."""
    global _engine, _parents_identity
    if (meets_as := _turns.forget()) is not None:
        _parents_identity = meets_as
    if _engine is not None and _open() is not None:
        _of_parents.append(_engine)
        _parents_identity = _identity
        _engine = None


os.register_at_fork(after_in_child=_forget)


def init(settings: Mapping[str, Any] | None = None, *, environment: bool = True) -> Communicator:
    """Meets the other ranks of the job, as the environment says (FABRING_*, torchrun, Slurm, ...), and returns the
    communicator of all of them. Called again it returns the same; in a child of fork() it meets others anew, if the child says
    that it is another rank than its parent. Threads that call it at once get the same. `settings`, `environment`: as Engine's."""
    told = identity.of_process(settings, environment)
    wanted = ({name: str(value) for name, value in (settings or {}).items()}, environment)
    return _turns.take(wanted, told, lambda: _met(settings, environment, told))


def _met(settings: Mapping[str, Any] | None, environment: bool, told: dict[str, str]) -> Communicator:
    global _engine, _identity
    found = _open()
    if found is None:
        if _parents_identity is not None and identity.is_still(_parents_identity, settings, environment):
            raise InvalidArgumentError(  # the others would wait for nobody, and this process for them
                "this process is a fork of one that called fabring.init(), and says that it is the same rank of the same job. A "
                "worker of a data loader is no rank and needs no init()"
                + (": fabring.world().rank and .size are there" if _of_parents else "") +
                ". If it is a rank of its own, set a FABRING_RANK that no other process has before it calls fabring.init()")
        found = Engine(settings, environment=environment)
        _engine, _identity = found, told
    elif settings:
        raise InvalidArgumentError("fabring.init() has been called already, so settings come too late; "
                                   "call fabring.shutdown() first")
    return found.world


def _open() -> Engine | None:
    """The engine of init(), unless the program has closed it itself: that is as good as shutdown()."""
    return None if _engine is None or _engine.closed else _engine


def is_initialized() -> bool:
    return _open() is not None


def engine() -> Engine:
    """The engine of init()."""
    found = _open()
    if found is None and _parents_identity is not None and _engine is None:
        raise InvalidArgumentError(
            "this process is a fork of one that called fabring.init(), whose engine is not this process's. If it is a rank of its "
            "own call fabring.init() here too, with a FABRING_RANK that no other process has")
    if found is None:
        raise InvalidArgumentError("call fabring.init() first; the engine of an earlier one has been closed" if _engine else
                                   "call fabring.init() first")
    return found


def empty(shape: int | tuple[int, ...], dtype: Any = "float32") -> numpy.ndarray:
    """As Engine.empty, of the engine of init(): a NumPy array in memory that the ranks of this host read and write directly."""
    return engine().empty(shape, dtype)


def world() -> Communicator:
    """The communicator of all ranks of init(). In a child of fork() its parent's: rank and size can be read, calls are refused."""
    if _open() is None and _of_parents:
        return _of_parents[-1].world
    return engine().world


def shutdown() -> None:
    """Leaves the job, also one whose ranks have met while nobody waited, after an init() that was interrupted; happens by
    itself when Python ends. init() may be called again, by all ranks."""
    global _engine
    meetings.leave()
    left, _engine = _engine, None
    if left is not None:
        left.close()
