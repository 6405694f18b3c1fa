"""Negotiation: names, not the order of calls, say which calls of different ranks belong together, as Horovod's users are
used to. A thread for each process set tells the others what its rank has asked for, in rounds (an all_gather), and begins
what all have asked for, in an order all agree on. A rank takes part in a round only while it waits for something: without
calls there is no traffic and no wake-up.

A rank that has joined takes part in every round and adds zeros to the others' allreduces, until all have joined.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from typing import Any

import numpy
import torch

from fabring.communicator import Communicator
from fabring.errors import (AbortedError, Error, InternalError, InvalidArgumentError, MismatchError, OutOfMemoryError,
                            TimeoutError, UnsupportedError)
from fabring.horovod import agreed, execution, timeline
from fabring.horovod.requests import AUTOMATIC, Request, Sum, Terms
from fabring.horovod.sharing import sharing
from fabring.requests import all_gather

BLOCK_BYTES = 2048  # what a round says usually fits; otherwise a second message has the rest
PAUSE_S = 0.001  # between two rounds that bring nothing new
NO_LIMIT_S = 3.15e8  # ten years, and not 0, which would be FABRING_TIMEOUT


class Vocabulary:
    """Names and terms that all ranks have seen, as numbers: a training step says the same words as the one before it."""

    def __init__(self) -> None:
        self._numbers: dict[Any, int] = {}
        self._words: list[Any] = []

    def number(self, word: Any) -> Any:
        return self._numbers.get(word, word)

    def word(self, told: Any) -> Any:
        """The word of what some rank told; learns it. Called on every rank with the same words in the same order."""
        if isinstance(told, int):
            return self._words[told]
        if told not in self._numbers and not (isinstance(told, str) and AUTOMATIC in told):
            self._numbers[told] = len(self._words)
            self._words.append(told)
        return told

    def forget_if_full(self) -> None:
        """A program that makes up names for ever must not fill the memory. All ranks forget at once."""
        if len(self._words) > 20_000:
            self._numbers.clear()
            self._words.clear()


class Negotiation:
    def __init__(self, comm: Communicator, label: str) -> None:
        self.size, self.rank, self._label = comm.size, comm.rank, label
        self._talk = comm.duplicate(f"{label} negotiation")
        self._data = comm.duplicate(label)
        self._words = Vocabulary()
        self._unnamed: dict[str, int] = {}
        self._changed = threading.Condition()
        self._fresh: list[Request] = []  # not yet told
        self._mine: dict[str, Request] = {}  # not yet begun
        self._table: dict[str, dict[int, Terms]] = {}  # name -> rank -> terms, of what not all have asked for
        self._sharing: set[tuple[str, str]] = set()  # names of it that lie in the same memory on some rank
        self._since: dict[str, float] = {}
        self._complained: dict[str, float] = {}
        self._joined: dict[int, bool] = {}
        self._join: threading.Event | None = None
        self._join_gpu: torch.device | None = None
        self._last_joined = -1
        self._ended: Error | None = None
        self._thread = threading.Thread(target=self._run, name="fabring-hvd", daemon=True)
        self._thread.start()

    # ---- for the callers

    def submit(self, request: Request) -> Request:
        """A call without a name gets one by its place among those of its kind, once nothing speaks against it: a number that
        a refused call used up would set this rank apart from the others for ever."""
        with self._changed:
            if self._ended is not None:
                raise self._ended
            if request.name in self._mine:
                raise InvalidArgumentError(f"the name '{request.name}' is under way already: wait for it before using it "
                                           "again, or give another")
            if self._join is not None:
                raise InvalidArgumentError(f"'{request.name or request.terms.kind}' after join(): a rank that has joined calls "
                                           "nothing until join() returns")
            if not request.name:
                request.name = self._next_name(request.terms.kind)
            self._mine[request.name] = request
            self._fresh.append(request)
            self._changed.notify_all()
        return request

    def join(self, gpu: torch.device | None) -> int:
        """Blocks until all ranks have joined; the last rank that did. `gpu`: where this rank's zeros are to be for tensors that
        the others have on theirs."""
        with self._changed:
            if self._ended is not None:
                raise self._ended
            self._join_gpu = gpu
            over = self._join = threading.Event()
            self._changed.notify_all()
        over.wait()
        if self._ended is not None:
            raise self._ended
        return self._last_joined

    def close(self) -> None:
        """Ends the thread; what is under way fails. The communicators are ended by their engine."""
        self._end(AbortedError("fabring.horovod was shut down while this was under way"))

    def await_end(self) -> None:
        self._thread.join(10)

    def _next_name(self, kind: str) -> str:
        self._unnamed[kind] = self._unnamed.get(kind, 0) + 1
        return f"{kind}{AUTOMATIC}{self._unnamed[kind]}"

    # ---- the thread

    def _run(self) -> None:
        try:
            while self._wait_for_something():
                self._round()
        except Error as error:
            self._break(error)
        except torch.cuda.OutOfMemoryError as error:
            self._break(OutOfMemoryError(f"fabring.horovod needs room on the GPU to send small tensors together, at most "
                                         f"HOROVOD_FUSION_THRESHOLD ({agreed.fusion_bytes} bytes) or one call's: {error}"))
        except Exception as error:  # a bug of ours must not leave callers waiting
            self._break(InternalError(f"the negotiation of fabring.horovod failed: {type(error).__name__}: {error}"))

    def _break(self, error: Error) -> None:
        """The others may be in the middle of what failed here alone: they hear of it."""
        self._end(error)
        for comm in (self._data, self._talk):
            try:
                comm.abort(str(error))
            except Error:
                pass  # it has ended already

    def _end(self, error: Error) -> None:
        with self._changed:
            if self._ended is None:
                self._ended = error
            for request in self._mine.values():
                request.fail(error)
            self._mine.clear()
            self._fresh.clear()
            if self._join is not None:
                self._join.set()
            self._changed.notify_all()

    def _wait_for_something(self) -> bool:
        with self._changed:
            while self._ended is None and not (self._fresh or self._mine or self._join):
                self._changed.wait()
            if not self._fresh and self._ended is None:
                self._changed.wait(PAUSE_S)
            return self._ended is None

    def _round(self) -> None:
        with self._changed:
            fresh, self._fresh = self._fresh, []
            waiting = list(self._mine.values()) if fresh else []
            joined = self._join is not None
        trace = timeline.active
        if trace is not None:
            trace.round(self._label)
        first = round(min((one.asked_at for one in fresh), default=0.0), 6)
        told = [(self._words.number(one.name), self._words.number(one.terms), round((one.asked_at - first) * 1e6))
                for one in fresh]
        shared = self._shared_memory(fresh, waiting)
        for rank, (has_joined, calls, began, theirs) in enumerate(self._exchange((joined, told, first, shared))):
            if has_joined and not self._joined.get(rank):
                self._last_joined = rank
            self._joined[rank] = has_joined
            for name, terms, later_us in calls:
                name, terms = self._words.word(name), self._words.word(_terms(terms))
                self._table.setdefault(name, {})[rank] = terms
                self._since.setdefault(name, time.monotonic())
                if trace is not None:
                    trace.asked(self._label, name, terms.kind, rank, began + later_us / 1e6)
            self._sharing.update((self._words.word(one), self._words.word(other)) for one, other in theirs)
        self._words.forget_if_full()
        self._begin_what_is_ready()
        self._complain_about_stalls()
        if all(self._joined.get(rank) for rank in range(self.size)):
            self._all_joined()

    def _shared_memory(self, fresh: list[Request], waiting: list[Request]) -> list[tuple[Any, Any]]:
        """Pairs of names, one of them at least of a fresh call: those of earlier ones have been told."""
        names = {one.name for one in fresh}
        return [(self._words.number(one), self._words.number(other)) for one, other in sorted(sharing(waiting))
                if one in names or other in names]

    def _exchange(self, what: Any) -> list[Any]:
        """Everyone's object. One message if all are short."""
        data = json.dumps(what).encode()
        block = numpy.zeros(BLOCK_BYTES, numpy.uint8)
        block[:8] = numpy.frombuffer(len(data).to_bytes(8, "little"), numpy.uint8)
        room = BLOCK_BYTES - 8
        block[8:8 + min(len(data), room)] = numpy.frombuffer(data[:room], numpy.uint8)
        blocks = self._all_gather(block, None)
        lengths = [int.from_bytes(blocks[rank, :8].tobytes(), "little") for rank in range(self.size)]
        if max(lengths) <= room:
            return [json.loads(blocks[rank, 8:8 + length].tobytes()) for rank, length in enumerate(lengths)]
        whole = self._all_gather(numpy.frombuffer(data, numpy.uint8), lengths)
        ends = numpy.cumsum(lengths)
        return [json.loads(whole[end - length:end].tobytes()) for length, end in zip(lengths, ends)]

    def _all_gather(self, own: numpy.ndarray, lengths: list[int] | None) -> numpy.ndarray:
        """However late the others come: a rank that validates or saves is not lost, and one that is lost ends the wait."""
        request = all_gather(self._talk._core, own, None, lengths)
        request.operation.timeout_s = agreed.stall_shutdown_s or NO_LIMIT_S
        try:
            return self._talk._do(request)
        except TimeoutError as error:
            raise TimeoutError(f"{_limit()}: {error}", error.rank, error.host, error.collective, error.sequence,
                               error.bytes) from None

    def _begin_what_is_ready(self) -> None:
        present = [rank for rank in range(self.size) if not self._joined.get(rank)]
        # Once all have joined that is everything: who has not asked for it never will.
        ready = [name for name, ranks in self._table.items() if all(rank in ranks for rank in present)]
        chosen: list[tuple[str, Terms, dict[int, Terms]]] = []
        for name in ready:
            ranks = self._table.pop(name)
            self._since.pop(name)
            self._complained.pop(name, None)
            wrong = _disagreement(name, ranks, len(ranks) < self.size)
            if wrong is None:
                chosen.append((name, ranks[min(ranks)], ranks))
                continue
            self._trace([(name, ranks[min(ranks)])], None)
            if request := self._take(name):
                request.fail(wrong)
        for numbers in execution.fused([terms for _, terms, _ in chosen]):
            self._begin([chosen[i] for i in numbers])
        if self._sharing:
            self._sharing = {pair for pair in self._sharing if pair[0] in self._table and pair[1] in self._table}

    def _begin(self, batch_of: list[tuple[str, Terms, dict[int, Terms]]]) -> None:
        requests: list[Request] = []
        names = [(name, terms) for name, terms, _ in batch_of]
        try:
            for name, terms, ranks in batch_of:
                requests.append(self._own(name, terms, ranks))
            self._check_memory({name for name, _ in names})
            everyone = [[ranks.get(rank, terms) for rank in range(self.size)] for _, terms, ranks in batch_of]
            batch = execution.begin(self._data, requests, everyone)
            self._trace(names, batch)
        except (InvalidArgumentError, UnsupportedError) as error:  # alike on every rank
            self._trace(names, None)
            for request in requests:
                request.fail(error)
            return
        except BaseException:  # of this rank only: whoever waits for these hears why
            with self._changed:
                self._mine.update((request.name, request) for request in requests)
            raise
        for request in requests:
            request.started.set()
        if self._joined.get(self.rank):
            batch.finish()  # nobody else waits for it here

    def _own(self, name: str, terms: Terms, ranks: dict[int, Terms]) -> Request:
        """This rank's part; zeros where it has joined without having asked. Raises if what it asked for is gone: the set was
        closed since, and with zeros in its place the others would get a sum without it."""
        if request := self._take(name):
            return request
        if self.rank in ranks and self._ended is not None:
            raise self._ended
        return _zeros(name, terms, self._join_gpu)

    def _check_memory(self, names: set[str]) -> None:
        """What is one operation must not write the same memory twice, on no rank: the others would wait for the one that refuses."""
        for one, other in sorted(self._sharing):
            if one in names and other in names:
                raise InvalidArgumentError(
                    f"'{one}' has tensors that lie in the same memory, where results are written: list a shared tensor once"
                    if one == other else f"'{one}' and '{other}', called at the same time, lie in the same memory, where results "
                    "are written: wait for one of them before calling the other, or give it a copy")

    def _trace(self, begun: list[tuple[str, Terms]], batch: execution.Batch | None) -> None:
        trace = timeline.active
        if trace is not None:
            trace.begun(self._label, [name for name, _ in begun], begun[0][1].kind,
                        [execution.size_of(terms) for _, terms in begun], batch)

    def _take(self, name: str) -> Request | None:
        with self._changed:
            return self._mine.pop(name, None)

    def _complain_about_stalls(self) -> None:
        now = time.monotonic()
        self._end_what_stalls(now)
        late = [name for name, since in self._since.items() if now - max(since, self._complained.get(name, 0)) > agreed.stall_s]
        told = 0
        for name in late:
            self._complained[name] = now
            if self.rank != min(self._table[name]) or (told := told + 1) > 5:
                continue  # one rank says it
            print(f"fabring.horovod: {self._who_is_missing(name, now)}", file=sys.stderr, flush=True)

    def _end_what_stalls(self, now: float) -> None:
        for name, since in self._since.items():
            if 0 < agreed.stall_shutdown_s < now - since:
                raise TimeoutError(f"{_limit()}: {self._who_is_missing(name, now)}")

    def _who_is_missing(self, name: str, now: float) -> str:
        missing = [rank for rank in range(self.size) if rank not in self._table[name] and not self._joined.get(rank)]
        return f"'{name}' has waited {now - self._since[name]:.1f} s for ranks {missing}, which have not called it"

    def _all_joined(self) -> None:
        with self._changed:
            over, self._join = self._join, None
            self._joined = {}
            self._unnamed.clear()  # a rank's zeros did not count among its calls: from here on all count alike again
        if over is not None:
            over.set()


def _limit() -> str:
    return f"HOROVOD_STALL_SHUTDOWN_TIME_SECONDS ({agreed.stall_shutdown_s:g}) is over"


def _terms(told: Any) -> Any:
    """Terms, of what JSON made of them; a number stays one."""
    if isinstance(told, int):
        return told
    kind, types, shapes, *others, splits = told
    return Terms(kind, tuple(types), tuple(tuple(shape) for shape in shapes), *others, tuple(splits))


def _zeros(name: str, terms: Terms, gpu: torch.device | None) -> Request:
    """What a rank that has joined adds to an allreduce: on its GPU, if it has one, where the others' tensors are on theirs."""
    device = gpu if terms.device == "cuda" and gpu is not None else torch.device("cpu")
    tensors = [torch.zeros(shape, dtype=getattr(torch, type), device=device)
               for type, shape in zip(terms.types, terms.shapes)]
    return Request(name, terms, tensors, tensors)


def _disagreement(name: str, ranks: dict[int, Terms], some_joined: bool) -> Error | None:
    first = min(ranks)
    for rank, terms in ranks.items():
        if terms.agreed() != ranks[first].agreed():
            return MismatchError(f"'{name}' is {ranks[first]} on rank {first} and {terms} on rank {rank}", rank)
    if some_joined and ranks[first].kind != "allreduce":
        return InvalidArgumentError(f"'{name}' is {ranks[first].kind} and some ranks have joined; a joined rank takes part in "
                                    "allreduce only")
    if some_joined and ranks[first].op not in (execution.Average, Sum):
        return InvalidArgumentError(f"'{name}' has op {ranks[first].op} and some ranks have joined; their zeros are right for "
                                    "sums and averages only")
    return None
