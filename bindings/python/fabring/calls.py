"""The collectives by name. A Communicator runs them, `communicator.start` begins them, `communicator.prepare` makes them
ready, a Group collects them: the same methods everywhere, written down once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Generic, TypeVar

from fabring import _core, requests
from fabring.requests import ANY_SOURCE, ANY_TAG, Request

R = TypeVar("R")


class Calls(Generic[R]):
    """n is the number of ranks, r the caller's. Every rank of the communicator calls the same collective with the same
    shapes, types, op and root. `x` and `out` are NumPy arrays, torch tensors of the host or other DLPack arrays in one
    row-major piece; without `out` a new array of x's kind is made. x and out must not overlap unless they are the same."""

    _core: _core.Communicator

    def _do(self, request: Request) -> R:
        raise NotImplementedError

    def allreduce(self, x: Any, out: Any = None, *, op: str = "sum", factor: float | None = None,
                  wire_type: str | None = None) -> R:
        """out = the reduction of all ranks' x; out=x: in place. `op`: sum, prod, min, max, avg, logical_and, logical_or,
        logical_xor, bitwise_and, bitwise_or, bitwise_xor. `factor`: the sum of factor * x, each rank with its own.
        `wire_type`, the same on every rank: float32 travels as "bfloat16" or "float16", half the bytes, for sums and
        averages; "off": as it is; None: as FABRING_WIRE_TYPE says."""
        return self._do(requests.allreduce(self._core, x, out, op, factor, wire_type))

    def grouped_allreduce(self, xs: Sequence[Any], outs: Sequence[Any] | None = None, *, op: str = "sum",
                          factor: float | None = None, wire_type: str | None = None) -> R:
        """An allreduce of each of xs as one operation; the result is the list of outs. Small arrays travel together, large
        ones are reduced where they lie. Every rank has as many, of the same shapes and one type, in the same order. No out
        overlaps another array of the lists; one that is shared is listed once."""
        return self._do(requests.grouped_allreduce(self._core, xs, outs, op, factor, wire_type))

    def reduce(self, x: Any, out: Any = None, *, op: str = "sum", factor: float | None = None, root: int = 0) -> R:
        """As allreduce, the result on the root only; None elsewhere."""
        return self._do(requests.reduce(self._core, x, out, op, factor, root))

    def broadcast(self, x: Any, *, root: int = 0) -> R:
        """x of the root, written into x everywhere."""
        return self._do(requests.broadcast(self._core, x, root))

    def all_gather(self, x: Any, out: Any = None, *, counts: Sequence[int] | None = None) -> R:
        """All ranks' x: shape (n, *x.shape). With `counts`, the rows of each rank (x.shape[0] is counts[r]): the rows one
        after the other, shape (sum(counts), *x.shape[1:])."""
        return self._do(requests.all_gather(self._core, x, out, counts))

    def reduce_scatter(self, x: Any, out: Any = None, *, op: str = "sum", factor: float | None = None,
                       counts: Sequence[int] | None = None) -> R:
        """Rows of the reduction: rank r has the r-th n-th of them, shape (x.shape[0] / n, *x.shape[1:]), or counts[r]."""
        return self._do(requests.reduce_scatter(self._core, x, out, op, factor, counts))

    def gather(self, x: Any, out: Any = None, *, counts: Sequence[int] | None = None, root: int = 0) -> R:
        """As all_gather, on the root only; None elsewhere."""
        return self._do(requests.gather(self._core, x, out, counts, root))

    def scatter(self, x: Any = None, out: Any = None, *, counts: Sequence[int] | None = None, root: int = 0) -> R:
        """Rows of the root's x: the r-th n-th of them, or counts[r] rows. Ranks other than the root pass out, not x."""
        return self._do(requests.scatter(self._core, x, out, counts, root))

    def alltoall(self, x: Any, out: Any = None, *, counts: Sequence[int] | None = None,
                 out_counts: Sequence[int] | None = None) -> R:
        """The j-th n-th of x's rows goes to rank j, or counts[j] rows; what came from rank i is the i-th part of the result,
        out_counts[i] rows (Communicator.exchange_counts asks for them)."""
        return self._do(requests.alltoall(self._core, x, out, counts, out_counts))

    def barrier(self) -> R:
        """Over when every rank has called it."""
        return self._do(requests.barrier(self._core))

    def send(self, x: Any, to: int, *, tag: int = 0) -> R:
        """To one rank, which receives it with recv. Messages between two ranks match in order, tag by tag."""
        return self._do(requests.send(self._core, x, to, tag))

    def recv(self, out: Any, source: int = ANY_SOURCE, *, tag: int = ANY_TAG) -> R:
        """At most as many elements as out has; the result is Received(source, tag, count)."""
        return self._do(requests.recv(self._core, out, source, tag))
