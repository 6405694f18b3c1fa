"""One thread at a time: of those that call init() at once one meets the others, and the rest wait for what comes of it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from fabring.errors import InvalidArgumentError

T = TypeVar("T")


class _Turn:
    def __init__(self, wanted: Any, who: dict[str, str]) -> None:
        self.wanted = wanted
        self.who = who
        self.thread = threading.get_ident()
        self.over = threading.Event()
        self.made: list[Any] = []  # one at most
        self.error: Exception | None = None


class Turns(Generic[T]):
    """A lock would do, but where it fails: those that waited would try again one after the other, each for as long."""

    def __init__(self) -> None:
        self._now: dict[None, _Turn] = {}  # one at most: setdefault() gives the turn to one thread only

    def take(self, wanted: Any, who: dict[str, str], act: Callable[[], T]) -> T:
        """What `act` answers, in this thread's turn, and raises what it raises; or the same of another thread's that wanted the
        same meanwhile. Ctrl-C ends the wait; where it ended another thread's turn the next one takes its own."""
        mine = _Turn(wanted, who)
        try:
            while (first := self._now.setdefault(None, mine)) is not mine:
                self._wait_for(first, mine)
                if first.made and first.wanted == mine.wanted:
                    return first.made[0]
            mine.made.append(act())
            return mine.made[0]
        except Exception as error:
            mine.error = error
            raise
        finally:
            if self._now.get(None) is mine:
                del self._now[None]
            mine.over.set()

    @staticmethod
    def _wait_for(first: _Turn, mine: _Turn) -> None:
        if first.thread == mine.thread:  # it would wait for itself
            raise InvalidArgumentError("fabring.init() was called by a signal's handler or a finalizer, in a thread that is in the "
                                       "middle of it")
        first.over.wait()
        if first.error is not None and first.wanted == mine.wanted:
            raise first.error

    def forget(self) -> dict[str, str] | None:
        """In a child of fork(), where no thread will end the turn that was under way: which rank it meets the others as."""
        return self._now.pop(None).who if self._now else None
