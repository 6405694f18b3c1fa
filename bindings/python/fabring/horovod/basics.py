"""Coming and going, and who is where."""

from __future__ import annotations

import atexit
import os
from collections.abc import Sequence

import numpy

import fabring
from fabring import _core, ending
from fabring.engine import tell_of_uncaught
from fabring.errors import InvalidArgumentError, MismatchError
from fabring.horovod import agreed, timeline
from fabring.horovod.negotiation import Negotiation
from fabring.horovod.place import Place, place_of
from fabring.horovod.process_set import ProcessSet, global_process_set

_sets: dict[int, ProcessSet] = {}
_engine: fabring.Engine | None = None  # of the last init(); the program may have closed it
_place: Place | None = None  # also in a child of fork(), which asks for it as a data loader's worker and is no rank
_next_id = 0


def init(comm: Sequence[int] | None = None, process_sets: Sequence[ProcessSet] | str | None = None) -> None:
    """Meets the other ranks, as fabring.init() does; without a launcher this process is the only rank. Called again it does
    nothing, unless the program has closed the engine itself: then it meets them anew. process_sets="dynamic" promises nothing:
    add_process_set() may always be called."""
    global _engine, _next_id, _place
    if comm is not None:
        raise InvalidArgumentError("init(comm=...): start the job with these ranks only, or use process_sets")
    if isinstance(process_sets, str):
        if process_sets != "dynamic":
            raise InvalidArgumentError(f"init(process_sets={process_sets!r}): give a list of process sets, or \"dynamic\" to add "
                                       "them later")
        process_sets = None
    if is_initialized():
        return
    shutdown()  # of what is left where the program has closed the engine
    world = _meet()
    _engine = fabring.engine()
    ending.call_in_process(_end)
    agreed.agree(world)
    if world.rank == 0 and timeline.active is None:
        timeline.begin_as_asked()
    _next_id = 1
    _place = place_of(world.rank, world.nodes)
    global_process_set.ranks = list(range(world.size))
    global_process_set.process_set_id = 0
    global_process_set._negotiation = Negotiation(world, "horovod")
    _sets[0] = global_process_set
    for one in process_sets or ():
        add_process_set(one)


def _meet() -> fabring.Communicator:
    try:
        return fabring.init()
    except InvalidArgumentError as error:
        if not str(error).startswith("no rank:"):
            raise
        return fabring.init({"FABRING_RANK": 0, "FABRING_WORLD_SIZE": 1}, environment=False)


@atexit.register
def _end() -> None:
    tell_of_uncaught()
    shutdown()


def shutdown() -> None:
    """Leaves the job. An engine that the program made after it had closed the one of init() is not ended: it is the program's."""
    global _place
    if global_process_set.process_set_id is None:
        return
    ended = [one._negotiation for one in _sets.values() if one._negotiation is not None]
    for one in _sets.values():
        one._negotiation = one.process_set_id = None
    _sets.clear()
    _place = None
    for negotiation in ended:
        negotiation.close()
    timeline.end()
    if _open():
        fabring.shutdown()  # a thread in the middle of a round comes back with an error
    for negotiation in ended:
        negotiation.await_end()


def _forget() -> None:
    """In a child of fork(): the threads that negotiate are the parent's, and a lock of theirs may be held for ever. Who is where
    is known on."""
    for one in _sets.values():
        one._negotiation = one.process_set_id = None
    _sets.clear()


os.register_at_fork(after_in_child=_forget)


def _open() -> bool:
    return _engine is not None and not _engine.closed


def is_initialized() -> bool:
    return global_process_set.process_set_id is not None and _open()


def _world() -> fabring.Communicator:
    if not is_initialized():
        raise InvalidArgumentError("call fabring.horovod.init() first")
    return fabring.world()


def _asked() -> Place:
    if _place is None or not _open():
        raise InvalidArgumentError("call fabring.horovod.init() first")
    return _place


def rank() -> int:
    return _asked().rank


def size() -> int:
    return _asked().size


def local_rank() -> int:
    """This rank's number among those of its host."""
    return _asked().local_rank


def local_size() -> int:
    return _asked().local_size


def cross_rank() -> int:
    """The number of this host among those that have a rank with this local rank."""
    return _asked().cross_rank


def cross_size() -> int:
    return _asked().cross_size


def is_homogeneous() -> bool:
    """Whether every host has as many ranks."""
    return _asked().homogeneous


def add_process_set(process_set: ProcessSet | Sequence[int]) -> ProcessSet:
    """Brings a set to life. Every rank of the job calls it, those outside too."""
    global _next_id
    made = process_set if isinstance(process_set, ProcessSet) else ProcessSet(process_set)
    world = _world()
    ranks = made.ranks or []
    told = numpy.zeros(world.size + 1, numpy.uint8)  # which ranks; the last: something else
    for rank in ranks:
        told[rank if 0 <= rank < world.size else -1] += 1
    for rank, other in enumerate(world.all_gather(told).reshape(world.size, -1)):
        if not numpy.array_equal(other, told):
            theirs = [i for i, count in enumerate(other[:-1]) for _ in range(count)]
            raise MismatchError(f"add_process_set: {ranks} on rank {world.rank} and {theirs} on rank {rank}", rank)
    if not ranks or ranks[0] < 0 or ranks[-1] >= world.size or len(set(ranks)) < len(ranks):
        raise InvalidArgumentError(f"{made}: a set has one rank or more, each once, of 0 to {world.size - 1}")
    if any(one.ranks == ranks for one in _sets.values()):
        raise InvalidArgumentError(f"{made}: there is a set of these ranks already")
    label = f"process set {_next_id}"
    comm = world.split(0 if world.rank in ranks else -1, label=label)
    made.process_set_id = _next_id
    made._negotiation = Negotiation(comm, label) if comm is not None else None
    _sets[_next_id] = made
    _next_id += 1
    return made


def remove_process_set(process_set: ProcessSet) -> bool:
    """Ends a set; every rank calls it when nothing of the set is under way. False for the global one and for what is none."""
    number = process_set.process_set_id
    if not number or _sets.get(number) is not process_set:
        return False
    del _sets[number]
    if process_set._negotiation is not None:
        process_set._negotiation.close()
        process_set._negotiation.await_end()
    process_set._negotiation = process_set.process_set_id = None
    return True


def start_timeline(file_path: str, mark_cycles: bool = False) -> None:
    """From now on what rank 0 sees of the calls is written to the file (docs/horovod.md). All ranks call it, as Horovod's; only
    rank 0 writes. `mark_cycles`: each round of negotiation is marked."""
    if _world().rank != 0:
        return
    if timeline.active is not None:
        raise InvalidArgumentError("a timeline is being written already: stop_timeline() first")
    timeline.begin(file_path, mark_cycles)


def stop_timeline() -> None:
    """The file is complete when this returns."""
    _world()
    timeline.end()


# What scripts ask about Horovod's own build.
def cuda_built() -> bool:
    """Whether tensors may be on a GPU."""
    return _core.takes_gpu_memory


def mpi_threads_supported() -> bool:
    return False


def _no() -> bool:
    return False


mpi_enabled = mpi_built = gloo_enabled = gloo_built = nccl_built = ddl_built = ccl_built = rocm_built = _no
