"""shrink_group for groups of this backend: the ranks that are left after a death go on in the same processes.

torch.distributed's own makes a group of the new backend; but that has one device only, goes by the name of another backend, and
in a group whose ranks are not numbered as the job's it lists the wrong ones."""

from __future__ import annotations

import functools

import torch.distributed as dist
from torch.distributed import distributed_c10d as _c10d

from . import _backend
from .wrapped import asked_of, backend_of

_theirs = _c10d.shrink_group


def _ours(group):
    """The backend of a group if it is ours alone, on whatever devices; else None."""
    backends = {backend_of(group, device) for device in group._device_types}
    backend = backends.pop() if len(backends) == 1 else None
    return backend if backend is not None and backend.name() == "fabring" else None


@functools.wraps(_theirs)
def shrink_group(ranks_to_exclude, group=None, shrink_flags=_c10d.SHRINK_DEFAULT, pg_options=None):
    parent = group or _c10d._get_default_group()
    if _c10d._rank_not_in_group(parent) or _ours(parent) is None:
        return _theirs(ranks_to_exclude, group, shrink_flags, pg_options)
    is_default, devices = parent is _c10d._get_default_group(), parent._device_types
    members = dist.get_process_group_ranks(parent)
    made = _theirs(ranks_to_exclude, group, shrink_flags, pg_options)
    backend = made._get_backend(made._device_types[0])
    for device in devices:
        made._register_backend(device, dist.ProcessGroup.BackendType.CUSTOM, backend)
    made._set_default_backend(dist.ProcessGroup.BackendType.CUSTOM)
    left = [member for rank, member in enumerate(members) if rank not in ranks_to_exclude]
    # The default group's ranks are numbered anew, and so are those of new groups from now on.
    _c10d._world.pg_group_ranks[made] = {rank if is_default else member: rank for rank, member in enumerate(left)}
    return made


def lost_rank(group: "dist.ProcessGroup | None" = None) -> int | None:
    """The rank of this group that has died, left or become unreachable, and so ended it; None if the group stands, or something
    else has ended it. Every rank of the group is told of the same one, also if several are lost.

    Errors: ValueError for a group of another backend.
    """
    lost = _backend.lost_rank(asked_of(group or _c10d._get_default_group()))
    return None if lost < 0 else lost


def lost_ranks(group: "dist.ProcessGroup | None" = None) -> list[int]:
    """Whom shrink_group is to leave out: lost_rank(), and those for whom an earlier shrink_group of this group has waited in
    vain, as they were the first of those who stay and were lost too. Empty if the group stands, or something else has ended it.
    The same on every rank that has made the same calls.

    Errors: ValueError for a group of another backend.
    """
    return _backend.lost_ranks(asked_of(group or _c10d._get_default_group()))


def numbered_as_at_the_start(store, ranks: list[int]):
    """Once the default group has been shrunk PyTorch means ranks of that, but an engine's ranks keep their numbers. Names of
    groups come a second time then; what those ranks have in the store is kept apart."""
    default = _c10d._world.default_pg
    backend = None if default is None or not ranks else _ours(default)
    kept = [] if backend is None else list(backend.job_ranks)
    if not kept:
        return store, ranks
    return dist.PrefixStore(f"fabring/of/{'_'.join(map(str, kept))}/", store), [kept[rank] for rank in ranks]


# A script that calls torch.distributed.shrink_group needs no change.
_c10d.shrink_group = shrink_group
dist.shrink_group = shrink_group
