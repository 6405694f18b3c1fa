"""HOROVOD_TIMELINE: what rank 0 saw of its calls, as a file for chrome://tracing or ui.perfetto.dev. A row for each name: how long
ranks waited for each other, with a mark when each of them asked (who is late comes last), then how long the operation took.
When other ranks asked is by their hosts' clocks.
"""

from __future__ import annotations

import itertools
import json
import os
import sys
import threading
import time
from collections.abc import Callable
from typing import Any, TextIO

from fabring.errors import UnavailableError
from fabring.horovod.requests import AUTOMATIC

LOOK_EVERY_S = 0.0005  # for operations that are over, while there are some
FLUSH_EVERY_S = 0.5


class Timeline:
    """Written to from the threads that negotiate; a thread of its own sees when operations end. `mark_rounds`: each round of
    negotiation is marked too."""

    def __init__(self, path: str, mark_rounds: bool) -> None:
        try:
            self._file: TextIO = open(path, "w", encoding="utf-8")
        except OSError as error:
            raise UnavailableError(f"the timeline cannot be written to {path}: {error.strerror}") from None
        self._path, self._failed = path, False
        self.mark_rounds = mark_rounds
        self._began = time.time()
        self._changed = threading.Condition()
        self._closed = False
        self._rows: dict[tuple[str, str], int] = {}  # of names that come again
        self._free: dict[tuple[str, str], list[int]] = {}  # rows for calls without a name, by set and kind
        self._numbers = itertools.count(1)
        self._asked: dict[tuple[str, str], tuple[int, float]] = {}  # row and when the first rank asked
        self._under_way: list[tuple[int, str, float, Any, dict, tuple[str, str] | None]] = []
        self._write({"name": "process_name", "ph": "M", "pid": 0, "args": {"name": "fabring.horovod, rank 0"}}, first=True)
        self._thread = threading.Thread(target=self._run, name="fabring-hvd-tl", daemon=True)
        self._thread.start()

    # ---- what happened

    def asked(self, label: str, name: str, kind: str, rank: int, when: float) -> None:
        """A rank has asked for this; `when`: as time.time() says."""
        with self._changed:
            if self._closed:
                return
            if (label, name) not in self._asked:
                self._asked[label, name] = self._row(label, name, kind), when
            row, first = self._asked[label, name]
            self._asked[label, name] = row, min(first, when)
            self._write({"name": f"rank {rank}", "ph": "i", "s": "t", "pid": 0, "tid": row, "ts": self._since(when)})

    def begun(self, label: str, names: list[str], kind: str, sizes: list[int], batch: Any) -> None:
        """All ranks have asked for these, and they were begun together; without a batch they have failed."""
        now = time.time()
        with self._changed:
            for name, size in zip(names, sizes):
                row, since = self._asked.pop((label, name), (None, 0.0))
                if self._closed or row is None:
                    continue
                self._span(row, f"NEGOTIATE_{kind.upper()}", since, now, {})
                again = (label, kind) if AUTOMATIC in name else None
                if batch is not None:
                    told = {"bytes": size, **({"fused": len(names)} if len(names) > 1 else {})}
                    self._under_way.append((row, kind.upper(), now, batch, told, again))
                elif again is not None:
                    self._free[again].append(row)
            self._changed.notify_all()

    def round(self, label: str) -> None:
        with self._changed:
            if self.mark_rounds and not self._closed:
                self._write({"name": f"{label}: CYCLE_START", "ph": "i", "s": "p", "pid": 0, "tid": 0,
                             "ts": self._since(time.time())})

    def close(self) -> None:
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        self._thread.join()
        if not self._file.closed:
            self._to_file(lambda: self._file.write("\n]\n"))
            self._to_file(self._file.close)

    # ---- the file

    def _run(self) -> None:
        with self._changed:
            while not self._closed:
                if self._under_way:
                    self._changed.wait(LOOK_EVERY_S)
                else:
                    self._to_file(self._file.flush)  # for who looks at a job that hangs
                    self._changed.wait(FLUSH_EVERY_S)
                self._look()

    def _look(self) -> None:
        now = time.time()
        left = []
        for one in self._under_way:
            row, what, since, batch, told, again = one
            if not batch.done():
                left.append(one)
                continue
            self._span(row, what, since, now, told)
            if again is not None:
                self._free[again].append(row)
        self._under_way = left

    def _row(self, label: str, name: str, kind: str) -> int:
        shown = name if label == "horovod" else f"{label}: {name}"
        if AUTOMATIC in name:
            self._look()  # the call before it may be over
            free = self._free.setdefault((label, kind), [])
            if free:
                return free.pop()
            shown = shown.split(AUTOMATIC)[0] + " without a name"
        elif (label, name) in self._rows:
            return self._rows[label, name]
        row = next(self._numbers)
        if AUTOMATIC not in name:
            self._rows[label, name] = row
        self._write({"name": "thread_name", "ph": "M", "pid": 0, "tid": row, "args": {"name": shown}})
        return row

    def _span(self, row: int, name: str, since: float, until: float, told: dict) -> None:
        self._write({"name": name, "ph": "X", "pid": 0, "tid": row, "ts": self._since(since),
                     "dur": round(max(until - since, 0) * 1e6, 1), "args": told})

    def _since(self, when: float) -> float:
        return round((when - self._began) * 1e6, 1)

    def _write(self, event: dict, first: bool = False) -> None:
        self._to_file(lambda: self._file.write(("[\n" if first else ",\n") + json.dumps(event)))

    def _to_file(self, do: Callable[[], object]) -> None:
        """Training goes on without a timeline whose file cannot be written."""
        try:
            do()
        except OSError as error:
            self._closed = True
            if not self._failed:
                print(f"fabring.horovod: the timeline ends here, as {self._path} cannot be written: {error.strerror}",
                      file=sys.stderr, flush=True)
            self._failed = True


active: Timeline | None = None  # on rank 0, while one is written


def begin(path: str, mark_rounds: bool) -> None:
    global active
    active = Timeline(path, mark_rounds)


def end() -> None:
    """The file is complete when this returns."""
    global active
    ending, active = active, None
    if ending is not None:
        ending.close()


def begin_as_asked() -> None:
    """HOROVOD_TIMELINE=FILE in the environment; DYNAMIC leaves it to start_timeline()."""
    path = os.environ.get("HOROVOD_TIMELINE", "")
    if path and path != "DYNAMIC":
        begin(path, os.environ.get("HOROVOD_TIMELINE_MARK_CYCLES", "0") not in ("", "0"))


def _forget() -> None:
    """In a child of fork() the file is the parent's."""
    global active
    active = None


os.register_at_fork(after_in_child=_forget)
