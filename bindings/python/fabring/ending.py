"""How this process ends, for what is said to the other ranks when it does."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from types import ModuleType

BEFORE_QUEUES_AND_POOLS = 100  # which multiprocessing ends at 10 and 15, higher numbers first

_asked: set[Callable[[], None]] = set()
os.register_at_fork(after_in_child=_asked.clear)  # as multiprocessing forgets what its parent asked for


def call_in_process(function: Callable[[], None]) -> None:
    """For what atexit calls: a process of multiprocessing calls it too when it ends. One that was forked ends without atexit,
    and none tells there what ended it. Called in that process; again it does nothing, nor in other processes."""
    if _multiprocessing() is None or function in _asked:
        return
    from multiprocessing.util import Finalize

    Finalize(None, function, exitpriority=BEFORE_QUEUES_AND_POOLS)
    _asked.add(function)


def _multiprocessing() -> ModuleType | None:
    """multiprocessing.process, where this is a process that it began: then it is loaded, and else takes 10 ms to be."""
    module = sys.modules.get("multiprocessing.process")
    return module if module is not None and module.parent_process() is not None else None


def uncaught() -> str | None:
    """At exit: the exception that nobody caught and that ends this process, in a line; None where nothing did. SystemExit
    is a way to end, and a prompt shows exceptions and goes on."""
    if module := _multiprocessing():  # which keeps it nowhere, but calls us while it goes up through its _bootstrap
        error = sys.exc_info()[1]
        trace = error.__traceback__ if error is not None else None
        if trace is None or trace.tb_frame.f_code is not module.BaseProcess._bootstrap.__code__:
            return None  # or one that its parent handled when it forked
        return None if isinstance(error, SystemExit) else describe(error)
    error = getattr(sys, "last_exc", None) or getattr(sys, "last_value", None)
    if error is None or hasattr(sys, "ps1") or sys.flags.interactive:
        return None
    return describe(error)


def of_block(error: BaseException | None) -> str | None:
    """Where an error leaves a block: what is said of it; None where there is nothing to say."""
    if not isinstance(error, SystemExit):
        return None if error is None else describe(error)
    if error.code is None or error.code == 0:
        return None
    status = error.code & 0xff if isinstance(error.code, int) else 1
    return f"its program ended with exit status {status}"


def describe(error: BaseException) -> str:
    """RuntimeError: what it says, its first line."""
    try:
        said = str(error).strip()
    except Exception:  # its own fault, and not ours to end by
        said = ""
    first = said.splitlines()[0][:200] if said else ""
    return f"its program ended by {type(error).__name__}" + (f": {first}" if first else "")
