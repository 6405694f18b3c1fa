"""Starting everybody alike: parameters, optimizer states and objects of one rank on all."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Mapping
from typing import Any

import torch

from fabring.errors import InvalidArgumentError
from fabring.horovod.collectives import allgather_async, broadcast_async_
from fabring.horovod.handles import synchronize
from fabring.horovod.process_set import ProcessSet, global_process_set


def broadcast_parameters(params: Mapping[str, Any] | Iterable[Any], root_rank: int,
                         process_set: ProcessSet = global_process_set) -> None:
    """The root's model.state_dict(), model.named_parameters() or list of tensors, written into everybody's."""
    if isinstance(params, Mapping):
        named = sorted(params.items())
    else:
        named = [one if isinstance(one, tuple) else (f"parameter {i}", one) for i, one in enumerate(_listed(params))]
    _check_parameters(named)
    handles = [broadcast_async_(tensor, root_rank, f"parameters.{name}", process_set)
               for name, tensor in named if isinstance(tensor, torch.Tensor)]
    for handle in handles:
        synchronize(handle)


_INSTEAD = "give model.state_dict(), model.named_parameters() or a list of tensors; broadcast_object takes anything"


def _listed(params: Iterable[Any]) -> list[Any]:
    """Of modules only a ParameterList is one of tensors: a Sequential iterates over its layers, most others over nothing."""
    module = isinstance(params, torch.nn.Module) and not isinstance(params, torch.nn.ParameterList)
    if module or not isinstance(params, Iterable):
        raise InvalidArgumentError(f"broadcast_parameters: what was given is of type {type(params).__name__}, no tensors: {_INSTEAD}")
    return list(params)


def _check_parameters(named: list[tuple[str, Any]]) -> None:
    """What is passed over stays different on every rank, so only what modules keep beside their tensors may be."""
    for name, value in named:
        if not isinstance(value, torch.Tensor) and not str(name).endswith("_extra_state"):
            raise InvalidArgumentError(f"broadcast_parameters: '{name}' is of type {type(value).__name__}, no tensor: {_INSTEAD}")
    if named and not any(isinstance(value, torch.Tensor) for _, value in named):
        raise InvalidArgumentError(f"broadcast_parameters: there is no tensor in what was given: {_INSTEAD}")


def broadcast_object(obj: Any, root_rank: int = 0, name: str | None = None,
                     process_set: ProcessSet = global_process_set) -> Any:
    """The root's object, pickled, on every rank. As two calls, by `name` too."""
    of_length, of_data = _two_names(name)
    root = process_set.place(root_rank) == process_set.negotiation().rank
    data = torch.frombuffer(bytearray(pickle.dumps(obj)), dtype=torch.uint8) if root else _bytes(0)
    length = torch.tensor([data.numel()], device="cpu")
    synchronize(broadcast_async_(length, root_rank, of_length, process_set))
    if not root:
        data = _bytes(int(length))
    synchronize(broadcast_async_(data, root_rank, of_data, process_set))
    return obj if root else pickle.loads(data.numpy().tobytes())


def _two_names(name: str | None) -> tuple[str | None, str | None]:
    return (None, None) if name is None else (f"{name}.length", f"{name}.data")


def _bytes(count: int) -> torch.Tensor:
    return torch.empty(count, dtype=torch.uint8, device="cpu")  # whatever torch.set_default_device() says


def allgather_object(obj: Any, name: str | None = None, process_set: ProcessSet = global_process_set) -> list[Any]:
    """Every rank's object, pickled, in the order of the ranks. As two calls, by `name` too."""
    of_length, of_data = _two_names(name)
    data = torch.frombuffer(bytearray(pickle.dumps(obj)), dtype=torch.uint8)
    lengths = synchronize(allgather_async(torch.tensor([data.numel()], device="cpu"), of_length, process_set)).tolist()
    whole = synchronize(allgather_async(data, of_data, process_set)).numpy().tobytes()
    ends = [sum(lengths[:i + 1]) for i in range(len(lengths))]
    return [pickle.loads(whole[end - length:end]) for end, length in zip(ends, lengths)]


class _Elsewhere:
    """Stands for a tensor that travels by itself."""

    def __init__(self, tensor: torch.Tensor) -> None:
        self.shape, self.dtype = tuple(tensor.shape), tensor.dtype


def broadcast_optimizer_state(optimizer: torch.optim.Optimizer, root_rank: int, model: torch.nn.Module | None = None,
                              process_set: ProcessSet = global_process_set) -> None:
    """The root's optimizer.state_dict(), hyperparameters too, loaded by everybody. The others' states may be empty: there
    is no need to make a step first. `model` is not used."""
    if isinstance(optimizer, torch.optim.LBFGS):
        raise InvalidArgumentError("broadcast_optimizer_state: the state of torch.optim.LBFGS holds what is no tensor; use "
                                   "broadcast_object(optimizer.state_dict()) and load_state_dict")
    root = process_set.place(root_rank) == process_set.negotiation().rank
    tensors: list[torch.Tensor] = []

    def take_out(value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            tensors.append(value.detach().cpu().contiguous())  # load_state_dict() brings it to where the parameter is
            return _Elsewhere(value)
        if isinstance(value, dict):
            return {key: take_out(one) for key, one in value.items()}
        return type(value)(take_out(one) for one in value) if type(value) in (list, tuple) else value

    def put_back(value: Any) -> Any:
        if isinstance(value, _Elsewhere):
            tensors.append(torch.empty(value.shape, dtype=value.dtype, device="cpu"))
            return tensors[-1]
        if isinstance(value, dict):
            return {key: put_back(one) for key, one in value.items()}
        return type(value)(put_back(one) for one in value) if type(value) in (list, tuple) else value

    frame = broadcast_object(take_out(optimizer.state_dict()) if root else None, root_rank, None, process_set)
    state = None if root else put_back(frame)
    handles = [broadcast_async_(tensor, root_rank, f"optimizer.{i}", process_set) for i, tensor in enumerate(tensors)]
    for handle in handles:
        synchronize(handle)
    if state is not None:
        optimizer.load_state_dict(state)
