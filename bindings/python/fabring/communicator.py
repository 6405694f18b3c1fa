"""Communicator: a group of ranks that work together."""

from __future__ import annotations

import pickle
import weakref
from collections.abc import Sequence
from typing import Any

import numpy

from fabring import _core
from fabring.arguments import label_of, members_of, number_of, part_of, plans_of, utf8
from fabring.calls import Calls
from fabring.errors import Error
from fabring.requests import Request
from fabring.work import Prepared, Work


class Starter(Calls[Work]):
    """`communicator.start`: the collectives, begun and not waited for."""

    def __init__(self, core: _core.Communicator, family: Family) -> None:
        self._core = core
        self._family = family

    def _do(self, request: Request) -> Work:
        return Work(self._core.start(request.operation, request.arrays), request.result, self._family)

    def group(self) -> StartedGroup:
        """`with comm.start.group() as g: g.send(x, 1); g.recv(y, 1)` - begun together at the end of the block; `g.works`."""
        return StartedGroup(self._core, self._family)


class Preparer(Calls[Prepared]):
    """`communicator.prepare`: the collectives, checked, chosen and built once. Not for send and recv."""

    def __init__(self, core: _core.Communicator, family: Family) -> None:
        self._core = core
        self._family = family

    def _do(self, request: Request) -> Prepared:
        return Prepared(self._core.prepare(request.operation, request.arrays), request, self._family,
                        lambda why: self._refused(None, why))


class Explainer(Calls[str]):
    """`communicator.explain`: how a collective would run, and why. First line: algorithm, colon, reason; then the others
    with their predicted times. Nothing is sent."""

    def __init__(self, core: _core.Communicator, family: Family) -> None:
        self._core = core
        self._family = family

    def _do(self, request: Request) -> str:
        return self._core.explain(request.operation)

    def _refused(self, message: tuple[str, Any, Any] | None, why: str) -> None:
        """Nobody waits for it."""


class Collected(Calls[None]):
    """Operations of a `with` block, handed over together at its end. Sends and receives among them go on side by side, so
    that none may use an array that another operation of the group writes: InvalidArgumentError, and nothing is begun.
    Collectives go in their order."""

    def __init__(self, core: _core.Communicator, family: Family) -> None:
        self._core = core
        self._family = family
        self._requests: list[Request] = []

    def _do(self, request: Request) -> None:
        self._requests.append(request)

    def _refused(self, message: tuple[str, Any, Any] | None, why: str) -> None:
        """The exception ends the block, and with it those before are not begun either."""
        super()._refused(message, why)
        for one in self._requests:
            self._tell(self._core.refuse, one.operation, why)

    def _begin(self) -> list[Work]:
        requests, self._requests = self._requests, []
        started = self._core.start_group([one.operation for one in requests], [one.arrays for one in requests])
        return [Work(core, one.result, self._family) for core, one in zip(started, requests)]


class StartedGroup(Collected):
    """`communicator.start.group()`: begun at the end of the block and not waited for. `works` has the Work of each, in
    order."""

    def __init__(self, core: _core.Communicator, family: Family) -> None:
        super().__init__(core, family)
        self.works: list[Work] = []

    def __enter__(self) -> StartedGroup:
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if kind is None:
            self.works += self._begin()


class Group(Collected):
    """`communicator.group()`: begun at the end of the block, which waits for all. `results` has what each returned, in
    order."""

    def __init__(self, core: _core.Communicator, family: Family) -> None:
        super().__init__(core, family)
        self.results: list[Any] = []

    def __enter__(self) -> Group:
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if kind is not None:
            return
        first = None
        for work in self._begin():
            try:
                self.results.append(work.wait())
            except Exception as failed:  # the others must be over too before anybody touches their arrays
                first = first or failed
        if first is not None:
            raise first


class Family:
    """The communicators of one engine. They, and what is begun or prepared on them, each keep it open:
    `fabring.Engine().world` is as good as the engine."""

    def __init__(self, engine: _core.Engine) -> None:
        self.engine = engine
        self.communicators: weakref.WeakSet[Communicator] = weakref.WeakSet()

    def abort(self, reason: str) -> None:
        """Ends all of them on every rank, large ones first: who hears of a small one may end its program, and a rank that waits
        for it in a larger one should have heard the reason by then. What is over already stays as it is."""
        for one in sorted(self.communicators, key=lambda one: one.size, reverse=True):
            try:
                one.abort(reason)
            except Error:
                pass


class Communicator(Calls[Any]):
    """A group of ranks. Calling a collective on it runs it: when it returns, the result is there and the arrays are the
    caller's again. Safe to use from several threads, if all ranks see the same order of calls. The interpreter runs other
    threads meanwhile. Raises the exceptions of fabring.errors."""

    def __init__(self, core: _core.Communicator, family: Family) -> None:
        self._core = core
        self._family = family
        family.communicators.add(self)
        self.rank: int = core.rank
        self.size: int = core.size
        self.label: str = core.label
        self.start = Starter(core, family)
        self.prepare = Preparer(core, family)
        self.explain = Explainer(core, family)

    def __repr__(self) -> str:
        return f"<fabring.Communicator '{self.label}': rank {self.rank} of {self.size}>"

    def _do(self, request: Request) -> Any:
        return Work(self._core.start(request.operation, request.arrays), request.result, self._family).wait()

    @property
    def members(self) -> list[int]:
        """The number in the job of each rank, by which errors name ranks."""
        return self._core.members

    @property
    def nodes(self) -> list[int]:
        """The node of each rank: equal numbers share a host."""
        return self._core.nodes

    def group(self) -> Group:
        """`with comm.group() as g: g.send(x, 1); g.recv(y, 1)` - begun together, over at the end of the block."""
        return Group(self._core, self._family)

    # ---- other groups of ranks

    def split(self, colour: int | None, key: int = 0, label: str = "") -> Communicator | None:
        """Ranks of one colour form a communicator, ordered by (key, rank). Every rank must call; those whose colour is
        None, or negative, are in none and get None."""
        made = self._core.split(*self._made("split", None, part_of, colour, key, label))
        return None if made is None else Communicator(made, self._family)

    def split_by_node(self, label: str = "") -> Communicator:
        """The ranks of this rank's node. Every rank must call."""
        return Communicator(self._core.split_by_node(self._made("split_by_node", None, label_of, label)), self._family)

    def duplicate(self, label: str = "") -> Communicator:
        """The same ranks once more: operations on it match apart from those of this one. Every rank must call."""
        return Communicator(self._core.duplicate(self._made("duplicate", None, label_of, label)), self._family)

    def with_plans(self, plans: str | bytes, label: str = "") -> Communicator:
        """The same ranks once more, whose operations are run by these plans where they fit: the text that `fabring plan --json`
        writes, proved before. Every rank must call, with the same text."""
        asked = self._made("with_plans", None, plans_of, plans, label)
        return Communicator(self._core.with_plans(*asked), self._family)

    def subgroup(self, ranks: Sequence[int], number: int, label: str = "") -> Communicator:
        """These ranks of this communicator, in this order, the caller's among them. Only they call; nothing is sent, so it also
        works after another rank has died. All give the same `number`, which none of them has given to a
        subgroup of this engine before, also to one that is gone (a counter will do)."""
        number = number_of(number)  # nobody waits in a subgroup without one
        try:
            members, label = members_of(ranks, label)
        except Exception as why:
            self._tell(self._core.refuse_subgroup, number, f"subgroup: {why}")
            raise
        return Communicator(self._core.subgroup(members, number, label), self._family)

    # ---- trouble

    def shrink(self, label: str = "") -> Communicator:
        """Those of its ranks that are left, all but those that were lost or have left: for a communicator that has
        failed (PeerLostError). They agree on who that is. Every rank that is left must call."""
        return Communicator(self._core.shrink(label_of(label)), self._family)

    def abort(self, reason: str) -> None:
        """Ends this communicator on every rank: operations under way raise AbortedError. Returns at once."""
        self._core.abort(utf8(str(reason)))

    def check(self) -> None:
        """Raises the error that ended this communicator, if one has."""
        self._core.health()

    # ---- what is short with NumPy

    def exchange_counts(self, counts: Sequence[int]) -> list[int]:
        """counts[j]: rows for rank j. Returns how many rows come from each rank: out_counts of alltoall."""
        return self.alltoall(self._made("exchange_counts", None, numpy.asarray, counts, numpy.int64)).tolist()

    def gather_counts(self, count: int) -> list[int]:
        """Every rank's number of rows: counts of all_gather and gather."""
        return self.all_gather(self._made("gather_counts", None, numpy.asarray, count, numpy.int64)).tolist()

    # ---- objects; unpickling runs what the sender wrote, so only between ranks that trust each other, as all of a job do

    def broadcast_object(self, what: Any = None, *, root: int = 0) -> Any:
        """The root's object, pickled, on every rank."""
        pickled = self._made("broadcast_object", None, pickle.dumps, what) if self.rank == root else b""
        data = numpy.frombuffer(pickled, numpy.uint8)
        length = self.broadcast(numpy.array([data.size], numpy.int64), root=root)
        if self.rank != root:
            data = numpy.empty(int(length[0]), numpy.uint8)
        self.broadcast(data, root=root)
        return what if self.rank == root else pickle.loads(data.tobytes())

    def all_gather_object(self, what: Any) -> list[Any]:
        """Every rank's object, pickled, in the order of the ranks."""
        mine = numpy.frombuffer(self._made("all_gather_object", None, pickle.dumps, what), numpy.uint8)
        counts = self.gather_counts(mine.size)
        data = self.all_gather(mine, counts=counts)
        ends = numpy.cumsum(counts)
        return [pickle.loads(data[end - count:end].tobytes()) for count, end in zip(counts, ends)]
