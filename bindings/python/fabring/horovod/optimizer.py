"""DistributedOptimizer: a torch optimizer whose step() uses the gradients of all ranks, reduced while the backward pass
goes on."""

from __future__ import annotations

import functools
import warnings
import weakref
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch.utils.hooks import RemovableHandle

from fabring.errors import InvalidArgumentError
from fabring.horovod import basics
from fabring.horovod.buckets import Bucket, by_device, cut
from fabring.horovod.collectives import reduction
from fabring.horovod.compression import Compression, Compressor
from fabring.horovod.negotiation import Negotiation
from fabring.horovod.process_set import ProcessSet, global_process_set
from fabring.horovod.requests import Average, Sum

# How many optimizers this rank has made for a process set since it is set up, by their first parameters: its members count
# alike whatever the ranks outside make, and whichever of two models comes first.
_made: weakref.WeakKeyDictionary[Negotiation, Counter[str]] = weakref.WeakKeyDictionary()
_living: weakref.WeakSet[_Distributed] = weakref.WeakSet()


class _Distributed:
    """What DistributedOptimizer puts before the class of the user's optimizer."""

    def _set_up(self, named: list[tuple[str, torch.Tensor]], compression: type[Compressor], passes: int,
                terms: dict[str, Any], groups: Any, sparse_as_dense: bool, process_set: ProcessSet) -> None:
        for other in list(_living):  # one around the same optimizer has its attributes in common with this one
            other._let_go(named)
        self._hooks: dict[int, RemovableHandle] = {}
        _living.add(self)
        self._passes = passes
        self._process_set = process_set
        self._synchronized = False
        self._should_synchronize = True
        self._left: dict[int, int] = {}
        self._bucket_of: dict[int, Bucket] = {}
        self._buckets: list[Bucket] = []
        if not process_set.included() or basics.size() == 1:
            return
        label = _label(named, process_set)
        wanted = [parameter for _, parameter in named if parameter.requires_grad]
        for i, chosen in enumerate(_partition(wanted, groups, compression)):
            bucket = Bucket(f"{label} bucket {i}", chosen, compression, process_set, terms, sparse_as_dense)
            self._buckets.append(bucket)
            for parameter in chosen:
                self._bucket_of[id(parameter)] = bucket
                self._left[id(parameter)] = passes
                self._hooks[id(parameter)] = parameter.register_post_accumulate_grad_hook(self._on_gradient)

    def _let_go(self, named: list[tuple[str, torch.Tensor]]) -> None:
        """These are another one's from now on: reduced twice they would be wrong."""
        for _, parameter in named:
            if hook := self._hooks.pop(id(parameter), None):
                hook.remove()

    def _on_gradient(self, parameter: torch.Tensor) -> None:
        bucket = self._bucket_of[id(parameter)]
        self._left[id(parameter)] -= 1
        if self._left[id(parameter)] < 0 or bucket.under_way:
            raise AssertionError("gradients were computed more than backward_passes_per_step times before step() or "
                                 "synchronize(); a larger backward_passes_per_step accumulates them locally")
        if self._left[id(parameter)] == 0:
            bucket.add(parameter)

    def set_backward_passes_per_step(self, passes: int) -> None:
        self._passes = passes
        self._forget()

    def _forget(self) -> None:
        self._left = dict.fromkeys(self._left, self._passes)
        for bucket in self._buckets:
            bucket.forget()

    def synchronize(self) -> None:
        """Waits until the gradients of all ranks are reduced. For what comes between backward() and step(): clipping."""
        for bucket in self._buckets:  # in the order all ranks have: what did not fill up here may have elsewhere
            if not bucket.under_way:
                bucket.send()
        for bucket in self._buckets:
            bucket.finish()
        self._forget()
        self._synchronized = True

    @contextmanager
    def skip_synchronize(self) -> Iterator[None]:
        """`optimizer.synchronize(); clip(); with optimizer.skip_synchronize(): optimizer.step()`."""
        self._should_synchronize = False
        try:
            yield
        finally:
            self._should_synchronize = True

    def step(self, closure: Any = None) -> Any:
        if self._should_synchronize:
            if self._synchronized and self._buckets:
                warnings.warn("step() reduces the gradients once more although synchronize() was called; use `with "
                              "optimizer.skip_synchronize():` around it", stacklevel=2)
            self.synchronize()
        self._synchronized = False
        return super().step(closure) if closure is not None else super().step()

    def zero_grad(self, *arguments: Any, **named: Any) -> None:
        if any(bucket.under_way for bucket in self._buckets):
            raise AssertionError("zero_grad() between backward() and step() or synchronize(): the gradients are being reduced")
        super().zero_grad(*arguments, **named)

    def load_state_dict(self, *arguments: Any, **named: Any) -> None:
        self._forget()
        super().load_state_dict(*arguments, **named)


def DistributedOptimizer(optimizer: torch.optim.Optimizer, named_parameters: Iterable[tuple[str, torch.Tensor]] | None = None,
                         compression: type[Compressor] = Compression.none, backward_passes_per_step: int = 1,
                         op: str | None = Average, gradient_predivide_factor: float = 1.0, num_groups: int = 0,
                         groups: int | Sequence[Sequence[torch.Tensor]] | None = None, sparse_as_dense: bool = False,
                         process_set: ProcessSet = global_process_set) -> Any:
    """`optimizer` with gradients reduced over the ranks: averaged, or summed with op=Sum. It is one with the one given, which
    schedulers made before go on holding: what they set there is set here. The program uses the new one only.

    backward_passes_per_step   backward passes that accumulate locally before a reduction
    gradient_predivide_factor  of an average: gradients are divided by it before the sum, by the rest after
    groups                     how gradients travel together: so many groups, or lists of parameters; by default buckets of
                               8 MiB (HOROVOD_FUSION_THRESHOLD makes them smaller)
    sparse_as_dense            sparse gradients travel as dense ones, and are sparse again afterwards; by default their indices
                               and values are gathered
    """
    op = reduction(op, None)
    if op not in (Average, Sum):
        raise InvalidArgumentError(f"DistributedOptimizer has op Average and Sum, not {op}")
    if gradient_predivide_factor != 1.0 and op != Average:
        raise InvalidArgumentError("gradient_predivide_factor goes with op=Average")
    if backward_passes_per_step < 1:
        raise InvalidArgumentError(f"backward_passes_per_step is {backward_passes_per_step}; it is 1 or more")
    process_set.check_set_up()  # of one that is not nobody could say whether this rank is in it: nothing would be reduced
    named = _named(optimizer, named_parameters)
    terms = {"op": op, "prescale_factor": 1.0 / gradient_predivide_factor, "postscale_factor": gradient_predivide_factor}
    kind = type(type(optimizer).__name__, (_Distributed, _plain(type(optimizer))), {})
    made = kind.__new__(kind)
    watched = optimizer.__dict__.get("step")
    made.__dict__ = optimizer.__dict__
    for attribute in [one for one in made.__dict__ if callable(getattr(kind, one, None))]:
        del made.__dict__[attribute]  # it would hide a method of ours
    if watched is not None:
        _let_schedulers_watch(made, watched)
    made._set_up(named, compression, backward_passes_per_step, terms, groups if groups is not None else num_groups or None,
                 sparse_as_dense, process_set)
    return made


def _plain(kind: type) -> type:
    """The class that was wrapped, of what DistributedOptimizer has given; others as they are."""
    ancestry = kind.__mro__
    return ancestry[ancestry.index(_Distributed) + 1] if _Distributed in ancestry else kind


def _let_schedulers_watch(made: torch.optim.Optimizer, watched: Any) -> None:
    """A scheduler puts a function in the place of the optimizer's step(), to see that it is called before its own, and warns if
    the function is gone. The one it put there, `watched`, calls the step() that was there before, which reduces nothing."""
    own = weakref.ref(made)

    @functools.wraps(watched)  # what the scheduler knows it by
    def step(*arguments: Any, **named: Any) -> Any:
        optimizer = own()
        optimizer._opt_called = True
        if hasattr(optimizer, "_step_count"):  # what torch before 2.5 looks at
            optimizer._step_count += 1
        return type(optimizer).step(optimizer, *arguments, **named)

    made.step = step


def _label(named: list[tuple[str, torch.Tensor]], process_set: ProcessSet) -> str:
    """What the other ranks of the set know this rank's next optimizer by."""
    first = named[0][0] if named else "nothing"
    counted = _made.setdefault(process_set.negotiation(), Counter())
    counted[first] += 1
    return f"optimizer {counted[first]} of {first}"


def _named(optimizer: torch.optim.Optimizer,
           given: Iterable[tuple[str, torch.Tensor]] | None) -> list[tuple[str, torch.Tensor]]:
    """The optimizer's parameters, each once."""
    own = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    if given is None:
        return _once((f"parameter {i}", parameter) for i, parameter in enumerate(own))
    named = list(given)
    if any(not isinstance(one, tuple) for one in named):
        raise ValueError("named_parameters is a sequence of (name, parameter), usually model.named_parameters()")
    names = [name for name, _ in named]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(f"named_parameters has names that come twice: {', '.join(twice)}")
    known = {id(parameter) for _, parameter in named}
    missing = [i for i, parameter in enumerate(own) if id(parameter) not in known]
    if missing:
        raise ValueError(f"named_parameters lacks parameters of the optimizer: numbers {missing}")
    belongs = {id(parameter) for parameter in own}
    return _once((name, parameter) for name, parameter in named if id(parameter) in belongs)


def _once(named: Iterable[tuple[str, torch.Tensor]]) -> list[tuple[str, torch.Tensor]]:
    """Without the other names of what comes again, as a weight does that two modules share: it has one gradient."""
    first: dict[int, tuple[str, torch.Tensor]] = {}
    for name, parameter in named:
        first.setdefault(id(parameter), (name, parameter))
    return list(first.values())


def _partition(parameters: list[torch.Tensor], groups: Any, compression: type[Compressor]) -> list[list[torch.Tensor]]:
    """Which parameters travel together. The same on every rank, as the models are. Each part is on one device."""
    return [part for group in _groups(parameters, groups, compression) for part in by_device(group)]


def _groups(parameters: list[torch.Tensor], groups: Any, compression: type[Compressor]) -> list[list[torch.Tensor]]:
    if groups is None:
        if compression in (Compression.none, Compression.fp16):
            return cut(parameters)
        return [[parameter] for parameter in reversed(parameters)]  # what a compression of the user's makes is its own
    if isinstance(groups, int):
        if groups < 1:
            raise ValueError(f"groups is {groups}; it is a number of groups, 1 or more, or a list of lists of parameters")
        size = -(-len(parameters) // groups)
        backward = parameters[::-1]
        return [backward[i:i + size] for i in range(0, len(backward), size)]
    wanted = {id(parameter) for parameter in parameters}
    made, seen = [], set()
    for group in groups:
        if any(not isinstance(parameter, torch.Tensor) for parameter in group):
            raise ValueError("groups is a number, or a list of lists of parameters")
        chosen = [parameter for parameter in group if id(parameter) in wanted]
        if any(id(parameter) in seen for parameter in chosen):
            raise ValueError("groups has a parameter twice")
        seen.update(id(parameter) for parameter in chosen)
        if chosen:
            made.append(chosen)
    return made + cut([parameter for parameter in parameters if id(parameter) not in seen])
