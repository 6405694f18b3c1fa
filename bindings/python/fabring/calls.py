"""The collectives by name. A Communicator runs them, `communicator.start` begins them, `communicator.prepare` makes them
ready, a Group collects them: the same methods everywhere, written down once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

from fabring import _core, requests
from fabring.arguments import utf8
from fabring.errors import Error
from fabring.requests import ANY_SOURCE, ANY_TAG, Request

R = TypeVar("R")
T = TypeVar("T")


class Calls(Generic[R]):
    """n is the number of ranks, r the caller's. Every rank of the communicator calls the same collective with the same
    shapes, types, op and root. `x` and `out` are NumPy arrays, torch tensors of the host or other DLPack arrays in one
    row-major piece; without `out` a new array of x's kind is made. x and out must not overlap unless they are the same.
    `timeout`: seconds that it may take from the call, after which it fails and the communicator with it; None: FABRING_TIMEOUT.
    A wait(timeout) only stops waiting."""

    _core: _core.Communicator

    def _do(self, request: Request) -> R:
        raise NotImplementedError

    def _ask(self, make: Callable[..., Request], *arguments: Any, timeout: float | None,
             message: tuple[str, Any, Any] | None = None) -> R:
        return self._do(self._made(make.__name__, message, requests.within, timeout, make, self._core, *arguments))

    def _made(self, call: str, message: tuple[str, Any, Any] | None, make: Callable[..., T], *arguments: Any) -> T:
        """What a call needs before the library hears of it. Without it there is none, and others may wait in it. `message`: of
        a send or recv which it is, the other side and the tag."""
        try:
            return make(*arguments)
        except Exception as why:
            self._refused(message, f"{call}: {why}")
            raise

    def _refused(self, message: tuple[str, Any, Any] | None, why: str) -> None:
        self._tell(self._core.refuse, requests.outline(*message) if message else None, why)

    def _tell(self, refuse: Callable[[Any, str], None], what: Any, why: str) -> None:
        try:
            refuse(what, utf8(why))
        except Error:  # it is gone, or the parent's of this fork
            pass

    def allreduce(self, x: Any, out: Any = None, *, op: str = "sum", factor: float | None = None,
                  wire_type: str | None = None, timeout: float | None = None) -> R:
        """out = the reduction of all ranks' x; out=x: in place. `op`: sum, prod, min, max, avg, logical_and, logical_or,
        logical_xor, bitwise_and, bitwise_or, bitwise_xor. `factor`: the sum of factor * x, each rank with its own.
        `wire_type`, the same on every rank: float32 travels as "bfloat16" or "float16", half the bytes, for sums and
        averages, which are rounded to that type on the way, an average before it is divided; "off": as it is; None: as
        FABRING_WIRE_TYPE says."""
        return self._ask(requests.allreduce, x, out, op, factor, wire_type, timeout=timeout)

    def grouped_allreduce(self, xs: Sequence[Any], outs: Sequence[Any] | None = None, *, op: str = "sum",
                          factor: float | None = None, wire_type: str | None = None, timeout: float | None = None) -> R:
        """An allreduce of each of xs as one operation; the result is the list of outs. Small arrays travel together, large
        ones are reduced where they lie. Every rank has as many, of the same shapes and one type, in the same order. No out
        overlaps another array of the lists; one that is shared is listed once."""
        return self._ask(requests.grouped_allreduce, xs, outs, op, factor, wire_type, timeout=timeout)

    def reduce(self, x: Any, out: Any = None, *, op: str = "sum", factor: float | None = None, root: int = 0,
               wire_type: str | None = None, timeout: float | None = None) -> R:
        """As allreduce, the result on the root only; None elsewhere. Without a `wire_type` elements travel as they are."""
        return self._ask(requests.reduce, x, out, op, factor, root, wire_type, timeout=timeout)

    def broadcast(self, x: Any, *, root: int = 0, timeout: float | None = None) -> R:
        """x of the root, written into x everywhere."""
        return self._ask(requests.broadcast, x, root, timeout=timeout)

    def all_gather(self, x: Any, out: Any = None, *, counts: Sequence[int] | None = None, timeout: float | None = None) -> R:
        """All ranks' x: shape (n, *x.shape). With `counts`, the rows of each rank (x.shape[0] is counts[r]): the rows one
        after the other, shape (sum(counts), *x.shape[1:])."""
        return self._ask(requests.all_gather, x, out, counts, timeout=timeout)

    def reduce_scatter(self, x: Any, out: Any = None, *, op: str = "sum", factor: float | None = None,
                       counts: Sequence[int] | None = None, wire_type: str | None = None,
                       timeout: float | None = None) -> R:
        """Rows of the reduction: rank r has the r-th n-th of them, shape (x.shape[0] / n, *x.shape[1:]), or counts[r].
        `wire_type`: as reduce."""
        return self._ask(requests.reduce_scatter, x, out, op, factor, counts, wire_type, timeout=timeout)

    def gather(self, x: Any, out: Any = None, *, counts: Sequence[int] | None = None, root: int = 0,
               timeout: float | None = None) -> R:
        """As all_gather, on the root only; None elsewhere."""
        return self._ask(requests.gather, x, out, counts, root, timeout=timeout)

    def scatter(self, x: Any = None, out: Any = None, *, counts: Sequence[int] | None = None, root: int = 0,
                timeout: float | None = None) -> R:
        """Rows of the root's x: the r-th n-th of them, or counts[r] rows. Ranks other than the root pass out, not x."""
        return self._ask(requests.scatter, x, out, counts, root, timeout=timeout)

    def alltoall(self, x: Any, out: Any = None, *, counts: Sequence[int] | None = None,
                 out_counts: Sequence[int] | None = None, timeout: float | None = None) -> R:
        """The j-th n-th of x's rows goes to rank j, or counts[j] rows; what came from rank i is the i-th part of the result,
        out_counts[i] rows (Communicator.exchange_counts asks for them)."""
        return self._ask(requests.alltoall, x, out, counts, out_counts, timeout=timeout)

    def barrier(self, *, timeout: float | None = None) -> R:
        """Over when every rank has called it."""
        return self._ask(requests.barrier, timeout=timeout)

    def send(self, x: Any, to: int, *, tag: int = 0, timeout: float | None = None) -> R:
        """To one rank, which receives it with recv. Messages between two ranks match in order, tag by tag."""
        return self._ask(requests.send, x, to, tag, timeout=timeout, message=("send", to, tag))

    def recv(self, out: Any, source: int = ANY_SOURCE, *, tag: int = ANY_TAG, timeout: float | None = None) -> R:
        """At most as many elements as out has; the result is Received(source, tag, count)."""
        return self._ask(requests.recv, out, source, tag, timeout=timeout, message=("recv", source, tag))
