"""The blocking collectives, through which gradients flow back, with Horovod's factors, for which scripts are tuned: see
docs/horovod.md."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from fabring.horovod import collectives
from fabring.horovod.compression import Compression, Compressor
from fabring.horovod.handles import synchronize
from fabring.horovod.process_set import ProcessSet, global_process_set
from fabring.horovod.requests import Average, Sum


class _Allreduce(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, options: dict, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        ctx.options = options
        return tuple(synchronize(collectives.grouped_allreduce_async(tensors, **options)))

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple:
        options = {**ctx.options, "name": None}
        return None, *synchronize(collectives.grouped_allreduce_async([g.contiguous() for g in gradients], **options))


class _Allgather(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, name: str | None, process_set: ProcessSet, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        ctx.rows, ctx.process_set = [tensor.shape[0] for tensor in tensors], process_set
        return tuple(synchronize(collectives.grouped_allgather_async(tensors, name, process_set)))

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple:
        means = synchronize(collectives.grouped_allreduce_async(gradients, op=Average, process_set=ctx.process_set))
        rows = synchronize(collectives.allgather_async(torch.tensor([ctx.rows], device="cpu"), process_set=ctx.process_set))
        begin = rows[:ctx.process_set.rank()].sum(0).tolist()
        return None, None, *(total[at:at + own] for total, at, own in zip(means, begin, ctx.rows))


class _Broadcast(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, tensor: torch.Tensor, root_rank: int, name: str | None, process_set: ProcessSet) -> torch.Tensor:
        ctx.root, ctx.process_set = process_set.place(root_rank), process_set
        return synchronize(collectives.broadcast_async(tensor, root_rank, name, process_set))

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple:
        mean = synchronize(collectives.allreduce_async(gradient, op=Average, process_set=ctx.process_set))
        return mean if ctx.process_set.rank() == ctx.root else torch.zeros_like(mean), None, None, None


class _Alltoall(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, tensor: torch.Tensor, splits: Any, name: str | None,
                process_set: ProcessSet) -> tuple[torch.Tensor, torch.Tensor]:
        output, received = synchronize(collectives.alltoall_async(tensor, splits, name, process_set))
        ctx.received, ctx.process_set = received, process_set
        ctx.mark_non_differentiable(received)
        return output, received

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor, _: Any) -> tuple:
        back = collectives.alltoall_async(gradient.contiguous(), ctx.received, None, ctx.process_set)
        return synchronize(back)[0], None, None, None


class _Reducescatter(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, options: dict, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        ctx.options, ctx.rows = options, [tensor.shape[0] for tensor in tensors]
        return tuple(synchronize(collectives.grouped_reducescatter_async(tensors, **options)))

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple:
        process_set = ctx.options["process_set"]
        scale = ctx.options["prescale_factor"] * ctx.options["postscale_factor"]
        if ctx.options["op"] == Sum:
            scale *= process_set.size()
        gathered = synchronize(collectives.grouped_allgather_async([g.contiguous() * scale for g in gradients],
                                                                   process_set=process_set))
        return None, *gathered


def allreduce(tensor: torch.Tensor, average: bool | None = None, name: str | None = None,
              compression: type[Compressor] = Compression.none, op: str | None = None, prescale_factor: float = 1.0,
              postscale_factor: float = 1.0, process_set: ProcessSet = global_process_set) -> torch.Tensor:
    """The reduction of all ranks' tensors, Average unless `op` says otherwise."""
    return grouped_allreduce([tensor], average, name, compression, op, prescale_factor, postscale_factor, process_set)[0]


def grouped_allreduce(tensors: Sequence[torch.Tensor], average: bool | None = None, name: str | None = None,
                      compression: type[Compressor] = Compression.none, op: str | None = None,
                      prescale_factor: float = 1.0, postscale_factor: float = 1.0,
                      process_set: ProcessSet = global_process_set) -> list[torch.Tensor]:
    options = {"name": name, "op": collectives.reduction(op, average), "prescale_factor": prescale_factor,
               "postscale_factor": postscale_factor, "process_set": process_set}
    small, contexts = zip(*(compression.compress(tensor) for tensor in tensors))
    return [compression.decompress(t, c) for t, c in zip(_Allreduce.apply(options, *small), contexts)]


def allgather(tensor: torch.Tensor, name: str | None = None, process_set: ProcessSet = global_process_set) -> torch.Tensor:
    """All ranks' rows, one rank after the other; first dimensions may differ."""
    return _Allgather.apply(name, process_set, tensor)[0]


def grouped_allgather(tensors: Sequence[torch.Tensor], name: str | None = None,
                      process_set: ProcessSet = global_process_set) -> list[torch.Tensor]:
    return list(_Allgather.apply(name, process_set, *tensors))


def broadcast(tensor: torch.Tensor, root_rank: int, name: str | None = None,
              process_set: ProcessSet = global_process_set) -> torch.Tensor:
    """The tensor of root_rank, a number in the job, not in the process set."""
    return _Broadcast.apply(tensor, root_rank, name, process_set)


def alltoall(tensor: torch.Tensor, splits: Any = None, name: str | None = None,
             process_set: ProcessSet = global_process_set) -> Any:
    """splits[j] rows go to rank j. The rows that came; with splits also how many came from each rank."""
    if splits is not None:
        return _Alltoall.apply(tensor, splits, name, process_set)
    ranks = process_set.negotiation().size
    if tensor.dim() and tensor.shape[0] % ranks == 0:
        return _Alltoall.apply(tensor, [tensor.shape[0] // ranks] * ranks, name, process_set)[0]
    return synchronize(collectives.alltoall_async(tensor, None, name, process_set))  # says what is wrong


def reducescatter(tensor: torch.Tensor, name: str | None = None, compression: type[Compressor] = Compression.none,
                  op: str | None = Average, process_set: ProcessSet = global_process_set, prescale_factor: float = 1.0,
                  postscale_factor: float = 1.0) -> torch.Tensor:
    """Rows of the reduction, shared out as evenly as can be; the first ranks get one more."""
    return grouped_reducescatter([tensor], name, compression, op, process_set, prescale_factor, postscale_factor)[0]


def grouped_reducescatter(tensors: Sequence[torch.Tensor], name: str | None = None,
                          compression: type[Compressor] = Compression.none, op: str | None = Average,
                          process_set: ProcessSet = global_process_set, prescale_factor: float = 1.0,
                          postscale_factor: float = 1.0) -> list[torch.Tensor]:
    options = {"name": name, "op": collectives.reduction(op, None), "process_set": process_set,
               "prescale_factor": prescale_factor, "postscale_factor": postscale_factor}
    small, contexts = zip(*(compression.compress(tensor) for tensor in tensors))
    return [compression.decompress(t, c) for t, c in zip(_Reducescatter.apply(options, *small), contexts)]


