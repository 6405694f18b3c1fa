"""From a call with arrays to an operation: shapes and types are checked here, on this rank, before anything is sent. What
only several ranks together can get wrong (lengths that differ, another collective) the library finds out.

n is the number of ranks. Blocks are rows: an array of shape (k, ...) is k rows.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from fabring import _core
from fabring.arguments import seconds, whole
from fabring.arrays import View, empty, several, view
from fabring.errors import InvalidArgumentError, UnsupportedError
from fabring.streams import stream_of

ANY_SOURCE = -1
ANY_TAG = -1


@dataclass(frozen=True)
class Received:
    """What a recv got."""

    source: int
    tag: int
    count: int  # elements


class Request(NamedTuple):
    operation: _core.Operation
    arrays: tuple  # whose memory the operation uses
    result: Any  # what the caller gets when it is over; Received: to be asked for


def _operation(collective: str, source: View | None, target: View | None, count: int, **more: Any) -> _core.Operation:
    known = source or target
    type = known.type if known else "float32"
    return _core.Operation(_core.COLLECTIVES[collective], input=source.address if source else 0,
                           output=target.address if target else 0, count=count, type=_core.TYPES[type],
                           memory=0 if any(view.on_gpu for view in (source, target) if view) else 1,
                           stream=stream_of((source, target)), **more)


def _reduction(type: str, op: str, factor: float | int | None) -> dict[str, Any]:
    """The fields for `op`; with a factor the sum of factor * x. Raises for words that are none and types without meaning."""
    if factor is not None:
        if op != "sum":
            raise InvalidArgumentError(f"factor= multiplies the summands of op='sum', not of op={op!r}")
        if isinstance(factor, (str, bytes, bytearray)):
            raise InvalidArgumentError(f"factor={factor!r} is no number")
        try:
            real = float(factor)
        except (TypeError, ValueError):
            raise InvalidArgumentError(f"factor={factor!r} is no number") from None
        except OverflowError:  # not repeated in the message: it may be longer than Python writes
            raise InvalidArgumentError(f"factor= is beyond 1e308, and beyond what the elements, {type}, can be "
                                       "multiplied by") from None
        if type.startswith(("float", "bfloat")):
            return {"op": _number(type, "premul_sum"), "factor": real}
        if not math.isfinite(real) or int(factor) != factor:
            raise InvalidArgumentError(f"factor={factor!r} is not whole and the elements are {type}")
        whole = int(factor)
        if not -2**63 <= whole < (2**64 if type == "uint64" else 2**63):
            raise InvalidArgumentError(f"factor={factor!r} is beyond what the elements, {type}, can be multiplied by")
        # The core takes the 64 bits, whichever sign they are read with.
        return {"op": _number(type, "premul_sum"), "whole_factor": whole if whole < 2**63 else whole - 2**64}
    return {"op": _checked(type, op)}


def _wire(wire_type: str | None, type: str) -> int:
    """The number of what `type` is to travel as; 0 for None, which leaves it to FABRING_WIRE_TYPE."""
    if wire_type is None:
        return 0
    names = {"float32": "float32", "off": type, "bfloat16": "bfloat16", "bf16": "bfloat16", "float16": "float16",
             "f16": "float16"}
    if not isinstance(wire_type, str) or wire_type not in names:
        raise InvalidArgumentError(f"wire_type={wire_type!r} is none of bfloat16, float16, off")
    return _core.TYPES[names[wire_type]]


def _checked(type: str, op: str) -> int:
    if not isinstance(op, str) or op not in _core.OPS or op == "premul_sum":
        known = ", ".join(name for name in _core.OPS if name != "premul_sum")
        raise InvalidArgumentError(f"op={op!r} is none of {known}")
    return _number(type, op)


def _number(type: str, op: str) -> int:
    if not _core.supports(_core.TYPES[type], _core.OPS[op]):
        raise UnsupportedError(f"op={op!r} has no meaning for {type} elements")
    return _core.OPS[op]


def _output(out: Any, shape: tuple[int, ...], source: View, name: str = "out") -> tuple[Any, View]:
    """The array for the result and its view: `out` if it fits, a new one of the source's kind if there is none."""
    if out is None:
        out = empty(source, shape)
    target = view(out, name, writable=True)
    if target.type != source.type:
        raise InvalidArgumentError(f"{name} holds {target.type} and the input {source.type}")
    if target.shape != shape:
        raise InvalidArgumentError(f"{name} has shape {target.shape}; the result has {shape}")
    return out, target


def _rows(source: View, ranks: int, what: str) -> int:
    """Rows per rank of an array that has a block for each."""
    if not source.shape or source.shape[0] % ranks:
        raise InvalidArgumentError(f"{what} needs rows for {ranks} ranks: the first dimension of shape {source.shape} is not "
                                   f"divisible by {ranks}; counts= takes a number of rows for each rank")
    return source.shape[0] // ranks


def _row_elements(shape: tuple[int, ...]) -> int:
    return math.prod(shape[1:])


def _checked_counts(counts: Sequence[int], ranks: int, name: str, rows: int | None = None) -> list[int]:
    try:
        made = [whole(count, f"{name}[{i}]") for i, count in enumerate(counts)]
    except TypeError:
        raise InvalidArgumentError(f"{name}={counts!r} is no list of numbers of rows, one for each rank") from None
    if len(made) != ranks or min(made, default=0) < 0:
        raise InvalidArgumentError(f"{name} is {made}; it needs a number of rows, 0 or more, for each of {ranks} ranks")
    if rows is not None and sum(made) != rows:
        raise InvalidArgumentError(f"{name} adds up to {sum(made)} rows and the array has {rows}")
    return made


def _root(root: int, ranks: int, name: str = "root") -> int:
    root = whole(root, name)
    if not 0 <= root < ranks:
        raise InvalidArgumentError(f"{name}={root}; there are ranks 0 to {ranks - 1}")
    return root


def _tag(tag: int, least: int) -> int:
    tag = whole(tag, "tag")
    if not least <= tag < 2**31:
        raise InvalidArgumentError(f"tag={tag}; tags are 0 to {2**31 - 1}" + (f", or {least} for any" if least < 0 else ""))
    return tag


def outline(collective: str, peer: Any, tag: Any) -> _core.Operation:
    """Of a send or recv that was refused, what tells who waits for it: what is no rank or tag may be any."""
    def known(value: Any) -> int:
        try:
            number = operator.index(value)
        except TypeError:
            return -1
        return number if 0 <= number < 2**31 else -1

    return _core.Operation(_core.COLLECTIVES[collective], root=known(peer), tag=known(tag))


def _needs_rows(source: View, what: str) -> None:
    if not source.shape:
        raise InvalidArgumentError(f"{what} joins rows and this array has no dimension; pass x.reshape(1)")


def within(timeout: float | None, make: Callable[..., Request], *arguments: Any) -> Request:
    """What `make` returns, with this limit."""
    request = make(*arguments)
    if timeout is not None:
        request.operation.timeout_s = seconds(timeout, "timeout")
    return request


# ---- the collectives ---------------------------------------------------------------------------------------------------


def allreduce(comm: _core.Communicator, x: Any, out: Any, op: str, factor: float | None,
              wire_type: str | None) -> Request:
    source = view(x, "x", writable=False)
    out, target = _output(out, source.shape, source)
    made = _operation("allreduce", source, target, source.elements, wire_type=_wire(wire_type, source.type),
                      **_reduction(source.type, op, factor))
    return Request(made, (source, target), out)


def grouped_allreduce(comm: _core.Communicator, xs: Sequence[Any], outs: Sequence[Any] | None, op: str,
                      factor: float | None, wire_type: str | None) -> Request:
    sources = [view(x, f"xs[{i}]", writable=False) for i, x in enumerate(several(xs, "xs"))]
    outs = None if outs is None else several(outs, "outs")
    if outs is not None and len(outs) != len(sources):
        raise InvalidArgumentError(f"there are {len(sources)} xs and {len(outs)} outs")
    for i, source in enumerate(sources):
        if source.type != sources[0].type:
            raise InvalidArgumentError(f"xs[0] holds {sources[0].type} and xs[{i}] {source.type}; a group has one type")
    pairs = [_output(outs[i] if outs is not None else None, source.shape, source, f"outs[{i}]")
             for i, source in enumerate(sources)]
    type = sources[0].type if sources else "float32"
    arrays = [*sources, *(target for _, target in pairs)]
    made = _core.Operation(_core.COLLECTIVES["allreduce"], type=_core.TYPES[type], wire_type=_wire(wire_type, type),
                           memory=0 if any(array.on_gpu for array in arrays) else 1, stream=stream_of(arrays),
                           tensors=[(source.address, target.address, source.elements)
                                    for source, (_, target) in zip(sources, pairs)],
                           **_reduction(type, op, factor))
    return Request(made, tuple(arrays), [out for out, _ in pairs])


def reduce(comm: _core.Communicator, x: Any, out: Any, op: str, factor: float | None, root: int,
           wire_type: str | None) -> Request:
    source = view(x, "x", writable=False)
    target = None
    if comm.rank == _root(root, comm.size):
        out, target = _output(out, source.shape, source)
    made = _operation("reduce", source, target, source.elements, root=root, wire_type=_wire(wire_type, source.type),
                      **_reduction(source.type, op, factor))
    return Request(made, (source, target), out if target else None)


def broadcast(comm: _core.Communicator, x: Any, root: int) -> Request:
    here = view(x, "x", writable=comm.rank != _root(root, comm.size))
    return Request(_operation("broadcast", here, here, here.elements, root=root), (here,), x)


def all_gather(comm: _core.Communicator, x: Any, out: Any, counts: Sequence[int] | None) -> Request:
    source = view(x, "x", writable=False)
    if counts is None:
        out, target = _output(out, (comm.size, *source.shape), source)
        return Request(_operation("all_gather", source, target, source.elements), (source, target), out)
    _needs_rows(source, "all_gather with counts")
    rows = _checked_counts(counts, comm.size, "counts")
    if rows[comm.rank] != source.shape[0]:
        raise InvalidArgumentError(f"counts says {rows[comm.rank]} rows for rank {comm.rank}, whose x has {source.shape[0]}")
    out, target = _output(out, (sum(rows), *source.shape[1:]), source)
    each = _row_elements(source.shape)
    return Request(_operation("all_gather", source, target, 0, counts=[r * each for r in rows]), (source, target), out)


def reduce_scatter(comm: _core.Communicator, x: Any, out: Any, op: str, factor: float | None,
                   counts: Sequence[int] | None, wire_type: str | None) -> Request:
    source = view(x, "x", writable=False)
    each = _row_elements(source.shape)
    more = {"wire_type": _wire(wire_type, source.type), **_reduction(source.type, op, factor)}
    if counts is None:
        rows = _rows(source, comm.size, "reduce_scatter")
        out, target = _output(out, (rows, *source.shape[1:]), source)
        return Request(_operation("reduce_scatter", source, target, rows * each, **more), (source, target), out)
    _needs_rows(source, "reduce_scatter with counts")
    all_rows = _checked_counts(counts, comm.size, "counts", source.shape[0])
    out, target = _output(out, (all_rows[comm.rank], *source.shape[1:]), source)
    made = _operation("reduce_scatter", source, target, 0, counts=[r * each for r in all_rows], **more)
    return Request(made, (source, target), out)


def gather(comm: _core.Communicator, x: Any, out: Any, counts: Sequence[int] | None, root: int) -> Request:
    source = view(x, "x", writable=False)
    here = comm.rank == _root(root, comm.size)
    target = None
    if counts is None:
        if here:
            out, target = _output(out, (comm.size, *source.shape), source)
        made = _operation("gather", source, target, source.elements, root=root)
        return Request(made, (source, target), out if here else None)
    _needs_rows(source, "gather with counts")
    rows = _checked_counts(counts, comm.size, "counts")
    if rows[comm.rank] != source.shape[0]:
        raise InvalidArgumentError(f"counts says {rows[comm.rank]} rows for rank {comm.rank}, whose x has {source.shape[0]}")
    if here:
        out, target = _output(out, (sum(rows), *source.shape[1:]), source)
    each = _row_elements(source.shape)
    made = _operation("gather", source, target, 0, root=root, counts=[r * each for r in rows])
    return Request(made, (source, target), out if here else None)


def scatter(comm: _core.Communicator, x: Any, out: Any, counts: Sequence[int] | None, root: int) -> Request:
    here = comm.rank == _root(root, comm.size)
    if here and x is None:
        raise InvalidArgumentError(f"scatter: rank {root} is the root and has no x")
    if not here and out is None:
        raise InvalidArgumentError("scatter: only the root knows the shape of the rows; the others pass out=")
    source = view(x, "x", writable=False) if here else None
    if counts is None:
        if source:
            rows = _rows(source, comm.size, "scatter")
            out, target = _output(out, (rows, *source.shape[1:]), source)
        else:
            target = view(out, "out", writable=True)
        return Request(_operation("scatter", source, target, target.elements, root=root), (source, target), out)
    all_rows = _checked_counts(counts, comm.size, "counts", source.shape[0] if source and source.shape else None)
    if source:
        _needs_rows(source, "scatter with counts")
        out, target = _output(out, (all_rows[comm.rank], *source.shape[1:]), source)
    else:
        target = view(out, "out", writable=True)
        if not target.shape or target.shape[0] != all_rows[comm.rank]:
            raise InvalidArgumentError(f"out has shape {target.shape}; counts says {all_rows[comm.rank]} rows for this rank")
    each = _row_elements(target.shape)
    made = _operation("scatter", source, target, 0, root=root, counts=[r * each for r in all_rows])
    return Request(made, (source, target), out)


def alltoall(comm: _core.Communicator, x: Any, out: Any, counts: Sequence[int] | None,
             out_counts: Sequence[int] | None) -> Request:
    source = view(x, "x", writable=False)
    each = _row_elements(source.shape)
    if counts is None and out_counts is not None:
        raise InvalidArgumentError("out_counts needs counts, the rows that go to each rank; without both all are equal")
    if counts is None:
        rows = _rows(source, comm.size, "alltoall")
        out, target = _output(out, source.shape, source)
        return Request(_operation("alltoall", source, target, rows * each), (source, target), out)
    if out_counts is None:
        raise InvalidArgumentError("alltoall with counts also needs out_counts, the rows that come from each rank; "
                                   "exchange_counts() asks the others for them")
    _needs_rows(source, "alltoall with counts")
    sent = _checked_counts(counts, comm.size, "counts", source.shape[0])
    got = _checked_counts(out_counts, comm.size, "out_counts")
    out, target = _output(out, (sum(got), *source.shape[1:]), source)
    made = _operation("alltoall", source, target, 0, counts=[r * each for r in sent], out_counts=[r * each for r in got])
    return Request(made, (source, target), out)


def barrier(comm: _core.Communicator) -> Request:
    return Request(_operation("barrier", None, None, 0), (), None)


def send(comm: _core.Communicator, x: Any, to: int, tag: int) -> Request:
    source = view(x, "x", writable=False)
    tag = _tag(tag, 0)
    return Request(_operation("send", source, None, source.elements, root=_root(to, comm.size, "to"), tag=tag), (source,), None)


def recv(comm: _core.Communicator, out: Any, source: int, tag: int) -> Request:
    target = view(out, "out", writable=True)
    source = whole(source, "source")
    if source != ANY_SOURCE:
        _root(source, comm.size, "source")
    tag = _tag(tag, ANY_TAG)
    return Request(_operation("recv", None, target, target.elements, root=source, tag=tag), (target,), Received)

