"""Work: an operation under way. Prepared: one that is ready to be started any number of times."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fabring import _core
from fabring.arrays import find_again, is_torch
from fabring.errors import TimeoutError
from fabring.requests import Received, Request
from fabring.streams import stream_of


class Work:
    """An operation under way; its arrays must not be touched until it is over. A Work that is dropped goes on, and its
    arrays are kept until it is over."""

    __slots__ = ("_core", "_result", "_family")

    def __init__(self, core: _core.Work, result: Any, family: Any) -> None:
        self._core = core
        self._result = result
        self._family = family  # keeps the engine open

    def done(self) -> bool:
        """Whether it is over, well or not. Makes progress if nobody else does."""
        return self._core.done()

    def wait(self, timeout: float | None = None) -> Any:
        """Waits until it is over; the result is what the blocking call returns. Raises what it failed with, or
        fabring.TimeoutError when `timeout` seconds have passed: then it goes on. Ctrl-C ends the wait, not the operation."""
        if not self._core.wait(timeout):
            raise TimeoutError(f"the operation is not over after {timeout} s; it goes on")
        if self._result is Received:
            self._result = Received(*self._core.received())
        return self._result


class Prepared:
    """An operation that is ready: its arrays stay where they are. A start before the last one is over comes after it; in
    place it works on the result of the other."""

    __slots__ = ("_core", "_movable", "_result", "_family", "_refused")

    def __init__(self, core: _core.Prepared, request: Request, family: Any, refused: Callable[[str], None]) -> None:
        self._core = core
        self._movable = [array for array in request.arrays if array and (array.on_gpu or is_torch(array.array))]
        self._result = request.result
        self._family = family  # keeps the engine open
        self._refused = refused  # tells those who wait in it of a start that is none

    def start(self) -> Work:
        """Behind the streams that are current now, not when it was prepared."""
        try:
            for array in self._movable:
                find_again(array)
            stream = stream_of(self._movable)
        except Exception as why:
            self._refused(f"start of what was prepared: {why}")
            raise
        return Work(self._core.start_on(stream), self._result, self._family)

    def run(self) -> Any:
        return self.start().wait()
