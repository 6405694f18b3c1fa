"""The collectives that take handles, with the names and arguments of Horovod's PyTorch API. `_async` begins, a name that
ends in `_` works in place."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from fabring.errors import InvalidArgumentError, UnsupportedError
from fabring.horovod.handles import submit, synchronize
from fabring.horovod.process_set import ProcessSet, global_process_set
from fabring.horovod.requests import Average, Max, Min, Product, Request, Sum

Adasum = "adasum"


def reduction(op: str | None, average: bool | None) -> str:
    """The operation of the arguments `op` and, older, `average`."""
    if average is not None:
        if op is not None:
            raise ValueError("give op or average, not both")
        return Average if average else Sum
    if op == Adasum:
        raise UnsupportedError("op=Adasum: Fabring has Average, Sum, Min, Max, Product")
    if op is not None and op not in (Average, Sum, Min, Max, Product):
        raise InvalidArgumentError(f"op={op!r} is none of Average, Sum, Min, Max, Product")
    return Average if op is None else op


def _check_factors(op: str, tensors: Sequence[torch.Tensor], prescale_factor: float, postscale_factor: float) -> None:
    if prescale_factor == 1 and postscale_factor == 1:
        return
    if op not in (Average, Sum):
        raise InvalidArgumentError(f"prescale_factor and postscale_factor go with Average and Sum, not with {op}")
    if any(not tensor.dtype.is_floating_point for tensor in tensors):
        raise InvalidArgumentError("prescale_factor and postscale_factor go with floating-point tensors")


def _reduce_many(tensors: Sequence[torch.Tensor], outputs: Sequence[torch.Tensor], name: str | None, single: bool,
                 op: str | None, average: bool | None, prescale_factor: float, postscale_factor: float,
                 process_set: ProcessSet) -> int:
    chosen = reduction(op, average)
    _check_factors(chosen, tensors, prescale_factor, postscale_factor)
    return submit("allreduce", name, process_set, tensors, outputs, single=single, op=chosen,
                  prescale=float(prescale_factor), postscale=float(postscale_factor))


def _new_like(tensor: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(tensor, requires_grad=False, memory_format=torch.contiguous_format)


def allreduce_async(tensor: torch.Tensor, average: bool | None = None, name: str | None = None, op: str | None = None,
                    prescale_factor: float = 1.0, postscale_factor: float = 1.0,
                    process_set: ProcessSet = global_process_set) -> int:
    """The reduction of all ranks' tensors, Average unless `op` says otherwise: postscale * reduction(prescale * tensor)."""
    return _reduce_many([tensor], [_new_like(tensor)], name, True, op, average, prescale_factor, postscale_factor,
                        process_set)


def allreduce_async_(tensor: torch.Tensor, average: bool | None = None, name: str | None = None, op: str | None = None,
                     prescale_factor: float = 1.0, postscale_factor: float = 1.0,
                     process_set: ProcessSet = global_process_set) -> int:
    return _reduce_many([tensor], [tensor], name, True, op, average, prescale_factor, postscale_factor, process_set)


def grouped_allreduce_async(tensors: Sequence[torch.Tensor], average: bool | None = None, name: str | None = None,
                            op: str | None = None, prescale_factor: float = 1.0, postscale_factor: float = 1.0,
                            process_set: ProcessSet = global_process_set) -> int:
    """Several tensors as one call: none is reduced before all ranks have all of them."""
    return _reduce_many(tensors, [_new_like(t) for t in tensors], name, False, op, average, prescale_factor,
                        postscale_factor, process_set)


def grouped_allreduce_async_(tensors: Sequence[torch.Tensor], average: bool | None = None, name: str | None = None,
                             op: str | None = None, prescale_factor: float = 1.0, postscale_factor: float = 1.0,
                             process_set: ProcessSet = global_process_set) -> int:
    return _reduce_many(tensors, tensors, name, False, op, average, prescale_factor, postscale_factor, process_set)


def allreduce_(tensor: torch.Tensor, *arguments: Any, **named: Any) -> torch.Tensor:
    return synchronize(allreduce_async_(tensor, *arguments, **named))


def grouped_allreduce_(tensors: Sequence[torch.Tensor], *arguments: Any, **named: Any) -> list[torch.Tensor]:
    return synchronize(grouped_allreduce_async_(tensors, *arguments, **named))


def sparse_allreduce_async(tensor: torch.Tensor, name: str, op: str, process_set: ProcessSet = global_process_set) -> Any:
    """Of a sparse COO tensor, by gathering indices and values. Returns a function that waits and gives the result."""
    own = tensor.coalesce()
    indices = allgather_async(own.indices().t().contiguous(), f"{name}.indices", process_set)
    values = allgather_async(own.values(), f"{name}.values", process_set)

    def result() -> torch.Tensor:
        all_values = synchronize(values)
        if reduction(op, None) == Average:
            all_values = all_values / process_set.size()
        return torch.sparse_coo_tensor(synchronize(indices).t(), all_values, tensor.shape, check_invariants=False).coalesce()

    return result


def _check_rows(tensors: Sequence[torch.Tensor], what: str) -> None:
    if any(tensor.dim() == 0 for tensor in tensors):
        raise InvalidArgumentError(f"{what} joins rows and this tensor has no dimension; pass tensor.reshape(1)")


def allgather_async(tensor: torch.Tensor, name: str | None = None, process_set: ProcessSet = global_process_set) -> int:
    """All ranks' rows, one rank after the other; first dimensions may differ."""
    _check_rows([tensor], "allgather")
    return submit("allgather", name, process_set, [tensor], None)


def grouped_allgather_async(tensors: Sequence[torch.Tensor], name: str | None = None,
                            process_set: ProcessSet = global_process_set) -> int:
    _check_rows(tensors, "allgather")
    return submit("allgather", name, process_set, tensors, None, single=False)


def broadcast_async(tensor: torch.Tensor, root_rank: int, name: str | None = None,
                    process_set: ProcessSet = global_process_set) -> int:
    """The tensor of root_rank, a number in the job, not in the process set."""
    return submit("broadcast", name, process_set, [tensor], [_new_like(tensor)], root=process_set.place(root_rank))


def broadcast_async_(tensor: torch.Tensor, root_rank: int, name: str | None = None,
                     process_set: ProcessSet = global_process_set) -> int:
    return submit("broadcast", name, process_set, [tensor], [tensor], root=process_set.place(root_rank))


def broadcast_(tensor: torch.Tensor, root_rank: int, name: str | None = None,
               process_set: ProcessSet = global_process_set) -> torch.Tensor:
    return synchronize(broadcast_async_(tensor, root_rank, name, process_set))


def alltoall_async(tensor: torch.Tensor, splits: Any = None, name: str | None = None,
                   process_set: ProcessSet = global_process_set) -> int:
    """splits[j] rows go to rank j; without splits each rank gets as many. The result: the rows that came, and with splits
    also how many came from each rank."""
    _check_rows([tensor], "alltoall")
    ranks = process_set.negotiation().size
    if splits is None:
        if tensor.shape[0] % ranks:
            raise InvalidArgumentError(f"alltoall: {tensor.shape[0]} rows do not divide by {ranks} ranks; give splits")
        rows = [tensor.shape[0] // ranks] * ranks
    else:
        rows = [int(split) for split in splits]
        if len(rows) != ranks or min(rows) < 0 or sum(rows) != tensor.shape[0]:
            raise InvalidArgumentError(f"alltoall: splits {rows} are not {ranks} numbers that add up to {tensor.shape[0]} rows")

    def result(request: Request) -> Any:
        output = request.wait()
        if splits is None:
            return output
        device = splits.device if isinstance(splits, torch.Tensor) else "cpu"
        return output, torch.tensor(request.received_splits, dtype=torch.int32, device=device)

    return submit("alltoall", name, process_set, [tensor], None, result=result, splits=tuple(rows))


def reducescatter_async(tensor: torch.Tensor, name: str | None = None, op: str | None = Average,
                        process_set: ProcessSet = global_process_set, prescale_factor: float = 1.0,
                        postscale_factor: float = 1.0) -> int:
    """Rows of the reduction, shared out as evenly as can be; the first ranks get one more."""
    return _reducescatter([tensor], name, op, process_set, prescale_factor, postscale_factor, True)


def grouped_reducescatter_async(tensors: Sequence[torch.Tensor], name: str | None = None, op: str | None = Average,
                                process_set: ProcessSet = global_process_set, prescale_factor: float = 1.0,
                                postscale_factor: float = 1.0) -> int:
    return _reducescatter(tensors, name, op, process_set, prescale_factor, postscale_factor, False)


def _reducescatter(tensors: Sequence[torch.Tensor], name: str | None, op: str | None, process_set: ProcessSet,
                   prescale_factor: float, postscale_factor: float, single: bool) -> int:
    _check_rows(tensors, "reducescatter")
    chosen = reduction(op, None)
    if chosen not in (Average, Sum):
        raise InvalidArgumentError(f"reducescatter has Average and Sum, not {chosen}")
    _check_factors(chosen, tensors, prescale_factor, postscale_factor)
    return submit("reducescatter", name, process_set, tensors, None, single=single, op=chosen,
                  prescale=float(prescale_factor), postscale=float(postscale_factor))


def barrier(process_set: ProcessSet = global_process_set) -> None:
    """Waits until every rank of the set has called it."""
    synchronize(submit("barrier", None, process_set, [], []))


def join(device: int = -1) -> int:
    """For a rank that has no more data: takes part in the others' allreduces with zeros until all ranks have called join.
    Averages still divide by the number of all ranks. Returns the rank that joined last. `device`: the GPU for zeros that go with
    tensors of the others' GPUs; -1: the current one, or memory of the host if this process has used none."""
    gpu = None
    if device >= 0:
        gpu = torch.device("cuda", device)
    elif torch.cuda.is_initialized():
        gpu = torch.device("cuda", torch.cuda.current_device())
    return global_process_set.negotiation().join(gpu)
